"""The disk door: every file operation of the log goes through a `Disk`."""

import errno
import fcntl
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import ClassVar, Protocol

from routelog.log_backend.doors.direct_writes import DirectWrites

Buffer = bytes | bytearray | memoryview

LOCK_FILE = "LOCK"  # in a data directory: who has it owns the directory
INCARNATION_FILE = "incarnation"  # in the data directory of a node of a cluster: whose copy it is

_VECTOR_MAX = 1024  # IOV_MAX on Linux
_ZEROS = bytes(1024 * 1024)
# One for each thread that may sync a directory: flusher, journal files, compression, event loop.
SPARE_FILES = 4
_OCTAL = re.compile(r"\\([0-7]{3})")  # how mountinfo spells spaces

_REMOTE = "its server decides when a synced write is on a disk, and locks may not hold"
_DOUBTS = {
    "nfs": _REMOTE,
    "nfs4": _REMOTE,
    "cifs": _REMOTE,
    "smb3": _REMOTE,
    "9p": _REMOTE,
    "afs": _REMOTE,
    "ceph": _REMOTE,
    "glusterfs": _REMOTE,
    "virtiofs": _REMOTE,
    "overlay": "it is a container's own layer, which goes with the container and may skip syncs",
    "tmpfs": "it is in memory: nothing of it survives a power cut",
    "ramfs": "it is in memory: nothing of it survives a power cut",
}


class DirectoryLocked(Exception):
    """Another process owns the data directory; `path` is its lock file."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"another process holds {path}: stop it, or take another data directory")
        self.path = path


class DiskFull(OSError):
    """The disk has no room for a write; nothing of it was written."""


class NoDescriptor(DiskFull):
    """The process or the system has no free file descriptor; nothing was done. Try again later."""


def read_small(file: Path, bytes_max: int) -> bytes:
    """Return the first `bytes_max` bytes of a file, which need not be writable.

    Raises:
        OSError: the file cannot be read.
    """
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.pread(descriptor, bytes_max, 0)
    finally:
        os.close(descriptor)


def is_full(error: OSError) -> bool:
    """Tell whether an error, such as one of `Disk.allocate`, says that disk or quota is full."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


class Disk(Protocol):
    """File operations with explicit durability: nothing is durable before `sync` returned."""

    def make_directory(self, path: Path) -> None:
        """Create a directory and its parents, and make their entries durable.

        Raises:
            DiskFull: there is no room for one of them; its parents were created.
            OSError: one of them may not be durable; it was removed again.
        """

    def list_directory(self, path: Path) -> list[str]:
        """Sorted names in a directory; empty when there is none.

        Raises:
            NoDescriptor: the directory was not read.
        """

    def open(self, path: Path, *, create: bool = False) -> int:
        """Open for reading and writing; `create` makes an empty file when there is none.

        Raises:
            NoDescriptor: nothing was opened or made.
        """

    def close(self, file: int) -> None:
        """Close; raises a write error that the system had not reported yet."""

    def size(self, file: int) -> int:
        """Size in bytes."""

    def read(self, file: int, position: int, size: int) -> bytearray:
        """Read up to `size` bytes; fewer only at the end of the file."""

    def write(self, file: int, position: int, buffers: Sequence[Buffer]) -> int:
        """Write all buffers, end to end; returns the bytes written."""

    def allocate(self, file: int, position: int, size: int) -> None:
        """Reserve the space for a write, so that the write itself cannot find the disk full.

        If the write will extend the file, the file is extended with zeros. On a file system that
        cannot allocate, this does nothing.

        Raises:
            OSError: see `is_full`; the file may have grown, but nothing was written.
        """

    def free_bytes(self, path: Path) -> int:
        """Free space of the file system that holds a path."""

    def total_bytes(self, path: Path) -> int:
        """Size of the file system that holds a path."""

    def file_system(self, path: Path) -> str:
        """Kind of the file system that holds a path, such as "ext4"; empty when it is unknown."""

    def write_synced(self, file: int, position: int, buffers: Sequence[Buffer]) -> None:
        """Write all buffers and make them durable; other writes to the file may not be.

        An error is final, as with `sync`.
        """

    def fill_with_zeros(self, file: int, size: int) -> None:
        """Write zeros from the start and sync them: later writes there change no metadata."""

    def truncate(self, file: int, size: int) -> None:
        """Cut or extend to a size."""

    def sync(self, file: int) -> None:
        """Make the file's data durable. An error is final: never sync that data again."""

    def sync_directory(self, path: Path) -> None:
        """Make the entries of a directory durable."""

    def rename(self, source: Path, target: Path) -> None:
        """Rename, replacing the target; durable after `sync_directory`."""

    def link(self, source: Path, target: Path) -> None:
        """Give a file a second name; a crash may take it back."""

    def remove(self, path: Path) -> None:
        """Remove a file."""

    def remove_tree(self, path: Path) -> None:
        """Remove a directory of files; a file or directory that does not exist is no error."""

    def lock(self, path: Path) -> int:
        """Take an exclusive lock that ends with the process.

        Raises:
            DirectoryLocked: another process has it.
        """


@contextmanager
def opened(disk: Disk, path: Path, *, create: bool = False) -> Iterator[int]:
    """Open a file as `Disk.open` does, and close it at the end of the `with` block."""
    file = disk.open(path, create=create)
    try:
        yield file
    finally:
        disk.close(file)


def read_file(disk: Disk, path: Path) -> bytearray:
    """Return the content of a file."""
    with opened(disk, path) as file:
        return disk.read(file, 0, disk.size(file))


def replace_file(disk: Disk, path: Path, scratch: Path, *content: Buffer) -> None:
    """Create or replace a file durably: after a crash it has the old content or the new one.

    Args:
        scratch: another name in the same directory, for the unfinished file.
        content: buffers, end to end.
    """
    with opened(disk, scratch, create=True) as file:
        disk.truncate(file, 0)
        disk.write(file, 0, content)
        disk.sync(file)
    disk.rename(scratch, path)
    disk.sync_directory(path.parent)


class SystemDisk:
    """The disk of the operating system."""

    _direct: ClassVar = DirectWrites()  # descriptors are the process's

    def make_directory(self, path: Path) -> None:
        """Create a directory and its parents, and make their entries durable."""
        missing = [path]
        while not missing[-1].parent.exists():
            missing.append(missing[-1].parent)
        for directory in reversed(missing):
            made = self._make_one_directory(directory)
            try:
                self.sync_directory(directory.parent)
            except OSError:
                # The next call must not find this directory and take it for durable.
                if made:
                    with suppress(OSError):
                        directory.rmdir()
                raise

    def _make_one_directory(self, path: Path) -> bool:
        try:
            path.mkdir()
        except FileExistsError:
            return False
        except OSError as error:
            raise (DiskFull(str(error)) if is_full(error) else error) from None
        return True

    def list_directory(self, path: Path) -> list[str]:
        """Sorted names in a directory; empty when there is none."""
        try:
            return sorted(os.listdir(path))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _unopened(error) from None

    def open(self, path: Path, *, create: bool = False) -> int:
        """Open for reading and writing; `create` makes an empty file when there is none."""
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        try:
            return os.open(path, flags, 0o640)
        except OSError as error:
            raise _unopened(error) from None

    def close(self, file: int) -> None:
        """Close; raises a write error that the system had not reported yet."""
        self._direct.close(file)
        os.close(file)

    def size(self, file: int) -> int:
        """Size in bytes."""
        return os.fstat(file).st_size

    def read(self, file: int, position: int, size: int) -> bytearray:
        """Read up to `size` bytes; fewer only at the end of the file."""
        size = max(0, min(size, self.size(file) - position))
        buffer = bytearray(size)
        filled = 0
        while filled < size:
            got = os.preadv(file, [memoryview(buffer)[filled:]], position + filled)
            if got == 0:
                return buffer[:filled]
            filled += got
        return buffer

    def write(self, file: int, position: int, buffers: Sequence[Buffer]) -> int:
        """Write all buffers, end to end; returns the bytes written."""
        start = position
        for at in range(0, len(buffers), _VECTOR_MAX):
            position += self._write_vector(file, position, list(buffers[at : at + _VECTOR_MAX]))
        return position - start

    def write_synced(self, file: int, position: int, buffers: Sequence[Buffer]) -> None:
        """Write all buffers and make them durable; other writes to the file may not be.

        Write and sync are one system call: the thread waits once for the GIL.
        """
        if self._direct.write_synced(file, position, buffers, sum(map(len, buffers))):
            return
        for at in range(0, len(buffers), _VECTOR_MAX):
            vector = list(buffers[at : at + _VECTOR_MAX])
            position += self._write_vector(file, position, vector, os.RWF_DSYNC)

    def _write_vector(self, file: int, position: int, vector: list[Buffer], flags: int = 0) -> int:
        size = sum(map(len, vector))
        written = done = os.pwritev(file, vector, position, flags)
        while written < size:  # hardly ever
            while done >= len(vector[0]):
                done -= len(vector.pop(0))
            if done:
                vector[0] = memoryview(vector[0])[done:]
            done = os.pwritev(file, vector, position + written, flags)
            written += done
        return written

    def allocate(self, file: int, position: int, size: int) -> None:
        """Reserve the space for a write, so that the write itself cannot find the disk full."""
        if size:
            try:
                os.posix_fallocate(file, position, size)
            except OSError as error:
                if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
                    raise

    def free_bytes(self, path: Path) -> int:
        """Free space of the file system that holds a path. What a process without privileges may take."""
        found = os.statvfs(path)
        return found.f_bavail * found.f_frsize

    def total_bytes(self, path: Path) -> int:
        """Size of the file system that holds a path."""
        found = os.statvfs(path)
        return found.f_blocks * found.f_frsize

    def file_system(self, path: Path) -> str:
        """Kind of the file system that holds a path, such as "ext4"; empty when it is unknown."""
        try:
            with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as mounts:
                return kind_of_mount(path.resolve(), mounts)
        except FileNotFoundError:  # no Linux
            return ""

    def fill_with_zeros(self, file: int, size: int) -> None:
        """Write zeros from the start and sync them: later writes there change no metadata."""
        done = self._direct.write_zeros(file, size)
        for position in range(done, size, len(_ZEROS)):
            self.write(file, position, [_ZEROS[: size - position]])
        os.fsync(file)

    def truncate(self, file: int, size: int) -> None:
        """Cut or extend to a size."""
        os.ftruncate(file, size)

    def sync(self, file: int) -> None:
        """Make the file's data durable. An error is final: never sync that data again."""
        os.fdatasync(file)

    def sync_directory(self, path: Path) -> None:
        """Make the entries of a directory durable."""
        directory = _open_directory(path)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
            _keep_spares()

    def rename(self, source: Path, target: Path) -> None:
        """Rename, replacing the target; durable after `sync_directory`."""
        os.rename(source, target)

    def link(self, source: Path, target: Path) -> None:
        """Give a file a second name; a crash may take it back."""
        os.link(source, target)

    def remove(self, path: Path) -> None:
        """Remove a file."""
        os.unlink(path)

    def remove_tree(self, path: Path) -> None:
        """Remove a directory of files; a file or directory that does not exist is no error."""
        for name in self.list_directory(path):
            with suppress(FileNotFoundError):
                os.unlink(path / name)
        with suppress(FileNotFoundError):
            path.rmdir()

    def lock(self, path: Path) -> int:
        """Take an exclusive lock that ends with the process."""
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(file)
            if error.errno in (errno.EAGAIN, errno.EACCES):
                raise DirectoryLocked(path) from None
            raise
        _keep_spares()
        return file


# Spare descriptors of the process that owns a data directory. To sync a directory it must be opened, and this
# must not fail for want of a descriptor: the rename before it can be neither undone nor left in doubt.
_spares: list[int] = []


def _keep_spares() -> None:
    try:
        while len(_spares) < SPARE_FILES:
            _spares.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError:
        pass  # the next sync of a directory opens them


def _open_directory(path: Path) -> int:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    while True:
        try:
            return os.open(path, flags)
        except OSError as error:
            if not _lacks_descriptor(error):
                raise
            try:
                spare = _spares.pop()
            except IndexError:
                raise error from None
        os.close(spare)


def _lacks_descriptor(error: OSError) -> bool:
    return error.errno in (errno.EMFILE, errno.ENFILE)


def _unopened(error: OSError) -> OSError:
    if not _lacks_descriptor(error):
        return error
    return NoDescriptor(error.errno, error.strerror, error.filename)


def kind_of_mount(path: Path, mounts: Iterable[str]) -> str:
    """The file system type of the mount that a path is in; empty when there is none.

    Args:
        path: absolute, without symbolic links.
        mounts: lines of /proc/self/mountinfo, in order.

    Source:
        proc_pid_mountinfo(5): the mount point is the fifth field; the type follows a lone dash.
    """
    kind, depth = "", -1
    for line in mounts:
        place, _, source = line.partition(" - ")
        point = Path(_OCTAL.sub(lambda octal: chr(int(octal[1], 8)), place.split(" ")[4]))
        # Of two mounts at one place, the later one hides the other.
        if path.is_relative_to(point) and len(point.parts) >= depth:
            kind, depth = source.split(" ", 1)[0], len(point.parts)
    return kind


def doubt(kind: str) -> str | None:
    """Why a confirm may not be durable on this kind of file system; None: it is."""
    if kind == "fuse" or kind.startswith("fuse."):
        return "the program behind it decides what a sync does"
    return _DOUBTS.get(kind)
