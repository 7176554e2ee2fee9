"""A disk whose power can fail: what was not synced is lost, kept, or kept in part.

It can also be full, and its calls fail or wait as a `FaultPlan` says.
"""

from __future__ import annotations

import errno
import random
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from crash.disks.fault_plan import FaultPlan

from routelog.log_backend.doors.disk import Buffer, SystemDisk

SECTOR_BYTES = 512  # a disk writes these whole or not at all
made: list[PoweredDisk] = []  # in the test that runs


@dataclass(frozen=True)
class _Change:
    """A write, or a cut to a size when there is no data."""

    position: int
    data: bytes | None
    # A sync failed: the system believes that it is clean, the disk never got it
    dropped: bool = False

    def apply(self, content: bytearray) -> None:
        if self.data is None:
            _resize(content, self.position)
            return
        end = self.position + len(self.data)
        _resize(content, max(len(content), end))
        content[self.position : end] = self.data


@dataclass
class _File:
    """One file, whatever its name: what is durable, and the changes since."""

    durable: bytes = b""
    pending: list[_Change] = field(default_factory=list)

    def synced(self) -> None:
        """All is durable but what an earlier sync dropped."""
        content = bytearray(self.durable)
        for change in self.pending:
            if not change.dropped:
                change.apply(content)
        self.durable = bytes(content)
        self.pending = []

    def sync_failed(self) -> None:
        self.pending = [replace(change, dropped=True) for change in self.pending]

    def after_power_cut(self, choice: random.Random) -> bytes:
        """Some content that the cut may leave."""
        content = bytearray(self.durable)
        for change in self.pending:
            data = change.data
            if data is None:
                if choice.random() < 0.5:
                    change.apply(content)
                continue
            kept = choice.choice((0.0, 0.5, 0.9, 1.0))
            for at in range(0, len(data), SECTOR_BYTES):
                if choice.random() < kept:
                    piece = data[at : at + SECTOR_BYTES]
                    _Change(change.position + at, piece).apply(content)
        return bytes(content)


@dataclass(frozen=True)
class DiskStill:
    """What is on a disk at one instant, by names below its root."""

    directories: tuple[Path, ...]
    files: dict[Path, bytes]

    def place(self, root: Path, choice: random.Random) -> PoweredDisk:
        """Put it into a directory: the disk that the next process finds."""
        disk = PoweredDisk(root, choice)
        root.mkdir(parents=True, exist_ok=True)
        for directory in self.directories:
            (root / directory).mkdir(parents=True, exist_ok=True)
        for name, content in self.files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)  # it was removed, but not durably
            path.write_bytes(content)
            disk._files[path] = disk._durable_names[path] = _File(content)
        return disk


class PoweredDisk(SystemDisk):
    """The files below one directory, and what a power cut would leave of them.

    RocksDB does not write through it: its directory is empty in an image.

    Attributes:
        operations: how many calls there were, those within `fill_with_zeros` and the like included.
        plan: which of them fail or wait.
        before_operation: called before each one, while nothing else happens on the disk.
        capacity: bytes of all files together; None: without end. `allocate` meets it first.
    """

    def __init__(self, root: Path, choice: random.Random) -> None:
        self.root = root
        self.operations = 0
        self.plan = FaultPlan()
        self.before_operation: Callable[[], None] | None = None
        self.capacity: int | None = None
        self.choice = choice
        made.append(self)
        self._lock = threading.RLock()
        self._open: dict[int, _File] = {}
        self._files: dict[Path, _File] = {}
        # Changes of names that no sync of their directory covers, in order.
        self._renamed: dict[Path, list[tuple[Path | None, Path | None, _File]]] = {}
        self._durable_names: dict[Path, _File] = {}

    @contextmanager
    def paused(self) -> Iterator[None]:
        """No operation is under way."""
        with self._lock:
            yield

    # -- what happens to a node

    def close_all(self) -> None:
        """Close what a node has left open that failed: its process would have ended."""
        while self._open:
            super().close(self._open.popitem()[0])

    def still_after_power_cut(self) -> DiskStill:
        """What may be left if the power fails at this instant."""
        with self._lock:
            names = dict(self._durable_names)
            for changes in self._renamed.values():
                for source, name, file in changes[: self.choice.randint(0, len(changes))]:
                    if source is not None:
                        names.pop(source, None)
                    if name is not None:
                        names[name] = file
            contents = {
                name.relative_to(self.root): file.after_power_cut(self.choice)
                for name, file in names.items()
            }
            return DiskStill(self._directories(), contents)

    def image_after_power_cut(self, target: Path) -> PoweredDisk:
        """What the machine finds when it is switched on again: a new directory and its disk."""
        return self.still_after_power_cut().place(target, self.choice)

    def image_after_kill(self, target: Path) -> PoweredDisk:
        """What the next process finds when only this one died: all of it, synced or not."""
        with self._lock:
            disk = DiskStill(self._directories(), {}).place(target, self.choice)

            def moved(path: Path) -> Path:
                return target / path.relative_to(self.root)

            copies: dict[int, _File] = {}
            for file in [*self._files.values(), *self._durable_names.values()]:
                copies.setdefault(id(file), _File(file.durable, list(file.pending)))
            for changes in self._renamed.values():
                for _, _, file in changes:
                    copies.setdefault(id(file), _File(file.durable, list(file.pending)))
            for path, file in self._files.items():
                shutil.copyfile(path, moved(path))
                disk._files[moved(path)] = copies[id(file)]
            for path, file in self._durable_names.items():
                disk._durable_names[moved(path)] = copies[id(file)]
            for directory, changes in self._renamed.items():
                disk._renamed[moved(directory)] = [
                    (source and moved(source), name and moved(name), copies[id(file)])
                    for source, name, file in changes
                ]
            return disk

    def _directories(self) -> tuple[Path, ...]:
        found = (path for path in sorted(self.root.rglob("*")) if path.is_dir())
        return tuple(path.relative_to(self.root) for path in found)

    # -- operations

    def make_directory(self, path: Path) -> None:
        """See `Disk`."""
        with self._operation("make_directory", path):
            super().make_directory(path)

    def open(self, path: Path, *, create: bool = False) -> int:
        """See `Disk`."""
        with self._operation("create" if create and path not in self._files else "open", path):
            file = super().open(path, create=create)
            if path not in self._files:
                self._files[path] = _File()
                self._note(path.parent, None, path, self._files[path])
            self._open[file] = self._files[path]
            return file

    def close(self, file: int) -> None:
        """See `Disk`; a close that fails has closed."""
        with self._lock:
            self._open.pop(file, None)
            super().close(file)
            with self._operation("close", file):
                pass

    def read(self, file: int, position: int, size: int) -> bytearray:
        """See `Disk`."""
        with self._operation("read", file):
            return super().read(file, position, size)

    def write(self, file: int, position: int, buffers: Sequence[Buffer]) -> int:
        """See `Disk`; a write that fails has written a half."""
        data = b"".join(buffers)
        try:
            with self._operation("write", file):
                return self._write_what_fits(file, position, data)
        except _Full:
            raise
        except OSError:
            with self._lock:
                self._write(file, position, data[: len(data) // 2])
            raise

    def _write_what_fits(self, file: int, position: int, data: bytes) -> int:
        fits = len(data)
        if self.capacity is not None:
            free = self.free_bytes(self.root)
            fits = max(0, min(fits, max(self.size(file), position) + free - position))
        self._write(file, position, data[:fits])
        if fits < len(data):
            raise _Full(errno.ENOSPC, "made to be full")
        return len(data)

    def _write(self, file: int, position: int, data: bytes) -> None:
        if data:
            self._open[file].pending.append(_Change(position, data))
            super().write(file, position, [data])

    def write_synced(self, file: int, position: int, buffers: Sequence[Buffer]) -> None:
        """See `Disk`."""
        self.write(file, position, buffers)
        self.sync(file)

    def allocate(self, file: int, position: int, size: int) -> None:
        """See `Disk`: what grows is zeros, and may be lost like anything that is not synced."""
        with self._operation("allocate", file):
            grown = position + size - self.size(file)
            if self.capacity is not None and grown > self.free_bytes(self.root):
                raise OSError(errno.ENOSPC, "made to be full")
            if grown > 0:
                self._open[file].pending.append(_Change(position + size, None))
                super().truncate(file, position + size)

    def free_bytes(self, path: Path) -> int:
        """See `Disk`."""
        if self.capacity is None:
            return super().free_bytes(path)
        with self._lock:
            return max(0, self.capacity - self.used_bytes())

    def total_bytes(self, path: Path) -> int:
        """See `Disk`."""
        return super().total_bytes(path) if self.capacity is None else self.capacity

    def used_bytes(self) -> int:
        """Size of all files."""
        return sum(path.stat().st_size for path in self._files if path.exists())

    def fill_with_zeros(self, file: int, size: int) -> None:
        """See `Disk`."""
        with self._operation("fill", file):
            super().fill_with_zeros(file, size)
            self._open[file].synced()

    def truncate(self, file: int, size: int) -> None:
        """See `Disk`."""
        with self._operation("truncate", file):
            self._open[file].pending.append(_Change(size, None))
            super().truncate(file, size)

    def sync(self, file: int) -> None:
        """See `Disk`: the real sync is left out, for speed."""
        try:
            with self._operation("sync", file):
                self._open[file].synced()
        except OSError:
            with self._lock:
                self._open[file].sync_failed()
            raise

    def sync_directory(self, path: Path) -> None:
        """See `Disk`."""
        with self._operation("sync_directory", path):
            for source, name, file in self._renamed.pop(path, ()):
                if source is not None:
                    self._durable_names.pop(source, None)
                if name is not None:
                    self._durable_names[name] = file

    def rename(self, source: Path, target: Path) -> None:
        """See `Disk`."""
        with self._operation("rename", source):
            super().rename(source, target)
            file = self._files[target] = self._files.pop(source)
            self._note(target.parent, source, target, file)

    def remove(self, path: Path) -> None:
        """See `Disk`."""
        with self._operation("remove", path):
            super().remove(path)
            self._note(path.parent, path, None, self._files.pop(path))

    def remove_tree(self, path: Path) -> None:
        """See `Disk`."""
        with self._operation("remove_tree", path):
            for name in self.list_directory(path):
                self.remove(path / name)
            super().remove_tree(path)

    def lock(self, path: Path) -> int:
        """See `Disk`; the same process opens several images at once."""
        with self._operation("lock", path):
            file = super().lock(path)
            self._open[file] = _File()
            return file

    @contextmanager
    def _operation(self, kind: str, where: int | Path) -> Iterator[None]:
        self.plan.wait(kind)
        with self._lock:
            if self.before_operation is not None:
                self.before_operation()
            self.operations += 1
            self.plan.pass_or_fail(kind, self._name(where))
            yield

    def _name(self, where: int | Path) -> str:
        if isinstance(where, Path):
            return str(where)
        file = self._open.get(where)
        return next((str(path) for path, each in self._files.items() if each is file), "")

    def _note(self, directory: Path, source: Path | None, name: Path | None, file: _File) -> None:
        self._renamed.setdefault(directory, []).append((source, name, file))


class _Full(OSError):
    """The disk is full; what fitted was written."""


def _resize(content: bytearray, size: int) -> None:
    if size < len(content):
        del content[size:]
    else:
        content += bytes(size - len(content))
