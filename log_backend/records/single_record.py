# cython: annotation_typing=False
# mypy: allow-untyped-decorators, no-warn-return-any, disable-error-code="index,name-defined"
"""Builds a batch of one record whose body arrives in pieces: each is received straight into its place.

The layout is that of `record_batch.py` with count 1 and a shared routing key.
"""

import struct

import cython

from routelog.log_backend.records.record_batch import BATCH_ALIGNMENT, Octets, Records, new_buffer

_OFFSETS = struct.Struct("<IIII")  # body offsets, then property offsets


@cython.final
@cython.cclass
class SingleRecord:
    """One record, complete when `missing` is 0.

    Attributes:
        missing: bytes of the body that have not come yet.

    Args:
        body_bytes: the whole body; its memory is reserved at once, and the system provides pages as it is
            filled.
    """

    def __init__(
        self, exchange: bytes, routing_key: bytes, properties: bytes, body_bytes: int
    ) -> None:
        self._exchange = exchange
        self._routing_key = routing_key
        self._properties = properties
        self._body_bytes = self.missing = body_bytes
        offsets = _OFFSETS.pack(0, body_bytes, 0, len(properties))
        columns = b"".join((offsets, exchange, routing_key, properties))
        self._body_end = len(columns) + body_bytes
        padding = bytes(-self._body_end % BATCH_ALIGNMENT)
        self._payload = new_buffer(self._body_end + len(padding))
        self._payload[: len(columns)] = columns
        self._payload[self._body_end :] = padding

    @cython.locals(at=cython.Py_ssize_t)
    def add(self, piece: Octets) -> None:
        """Add the next bytes of the body, at most the missing ones."""
        at = self._body_end - self.missing
        self._payload[at : at + len(piece)] = piece
        self.missing -= len(piece)

    @cython.ccall
    def room(self) -> memoryview:
        """The place of the missing bytes, to receive into; then call `filled`."""
        return memoryview(self._payload)[self._body_end - self.missing : self._body_end]

    @cython.ccall
    @cython.locals(first=cython.Py_ssize_t, end=cython.Py_ssize_t, at=cython.Py_ssize_t)
    def in_room(self, first: int, end: int) -> bytes:
        """Bytes [first, end) of `room`."""
        at = self._body_end - self.missing
        return bytes(self._payload[at + first : at + end])

    @cython.ccall
    @cython.locals(size=cython.Py_ssize_t)
    def filled(self, size: int) -> None:
        """Note that the first `size` bytes of `room` were received."""
        self.missing -= size

    @property
    def source(self) -> memoryview:
        """A buffer with the parts of the record."""
        return memoryview(self._payload)

    @property
    def row(self) -> tuple[int, ...]:
        """Its row in a record table into `source`."""
        key_at = _OFFSETS.size + len(self._exchange)
        properties_at = key_at + len(self._routing_key)
        properties_bytes = len(self._properties)
        body_at = properties_at + properties_bytes
        key = (key_at, len(self._routing_key))
        return *key, properties_at, properties_bytes, body_at, self._body_bytes

    def records(self, attributes: int, time: int) -> Records:
        """The batch; its payload is not copied, so nothing may be added afterwards."""
        return Records(
            self._payload,
            1,
            attributes,
            self._exchange,
            len(self._routing_key),
            len(self._properties),
            self._body_bytes,
            time,
            time,
        )
