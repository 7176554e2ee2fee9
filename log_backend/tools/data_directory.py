"""A data directory whose broker does not run, as the tools open it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

from routelog.log_backend.copies.arriving_copy import take_copied
from routelog.log_backend.doors.disk import LOCK_FILE, Disk, opened
from routelog.log_backend.metadata.metadata import MetadataStore
from routelog.log_backend.partitions.cursor import Cursor
from routelog.log_backend.segments.damage import DamageRecord, load_damage
from routelog.log_backend.segments.first_kept import expected_bases, kept_names, load_first_kept
from routelog.log_backend.segments.log_directory import (
    partition_directory,
    segment_path,
)
from routelog.log_backend.segments.partition_file import PARTITION_FILE, read_number
from routelog.log_backend.segments.segment_forms import current_segments
from routelog.log_backend.settlement.cursor_snapshot import cursor_number, partition_prefix

PartitionName = tuple[str, str, int]  # vhost, queue, index


class NoDataDirectory(Exception):
    """The path leads to no data directory of a broker."""

    def __init__(self, path: Path, missing: str) -> None:
        super().__init__(f"{path} is no data directory of a broker: it has no {missing}")
        self.path = path


@dataclass(slots=True)
class Marks:
    """What the snapshots of a partition's cursors say.

    Attributes:
        next_offset, synced_offset: of the partition, at its last checkpoint.
    """

    next_offset: int = 0
    synced_offset: int = 0
    cursors: list[Cursor] = field(default_factory=list)


@dataclass(slots=True)
class StoredPartition:
    """The files of one partition.

    Attributes:
        number: as the topology has it, else as its PARTITION file says; None when neither is known.
        owner: what its PARTITION file says; None when it cannot be read.
        known: the topology has it.
        segments: paths of its segments by base offset, ascending.
    """

    vhost: str
    queue: str
    index: int
    number: int | None
    directory: Path
    owner: int | None = None
    has_owner_file: bool = False
    known: bool = True
    segments: dict[int, Path] = field(default_factory=dict)


class DataDirectory:
    """The partitions, journal and metadata below one path.

    Attributes:
        metadata: as stored.
    """

    def __init__(
        self,
        path: Path,
        disk: Disk,
        metadata: MetadataStore,
        names: Mapping[int, PartitionName],
    ) -> None:
        self.path = path
        self.disk = disk
        self.metadata = metadata
        self._names = names

    @property
    def journal(self) -> Path:
        """Where the journal's files lie."""
        return self.path / "journal"

    def partitions(self) -> list[StoredPartition]:
        """All that the topology knows, and directories that it does not know."""
        found: dict[Path, StoredPartition] = {}
        logs = self.path / "logs"
        for number, (vhost, queue, index) in sorted(self._names.items(), key=lambda item: item[1]):
            directory = partition_directory(logs, vhost, queue, index)
            found[directory] = StoredPartition(vhost, queue, index, number, directory)
        for vhost_name in self.disk.list_directory(logs):
            for name in self.disk.list_directory(logs / vhost_name):
                directory = logs / vhost_name / name
                queue, _, index_text = name.rpartition("-")
                if directory not in found and index_text.isdigit():
                    found[directory] = StoredPartition(
                        unquote(vhost_name),
                        unquote(queue),
                        int(index_text),
                        read_number(self.disk, directory),
                        directory,
                        known=False,
                    )
        for partition in found.values():
            names = self.disk.list_directory(partition.directory)
            partition.segments = self.current(partition)
            partition.has_owner_file = PARTITION_FILE in names
            partition.owner = read_number(self.disk, partition.directory)
        return list(found.values())

    def total_bytes(self) -> int:
        """Size of all segments and journal files."""
        paths = [self.journal / name for name in self.disk.list_directory(self.journal)]
        for partition in self.partitions():
            names = self.disk.list_directory(partition.directory)
            paths += [partition.directory / name for name in names if name.endswith("log")]
        return sum(self._size(path) for path in paths)

    def _size(self, path: Path) -> int:
        with opened(self.disk, path) as file:
            return self.disk.size(file)

    def marks(self, number: int) -> Marks:
        """The snapshots of a partition's cursors.

        Raises:
            SnapshotDamaged: one cannot be decoded.
        """
        marks = Marks()
        stored: dict[int, list[tuple[bytes, bytes]]] = {}
        for key, entry in self.metadata.scan(partition_prefix(number)):
            stored.setdefault(cursor_number(key), []).append((key, entry.value))
        for each, entries in stored.items():
            cursor = Cursor(each, None)
            stored_marks = cursor.restore(entries)
            marks.next_offset = max(marks.next_offset, stored_marks.next_offset)
            marks.synced_offset = max(marks.synced_offset, stored_marks.synced_offset)
            marks.cursors.append(cursor)
        return marks

    def current(self, partition: StoredPartition) -> dict[int, Path]:
        """Paths of a partition's segments by base offset, ascending, as its directory has them now."""
        number, directory = partition.number, partition.directory
        first_kept = None if number is None else load_first_kept(self.metadata, number)
        names = kept_names(self.disk.list_directory(directory), first_kept)
        return current_segments(self.disk, directory, names)

    def expected_segments(self, partition: StoredPartition) -> dict[int, Path]:
        """Segments of a known partition as they are now, with the one that its log begins with."""
        assert partition.number is not None
        there = self.current(partition)
        bases = expected_bases(list(there), load_first_kept(self.metadata, partition.number))
        return {base: there.get(base) or segment_path(partition.directory, base) for base in bases}

    def damage(self, number: int) -> DamageRecord:
        """What the broker, or a repair, noted about a partition."""
        return load_damage(self.metadata, number)

    def relative(self, path: Path) -> str:
        """A path below this directory, for people."""
        return str(path.relative_to(self.path))


@contextmanager
def open_metadata(path: Path, disk: Disk, *, read_only: bool) -> Iterator[MetadataStore]:
    """Lock a data directory and open its metadata; to change them, with a copy that waits in it taken.

    Raises:
        NoDataDirectory: there is none.
        DirectoryLocked: a broker, or another tool, uses it.
        MetadataCorrupt, MetadataUnavailable: the metadata cannot be read.
    """
    for name in (LOCK_FILE, "metadata/CURRENT"):
        if Path(name).name not in disk.list_directory((path / name).parent):
            raise NoDataDirectory(path, name)
    lock = disk.lock(path / LOCK_FILE)
    try:
        if not read_only:
            take_copied(path, disk)
        metadata = MetadataStore.open(path / "metadata", disk, read_only=read_only)
        try:
            yield metadata
        finally:
            metadata.close()
    finally:
        disk.close(lock)
