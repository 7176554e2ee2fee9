"""The format of a cursor's snapshot in the metadata store: its settled offsets and delivery counts.

Integers in keys are big-endian, so that the entries of a cursor are adjacent; values are little-endian::

    b"cursors/" partition u64, cursor u32                      its marks
    b"cursors/" partition u64, cursor u32, b"s", number u64    settled offsets of a chunk of 65,536
    b"cursors/" partition u64, cursor u32, b"d", number u64    delivery counts of such a chunk

    value                                      form
     0  crc      u32  CRC-32C of key, [4:]      1  MARKS   u64s: low water, next offset, synced offset,
     4  version  u8   1                                    handed out
     5  form     u8                             2  RUNS    u16s: borders of settled runs, ascending
     6  packing  u8   0 as it is, 1 zlib        3  BITMAP  8 KiB, a bit a place, least significant first
     7  zero     u8                             4  COUNTS  first place u16, last place u16, count u32, ...
     8  content, of a form

Places are within the chunk; a run that reaches its end has no second border. The checksum includes the key, so
that the value of another key is refused.
"""

import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from routelog.log_backend.metadata.metadata import Change, MetadataCorrupt
from routelog.log_backend.records.record_batch import crc32c
from routelog.log_backend.settlement.delivery_counts import CountedRange
from routelog.log_backend.settlement.settled_chunk import (
    BITMAP_BYTES,
    CHUNK_OFFSETS,
    Bitmap,
    Chunk,
    Runs,
)

VERSION = 1
COUNT_MAX = 2**32 - 1  # the highest count that the format can hold; higher ones are stored as this
PACKED_BYTES_MIN = 64  # shorter contents are not packed: it would take more time than it is worth

CURSORS_PREFIX = b"cursors/"
_SETTLED, _COUNTS = b"s", b"d"
_MARKS_FORM, _RUNS_FORM, _BITMAP_FORM, _COUNTS_FORM = 1, 2, 3, 4
_KEY = struct.Struct(">QI")
_CHUNK = struct.Struct(">Q")
_CHECK = struct.Struct("<I")
_HEADER = struct.Struct("<BBBx")
_MARKS = struct.Struct("<QQQQ")
_COUNT = struct.Struct("<HHI")
_CONTENT_BYTES_MAX = max(BITMAP_BYTES, CHUNK_OFFSETS * _COUNT.size)


class SnapshotDamaged(MetadataCorrupt):
    """An entry of a cursor's snapshot fails a check, so its content is unknown."""

    def __init__(self, key: bytes, reason: str) -> None:
        partition, cursor = _KEY.unpack_from(
            key.ljust(len(CURSORS_PREFIX) + _KEY.size), len(CURSORS_PREFIX)
        )
        rest = key[len(CURSORS_PREFIX) + _KEY.size :]
        entry = f"entry {rest!r}" if rest else "marks"
        super().__init__(f"cursor {cursor} of partition {partition}: {entry}: {reason}")
        self.partition = partition
        self.cursor = cursor


@dataclass(frozen=True, slots=True)
class Marks:
    """A cursor's positions, and those of its partition, when the snapshot was made.

    Attributes:
        low_water: every offset below is settled.
        next_offset: of the partition.
        synced_offset: of the partition: its segments are synced up to this offset.
        handed_out: every offset below was delivered, or is settled.
    """

    low_water: int = 0
    next_offset: int = 0
    synced_offset: int = 0
    handed_out: int = 0


@dataclass(slots=True)
class CursorSnapshot:
    """The decoded entries of one cursor: its marks, and chunks by number."""

    marks: Marks = field(default_factory=Marks)
    settled: dict[int, Chunk] = field(default_factory=dict)
    counts: dict[int, list[CountedRange]] = field(default_factory=dict)


class SnapshotWriter:
    """Encodes the entries of one cursor."""

    def __init__(self, partition: int, cursor: int) -> None:
        self._key = CURSORS_PREFIX + _KEY.pack(partition, cursor)

    def marks(self, marks: Marks) -> Change:
        """The entry of the marks."""
        numbers = (marks.low_water, marks.next_offset, marks.synced_offset, marks.handed_out)
        return _change(self._key, _MARKS_FORM, _MARKS.pack(*numbers))

    def settled(self, number: int, chunk: Chunk | None) -> Change:
        """The entry of a chunk of settled offsets; None: delete it."""
        key = self._key + _SETTLED + _CHUNK.pack(number)
        if chunk is None:
            return Change(key, None)
        form = _RUNS_FORM if isinstance(chunk, Runs) else _BITMAP_FORM
        return _change(key, form, chunk.encode())

    def counts(self, number: int, ranges: Iterable[CountedRange] | None) -> Change:
        """The entry of a chunk of delivery counts; None: delete it."""
        key = self._key + _COUNTS + _CHUNK.pack(number)
        if ranges is None:
            return Change(key, None)
        base = number * CHUNK_OFFSETS
        content = b"".join(
            _COUNT.pack(first - base, end - 1 - base, min(count, COUNT_MAX))
            for first, end, count in ranges
        )
        return _change(key, _COUNTS_FORM, content)


def read_snapshot(entries: Iterable[tuple[bytes, bytes]]) -> CursorSnapshot:
    """Decode the keys and values of one cursor, in any order.

    Raises:
        SnapshotDamaged: one of them fails a check.
    """
    snapshot = CursorSnapshot()
    for key, value in entries:
        try:
            _read_entry(snapshot, key, value)
        except (ValueError, struct.error, zlib.error) as error:
            raise SnapshotDamaged(key, str(error)) from None
    return snapshot


def partition_prefix(partition: int) -> bytes:
    """Prefix of the metadata keys of all cursors of a partition."""
    return CURSORS_PREFIX + _CHUNK.pack(partition)


def cursor_prefix(partition: int, cursor: int) -> bytes:
    """Prefix of the metadata keys of one cursor."""
    return CURSORS_PREFIX + _KEY.pack(partition, cursor)


def cursor_number(key: bytes) -> int:
    """Number of the cursor that a key of a snapshot belongs to.

    Raises:
        SnapshotDamaged: it is no such key.
    """
    if len(key) < len(CURSORS_PREFIX) + _KEY.size:
        raise SnapshotDamaged(key, "the key is cut off")
    number: int = _KEY.unpack_from(key, len(CURSORS_PREFIX))[1]
    return number


def _change(key: bytes, form: int, content: bytes) -> Change:
    packed = zlib.compress(content, 1) if len(content) > PACKED_BYTES_MIN else content
    packing = int(len(packed) < len(content))
    body = _HEADER.pack(VERSION, form, packing) + (packed if packing else content)
    return Change(key, _CHECK.pack(crc32c(key + body)) + body)


def _read_entry(snapshot: CursorSnapshot, key: bytes, value: bytes) -> None:
    form, content = _content(key, value)
    kind, place = _place(key)
    if form == _MARKS_FORM and not kind:
        snapshot.marks = Marks(*_MARKS.unpack(content))
    elif form == _RUNS_FORM and kind == _SETTLED:
        snapshot.settled[place] = Runs.decode(content)
    elif form == _BITMAP_FORM and kind == _SETTLED:
        snapshot.settled[place] = Bitmap.decode(content)
    elif form == _COUNTS_FORM and kind == _COUNTS:
        snapshot.counts[place] = list(_counted(content, place * CHUNK_OFFSETS))
    else:
        raise ValueError(f"form {form} does not belong there")


def _place(key: bytes) -> tuple[bytes, int]:
    rest = key[len(CURSORS_PREFIX) + _KEY.size :]
    return rest[:1], _CHUNK.unpack(rest[1:])[0] if rest else 0


def _content(key: bytes, value: bytes) -> tuple[int, bytes]:
    (crc,) = _CHECK.unpack_from(value)
    body = value[_CHECK.size :]
    if crc32c(key + body) != crc:
        raise ValueError("the checksum is wrong")
    version, form, packing = _HEADER.unpack_from(body)
    if version != VERSION:
        raise ValueError(f"version {version} is not known")
    content = body[_HEADER.size :]
    if packing:
        content = zlib.decompressobj().decompress(content, _CONTENT_BYTES_MAX)
    return form, content


def _counted(content: bytes, base: int) -> Iterator[CountedRange]:
    behind = 0
    for first, last, count in _COUNT.iter_unpack(content):
        if not behind <= first <= last or not count:
            raise ValueError("counts are not in ascending order")
        behind = last + 1
        yield base + first, base + behind, count
