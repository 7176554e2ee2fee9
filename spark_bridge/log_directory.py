"""The logs in a broker's data directory, on this host or on shared storage; never written to.

All segments but the newest of a partition are sealed: whatever is no batch there is damage. In the
newest, it is the end.
"""

import re
from collections.abc import Collection, Generator, Iterable, Iterator
from contextlib import suppress
from itertools import pairwise, zip_longest
from pathlib import Path
from urllib.parse import unquote

from log_backend.log_directory import compressed_path, directory_name, partition_directory
from log_backend.record_batch import RecordBatch
from spark_bridge.errors import BadOption, RecordsLost
from spark_bridge.log_store import LogPartition, OffsetRange
from spark_bridge.segment_file import SegmentFile
from spark_bridge.segment_listing import list_segments

_PARTITION_DIRECTORY = re.compile(r"(.+)-(\d+)")
_SHORTENED_NAME = re.compile(r".+~[0-9a-f]{32}")


class LogDirectory:
    """The logs below one data directory.

    Raises:
        BadOption: the path leads to no data directory, as this host sees it.
    """

    def __init__(self, path: Path) -> None:
        self._logs = path / "logs"
        if not self._logs.is_dir():
            raise BadOption("path", f"no broker's data directory: {self._logs} is no directory")

    def vhosts(self) -> list[str]:
        """Names of the vhosts that have logs, sorted."""
        return sorted(unquote(entry.name) for entry in self._logs.iterdir() if entry.is_dir())

    def partitions(self, vhost: str, queues: Collection[str] | None) -> list[LogPartition]:
        """Partitions of some queues, or of all of a vhost; see `LogStore.partitions`."""
        directory = self._logs / directory_name(vhost)
        if not directory.is_dir():
            return []
        matches = (_PARTITION_DIRECTORY.fullmatch(entry.name) for entry in directory.iterdir())
        found = [(match[1], int(match[2])) for match in matches if match]
        encoded = {name for name, _ in found}
        names = _decoded(encoded) if queues is None else {directory_name(q): q for q in queues}
        return sorted(LogPartition(vhost, names[name], n) for name, n in found if name in names)

    def extents(self, partition: LogPartition) -> list[OffsetRange]:
        """One stretch a segment; a log without segments is one empty stretch at offset 0."""
        segments = list_segments(self._directory(partition)).paths
        if not segments:
            return [OffsetRange(partition, 0, 0, 0)]
        sealed = [
            OffsetRange(partition, _base_offset(segment), _base_offset(following), _size(segment))
            for segment, following in pairwise(segments)
        ]
        with SegmentFile(segments[-1]) as newest:
            end_offset, end_position = newest.valid_end()
            return [
                *sealed,
                OffsetRange(partition, newest.base_offset, end_offset, end_position),
            ]

    def read(self, wanted: OffsetRange, *, lost_is_error: bool = True) -> Iterator[RecordBatch]:
        """Batches with offsets in a range; see `LogStore.read`."""
        reached = wanted.start
        listing = list_segments(self._directory(wanted.partition), reached, wanted.end)
        segments = listing.paths
        begins = _base_offset(segments[0]) if segments else wanted.end
        if lost_is_error and begins > reached:
            raise RecordsLost(wanted.partition, reached, min(begins, wanted.end))
        if lost_is_error and listing.gaps:
            first, end = listing.gaps[0]
            raise RecordsLost(wanted.partition, max(first, reached), min(end, wanted.end))
        for segment, following_base in zip_longest(segments, map(_base_offset, segments[1:])):
            if following_base is not None and following_base <= reached:
                continue
            try:
                reached = yield from _read_segment(segment, reached, wanted.end)
            except FileNotFoundError:
                if lost_is_error:
                    raise RecordsLost(wanted.partition, reached, wanted.end) from None
            # Offsets between the last batch of a sealed segment and the next one were never stored.
            reached = max(reached, following_base or 0)
            if reached >= wanted.end:
                return
        if lost_is_error:
            raise RecordsLost(wanted.partition, reached, wanted.end)

    def _directory(self, partition: LogPartition) -> Path:
        return partition_directory(
            self._logs, partition.vhost, partition.queue, partition.partition
        )


def _read_segment(path: Path, start: int, end: int) -> Generator[RecordBatch, None, int]:
    """Yield the batches with offsets in a range; return the offset up to which none are missing."""
    reached = start
    with SegmentFile(path) as segment:
        for batch in segment.batches(segment.position_of(start)):
            if batch.base_offset >= end:
                return end
            yield batch
            reached = batch.end_offset
            # Behind the end may be bytes that the broker is just writing.
            if reached >= end:
                break
    return reached


def _decoded(encoded: Iterable[str]) -> dict[str, str]:
    """Queue names by directory name; directories that are no queue's are left out."""
    names = {name: unquote(name) for name in encoded}
    readable = {name: queue for name, queue in names.items() if directory_name(queue) == name}
    for name in names.keys() - readable.keys():
        if _SHORTENED_NAME.fullmatch(name):
            reason = f"the queue in {name} has too long a name to match; use subscribe or assign"
            raise BadOption("subscribePattern", reason)
    return readable


def _base_offset(segment: Path) -> int:
    return int(segment.stem)


def _size(segment: Path) -> int:
    for path in (segment, compressed_path(segment)):
        with suppress(FileNotFoundError):
            return path.stat().st_size
    return 0
