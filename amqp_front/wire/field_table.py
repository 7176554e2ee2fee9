"""Strict decoding of AMQP field tables from strangers: depth and fields are bounded, types are known.

Source: AMQP 0-9-1 specification, section 4.2.5.5, with the type letters as RabbitMQ reads them.
"""

import struct
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal

from routelog.amqp_front.wire.errors import FRAME_ERROR, SYNTAX_ERROR, HardError

DEPTH_MAX = 32  # tables and arrays in each other; the outermost table counts
FIELDS_MAX = 8_192  # of one table with everything in it

_FIXED: dict[int, tuple[struct.Struct, Callable[..., object]]] = {
    ord("t"): (struct.Struct(">?"), bool),
    ord("b"): (struct.Struct(">b"), int),
    ord("B"): (struct.Struct(">B"), int),
    ord("s"): (struct.Struct(">h"), int),
    ord("U"): (struct.Struct(">h"), int),
    ord("u"): (struct.Struct(">H"), int),
    ord("I"): (struct.Struct(">i"), int),
    ord("i"): (struct.Struct(">I"), int),
    ord("l"): (struct.Struct(">q"), int),
    ord("L"): (struct.Struct(">q"), int),
    ord("f"): (struct.Struct(">f"), float),
    ord("d"): (struct.Struct(">d"), float),
    ord("D"): (struct.Struct(">Bi"), lambda scale, value: Decimal(value).scaleb(-scale)),
    ord("T"): (struct.Struct(">Q"), lambda seconds: _timestamp(seconds)),
    ord("V"): (struct.Struct(""), lambda: None),
}


class FieldTableReader:
    """Reads one table and counts its fields."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._fields = 0

    def table(self, at: int, end: int, depth: int = 1) -> dict[str, object]:
        """The table whose fields lie in [at, end).

        Raises:
            HardError: 501 for lengths, depth or names that cannot be; 502 for an unknown type.
        """
        self._check_depth(depth)
        fields: dict[str, object] = {}
        while at < end:
            name_end = at + 1 + self._data[at]
            if name_end >= end:
                raise HardError(FRAME_ERROR, "a field name is longer than its table")
            name = _decoded(self._data[at + 1 : name_end])
            fields[name], at = self._value(name_end, end, depth)
        return fields

    def field_end(self, at: int) -> int:
        """Position behind the field that starts at a position of a well-formed table.

        Nothing is decoded: what was accepted once can always be passed over.
        """
        at += 1 + self._data[at]
        fixed = _FIXED.get(self._data[at])
        if fixed is not None:
            return at + 1 + fixed[0].size
        return at + 5 + int.from_bytes(self._data[at + 1 : at + 5], "big")

    def _value(self, at: int, end: int, depth: int) -> tuple[object, int]:
        self._fields += 1
        if self._fields > FIELDS_MAX:
            raise HardError(FRAME_ERROR, f"a field table has more than {FIELDS_MAX} fields")
        kind = self._data[at]
        at += 1
        fixed = _FIXED.get(kind)
        if fixed is not None:
            layout, make = fixed
            if end - at < layout.size:
                raise HardError(FRAME_ERROR, "a field value is longer than its table")
            return make(*layout.unpack_from(self._data, at)), at + layout.size
        if kind not in b"SxFA":
            raise HardError(SYNTAX_ERROR, f"unknown field type {chr(kind)!r}")
        if end - at < 4:
            raise HardError(FRAME_ERROR, "a field value is longer than its table")
        length = int.from_bytes(self._data[at : at + 4], "big")
        at += 4
        if length > end - at:
            raise HardError(FRAME_ERROR, "a field value is longer than its table")
        return self._long(kind, at, at + length, depth), at + length

    def _long(self, kind: int, at: int, end: int, depth: int) -> object:
        if kind == ord("F"):
            return self.table(at, end, depth + 1)
        if kind == ord("A"):
            return self._array(at, end, depth + 1)
        content = self._data[at:end]
        if kind == ord("x"):
            return content
        try:
            return content.decode()
        except UnicodeDecodeError:
            return content  # a long string may hold any octets

    def _array(self, at: int, end: int, depth: int) -> list[object]:
        self._check_depth(depth)
        values = []
        while at < end:
            value, at = self._value(at, end, depth)
            values.append(value)
        return values

    @staticmethod
    def _check_depth(depth: int) -> None:
        if depth > DEPTH_MAX:
            raise HardError(FRAME_ERROR, f"a field table is nested more than {DEPTH_MAX} deep")


def _decoded(name: bytes) -> str:
    try:
        return name.decode()
    except UnicodeDecodeError:
        raise HardError(FRAME_ERROR, "a field name is not UTF-8") from None


def _timestamp(seconds: int) -> datetime | int:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return seconds  # beyond the year 9999: some clients send milliseconds
