# cython: annotation_typing=False
# mypy: allow-untyped-decorators, no-warn-return-any, disable-error-code="index,name-defined"
"""The record batch: the same form in memory, in the journal, in a segment, on a mirror and in Spark.

A batch is a header of 64 bytes and a payload of columns; all integers are little-endian::

    header                                       payload, in this order
     0  magic          4s   b"RLB1"              body offsets         (count + 1) * u32
     4  length         u32  whole batch, bytes   property offsets     (count + 1) * u32
     8  header crc     u32  CRC-32C of [12:64]   routing key offsets  (count + 1) * u32, only with KEY_COLUMN
    12  payload crc    u32  CRC-32C of payload   exchange             exchange length bytes
    16  base offset    u64  of the first record  routing keys         keys bytes
    24  leader epoch   u32                       property lists       properties bytes, as on the wire
    28  count          u32  records              bodies               bodies bytes, end to end
    32  first time     i64  us since 1970        padding              zeros, to a length that is a multiple of 8
    40  last time      i64
    48  attributes     u16  bit 0 KEY_COLUMN, 1 PERSISTENT, 2 EXPIRING, 3 BLIND_COPIES, 4 to 7 zero;
                            8 to 15 OWN_DEATHS
    50  exchange length u8
    51  reserved       u8   zero
    52  keys bytes     u32  one key shared by all records, or the column of keys
    56  properties bytes u32
    60  bodies bytes   u32

Offsets start at 0 in their column and end at its size. A property list is the property flags and
values of an AMQP content header (specification 4.2.6.1). Zeroed space is no batch: its magic is wrong.
The header's own checksum makes stamping an offset or an epoch cost 64 bytes; copies share the payload's.
"""

import struct
from typing import Any

import cython

from routelog.log_backend.records.checksum import UNLOCKED_BYTES_MIN, crc32c_between
from routelog.log_backend.records.checksum import Octets as Octets
from routelog.log_backend.records.checksum import crc32c as crc32c

MAGIC = b"RLB1"
HEADER_BYTES = 64
BATCH_ALIGNMENT = 8  # keeps the offset columns aligned in a mapped file
RECORDS_MAX = 65_535  # of one batch: bounds what one damaged batch can take with it
OFFSET_MAX = (1 << 63) - 1  # offsets are signed in memory
BATCH_BYTES_MAX = 640 * 1024 * 1024  # above the largest message (512 MiB), below 32-bit offsets

KEY_COLUMN = 1
PERSISTENT = 2
EXPIRING = 4  # some record has the property `expiration`
BLIND_COPIES = 8  # some record has a header BCC, which its consumers must not see
# How many entries at the head of each record's `x-death` the broker wrote: a publisher may make up such a
# header, and has no way to set these bits.
OWN_DEATHS = 0xFF00
OWN_DEATHS_SHIFT = 8
_KNOWN_ATTRIBUTES = KEY_COLUMN | PERSISTENT | EXPIRING | BLIND_COPIES | OWN_DEATHS

_HEADER = struct.Struct("<4sIIIQIIqqHBBIII")

# Compiled code reads these as C variables: a module's names it reads as slowly as Python does.
_MAGIC = cython.declare(cython.uint, int.from_bytes(MAGIC, "little"))
_HEADER_BYTES = cython.declare(cython.Py_ssize_t, HEADER_BYTES)
_UNLOCKED_BYTES_MIN = cython.declare(cython.Py_ssize_t, UNLOCKED_BYTES_MIN)


class CorruptBatch(Exception):
    """Bytes that claim to be a batch fail a check; `reason` says which."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@cython.no_gc  # no cycle is possible, and hundreds of thousands may be in memory
@cython.cclass
class Records:
    """The immutable content of a batch, without an offset: several partitions may share it.

    Attributes:
        payload: the columns, padding included; never changed after construction.
        count: records, 1 to 65,535.
        attributes: bits, as in the header.
        exchange: name on the wire, 0 to 255 bytes.
        keys_bytes, properties_bytes, bodies_bytes: sizes of the columns.
        time: microseconds since 1970 at which the broker received the records.
    """

    def __init__(
        self,
        payload: Octets,
        count: int,
        attributes: int,
        exchange: bytes,
        keys_bytes: int,
        properties_bytes: int,
        bodies_bytes: int,
        time: int,
        last_time: int,
        payload_crc: int = -1,
    ) -> None:
        self.payload = payload
        self.count = count
        self.attributes = attributes
        self.exchange = exchange
        self.keys_bytes = keys_bytes
        self.properties_bytes = properties_bytes
        self.bodies_bytes = bodies_bytes
        self.time = time
        self.last_time = last_time
        self._payload_crc = payload_crc

    @property
    def persistent(self) -> bool:
        """Whether the publisher asked for these records to survive a restart."""
        return bool(self.attributes & PERSISTENT)

    @property
    def has_key_column(self) -> bool:
        """Whether each record has a routing key of its own."""
        return bool(self.attributes & KEY_COLUMN)

    @property
    def batch_bytes(self) -> int:
        """Size of a batch with this content, header and padding included."""
        return HEADER_BYTES + len(self.payload)

    def payload_crc(self) -> int:
        """CRC-32C of the payload, computed once."""
        if self._payload_crc < 0:
            self._payload_crc = crc32c(self.payload)
        return self._payload_crc

    @property
    def columns_at(self) -> int:
        """Payload position at which the exchange begins: behind the offset columns."""
        return (3 if self.attributes & KEY_COLUMN else 2) * 4 * (self.count + 1)

    @property
    def keys_at(self) -> int:
        """Payload position of the routing keys."""
        return self.columns_at + len(self.exchange)

    @property
    def properties_at(self) -> int:
        """Payload position of the property lists."""
        return self.keys_at + self.keys_bytes

    @property
    def bodies_at(self) -> int:
        """Payload position of the bodies."""
        return self.properties_at + self.properties_bytes

    def offset_columns(self) -> memoryview:
        """The offset columns as 32-bit numbers: bodies, then properties, then routing keys."""
        return memoryview(self.payload)[: self.columns_at].cast("I")

    def routing_key(self, index: int) -> bytes:
        """Routing key of one record."""
        if not self.attributes & KEY_COLUMN:
            return bytes(self.payload[self.keys_at : self.keys_at + self.keys_bytes])
        return self._value(2, self.keys_at, index)

    def properties(self, index: int) -> bytes:
        """Property list of one record, as on the wire: flags, then values."""
        return self._value(1, self.properties_at, index)

    def property_lists(self, first: int, count: int) -> bytes:
        """Property lists of records that follow one another, without anything between them."""
        return self._value(1, self.properties_at, first, count)

    def body(self, index: int) -> bytes:
        """Body of one record."""
        return self._value(0, self.bodies_at, index)

    def _value(self, column: int, column_at: int, index: int, count: int = 1) -> bytes:
        if not 0 <= index <= self.count - count:
            raise IndexError(f"record {index} of {self.count}")
        at = column * (self.count + 1) + index
        offsets = self.offset_columns()
        return bytes(self.payload[column_at + offsets[at] : column_at + offsets[at + count]])


@cython.no_gc
@cython.cclass
class RecordBatch:
    """Records at their place in a partition's log.

    Attributes:
        records: the content; may be shared with batches of other partitions.
        base_offset: offset of the first record.
        leader_epoch: of the leader that appended it.
    """

    def __init__(self, records: Records, base_offset: int, leader_epoch: int) -> None:
        self.records = records
        self.base_offset = base_offset
        self.end_offset = base_offset + records.count
        self.leader_epoch = leader_epoch

    @cython.locals(header=bytearray)
    def header(self) -> bytes:
        """The 64 header bytes, checksums included."""
        header = new_buffer(64)
        put_header(header, 0, self)
        return bytes(header)


@cython.ccall
@cython.returns(Records)
@cython.locals(
    count=cython.Py_ssize_t,
    attributes=cython.uint,
    exchange=bytes,
    keys_bytes=cython.Py_ssize_t,
    properties_bytes=cython.Py_ssize_t,
    bodies_bytes=cython.Py_ssize_t,
    time=cython.longlong,
    records=Records,
)
def new_records(
    payload: Octets,
    count: int,
    attributes: int,
    exchange: bytes,
    keys_bytes: int,
    properties_bytes: int,
    bodies_bytes: int,
    time: int,
) -> Records:
    """Create records that were received at one time; faster than the constructor if compiled."""
    records = Records.__new__(Records)
    records.payload = payload
    records.count = count
    records.attributes = attributes
    records.exchange = exchange
    records.keys_bytes = keys_bytes
    records.properties_bytes = properties_bytes
    records.bodies_bytes = bodies_bytes
    records.time = time
    records.last_time = time
    records._payload_crc = -1
    return records


@cython.ccall
@cython.returns(RecordBatch)
@cython.locals(
    records=Records, base_offset=cython.longlong, leader_epoch=cython.uint, batch=RecordBatch
)
def new_batch(records: Records, base_offset: int, leader_epoch: int) -> RecordBatch:
    """Create a batch; faster than the constructor if compiled."""
    batch = RecordBatch.__new__(RecordBatch)
    batch.records = records
    batch.base_offset = base_offset
    batch.end_offset = base_offset + records.count
    batch.leader_epoch = leader_epoch
    return batch


@cython.ccall
@cython.exceptval(-1)
@cython.returns(cython.int)
@cython.locals(
    buffer=bytearray,
    at=cython.Py_ssize_t,
    batch=RecordBatch,
    records=Records,
    crc=cython.uint,
)
def put_header(buffer: bytearray, at: int, batch: RecordBatch) -> int:
    """Write the 64 header bytes of a batch to a place in a buffer; compiled code does not check the place."""
    records = batch.records
    put_u32(buffer, at, _MAGIC)
    put_u32(buffer, at + 4, _HEADER_BYTES + len(records.payload))
    put_u32(buffer, at + 12, records.payload_crc())
    put_u64(buffer, at + 16, batch.base_offset)
    put_u32(buffer, at + 24, batch.leader_epoch)
    put_u32(buffer, at + 28, records.count)
    put_u64(buffer, at + 32, records.time)
    put_u64(buffer, at + 40, records.last_time)
    put_u32(buffer, at + 48, records.attributes | len(records.exchange) << 16)
    put_u32(buffer, at + 52, records.keys_bytes)
    put_u32(buffer, at + 56, records.properties_bytes)
    put_u32(buffer, at + 60, records.bodies_bytes)
    put_u32(buffer, at + 8, crc32c_between(buffer, at + 12, at + _HEADER_BYTES))
    return 0


def decode_batch(buffer: Octets, at: int, *, is_checked: bool = False) -> RecordBatch:
    """Read the batch that starts at a position of a buffer.

    The payload is a slice of the buffer: a view when the buffer is one.

    Args:
        buffer: bytes of a segment, a journal block or a link.
        at: position of the header.
        is_checked: the payload is known to be what was written: a block of the journal has a checksum, too.

    Raises:
        CorruptBatch: the bytes are not a whole, undamaged batch.
    """
    batch = decode_header(buffer[at : at + HEADER_BYTES])
    end = at + batch_bytes(buffer, at)
    if end > len(buffer):
        raise CorruptBatch("the batch is cut off")
    records = batch.records
    records.payload = buffer[at + HEADER_BYTES : end]
    records.exchange = bytes(records.payload[records.columns_at :][: len(records.exchange)])
    if not is_checked and crc32c(records.payload) != records.payload_crc():
        raise CorruptBatch("the payload fails its checksum")
    return batch


def batch_bytes(buffer: Octets, at: int) -> int:
    """Length field of the header at a position."""
    return int.from_bytes(buffer[at + 4 : at + 8], "little")


def decode_header(header: Octets) -> RecordBatch:
    """Check the 64 bytes of a header and return its batch, with an empty payload.

    Raises:
        CorruptBatch: too short, another magic, a failed checksum, or sizes that do not add up.
    """
    if len(header) < HEADER_BYTES:
        raise CorruptBatch("the header is cut off")
    (
        magic,
        length,
        header_crc,
        payload_crc,
        base_offset,
        leader_epoch,
        count,
        first_time,
        last_time,
        attributes,
        exchange_length,
        reserved,
        keys_bytes,
        properties_bytes,
        bodies_bytes,
    ) = _HEADER.unpack_from(header)
    if magic != MAGIC:
        raise CorruptBatch("no batch starts here")
    if crc32c(header[12:HEADER_BYTES]) != header_crc:
        raise CorruptBatch("the header fails its checksum")
    if base_offset + count > OFFSET_MAX:
        raise CorruptBatch("the header has a field out of range")
    records = Records(
        b"",
        count,
        attributes,
        bytes(exchange_length),
        keys_bytes,
        properties_bytes,
        bodies_bytes,
        first_time,
        last_time,
        payload_crc,
    )
    if not 1 <= count <= RECORDS_MAX or attributes & ~_KNOWN_ATTRIBUTES or reserved:
        raise CorruptBatch("the header has a field out of range")
    if length != HEADER_BYTES + _padded(records.bodies_at + bodies_bytes):
        raise CorruptBatch("the header's sizes do not add up")
    return RecordBatch(records, base_offset, leader_epoch)


def _padded(size: int) -> int:
    return -size % BATCH_ALIGNMENT + size


@cython.ccall
@cython.locals(size=cython.Py_ssize_t)
def new_buffer(size: int) -> bytearray:
    """A buffer that the caller must fill completely: compiled code does not zero it."""
    if cython.compiled:
        return PyByteArray_FromStringAndSize(cython.NULL, size)
    return bytearray(size)


@cython.ccall
@cython.exceptval(-1)
@cython.returns(cython.int)
@cython.locals(buffer=bytearray, at=cython.Py_ssize_t, value=cython.Py_ssize_t, number=cython.uint)
def put_u32(buffer: bytearray, at: int, value: int) -> int:
    """Write a u32 of a column or header; compiled code checks neither place nor range."""
    number = value
    if cython.compiled:
        memcpy(PyByteArray_AS_STRING(buffer) + at, cython.address(number), 4)
    else:
        buffer[at : at + 4] = number.to_bytes(4, "little")
    return 0


@cython.ccall
@cython.exceptval(-1)
@cython.returns(cython.int)
@cython.locals(buffer=bytearray, at=cython.Py_ssize_t, number=cython.longlong)
def put_u64(buffer: bytearray, at: int, number: int) -> int:
    """Write a u64 or i64 of a header."""
    if cython.compiled:
        memcpy(PyByteArray_AS_STRING(buffer) + at, cython.address(number), 8)
    else:
        buffer[at : at + 8] = (number & 0xFFFF_FFFF_FFFF_FFFF).to_bytes(8, "little")
    return 0


@cython.ccall
@cython.exceptval(-1)
@cython.returns(cython.int)
@cython.locals(buffer=bytearray, at=cython.Py_ssize_t)
def put_zeros(buffer: bytearray, at: int) -> int:
    """Fill a buffer with zeros from a place to its end."""
    if cython.compiled:
        memset(PyByteArray_AS_STRING(buffer) + at, 0, len(buffer) - at)
    else:
        buffer[at:] = bytes(len(buffer) - at)
    return 0


@cython.ccall
@cython.exceptval(-1)
@cython.returns(cython.int)
@cython.locals(buffer=bytearray, at=cython.Py_ssize_t)
def put_octets(buffer: bytearray, at: int, octets: Octets) -> int:
    """Copy octets to a place in a buffer; compiled code does not check that there is room."""
    if cython.compiled and isinstance(octets, bytes):
        copy_octets(PyByteArray_AS_STRING(buffer) + at, PyBytes_AS_STRING(octets), len(octets))
    elif cython.compiled and isinstance(octets, bytearray):
        copy_octets(PyByteArray_AS_STRING(buffer) + at, PyByteArray_AS_STRING(octets), len(octets))
    else:
        buffer[at : at + len(octets)] = octets
    return 0


@cython.cfunc
@cython.exceptval(check=False)
@cython.returns(cython.int)
@cython.locals(target=cython.p_char, source=cython.p_char, size=cython.Py_ssize_t)
def copy_octets(target: Any, source: Any, size: int) -> int:
    """Copy memory, unchecked; nobody may change it meanwhile. Only in compiled code."""
    if size < _UNLOCKED_BYTES_MIN:
        memcpy(target, source, size)
    else:
        with cython.nogil:
            memcpy(target, source, size)
    return 0
