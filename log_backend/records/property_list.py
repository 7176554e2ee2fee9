# cython: annotation_typing=False
# mypy: allow-untyped-decorators, no-warn-return-any, disable-error-code="index,name-defined"
"""Parses the property list of a message, and field tables.

    list     flags u16 | content type | content encoding | header table | ...        each if its flag is set
    table    size u32 | fields: name length u8 | name | value
    array    size u32 | values
    value    letter u8 | content                                                     all integers big-endian

If the parts of a list, table or array do not fill it exactly, down to the innermost value, the whole input is
refused with `MalformedProperties`.

Source: AMQP 0-9-1 specification, sections 4.2.5.5 and 4.2.6.1, with the type letters as RabbitMQ reads them.
"""

import struct
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import cython

DEPTH_MAX = 32  # of nested tables and arrays; the outermost table counts

# The first and the last flag of the properties of class basic; lower bits are not valid.
FIRST_FLAG = 1 << 15
LAST_FLAG = 1 << 2
HEADERS = 1 << 13
DELIVERY_MODE = 1 << 12
PRIORITY = 1 << 11
EXPIRATION = 1 << 8
TIMESTAMP = 1 << 6

# In the order of their flags, from FIRST_FLAG down to LAST_FLAG.
PROPERTY_NAMES = (
    "content_type",
    "content_encoding",
    "headers",
    "delivery_mode",
    "priority",
    "correlation_id",
    "reply_to",
    "expiration",
    "message_id",
    "timestamp",
    "type",
    "user_id",
    "app_id",
    "cluster_id",
)

_LAYOUTS = {
    ord(letter): struct.Struct(layout)
    for letter, layout in {
        "t": ">?",
        "b": ">b",
        "B": ">B",
        "s": ">h",
        "U": ">h",
        "u": ">H",
        "I": ">i",
        "i": ">I",
        "l": ">q",
        "L": ">q",
        "f": ">f",
        "d": ">d",
        "D": ">Bi",
        "T": ">Q",
        "V": "",
    }.items()
}

# Compiled code reads these as C variables: a module's names it reads as slowly as Python does.
_LONG = cython.declare(cython.Py_ssize_t, 254)  # the content has a u32 size in front
_UNKNOWN = cython.declare(cython.Py_ssize_t, 255)
_CONTENT_SIZES = bytes(
    _LAYOUTS[letter].size if letter in _LAYOUTS else _LONG if letter in b"SxFA" else _UNKNOWN
    for letter in range(256)
)
_SIZES = cython.declare(bytes, _CONTENT_SIZES)
_DEPTH_MAX = cython.declare(cython.int, DEPTH_MAX)
_FIRST_FLAG = cython.declare(cython.uint, FIRST_FLAG)
_LAST_FLAG = cython.declare(cython.uint, LAST_FLAG)
_HEADERS = cython.declare(cython.uint, HEADERS)
_DELIVERY_MODE = cython.declare(cython.uint, DELIVERY_MODE)
_PRIORITY = cython.declare(cython.uint, PRIORITY)
_TIMESTAMP = cython.declare(cython.uint, TIMESTAMP)

_TOO_LONG = "a field value is longer than its table"
_TOO_DEEP = f"a field table is nested more than {DEPTH_MAX} deep"


class MalformedProperties(ValueError):
    """A property list, field table or array is malformed; the text says where."""


class UnknownFieldType(MalformedProperties):
    """The type letter of a value is unknown."""


def moment(seconds: int) -> datetime | int:
    """Decode a timestamp; returns the number if it is beyond the year 9999: some clients send milliseconds."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return seconds


@cython.final
@cython.cclass
class PropertyWalk:
    """Parses the lists and tables in a buffer.

    Attributes:
        delivery_mode: of the last parsed list; 0 if it has none.
        carbon_copy: the last parsed headers have CC or BCC.
        values: number of values parsed so far, inner tables and arrays included.

    Args:
        octets: the buffer.
    """

    def __init__(self, octets: memoryview) -> None:
        self._octets = octets
        self._source = octets
        self._fault = ""
        self._unknown = False
        self._headers_at = 0
        self._headers_end = 0
        self.delivery_mode = 0
        self.carbon_copy = False
        self.values = 0

    @cython.ccall
    @cython.returns(cython.bint)
    @cython.exceptval(check=True)
    @cython.locals(at=cython.Py_ssize_t, end=cython.Py_ssize_t, mode=cython.int)
    def well_formed(self, at: int, end: int) -> bool:
        """Whether [at, end), at least two octets, is a well-formed list with a valid delivery mode, or none."""
        if not self._walk(at, end, None):
            return False
        mode = self.delivery_mode
        return mode == 1 or mode == 2 or not self._octets[at] & (_DELIVERY_MODE >> 8)

    @cython.locals(end=cython.Py_ssize_t)
    def places(self, end: int) -> list[tuple[int, int, int]]:
        """The properties of the list in [0, end): flag, start and end of each, length octets included.

        Raises:
            MalformedProperties: the list is malformed.
        """
        places: list[tuple[int, int, int]] = []
        self._walk_whole(end, places)
        return places

    @cython.cfunc
    @cython.returns(cython.int)
    @cython.exceptval(-1)
    @cython.locals(end=cython.Py_ssize_t, places=list)
    def _walk_whole(self, end: int, places: list[tuple[int, int, int]] | None) -> int:
        if end < 2:
            raise MalformedProperties("the property flags of a content header are not valid")
        if not self._walk(0, end, places):
            raise self._malformed()
        return 0

    @cython.cfunc
    @cython.returns(cython.bint)
    @cython.exceptval(check=True)
    @cython.locals(
        at=cython.Py_ssize_t,
        end=cython.Py_ssize_t,
        places=list,
        flags=cython.uint,
        flag=cython.uint,
        start=cython.Py_ssize_t,
        length=cython.Py_ssize_t,
    )
    def _walk(self, at: int, end: int, places: list[tuple[int, int, int]] | None) -> bool:
        flags = (self._octets[at] << 8) | self._octets[at + 1]
        self.delivery_mode = 0
        self.carbon_copy = False
        self._headers_at = 0
        self._headers_end = 0
        if flags & (_LAST_FLAG - 1):
            self._fault = "the property flags of a content header are not valid"
            return False
        at += 2
        flag = _FIRST_FLAG << 1
        while flag > _LAST_FLAG:
            flag >>= 1
            if not flags & flag:
                continue
            start = at
            if at >= end:
                self._fault = _longer(flag)
                return False
            if flag == _HEADERS:
                length = self._u32(at) if end - at >= 4 else end
                at += 4
                if length > end - at:
                    self._fault = _longer(flag)
                    return False
                if not self._table(at, at + length, 1):
                    return False
                self._headers_at = at
                at += length
                self._headers_end = at
            elif flag == _DELIVERY_MODE:
                self.delivery_mode = self._octets[at]
                at += 1
            elif flag == _PRIORITY:
                at += 1
            elif flag == _TIMESTAMP:
                at += 8
            else:
                at += 1 + self._octets[at]
            if at > end:
                self._fault = _longer(flag)
                return False
            if places is not None:
                places.append((flag, start, at))
        if at != end:
            self._fault = "the properties of a content header do not fill it"
            return False
        return True

    @cython.locals(
        name=bytes,
        end=cython.Py_ssize_t,
        at=cython.Py_ssize_t,
        name_end=cython.Py_ssize_t,
        after=cython.Py_ssize_t,
    )
    def header(self, name: bytes, end: int) -> bytes | None:
        """A header of the list in [0, end): its value with its letter; None if there is no such header.

        Raises:
            MalformedProperties: the list is malformed.
        """
        self._walk_whole(end, None)
        at = self._headers_at
        while at < self._headers_end:
            name_end = at + 1 + self._octets[at]
            after = self._after(name_end)
            if name_end - at - 1 == len(name) and bytes(self._source[at + 1 : name_end]) == name:
                return bytes(self._source[name_end:after])
            at = after
        return None

    @cython.locals(
        at=cython.Py_ssize_t,
        end=cython.Py_ssize_t,
        name_end=cython.Py_ssize_t,
        after=cython.Py_ssize_t,
    )
    def fields(self, at: int, end: int) -> list[tuple[bytes, bytes]]:
        """The fields of the table in [at, end): name, and value with its letter.

        Raises:
            MalformedProperties: the table is malformed.
        """
        found: list[tuple[bytes, bytes]] = []
        while at < end:
            name_end = at + 1 + self._octets[at]
            after = self._field_end(at, end, 1)
            if after < 0:
                raise self._malformed()
            found.append(
                (bytes(self._source[at + 1 : name_end]), bytes(self._source[name_end:after]))
            )
            at = after
        return found

    @cython.locals(at=cython.Py_ssize_t, end=cython.Py_ssize_t, after=cython.Py_ssize_t)
    def items(self, at: int, end: int) -> list[bytes]:
        """The values of the array in [at, end), with their letters.

        Raises:
            MalformedProperties: the array is malformed.
        """
        found: list[bytes] = []
        while at < end:
            after = self._value_end(at, end, 1)
            if after < 0:
                raise self._malformed()
            found.append(bytes(self._source[at:after]))
            at = after
        return found

    @cython.locals(at=cython.Py_ssize_t, end=cython.Py_ssize_t)
    def table(
        self, at: int, end: int, values_max: int | None, moment: Callable[[int], object]
    ) -> dict[str, object]:
        """Decode the table in [at, end); of fields with the same name, the last counts.

        A long string that is not UTF-8 stays octets.

        Args:
            values_max: limit of `values`; None: no limit.
            moment: decodes a timestamp.

        Raises:
            MalformedProperties: the table is malformed, a name is not UTF-8, or there are too many values.
        """
        if not self._table(at, end, 1):
            raise self._malformed()
        if values_max is not None and self.values > values_max:
            raise MalformedProperties(f"a field table has more than {values_max} fields")
        return self._decoded_table(at, end, moment)

    def _malformed(self) -> MalformedProperties:
        return (UnknownFieldType if self._unknown else MalformedProperties)(self._fault)

    # -- the end of a field or value; -1: it is malformed

    @cython.cfunc
    @cython.returns(cython.bint)
    @cython.exceptval(check=True)
    @cython.locals(at=cython.Py_ssize_t, end=cython.Py_ssize_t, depth=cython.int)
    def _table(self, at: int, end: int, depth: int) -> bool:
        while at < end:
            at = self._field_end(at, end, depth)
            if at < 0:
                return False
        return True

    @cython.cfunc
    @cython.returns(cython.bint)
    @cython.exceptval(check=True)
    @cython.locals(at=cython.Py_ssize_t, end=cython.Py_ssize_t, depth=cython.int)
    def _array(self, at: int, end: int, depth: int) -> bool:
        while at < end:
            at = self._value_end(at, end, depth)
            if at < 0:
                return False
        return True

    @cython.cfunc
    @cython.returns(cython.Py_ssize_t)
    @cython.exceptval(-2, check=True)
    @cython.locals(
        at=cython.Py_ssize_t, end=cython.Py_ssize_t, depth=cython.int, length=cython.Py_ssize_t
    )
    def _field_end(self, at: int, end: int, depth: int) -> int:
        length = self._octets[at]
        if at + 1 + length >= end:
            self._fault = "a field name is longer than its table"
            return -1
        if depth == 1 and self._names_carbon_copy(at, length):
            self.carbon_copy = True
        return self._value_end(at + 1 + length, end, depth)

    @cython.cfunc
    @cython.returns(cython.bint)
    @cython.exceptval(check=True)
    @cython.locals(at=cython.Py_ssize_t, length=cython.Py_ssize_t)
    def _names_carbon_copy(self, at: int, length: int) -> bool:
        if length == 2:
            return self._octets[at + 1] == 67 and self._octets[at + 2] == 67
        return (
            length == 3
            and self._octets[at + 1] == 66
            and self._octets[at + 2] == 67
            and self._octets[at + 3] == 67
        )

    @cython.cfunc
    @cython.returns(cython.Py_ssize_t)
    @cython.exceptval(-2, check=True)
    @cython.locals(
        at=cython.Py_ssize_t,
        end=cython.Py_ssize_t,
        depth=cython.int,
        kind=cython.int,
        length=cython.Py_ssize_t,
    )
    def _value_end(self, at: int, end: int, depth: int) -> int:
        self.values += 1
        kind = self._octets[at]
        at += 1
        length = _SIZES[kind]
        if length < _LONG:
            if length > end - at:
                self._fault = _TOO_LONG
                return -1
            return at + length
        if length == _UNKNOWN:
            self._unknown = True
            self._fault = f"unknown field type {chr(kind)!r}"
            return -1
        if end - at < 4:
            self._fault = _TOO_LONG
            return -1
        length = self._u32(at)
        at += 4
        if length > end - at:
            self._fault = _TOO_LONG
            return -1
        if kind == 70 or kind == 65:  # F, A
            if depth >= _DEPTH_MAX:
                self._fault = _TOO_DEEP
                return -1
            if kind == 70:
                if not self._table(at, at + length, depth + 1):
                    return -1
            elif not self._array(at, at + length, depth + 1):
                return -1
        return at + length

    # -- decoding of what was found well-formed

    @cython.cfunc
    @cython.locals(at=cython.Py_ssize_t, end=cython.Py_ssize_t, name_end=cython.Py_ssize_t)
    def _decoded_table(self, at: int, end: int, moment: Callable[[int], object]) -> Any:
        fields: dict[str, object] = {}
        while at < end:
            name_end = at + 1 + self._octets[at]
            try:
                name = str(self._source[at + 1 : name_end], "utf-8")
            except UnicodeDecodeError:
                raise MalformedProperties("a field name is not UTF-8") from None
            fields[name] = self._decoded(name_end, moment)
            at = self._after(name_end)
        return fields

    @cython.cfunc
    @cython.returns(cython.Py_ssize_t)
    @cython.exceptval(-2, check=True)
    @cython.locals(at=cython.Py_ssize_t, length=cython.Py_ssize_t)
    def _after(self, at: int) -> int:
        length = _SIZES[self._octets[at]]
        return at + 5 + self._u32(at + 1) if length == _LONG else at + 1 + length

    @cython.cfunc
    @cython.locals(at=cython.Py_ssize_t, end=cython.Py_ssize_t, kind=cython.int)
    def _decoded(self, at: int, moment: Callable[[int], object]) -> Any:
        kind = self._octets[at]
        layout = _LAYOUTS.get(kind)
        if layout is not None:
            parts = layout.unpack_from(self._source, at + 1)
            if kind == 68:  # D
                return Decimal(parts[1]).scaleb(-parts[0])
            if kind == 84:  # T
                return moment(parts[0])
            return parts[0] if parts else None
        end = self._after(at)
        at += 5
        if kind == 70:  # F
            return self._decoded_table(at, end, moment)
        if kind == 65:  # A
            values = []
            while at < end:
                values.append(self._decoded(at, moment))
                at = self._after(at)
            return values
        content = bytes(self._source[at:end])
        if kind == 83:  # S
            try:
                return content.decode()
            except UnicodeDecodeError:
                return content  # a long string may hold any octets
        return content

    @cython.cfunc
    @cython.inline
    @cython.returns(cython.uint)
    @cython.exceptval(check=True)
    @cython.locals(at=cython.Py_ssize_t, high=cython.uint)
    def _u32(self, at: int) -> int:
        high = self._octets[at]
        return (
            (high << 24)
            | (self._octets[at + 1] << 16)
            | (self._octets[at + 2] << 8)
            | self._octets[at + 3]
        )


def property_places(raw: bytes) -> list[tuple[int, int, int]]:
    """The properties of a list: flag, start and end of each, length octets included.

    Raises:
        MalformedProperties: the list is malformed.
    """
    return PropertyWalk(memoryview(raw)).places(len(raw))


def header_value(raw: bytes, name: bytes) -> bytes | None:
    """A header in a list: its value with its letter; None if there is no such header.

    Raises:
        MalformedProperties: the list is malformed.
    """
    return PropertyWalk(memoryview(raw)).header(name, len(raw))


def table_fields(raw: bytes, at: int, end: int) -> list[tuple[bytes, bytes]]:
    """The fields of the table in [at, end): name, and value with its letter.

    Raises:
        MalformedProperties: the table is malformed.
    """
    return PropertyWalk(memoryview(raw)).fields(at, end)


def array_items(raw: bytes, at: int, end: int) -> list[bytes]:
    """The values of the array in [at, end), with their letters.

    Raises:
        MalformedProperties: the array is malformed.
    """
    return PropertyWalk(memoryview(raw)).items(at, end)


def decode_table(
    raw: bytes,
    at: int,
    end: int,
    *,
    values_max: int | None = None,
    moment: Callable[[int], object] = moment,
) -> dict[str, object]:
    """The table in [at, end), decoded: see `PropertyWalk.table`.

    Raises:
        MalformedProperties: see there.
    """
    return PropertyWalk(memoryview(raw)).table(at, end, values_max, moment)


def _longer(flag: int) -> str:
    name = PROPERTY_NAMES[FIRST_FLAG.bit_length() - flag.bit_length()]
    return f"property {name} is longer than its content header"
