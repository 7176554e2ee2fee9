"""Reads single records of a segment by their offsets: messages that are due lie scattered over a log."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from routelog.log_backend.doors.disk import Disk
from routelog.log_backend.records.record_batch import RecordBatch
from routelog.log_backend.segments.segment import headers, read_batch
from routelog.log_backend.segments.segment_file import SegmentFile, open_segment_file


class StoredRecord(NamedTuple):
    """One record of a log.

    Attributes:
        properties: property list, as on the wire.
        time: microseconds since 1970 at which the broker received it.
        attributes: of its batch.
    """

    exchange: bytes
    routing_key: bytes
    properties: bytes
    body: bytes
    time: int
    attributes: int


def record_at(batch: RecordBatch, offset: int) -> StoredRecord:
    """Return the record of a batch at an offset."""
    records, index = batch.records, offset - batch.base_offset
    return StoredRecord(
        records.exchange,
        records.routing_key(index),
        records.properties(index),
        records.body(index),
        records.last_time,
        records.attributes,
    )


def fetch_records(
    disk: Disk, path: Path, wanted: Sequence[tuple[int, int, int]], end: int, bytes_max: int
) -> Mapping[int, StoredRecord]:
    """Read some records of a segment.

    Args:
        wanted: for each record, ascending: its offset; the position of a batch at or before it; the lowest
            base offset that this batch may have.
        end: size of the segment.
        bytes_max: of bodies and properties; the first record may be larger.

    Returns:
        Records by offset, up to the limit; an offset that is not in the segment is left out.

    Raises:
        SegmentDamaged: a header or a wanted batch fails a check.
        FileNotFoundError: the segment was removed.

    Cost:
        Reads and checks each batch with a wanted record, and the headers before it in its index interval.
    """
    found: dict[int, StoredRecord] = {}
    left = bytes_max
    with closing(open_segment_file(disk, path)) as file:
        for batch, offset in _batches(file, wanted, end):
            record = record_at(batch, offset)
            left -= len(record.body) + len(record.properties)
            if left < 0 and found:
                break
            found[offset] = record
    return found


def _batches(
    file: SegmentFile, wanted: Sequence[tuple[int, int, int]], end: int
) -> Iterator[tuple[RecordBatch, int]]:
    batch: RecordBatch | None = None
    for offset, position, lowest in wanted:
        if batch is None or offset >= batch.end_offset:
            batch = _batch_at(file, offset, position, lowest, end)
        if batch is not None and batch.base_offset <= offset:
            yield batch, offset


def _batch_at(
    file: SegmentFile, offset: int, position: int, lowest: int, end: int
) -> RecordBatch | None:
    # The batch that holds an offset, or the next one.
    for header, at, size in headers(file, position, end, lowest):
        if header.end_offset > offset:
            return read_batch(file, header, at, size)
    return None
