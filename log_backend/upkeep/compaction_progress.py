"""How far a log is compacted, and whether a pass is due: half of the bytes of its sealed segments are new.

A deletion goes when the pass that took the older records of its key is old enough. A start does not know when
that was, so the time begins anew: a deletion may stay longer, never shorter.
"""

from collections.abc import Sequence
from pathlib import Path

from routelog.log_backend.doors.clock import Moment
from routelog.log_backend.partitions.partition_log import COMPACTED_SEGMENT_BYTES, PartitionLog
from routelog.log_backend.segments.compaction_pass import CompactionInput, CompactionTask
from routelog.log_backend.segments.log_directory import is_compacted
from routelog.log_backend.segments.retention import Compaction, age
from routelog.log_backend.segments.segment import Segment

KEYS_MAX = 1_000_000  # of one pass: its program needs some 200 bytes a key


class CompactionProgress:
    """Of one log.

    Attributes:
        clean_end: below this offset, passes have left one record of each key.
        retry_at: no pass before (monotonic seconds): the last one failed, or was outdated.
        is_stuck: nobody knows what is on the disk: no pass before a restart.
    """

    def __init__(self, segments: Sequence[Segment], now: Moment) -> None:
        """Begin with what earlier runs have compacted."""
        ends = [each.next_base for each in segments if is_compacted(each.path)]
        self.clean_end = next((end for end in reversed(ends) if end is not None), 0)
        self.retry_at = 0.0
        self.is_stuck = False
        # `clean_end` of passes, and when each ended (monotonic seconds); ascending
        self._passes = [(self.clean_end, now.monotonic)]
        # Base offset of the last sealed segment when no pass was due: none is until another follows
        self._seen = -1

    def ended(self, clean_end: int, now: float) -> None:
        """Note a complete pass."""
        self.clean_end = clean_end
        self._passes.append((clean_end, now))

    def task(self, partition: PartitionLog, now: Moment, scratch: Path) -> CompactionTask | None:
        """The pass that is due now, of a log that is to be compacted; None: none is.

        Args:
            scratch: see `CompactionTask`.
        """
        rule = partition.compaction
        assert rule is not None
        if self.is_stuck or now.monotonic < self.retry_at or partition.is_damaged:
            return None
        sealed = partition.sealed_segments()
        if not sealed or self._seen == sealed[-1].base_offset:
            return None
        segments = _old_enough(sealed, rule, now)
        total = sum(each.size for each in segments)
        dirty = sum(each.size for each in segments if each.base_offset >= self.clean_end)
        if dirty * 2 < total or not dirty:
            self._seen = -1 if rule.age_min else sealed[-1].base_offset
            return None
        return CompactionTask(
            inputs=[_input(each) for each in segments],
            clean_end=self.clean_end,
            deletions_end=self._deletions_end(now.monotonic, rule.deletion_age),
            key_header=rule.key_header,
            keys_max=KEYS_MAX,
            segment_bytes_max=COMPACTED_SEGMENT_BYTES,
            scratch=str(scratch),
        )

    def _deletions_end(self, now: float, deletion_age: int) -> int:
        # Deletions below this offset may go.
        old = [end for end, ended in self._passes if (now - ended) * 1_000_000 >= deletion_age]
        del self._passes[: max(0, len(old) - 1)]
        return old[-1] if old else 0


def _old_enough(segments: Sequence[Segment], rule: Compaction, now: Moment) -> list[Segment]:
    found: list[Segment] = []
    for segment in segments:
        if rule.age_min and age(segment, now) < rule.age_min:
            break
        found.append(segment)
    return found


def _input(segment: Segment) -> CompactionInput:
    assert segment.next_base is not None
    return CompactionInput(str(segment.path), segment.base_offset, segment.next_base, segment.size)
