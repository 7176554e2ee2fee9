"""Where the messages of a peer are received: a large one has a buffer of its own, where its content stays."""

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from routelog.log_backend import new_buffer

_Message = TypeVar("_Message")

# Of many small messages, whose content is copied, or the beginning of a large one.
READ_BYTES = 16 * 1024
LENGTH_BYTES = 8  # that are there before a message's length is asked for


class ReceiveBuffer(Generic[_Message]):
    """Received bytes behind the last whole message.

    Large content is a view of the buffer in which its message came, and that is not used again.

    Args:
        decode: reads the message that begins at a place of a buffer, which is filled up to an end; returns how
            many bytes it took, too. None: it is not there in full.
        message_bytes: how long the message at a place is, by its first `LENGTH_BYTES`.
    """

    def __init__(
        self,
        decode: Callable[[bytearray, int, int], tuple[_Message, int] | None],
        message_bytes: Callable[[bytearray, int], int],
    ) -> None:
        self._decode = decode
        self._message_bytes = message_bytes
        self._buffer = bytearray(READ_BYTES)
        self._begin = self._end = 0

    def room(self) -> memoryview:
        """Where the next bytes go; at least one fits."""
        return memoryview(self._buffer)[self._end :]

    def add(self, octets: bytes) -> Iterator[_Message]:
        """Take bytes that were received elsewhere; gives the messages that are whole with them."""
        while octets:
            room = self.room()
            size = min(len(room), len(octets))
            room[:size] = octets[:size]
            octets = octets[size:]
            yield from self.received(size)

    def received(self, size: int) -> Iterator[_Message]:
        """So many bytes have come to `room`; gives the messages that are whole with them.

        Raises:
            Exception: of `decode` and `message_bytes`: the peer's fault.
        """
        self._end += size
        while (found := self._decode(self._buffer, self._begin, self._end)) is not None:
            message, taken = found
            self._begin += taken
            yield message
        self._make_room()

    def _make_room(self) -> None:
        begin, waiting = self._begin, self._end - self._begin
        wanted = READ_BYTES
        if waiting >= LENGTH_BYTES:
            wanted = max(wanted, self._message_bytes(self._buffer, begin))
        if begin == 0 and wanted <= len(self._buffer):
            return  # the message that begins it grows
        unread = self._buffer[begin : self._end]
        if wanted > READ_BYTES or len(self._buffer) > READ_BYTES:
            self._buffer = new_buffer(wanted)
        self._buffer[:waiting] = unread
        self._begin, self._end = 0, waiting
