"""A disk whose power can fail: what was not synced is lost, kept, or kept in part."""

from __future__ import annotations

import errno
import random
import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from log_backend.disk import Buffer, SystemDisk

SECTOR_BYTES = 512  # a disk writes these whole or not at all


@dataclass
class _File:
    """One file, whatever its name: what is durable, and the writes and cuts since."""

    durable: bytes = b""
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)  # None: cut to this size

    def after_power_cut(self, choice: random.Random) -> bytes:
        """Some content that the cut may leave."""
        content = bytearray(self.durable)
        for position, data in self.pending:
            if data is None:
                if choice.random() < 0.5:
                    _resize(content, position)
                continue
            kept = choice.choice((0.0, 0.5, 0.9, 1.0))
            for at in range(0, len(data), SECTOR_BYTES):
                if choice.random() < kept:
                    piece = data[at : at + SECTOR_BYTES]
                    _resize(content, max(len(content), position + at))
                    content[position + at : position + at + len(piece)] = piece
        return bytes(content)


class PoweredDisk(SystemDisk):
    """The files below one directory, and what a power cut would leave of them.

    RocksDB does not write through it: its directory is empty in an image.

    Attributes:
        operations: that were done.
        capacity: bytes that all files together may have, None: any; `allocate` meets its end.
    """

    def __init__(self, root: Path, choice: random.Random) -> None:
        self.root = root
        self.operations = 0
        self.capacity: int | None = None
        self._choice = choice
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

    def image_after_power_cut(self, target: Path) -> PoweredDisk:
        """What the machine finds when it is switched on again: a new directory and its disk."""
        with self._lock:
            names = dict(self._durable_names)
            for changes in self._renamed.values():
                for source, name, file in changes[: self._choice.randint(0, len(changes))]:
                    if source is not None:
                        names.pop(source, None)
                    if name is not None:
                        names[name] = file
            disk = PoweredDisk(target, self._choice)
            self._copy_directories(target)
            for name, file in names.items():
                content = file.after_power_cut(self._choice)
                path = target / name.relative_to(self.root)
                path.write_bytes(content)
                disk._files[path] = disk._durable_names[path] = _File(content)
            return disk

    def image_after_kill(self, target: Path) -> PoweredDisk:
        """What the next process finds when only this one died: all of it, synced or not."""
        with self._lock:
            disk = PoweredDisk(target, self._choice)
            self._copy_directories(target)

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

    def _copy_directories(self, target: Path) -> None:
        for path in sorted(self.root.rglob("*")):
            if path.is_dir():
                (target / path.relative_to(self.root)).mkdir(parents=True, exist_ok=True)

    # -- operations

    def open(self, path: Path, *, create: bool = False) -> int:
        """See `Disk`."""
        with self._operation():
            file = super().open(path, create=create)
            if path not in self._files:
                self._files[path] = _File()
                self._note(path.parent, None, path, self._files[path])
            self._open[file] = self._files[path]
            return file

    def close(self, file: int) -> None:
        """See `Disk`."""
        with self._operation():
            self._open.pop(file, None)
            super().close(file)

    def write(self, file: int, position: int, buffers: Sequence[Buffer]) -> int:
        """See `Disk`."""
        with self._operation():
            data = b"".join(buffers)
            self._open[file].pending.append((position, data))
            return super().write(file, position, [data])

    def allocate(self, file: int, position: int, size: int) -> None:
        """See `Disk`: what grows is zeros, and may be lost like anything that is not synced."""
        with self._operation():
            grown = position + size - self.size(file)
            if self.capacity is not None and self.used_bytes() + max(0, grown) > self.capacity:
                raise OSError(errno.ENOSPC, "the simulated disk is full")
            if grown > 0:
                self._open[file].pending.append((position + size, None))
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
        with self._operation():
            super().fill_with_zeros(file, size)
            self._make_durable(file)

    def truncate(self, file: int, size: int) -> None:
        """See `Disk`."""
        with self._operation():
            self._open[file].pending.append((size, None))
            super().truncate(file, size)

    def sync(self, file: int) -> None:
        """See `Disk`: the real sync is left out, for speed."""
        with self._operation():
            self._make_durable(file)

    def sync_directory(self, path: Path) -> None:
        """See `Disk`."""
        with self._operation():
            for source, name, file in self._renamed.pop(path, ()):
                if source is not None:
                    self._durable_names.pop(source, None)
                if name is not None:
                    self._durable_names[name] = file

    def rename(self, source: Path, target: Path) -> None:
        """See `Disk`."""
        with self._operation():
            super().rename(source, target)
            file = self._files[target] = self._files.pop(source)
            self._note(target.parent, source, target, file)

    def remove(self, path: Path) -> None:
        """See `Disk`."""
        with self._operation():
            super().remove(path)
            self._note(path.parent, path, None, self._files.pop(path))

    def remove_tree(self, path: Path) -> None:
        """See `Disk`."""
        for name in self.list_directory(path):
            self.remove(path / name)
        with self._operation():
            super().remove_tree(path)

    def lock(self, path: Path) -> int:
        """See `Disk`; the same process opens several images at once."""
        with self._operation():
            return super().lock(path)

    @contextmanager
    def _operation(self) -> Iterator[None]:
        with self._lock:
            self.operations += 1
            yield

    def _make_durable(self, file: int) -> None:
        known = self._open[file]
        known.durable = bytes(self.read(file, 0, self.size(file)))
        known.pending.clear()

    def _note(self, directory: Path, source: Path | None, name: Path | None, file: _File) -> None:
        self._renamed.setdefault(directory, []).append((source, name, file))


def _resize(content: bytearray, size: int) -> None:
    if size < len(content):
        del content[size:]
    else:
        content += bytes(size - len(content))
