"""Plans which batches of a partition are appended to which of its segments."""

from pathlib import Path

from routelog.log_backend.records.record_batch import RecordBatch
from routelog.log_backend.segments.log_directory import segment_path
from routelog.log_backend.segments.segment import Segment
from routelog.log_backend.segments.segment_writer import SegmentWrite


def place_batches(
    batches: list[RecordBatch],
    segments: list[Segment],
    partition: int,
    directory: Path,
    segment_bytes: int,
    *,
    ends_newest: bool = False,
) -> list[SegmentWrite]:
    """Plan to write batches to the newest segment, and to new ones.

    Args:
        segments: of the partition; new ones are added to the list.
        partition: its number.
        segment_bytes: size at which a segment is full.
        ends_newest: nothing is added to the newest segment, which is not empty.
    """
    writes: list[SegmentWrite] = []
    newest = segment = segments[-1] if segments else None
    at = 0
    while at < len(batches):
        end = at
        # A sealed segment may be compressed, so nothing is added to it, even if its successor was lost.
        if segment is not None and segment.is_open and not (ends_newest and segment is newest):
            write = SegmentWrite(partition, segment, segment.size)
            write.before = segment.mark() if segment is newest else None
            end = segment.append_until_full(batches, at, segment_bytes)
            if end > at:
                write.batches = batches[at:end]
                write.bytes = segment.size - write.position
                writes.append(write)
        if end < len(batches):
            base_offset = batches[end].base_offset
            before = 0 if segment is None else segment.last_time
            if segment is not None and not segment.damaged:
                _seal(segment, base_offset, writes, partition)
            segment = Segment(segment_path(directory, base_offset), base_offset)
            segment.last_time = before  # times must not go back, even if the clock does
            segments.append(segment)
        at = end
    return writes


def _seal(segment: Segment, next_base: int, writes: list[SegmentWrite], partition: int) -> None:
    if writes and writes[-1].segment is segment:
        writes[-1].seal = True
    else:
        mark = segment.mark()
        writes.append(SegmentWrite(partition, segment, segment.size, mark, seal=True))
    segment.next_base = next_base  # after the mark, so that `restore` unseals the segment
