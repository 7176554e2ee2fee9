/* Stands before the system's epoll_pwait (LD_PRELOAD) and writes down how long the turns of an event loop were: from
 * what one call gave to the next call, in the first thread of a process.
 *
 * The thread's own clock leaves out what a hypervisor or other work takes of the processor, which no clock of the
 * machine does. Turns shorter than LOOP_TURNS_MIN_NS (nanoseconds) are left out of the file LOOP_TURNS_FILE. A record
 * is `struct turn`; loop_turns.py reads it.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

struct turn {
    int64_t begin;   /* of the monotonic clock; all are nanoseconds */
    int64_t elapsed;
    int64_t running; /* on a processor */
    int64_t delayed; /* ready to run, but others had the processor */
    int64_t waits;   /* how often the thread gave the processor away to wait for something */
};

typedef int poll_function(int, struct epoll_event *, int, int, const sigset_t *);

static poll_function *system_poll;
static int record = -1, scheduler = -1;
static pid_t loop;
static int64_t shortest;
static struct turn began;

__attribute__((constructor)) static void open_files(void)
{
    const char *name = getenv("LOOP_TURNS_FILE"), *least = getenv("LOOP_TURNS_MIN_NS");
    system_poll = (poll_function *)dlsym(RTLD_NEXT, "epoll_pwait");
    if (name == NULL || system_poll == NULL)
        return;
    shortest = least == NULL ? 0 : strtoll(least, NULL, 10);
    loop = getpid();
    scheduler = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    record = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static int64_t nanoseconds(clockid_t clock)
{
    struct timespec now = {0, 0};
    clock_gettime(clock, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static struct turn look(void)
{
    char text[80] = "";
    struct rusage usage = {0};
    struct turn now = {0};
    if (pread(scheduler, text, sizeof text - 1, 0) > 0)
        sscanf(text, "%*d %ld", &now.delayed); /* run time, delay, slices */
    getrusage(RUSAGE_THREAD, &usage);
    now.waits = usage.ru_nvcsw;
    now.running = nanoseconds(CLOCK_THREAD_CPUTIME_ID);
    now.begin = nanoseconds(CLOCK_MONOTONIC);
    return now;
}

static void end_turn(void)
{
    struct turn now = look(), turn = began;
    turn.elapsed = now.begin - began.begin;
    turn.running = now.running - began.running;
    turn.delayed = now.delayed - began.delayed;
    turn.waits = now.waits - began.waits;
    if (turn.elapsed >= shortest && write(record, &turn, sizeof turn) != sizeof turn)
        record = -1; /* behind half a record nothing could be read */
}

int epoll_pwait(int epoll, struct epoll_event *events, int most, int timeout, const sigset_t *mask)
{
    int found;
    if (record < 0 || gettid() != loop)
        return system_poll(epoll, events, most, timeout, mask);
    if (began.begin)
        end_turn();
    found = system_poll(epoll, events, most, timeout, mask);
    began = look();
    return found;
}
