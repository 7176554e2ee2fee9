"""The newest segment of a log, which the broker is still writing: finds the end of its valid batches."""

from array import array
from bisect import bisect_right
from pathlib import Path

from routelog.log_backend.segments.log_directory import base_offset_of
from routelog.spark_bridge.logs.errors import DamagedSegment
from routelog.spark_bridge.logs.segment_file import SegmentFile, Stamp

# Between two marks: scanning so much takes about as long as opening the file
MARK_BYTES = 256 * 1024


class NewestSegment:
    """The state at the last look; the next look continues from there.

    Attributes:
        base_offset: of the segment.
        end_offset, end_position: behind the last valid batch without a gap before it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.base_offset = base_offset_of(path)
        self.end_offset = self.base_offset
        self.end_position = 0
        self._last_position = 0
        self._stamp: Stamp | None = None  # of the file at the last look
        # Marks: offset and position of some batches, the first one included.
        self._offsets = array("q", [self.base_offset])
        self._positions = array("q", [0])

    def look(self) -> None:
        """Verify batches from the last valid one on: only a payload's checksum shows a torn write.

        After a power cut, the broker may have lost the last valid batch. So if the file has changed, that batch
        is verified again, and if it is missing, the segment is read from its beginning.

        Raises:
            FileNotFoundError: the segment was removed.
        """
        with SegmentFile(self._path) as segment:
            before, self._stamp = self._stamp, segment.stamp()
            if self._stamp == before:
                # Two writes may be too close together for the file's time to change: look for a header, too.
                if not segment.has_header(self.end_position):
                    return
            elif not self._last_is_there(segment):
                self._forget()
            try:
                for batch in segment.batches(self.end_position):
                    if batch.base_offset < self.end_offset:
                        break  # an old batch, from before the file was cut
                    self._last_position = self.end_position
                    self.end_position += batch.records.batch_bytes
                    self.end_offset = batch.end_offset
                    if self._last_position >= self._positions[-1] + MARK_BYTES:
                        self._offsets.append(batch.base_offset)
                        self._positions.append(self._last_position)
            except DamagedSegment:
                pass  # the broker was writing here

    def position_before(self, offset: int) -> int:
        """Position of a batch at or before an offset of this segment."""
        return self._positions[bisect_right(self._offsets, offset) - 1]

    def _last_is_there(self, segment: SegmentFile) -> bool:
        if self.end_position == 0:
            return True
        try:
            last = segment.batch(self._last_position)
        except DamagedSegment:
            return False
        return last.end_offset == self.end_offset

    def _forget(self) -> None:
        self.end_offset = self.base_offset
        self.end_position = self._last_position = 0
        del self._offsets[1:], self._positions[1:]
