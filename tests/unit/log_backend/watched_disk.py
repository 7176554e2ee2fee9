"""The system's disk under observation: it notes what is done, and fails or waits on demand."""

from __future__ import annotations

import errno
import threading
from collections.abc import Sequence
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path

from routelog.log_backend.doors.disk import Buffer, NoDescriptor, SystemDisk


class WatchedDisk(SystemDisk):
    """A disk for tests.

    Attributes:
        events: (operation, path) in the order in which they ended.
        failed: how often an operation was made to fail.
        capacity: bytes that the disk has; None: what the system's has. `allocate` meets its end.
        others: bytes of it that somebody else uses.
    """

    def __init__(self) -> None:
        self.events: list[tuple[str, Path]] = []
        self.failed = 0
        self.capacity: int | None = None
        self.others = 0
        self._paths: dict[int, Path] = {}
        self._faults: list[tuple[str, str, int]] = []
        self._gates: list[tuple[str, str, threading.Event, threading.Event]] = []

    def fail(self, operation: str, names: str, number: int = errno.EIO) -> None:
        """From now on, an operation on files of such names raises OSError."""
        self._faults.append((operation, names, number))

    def repair(self) -> None:
        """Nothing fails any more."""
        self._faults.clear()

    def hold(self, operation: str, names: str) -> tuple[threading.Event, threading.Event]:
        """The next such operation waits; of two holds, the second is for the one after it.

        Returns:
            An event that says it has arrived, and one to set to let it go on.
        """
        arrived, released = threading.Event(), threading.Event()
        self._gates.append((operation, names, arrived, released))
        return arrived, released

    def count(self, operation: str, names: str) -> int:
        """How often an operation was done on files of such names."""
        return sum(op == operation and fnmatch(path.name, names) for op, path in self.events)

    def _pass(self, operation: str, path: Path) -> None:
        for gate in list(self._gates):
            if gate[0] == operation and fnmatch(path.name, gate[1]):
                self._gates.remove(gate)
                gate[2].set()
                assert gate[3].wait(60)
                break
        for wanted, names, number in self._faults:
            if wanted == operation and fnmatch(path.name, names):
                self.failed += 1
                kind = NoDescriptor if number in (errno.EMFILE, errno.ENFILE) else OSError
                raise kind(number, f"{operation} made to fail", str(path))

    def open(self, path: Path, *, create: bool = False) -> int:
        """See `Disk`."""
        self._pass("open", path)
        file = super().open(path, create=create)
        self._paths[file] = path
        return file

    def close(self, file: int) -> None:
        """See `Disk`; the system closes a file even where it reports an error."""
        super().close(file)
        if file in self._paths:
            self._pass("close", self._paths[file])

    def read(self, file: int, position: int, size: int) -> bytearray:
        """See `Disk`."""
        self._pass("read", self._paths[file])
        return super().read(file, position, size)

    def write(self, file: int, position: int, buffers: Sequence[Buffer]) -> int:
        """See `Disk`."""
        path = self._paths[file]
        self._pass("write", path)
        written = super().write(file, position, buffers)
        self.events.append(("write", path))
        return written

    def allocate(self, file: int, position: int, size: int) -> None:
        """See `Disk`."""
        path = self._paths[file]
        self._pass("allocate", path)
        grown = max(0, position + size - self.size(file))
        if self.capacity is not None and grown > self.free_bytes(path):
            # As the real one may: it notices on the way.
            super().truncate(file, position + size // 2)
            raise OSError(errno.ENOSPC, "the simulated disk is full", str(path))
        super().allocate(file, position, size)
        self.events.append(("allocate", path))

    def free_bytes(self, path: Path) -> int:
        """See `Disk`."""
        if self.capacity is None:
            return super().free_bytes(path)
        used = self.others
        for each in self._written():
            with suppress(FileNotFoundError):  # removed, or renamed at this moment
                used += each.stat().st_size
        return max(0, self.capacity - used)

    def total_bytes(self, path: Path) -> int:
        """See `Disk`."""
        return super().total_bytes(path) if self.capacity is None else self.capacity

    def _written(self) -> set[Path]:
        return set(self._paths.copy().values())  # a copy: other threads open files meanwhile

    def write_synced(self, file: int, position: int, buffers: Sequence[Buffer]) -> None:
        """See `Disk`."""
        self.write(file, position, buffers)
        self.sync(file)

    def fill_with_zeros(self, file: int, size: int) -> None:
        """See `Disk`."""
        path = self._paths[file]
        self._pass("fill", path)
        super().fill_with_zeros(file, size)
        self.events.append(("fill", path))

    def truncate(self, file: int, size: int) -> None:
        """See `Disk`."""
        path = self._paths[file]
        self._pass("truncate", path)
        super().truncate(file, size)
        self.events.append(("truncate", path))

    def sync(self, file: int) -> None:
        """See `Disk`."""
        path = self._paths[file]
        self._pass("sync", path)
        super().sync(file)
        self.events.append(("sync", path))

    def sync_directory(self, path: Path) -> None:
        """See `Disk`."""
        self._pass("sync_directory", path)
        super().sync_directory(path)
        self.events.append(("sync_directory", path))

    def rename(self, source: Path, target: Path) -> None:
        """See `Disk`."""
        self._pass("rename", source)
        super().rename(source, target)
        for file, path in self._paths.items():
            if path == source:
                self._paths[file] = target
        self.events.append(("rename", target))

    def link(self, source: Path, target: Path) -> None:
        """See `Disk`."""
        self._pass("link", source)
        super().link(source, target)
        self.events.append(("link", target))

    def remove(self, path: Path) -> None:
        """See `Disk`."""
        self._pass("remove", path)
        super().remove(path)
        self.events.append(("remove", path))

    def remove_tree(self, path: Path) -> None:
        """See `Disk`."""
        self._pass("remove_tree", path)
        super().remove_tree(path)
        self.events.append(("remove_tree", path))


def recycled(disk: WatchedDisk) -> bool:
    """Whether a journal file was given back: it has its new name, or is gone because it was one too many."""
    renamed = disk.count("rename", "*.journal") > disk.count("fill", "*.new")
    return renamed or disk.count("remove", "*.journal") > 0


def last_rename(disk: WatchedDisk) -> int:
    """Place of the last rename among the events."""
    return max(at for at, (operation, _) in enumerate(disk.events) if operation == "rename")
