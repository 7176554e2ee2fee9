/* Stands between a broker and the system (LD_PRELOAD): what HURT_SYSTEM_FILE, mapped by both, says is wrong with the
 * disk below HURT_SYSTEM_DIRECTORY, or with the time of day. hurt_system.py writes it.
 *
 * A call that writes, syncs or reads a file there finds out which one it is from /proc while something is wrong with
 * the disk; else it costs one look at the mapping. Files below etcd/ are left alone: etcd is another process, and
 * its program loads no library. A call that hangs sleeps, so unlike a thread in a driver it can be killed.
 *
 * RocksDB waits until a time of day, which it computes from the one that it is told: pthread_cond_timedwait counts
 * back. Everything else waits by the monotonic clock, which is never wrong.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define NANOSECONDS INT64_C(1000000000)
#define WHERE_IT_STANDS (-1)

struct wrong {
    int64_t clock;       /* nanoseconds that the time of day is ahead */
    int32_t full;        /* nothing may grow */
    int32_t slow;        /* microseconds that a sync takes longer */
    int32_t hanging;     /* nothing returns */
    int32_t failing;     /* writes and syncs are errors */
    int32_t unreadable;  /* reads are errors */
};

static const struct wrong nothing_wrong;
static const volatile struct wrong *wrong = &nothing_wrong;
static char directory[PATH_MAX], etcd[PATH_MAX];

__attribute__((constructor)) static void map_file(void)
{
    const char *file = getenv("HURT_SYSTEM_FILE"), *below = getenv("HURT_SYSTEM_DIRECTORY");
    int opened;
    void *mapped;
    if (file == NULL || below == NULL || (opened = open(file, O_RDONLY | O_CLOEXEC)) < 0)
        return;
    mapped = mmap(NULL, sizeof *wrong, PROT_READ, MAP_SHARED, opened, 0);
    close(opened);
    if (mapped == MAP_FAILED)
        return;
    snprintf(directory, sizeof directory, "%s/", below);
    snprintf(etcd, sizeof etcd, "%s/etcd/", below);
    wrong = mapped;
}

#define SYSTEM(name) \
    static __typeof__(name) *system_call; \
    if (system_call == NULL) \
        system_call = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

static int is_hurt(void)
{
    return wrong->full || wrong->slow || wrong->hanging || wrong->failing || wrong->unreadable;
}

static int is_ours(int file)
{
    char link[64], path[PATH_MAX];
    ssize_t length;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    length = readlink(link, path, sizeof path - 1);
    if (length < 0)
        return 0;
    path[length] = 0;
    return !strncmp(path, directory, strlen(directory)) && strncmp(path, etcd, strlen(etcd));
}

static void rest(int64_t nanoseconds)
{
    struct timespec time = {nanoseconds / NANOSECONDS, nanoseconds % NANOSECONDS};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
}

static void hang(void)
{
    while (wrong->hanging)
        rest(2000000);
}

/* What becomes of a call: 0, or what errno says. */

static int of_read(int file)
{
    if (!is_hurt() || !is_ours(file))
        return 0;
    hang();
    return wrong->unreadable ? EIO : 0;
}

static int of_write(int file, int64_t at, int64_t size)
{
    struct stat found;
    if (!is_hurt() || !is_ours(file))
        return 0;
    hang();
    if (wrong->failing)
        return EIO;
    if (at == WHERE_IT_STANDS)
        at = lseek(file, 0, SEEK_CUR);
    /* What a file has on the disk may be written again. */
    if (wrong->full && (fstat(file, &found) || at + size > found.st_blocks * (int64_t)512))
        return ENOSPC;
    return 0;
}

static int of_sync(int file)
{
    if (!is_hurt() || !is_ours(file))
        return 0;
    hang();
    if (wrong->slow)
        rest(wrong->slow * INT64_C(1000));
    return wrong->failing ? EIO : 0;
}

static int64_t length_of(const struct iovec *vector, int count)
{
    int64_t length = 0;
    while (count-- > 0)
        length += vector[count].iov_len;
    return length;
}

#define FAIL_IF(problem) \
    do { \
        int number = problem; \
        if (number) { \
            errno = number; \
            return -1; \
        } \
    } while (0)

#define READ(name, parameters, arguments) \
    ssize_t name parameters \
    { \
        SYSTEM(name); \
        FAIL_IF(of_read(file)); \
        return system_call arguments; \
    }

#define WRITE(name, parameters, arguments, at, size) \
    ssize_t name parameters \
    { \
        SYSTEM(name); \
        FAIL_IF(of_write(file, at, size)); \
        return system_call arguments; \
    }

#define SYNC(name) \
    int name(int file) \
    { \
        SYSTEM(name); \
        FAIL_IF(of_sync(file)); \
        return system_call(file); \
    }

READ(read, (int file, void *bytes, size_t size), (file, bytes, size))
READ(pread, (int file, void *bytes, size_t size, off_t at), (file, bytes, size, at))
READ(pread64, (int file, void *bytes, size_t size, off64_t at), (file, bytes, size, at))
READ(preadv, (int file, const struct iovec *vector, int count, off_t at), (file, vector, count, at))
READ(preadv64, (int file, const struct iovec *vector, int count, off64_t at), (file, vector, count, at))
READ(preadv2, (int file, const struct iovec *vector, int count, off_t at, int flags),
     (file, vector, count, at, flags))
READ(preadv64v2, (int file, const struct iovec *vector, int count, off64_t at, int flags),
     (file, vector, count, at, flags))

WRITE(write, (int file, const void *bytes, size_t size), (file, bytes, size), WHERE_IT_STANDS, size)
WRITE(pwrite, (int file, const void *bytes, size_t size, off_t at), (file, bytes, size, at), at, size)
WRITE(pwrite64, (int file, const void *bytes, size_t size, off64_t at), (file, bytes, size, at),
      at, size)
WRITE(pwritev, (int file, const struct iovec *vector, int count, off_t at), (file, vector, count, at),
      at, length_of(vector, count))
WRITE(pwritev64, (int file, const struct iovec *vector, int count, off64_t at), (file, vector, count, at),
      at, length_of(vector, count))

/* The journal writes and syncs by one call. */
#define WRITE_SYNCED(name, offset) \
    ssize_t name(int file, const struct iovec *vector, int count, offset at, int flags) \
    { \
        SYSTEM(name); \
        FAIL_IF(of_write(file, at, length_of(vector, count))); \
        if (flags & (RWF_DSYNC | RWF_SYNC)) \
            FAIL_IF(of_sync(file)); \
        return system_call(file, vector, count, at, flags); \
    }

WRITE_SYNCED(pwritev2, off_t)
WRITE_SYNCED(pwritev64v2, off64_t)

SYNC(fsync)
SYNC(fdatasync)

int fallocate(int file, int mode, off_t at, off_t size)
{
    SYSTEM(fallocate);
    FAIL_IF(of_write(file, at, size));
    return system_call(file, mode, at, size);
}

int fallocate64(int file, int mode, off64_t at, off64_t size)
{
    SYSTEM(fallocate64);
    FAIL_IF(of_write(file, at, size));
    return system_call(file, mode, at, size);
}

int posix_fallocate(int file, off_t at, off_t size)
{
    int number = of_write(file, at, size);
    SYSTEM(posix_fallocate);
    return number ? number : system_call(file, at, size);
}

int posix_fallocate64(int file, off64_t at, off64_t size)
{
    int number = of_write(file, at, size);
    SYSTEM(posix_fallocate64);
    return number ? number : system_call(file, at, size);
}

/* A full disk says so. */

#define SPACE(name, kind) \
    int name(const char *path, struct kind *found) \
    { \
        int failed; \
        SYSTEM(name); \
        failed = system_call(path, found); \
        if (!failed && wrong->full && !strncmp(path, directory, strlen(directory) - 1)) \
            found->f_bfree = found->f_bavail = 0; \
        return failed; \
    }

SPACE(statvfs, statvfs)
SPACE(statvfs64, statvfs64)

/* The time of day. */

int clock_gettime(clockid_t clock, struct timespec *time)
{
    int failed;
    SYSTEM(clock_gettime);
    failed = system_call(clock, time);
    if (!failed && wrong->clock && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t now = time->tv_sec * NANOSECONDS + time->tv_nsec + wrong->clock;
        time->tv_sec = now / NANOSECONDS;
        time->tv_nsec = now % NANOSECONDS;
    }
    return failed;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    FAIL_IF(clock_gettime(CLOCK_REALTIME, &now) ? errno : 0);
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *also)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (also != NULL)
        *also = now.tv_sec;
    return now.tv_sec;
}

int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict until)
{
    static __typeof__(pthread_cond_timedwait) *system_call;
    struct timespec real = *until;
    int64_t at = until->tv_sec * NANOSECONDS + until->tv_nsec - wrong->clock;
    if (system_call == NULL) /* the default is one of before 2003 */
        system_call = (__typeof__(pthread_cond_timedwait) *)dlvsym(
            RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
    if (wrong->clock && at > 0) {
        real.tv_sec = at / NANOSECONDS;
        real.tv_nsec = at % NANOSECONDS;
    }
    return system_call(condition, mutex, &real);
}
