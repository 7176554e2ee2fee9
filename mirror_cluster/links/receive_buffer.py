"""Where the bytes of a link are received: a large message has a buffer of its own, where its blocks stay."""

from collections.abc import Iterator

from routelog.log_backend import new_buffer
from routelog.mirror_cluster.protocol.message_format import (
    COPIED_PAYLOAD_BYTES_MAX,
    LENGTH_BYTES,
    decode_message,
    message_bytes,
)
from routelog.mirror_cluster.protocol.messages import Message

# Of many small messages, whose blocks are copied, or the beginning of a large one.
READ_BYTES = COPIED_PAYLOAD_BYTES_MAX


class ReceiveBuffer:
    """Received bytes behind the last whole message.

    Large blocks are views of the buffer in which their message came, and it is not used again.
    """

    def __init__(self) -> None:
        self._buffer = bytearray(READ_BYTES)
        self._begin = self._end = 0

    def room(self) -> memoryview:
        """Where the next bytes go; at least one fits."""
        return memoryview(self._buffer)[self._end :]

    def add(self, octets: bytes) -> Iterator[Message]:
        """Take bytes that were received elsewhere; gives the messages that are whole with them."""
        while octets:
            room = self.room()
            size = min(len(room), len(octets))
            room[:size] = octets[:size]
            octets = octets[size:]
            yield from self.received(size)

    def received(self, size: int) -> Iterator[Message]:
        """So many bytes have come to `room`; gives the messages that are whole with them.

        Raises:
            BadMessage: the peer's fault.
        """
        self._end += size
        while (found := decode_message(self._buffer, self._begin, self._end)) is not None:
            message, taken = found
            self._begin += taken
            yield message
        self._make_room()

    def _make_room(self) -> None:
        begin, waiting = self._begin, self._end - self._begin
        wanted = READ_BYTES
        if waiting >= LENGTH_BYTES:
            wanted = max(wanted, message_bytes(self._buffer, begin))
        if begin == 0 and wanted <= len(self._buffer):
            return  # the message that begins it grows
        unread = self._buffer[begin : self._end]
        if wanted > READ_BYTES or len(self._buffer) > READ_BYTES:
            self._buffer = new_buffer(wanted)
        self._buffer[:waiting] = unread
        self._begin, self._end = 0, waiting
