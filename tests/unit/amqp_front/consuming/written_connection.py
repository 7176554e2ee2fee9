"""A connection that keeps what is written."""

from collections.abc import Sequence

from routelog.log_backend import Octets


class Connection:
    """See the module.

    Attributes:
        stalled: the client does not read.
    """

    consumers = 0
    outbox_full = False

    def __init__(self) -> None:
        self.written = b""
        self.stalled = False

    def write(self, frames: bytes | bytearray) -> None:
        """See `ConsumingConnection`."""
        self.written += frames

    def write_parts(self, parts: Sequence[Octets]) -> None:
        """See `ConsumingConnection`."""
        self.written += b"".join(parts)

    def fail(self, error: Exception) -> None:
        """See `ConsumingConnection`."""
        raise error
