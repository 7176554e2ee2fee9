"""Which batches of a partition go to which of its segments, behind what these hold."""

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
) -> list[SegmentWrite]:
    """Give batches their places, in the newest segment and in new ones.

    Args:
        segments: of the partition; new ones are added.
        partition: its number.
        segment_bytes: at which a segment is full.
    """
    writes: list[SegmentWrite] = []
    newest = segment = segments[-1] if segments else None
    at = 0
    while at < len(batches):
        end = at
        # What was sealed may be compressed, also when its successor was torn away.
        if segment is not None and segment.is_open:
            write = SegmentWrite(partition, segment, segment.size)
            write.before = segment.mark() if segment is newest else None
            end = segment.add_fitting(batches, at, segment_bytes)
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
            segment.last_time = before  # never older, whatever the clock did
            segments.append(segment)
        at = end
    return writes


def _seal(segment: Segment, next_base: int, writes: list[SegmentWrite], partition: int) -> None:
    if writes and writes[-1].segment is segment:
        writes[-1].seal = True
    else:
        mark = segment.mark()
        writes.append(SegmentWrite(partition, segment, segment.size, mark, seal=True))
    segment.next_base = next_base  # behind the mark: when it is not written, it is not sealed
