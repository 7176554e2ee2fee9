"""Reads the logs in a broker's data directory, on this host or on shared storage.

All segments of a partition but the newest are sealed: bytes that are no batch are damage there. In the newest
segment, they are the end of the log.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import pairwise, zip_longest
from pathlib import Path
from urllib.parse import unquote

from routelog.log_backend.records.record_batch import RecordBatch
from routelog.log_backend.segments.log_directory import (
    EXCHANGE_MARK,
    base_offset_of,
    compressed_path,
    directory_name,
    is_compacted,
    partition_directory,
)
from routelog.log_backend.segments.partition_file import PARTITION_FILE, decode_number
from routelog.spark_bridge.logs.errors import BadOption, DamagedSegment, DeclaredAgain, RecordsLost
from routelog.spark_bridge.logs.newest_segment import NewestSegment
from routelog.spark_bridge.logs.readable_logs import Cut, LogPartition, OffsetRange, Ticket
from routelog.spark_bridge.logs.segment_file import SegmentFile
from routelog.spark_bridge.logs.segment_listing import LISTINGS_MAX, Neighbours, list_segments

_PARTITION_DIRECTORY = re.compile(r"(.+)-(\d+)")
NEVER = 2**63  # microseconds since 1970, later than any time in a header
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
        self._newest: dict[LogPartition, NewestSegment] = {}
        # Of sealed segments, which never change
        self._neighbours: dict[LogPartition, Neighbours] = {}

    def ticket(self, vhost: str) -> Ticket:
        """Nothing: access to the files is enough."""
        return {}

    def vhosts(self) -> list[str]:
        """Names of the vhosts that have logs, sorted."""
        return sorted(unquote(entry.name) for entry in self._logs.iterdir() if entry.is_dir())

    def partitions(self, vhost: str, queues: Collection[str] | None) -> list[LogPartition]:
        """Partitions of some queues, or of all of a vhost; see `ReadableLogs.partitions`."""
        directory = self._logs / directory_name(vhost)
        if not directory.is_dir():
            return []
        matches = (_PARTITION_DIRECTORY.fullmatch(entry.name) for entry in directory.iterdir())
        found = [(match[1], int(match[2])) for match in matches if match]
        encoded = {name for name, _ in found}
        names = _decoded(encoded) if queues is None else {directory_name(q): q for q in queues}
        return sorted(LogPartition(vhost, names[name], n) for name, n in found if name in names)

    def extents(self, partition: LogPartition) -> list[OffsetRange]:
        """One range for each segment; a log without segments has an empty one at offset 0."""
        with suppress(FileNotFoundError):
            return self._extents(partition, self._segments(partition))
        # The newest segment was removed after it was listed: list again.
        return self._extents(partition, self._segments(partition))

    def _extents(self, partition: LogPartition, segments: list[Path]) -> list[OffsetRange]:
        if not segments:
            return [OffsetRange(partition, 0, 0, 0)]
        number = self.number(partition)
        sealed = [
            OffsetRange(
                partition,
                _base_offset(segment),
                _base_offset(following),
                _size(segment),
                number=number,
            )
            for segment, following in pairwise(segments)
        ]
        newest = self._newest.get(partition)
        if newest is None or newest.base_offset != _base_offset(segments[-1]):
            newest = self._newest[partition] = NewestSegment(segments[-1])
        newest.look()
        return [
            *sealed,
            OffsetRange(
                partition, newest.base_offset, newest.end_offset, newest.end_position, number=number
            ),
        ]

    def next_offset(self, partition: LogPartition) -> int:
        """The latest offset: others are not known here."""
        return self.extents(partition)[-1].end

    def located(self, wanted: OffsetRange) -> OffsetRange:
        """The same range with the best position hint that is known without reading.

        Sealed segments need no hint, because they have index files.
        """
        newest = self._newest.get(wanted.partition)
        if newest is None or wanted.start < newest.base_offset:
            return wanted
        return replace(wanted, position_hint=newest.position_before(wanted.start))

    def offset_at(self, partition: LogPartition, time: int) -> int | None:
        """Offset of the first record that was received at a time or later; None if there is none.

        Raises:
            DamagedSegment: a header of a sealed segment fails a check.
        """
        found, segments = None, self._segments(partition)
        end = self.extents(partition)[-1].end
        for _ in range(LISTINGS_MAX):
            # The segment before the first one that begins at that time or later.
            later = bisect_left(range(len(segments)), time, key=partial(_time_from, segments))
            found = _first_found(segments[max(later - 1, 0) :], lambda file: file.offset_at(time))
            before, segments = segments, self._segments(partition)
            if segments == before:
                break  # else compaction may have replaced one of them meanwhile
        return None if found is None or found >= end else found

    def cut(self, wanted: OffsetRange, bytes_max: int) -> Cut:
        """The longest beginning of a range whose bodies have at most `bytes_max` bytes."""
        for _ in range(LISTINGS_MAX):  # compaction may replace a segment that was listed
            segments = self._segments(wanted.partition)
            at = bisect_right(segments, wanted.start, key=_base_offset) - 1
            with suppress(FileNotFoundError):
                if at >= 0:
                    with SegmentFile(segments[at]) as segment:
                        hint = self.located(wanted).position_hint
                        return segment.cut(wanted.start, wanted.end, bytes_max, hint)
        return Cut(wanted.end, 0)  # removed meanwhile: `read` will raise RecordsLost

    def read(self, wanted: OffsetRange, *, lost_is_error: bool = True) -> Iterator[RecordBatch]:
        """Batches with offsets in a range; see `ReadableLogs.read`."""
        reached = wanted.start
        listings = LISTINGS_MAX  # without a batch between them
        missing: Path | None = None
        while listings:
            listings -= 1
            segments = self._readable(wanted, reached, lost_is_error=lost_is_error)
            if lost_is_error and missing is not None and not _is_replaced(missing, segments):
                raise RecordsLost(wanted.partition, reached, wanted.end)
            for segment, following_base in zip_longest(segments, map(_base_offset, segments[1:])):
                if following_base is not None and following_base <= reached:
                    continue
                before = reached
                try:
                    reached = yield from _read_segment(segment, reached, wanted)
                except FileNotFoundError:
                    missing = segment
                    break
                listings = LISTINGS_MAX if reached > before else listings
                # Offsets between the last batch of a sealed segment and the next one were never stored, or
                # compaction has taken their records.
                reached = max(reached, following_base or 0)
                if reached >= wanted.end:
                    return
            else:
                break
        if lost_is_error:
            raise RecordsLost(wanted.partition, reached, wanted.end)

    def _readable(
        self, wanted: OffsetRange, reached: int, *, lost_is_error: bool
    ) -> Sequence[Path]:
        listing = list_segments(self._directory(wanted.partition), reached, wanted.end)
        if not wanted.is_of(self.number(wanted.partition)):
            if lost_is_error:
                raise DeclaredAgain(wanted.partition, reached)
            return ()
        begins = _base_offset(listing.paths[0]) if listing.paths else wanted.end
        if lost_is_error and begins > reached:
            raise RecordsLost(wanted.partition, reached, min(begins, wanted.end))
        if lost_is_error and listing.gaps:
            first, end = listing.gaps[0]
            raise RecordsLost(wanted.partition, max(first, reached), min(end, wanted.end))
        return listing.paths

    def number(self, partition: LogPartition) -> int | None:
        """The partition's number on its broker; None if no segment was stored."""
        try:
            with (self._directory(partition) / PARTITION_FILE).open("rb") as file:
                return decode_number(file.read())
        except FileNotFoundError:
            return None

    def report(self, consumer: str, position: Mapping[LogPartition, int]) -> None:
        """Nothing: there is no broker to tell."""

    def _segments(self, partition: LogPartition) -> list[Path]:
        known = self._neighbours.setdefault(partition, set())
        paths = list_segments(self._directory(partition), known=known).paths
        if not paths:
            known.clear()  # the queue may be deleted, and declared again
        return paths

    def _directory(self, partition: LogPartition) -> Path:
        return partition_directory(
            self._logs, partition.vhost, partition.queue, partition.partition
        )


def _read_segment(path: Path, start: int, wanted: OffsetRange) -> Generator[RecordBatch, None, int]:
    """Yield the wanted batches from `start` on; return the offset up to which none is missing."""
    reached = start
    hint = wanted.position_hint if start == wanted.start else 0  # in the range's first segment
    with SegmentFile(path) as segment:
        for batch in segment.batches(segment.position_of(start, hint)):
            if batch.base_offset >= wanted.end:
                return wanted.end
            yield batch
            reached = batch.end_offset
            # The broker may be writing behind the end.
            if reached >= wanted.end:
                break
    return reached


def _is_replaced(missing: Path, segments: Sequence[Path]) -> bool:
    """Whether a segment that could not be opened is there again, or compaction has put one in its place."""
    at = bisect_right(segments, _base_offset(missing), key=_base_offset) - 1
    return at >= 0 and (segments[at] == missing or is_compacted(segments[at]))


def _time_from(segments: Sequence[Path], at: int) -> int:
    """Time of the first record in segments from an index on; NEVER if there is none."""
    found = _first_found(segments[at:], _first_time)
    return NEVER if found is None else found


def _first_time(segment: SegmentFile) -> int | None:
    # A damaged segment is skipped here: it is an error only for a query that reads it.
    with suppress(DamagedSegment):
        return segment.first_time()
    return None


def _first_found(
    segments: Sequence[Path], search: Callable[[SegmentFile], int | None]
) -> int | None:
    """Return the first result of `search` that is not None; segments that were removed are skipped.

    Raises:
        DamagedSegment: a segment is damaged. Not for the last one, which the broker may be writing.
    """
    for segment in segments:
        try:
            with SegmentFile(segment) as file:
                found = search(file)
        except FileNotFoundError:
            continue
        except DamagedSegment:
            if segment is segments[-1]:
                return None
            raise
        if found is not None:
            return found
    return None


def _decoded(encoded: Iterable[str]) -> dict[str, str]:
    """Queue names by directory name; directories of exchanges are left out."""
    mark = directory_name(EXCHANGE_MARK)
    names = {name: unquote(name) for name in encoded if not name.startswith(mark)}
    readable = {name: queue for name, queue in names.items() if directory_name(queue) == name}
    for name in names.keys() - readable.keys():
        if _SHORTENED_NAME.fullmatch(name):
            reason = f"the queue in {name} has too long a name to match; use subscribe or assign"
            raise BadOption("subscribePattern", reason)
    return readable


def _base_offset(segment: Path) -> int:
    return base_offset_of(segment)


def _size(segment: Path) -> int:
    for path in (segment, compressed_path(segment)):
        with suppress(FileNotFoundError):
            return path.stat().st_size
    return 0
