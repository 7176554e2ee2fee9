"""Repair of a copy that came from a node whose logs are damaged, with the logs of the node that takes it.

Both have the same records at the same offsets, in segments and batches of other sizes. So where every node of
a cluster is damaged, and each in another place, one of them puts together a copy that is whole.
"""

from array import array
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from routelog.log_backend.doors.disk import Disk
from routelog.log_backend.metadata.metadata import MetadataStore
from routelog.log_backend.partitions.partition_log import PartitionLog
from routelog.log_backend.records.record_batch import RecordBatch
from routelog.log_backend.records.record_selection import split_records
from routelog.log_backend.segments.log_directory import is_compacted, with_following
from routelog.log_backend.segments.segment_forms import current_segments
from routelog.log_backend.segments.segment_scan import read_segment, scan
from routelog.log_backend.tools.data_directory import DataDirectory
from routelog.log_backend.tools.log_repair import Repair


class CopyBeyondRepair(Exception):
    """A copy is damaged where this node's own log is, too, or does not reach."""


@dataclass(frozen=True, slots=True)
class OwnLog:
    """What the files of this node hold of a partition.

    Attributes:
        end: they hold all that is needed of the records below it.
        damage: [first, end) offsets that cannot be read.
    """

    end: int
    damage: list[tuple[int, int]]


class OwnLogs:
    """The logs of this node, which runs, as a source of what a copy lacks."""

    def __init__(self, data: Path, disk: Disk, partitions: Mapping[Path, OwnLog]) -> None:
        self._data = data
        self._disk = disk
        self._partitions = partitions

    @classmethod
    def of(cls, data: Path, disk: Disk, partitions: Mapping[int, PartitionLog]) -> "OwnLogs":
        """Note what the files of the open logs hold now."""
        return cls(
            data,
            disk,
            {
                each.directory.relative_to(data): OwnLog(
                    each.synced_offset, [(place.first, place.end) for place in each.damage.found]
                )
                for each in partitions.values()
            },
        )

    def batches(self, directory: Path, first: int, end: int) -> list[RecordBatch]:
        """The records of a partition between two offsets.

        Args:
            directory: of the partition, below the data directory.

        Raises:
            CopyBeyondRepair: they cannot be read here, or are not in the files yet.
        """
        own = self._partitions.get(directory)
        is_readable = own is not None and own.end >= end
        if own is not None and any(a < end and b > first for a, b in own.damage):
            is_readable = False
        found: list[RecordBatch] = []
        own_files = self._data / directory
        paths = current_segments(self._disk, own_files, self._disk.list_directory(own_files))
        for base, next_base in with_following(list(paths)):
            if base >= end or (next_base is not None and next_base <= first):
                continue
            # A deletion that compaction has taken here may have left its value in the copy.
            is_readable = is_readable and not is_compacted(paths[base])
            content = read_segment(self._disk, paths[base])
            offset = base
            for stretch in scan(content, base):
                if stretch.batch is not None:
                    offset = stretch.batch.end_offset
                    found += _between(stretch.batch, first, end)
                elif offset < end:  # else it is a tail that is being written
                    is_readable = False
        if not is_readable:
            raise CopyBeyondRepair(
                f"offsets {first} to {end - 1} of {directory} cannot be read here, either"
            )
        return found


def _between(batch: RecordBatch, first: int, end: int) -> list[RecordBatch]:
    # The records of a batch between two offsets: none or one batch.
    base = batch.base_offset
    before = min(max(first - base, 0), batch.records.count)
    count = min(end, batch.end_offset) - max(first, base)
    if count <= 0:
        return []
    if count == batch.records.count:
        return [batch]
    places = array("i", [0] * before + [1] * count)
    places += array("i", [2] * (batch.records.count - len(places)))
    parts = dict(split_records(batch.records, places, 3))
    return [RecordBatch(parts[1], base + before, batch.leader_epoch)]


def repair_copy(copy: Path, disk: Disk, own: OwnLogs) -> list[str]:
    """Read all segments of a copy, and put what is damaged in them right.

    Args:
        copy: a data directory of which nothing is in use.

    Returns:
        What was done, in words.

    Raises:
        CopyBeyondRepair: something is lost.
    """
    done: list[str] = []
    with closing(MetadataStore.open(copy / "metadata", disk)) as metadata:
        data = DataDirectory(copy, disk, metadata, {})
        repair = Repair(data, copy / "quarantine", is_dry=False, source=own.batches)
        for partition in data.partitions():
            if partition.segments and partition.number is None:
                raise CopyBeyondRepair(f"{data.relative(partition.directory)} has no number")
            # Their names are of no matter here: each is what its PARTITION file says.
            for step in repair.partition(replace(partition, known=True)):
                done.append(f"{step.file}: {step.what}")
                if step.lost:
                    raise CopyBeyondRepair(f"{step.file}: {step.what}")
    return done
