"""The consumer's view of its deliveries: counted by size, checked by comparison."""

import struct
from dataclasses import dataclass

from pamqp import base, body, commands, exceptions, frame, header

from benchmarks.frames import BODY_CYCLE, BODY_INDEX, body_of
from benchmarks.unexpected import UnexpectedFrame, described

_TAG = struct.Struct(">Q")
_FRAME_HEAD_BYTES = 7


@dataclass(frozen=True)
class _First:
    """Where the first delivery ends, and where its delivery tag and body index stand."""

    size: int
    tag_offset: int
    body_offset: int


class DeliveryStream:
    """Deliveries of one size on one channel; only tag and body index differ between them.

    The first one is parsed. From then on the last whole delivery of every read is compared with
    it byte by byte, with the tag and body index that its place in the stream demands: a stray
    frame, a lost, doubled or redelivered message shows at once.
    """

    def __init__(self, queue: str, body_bytes: int) -> None:
        self._queue = queue
        self._body_bytes = body_bytes
        self._first: _First | None = None
        self._expected = bytearray()
        self.received = 0

    def feed(self, data: memoryview) -> int:
        """Count the whole deliveries at the beginning of `data`.

        Returns:
            The bytes used; the rest belongs before the next read.

        Raises:
            UnexpectedFrame: the last whole delivery is not the one expected there.
        """
        first = self._first
        if first is None:
            first = self._first = self._parse_first(bytes(data[: self._body_bytes + 1024]))
            if first is None:
                return 0
            self._expected[:] = data[: first.size]
        count = len(data) // first.size
        if count == 0:
            return 0
        self.received += count
        end = count * first.size
        self._check_last(first, data[end - first.size : end])
        return end

    def _check_last(self, first: _First, last: memoryview) -> None:
        _TAG.pack_into(self._expected, first.tag_offset, self.received)
        index = (self.received - 1) % BODY_CYCLE
        BODY_INDEX.pack_into(self._expected, first.body_offset, index)
        if self._expected != last:
            raise UnexpectedFrame(f"deliveries, at number {self.received}", described(bytes(last)))

    def _parse_first(self, data: bytes) -> _First | None:
        """Parse the first delivery, or return None while it is not complete."""
        size, frames = _whole_frames(data, self._body_bytes)
        if not frames or not isinstance(frames[-1], body.ContentBody):
            if frames and not isinstance(frames[0], commands.Basic.Deliver):
                raise UnexpectedFrame("deliveries", described(data))
            return None
        deliver = frames[0]
        if not self._is_first(frames) or not isinstance(deliver, commands.Basic.Deliver):
            raise UnexpectedFrame("deliveries", described(data))
        tag_offset = _FRAME_HEAD_BYTES + 4 + 1 + len(deliver.consumer_tag or "")
        return _First(size, tag_offset, size - 1 - self._body_bytes)

    def _is_first(self, frames: list[frame.FrameTypes]) -> bool:
        match frames:
            case [
                commands.Basic.Deliver(delivery_tag=1, redelivered=False, exchange="") as deliver,
                header.ContentHeader() as content_header,
                body.ContentBody() as content,
            ]:
                return (
                    deliver.routing_key == self._queue
                    and content_header.body_size == self._body_bytes
                    and content.value == body_of(0, self._body_bytes)
                )
        return False


def _whole_frames(data: bytes, body_bytes: int) -> tuple[int, list[frame.FrameTypes]]:
    """Frames from the beginning of `data` up to the first body frame, and the bytes they take."""
    used = 0
    frames: list[frame.FrameTypes] = []
    while not frames or isinstance(frames[-1], base.Frame | header.ContentHeader):
        try:
            size, _, value = frame.unmarshal(data[used:])
        except exceptions.UnmarshalingException:
            break
        used += size
        frames.append(value)
    return used, frames
