# cython: annotation_typing=False
"""Walks the property list of a content header where it lies: is it well-formed, what does a run ask of it.

Source: AMQP 0-9-1 specification, section 4.2.6.1; field types as RabbitMQ reads them.
"""

import cython

TABLE_DEPTH_MAX = 32


@cython.final
@cython.cclass
class PropertyWalk:
    """What the last list that was looked at says.

    Attributes:
        delivery_mode: 0 (not given), 1 or 2.
        carbon_copy: its headers hold CC or BCC.

    Args:
        octets: the buffer in which the lists lie.
    """

    __slots__ = ("_octets", "carbon_copy", "delivery_mode")

    def __init__(self, octets: memoryview) -> None:
        self._octets = octets
        self.delivery_mode = 0
        self.carbon_copy = False

    @cython.ccall
    @cython.returns(cython.bint)
    @cython.exceptval(check=True)
    @cython.locals(
        at=cython.Py_ssize_t,
        end=cython.Py_ssize_t,
        flags=cython.uint,
        bit=cython.int,
        length=cython.Py_ssize_t,
    )
    def well_formed(self, at: int, end: int) -> bool:
        """Whether the list fills its place exactly: of the 14 properties, those that are there."""
        flags = (self._octets[at] << 8) | self._octets[at + 1]
        self.delivery_mode = 0
        self.carbon_copy = False
        if flags & 3:
            return False
        at += 2
        for bit in range(15, 1, -1):
            if not flags & (1 << bit):
                continue
            if at >= end:
                return False
            if bit == 13:
                if end - at < 4:
                    return False
                length = self._u32(at)
                at += 4
                if length > end - at or not self._table_well_formed(at, at + length, 1):
                    return False
                at += length
            elif bit == 12:
                self.delivery_mode = self._octets[at]
                if self.delivery_mode != 1 and self.delivery_mode != 2:
                    return False
                at += 1
            elif bit == 11:
                at += 1
            elif bit == 6:
                at += 8
            else:
                at += 1 + self._octets[at]
        return at == end

    @cython.cfunc
    @cython.returns(cython.bint)
    @cython.exceptval(check=True)
    @cython.locals(
        at=cython.Py_ssize_t, end=cython.Py_ssize_t, depth=cython.int, length=cython.Py_ssize_t
    )
    def _table_well_formed(self, at: int, end: int, depth: int) -> bool:
        while at < end:
            length = self._octets[at]
            if at + 1 + length >= end:
                return False
            if depth == 1 and self._names_carbon_copy(at, length):
                self.carbon_copy = True
            at = self._value_end(at + 1 + length, end, depth)
            if at < 0:
                return False
        return at == end

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
        # Position behind a field value that starts with its type octet, or -1.
        kind = self._octets[at]
        at += 1
        if kind == 83 or kind == 120 or kind == 70 or kind == 65:  # S x F A: a length goes before
            if end - at < 4:
                return -1
            length = self._u32(at)
            at += 4
            if length > end - at:
                return -1
            if kind == 70:
                if depth >= TABLE_DEPTH_MAX or not self._table_well_formed(
                    at, at + length, depth + 1
                ):
                    return -1
            elif kind == 65 and (
                depth >= TABLE_DEPTH_MAX or not self._array_well_formed(at, at + length, depth + 1)
            ):
                return -1
            return at + length
        if kind == 116 or kind == 98 or kind == 66:  # t b B
            length = 1
        elif kind == 115 or kind == 117 or kind == 85:  # s u U
            length = 2
        elif kind == 73 or kind == 105 or kind == 102:  # I i f
            length = 4
        elif kind == 108 or kind == 76 or kind == 100 or kind == 84:  # l L d T
            length = 8
        elif kind == 68:  # D
            length = 5
        elif kind == 86:  # V
            length = 0
        else:
            return -1
        return at + length if length <= end - at else -1

    @cython.cfunc
    @cython.returns(cython.bint)
    @cython.exceptval(check=True)
    @cython.locals(at=cython.Py_ssize_t, end=cython.Py_ssize_t, depth=cython.int)
    def _array_well_formed(self, at: int, end: int, depth: int) -> bool:
        while at < end:
            at = self._value_end(at, end, depth)
            if at < 0:
                return False
        return at == end

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
