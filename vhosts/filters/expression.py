"""Expressions over a stored message, as closures, with the three-valued logic of SQL.

A text is its octets, whatever AMQP type it has. None is unknown: what is not there, a table or an array, and
what is made of something unknown. Logic takes everything but true and false as unknown.

Source: Jakarta Messaging 3.1, section 3.8 (message selectors), and RabbitMQ's rabbit_amqp_filter_sql.
"""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from routelog.log_backend import Records
from routelog.vhosts.filters.like_pattern import LikePattern
from routelog.vhosts.filters.required_octets import Column, RequiredOctets
from routelog.vhosts.messages.message_header import header_scalar
from routelog.vhosts.messages.property_list import property_value

Scalar = bytes | int | float | bool
# Texts that a batch is searched for, of which it must have one: beyond, a look at each message costs less.
ANY_OF_MAX = 8


@dataclass(slots=True)
class StoredMessage:
    """A record as expressions see it."""

    records: Records
    index: int
    properties: bytes


Evaluate = Callable[[StoredMessage], Scalar | None]


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression.

    Attributes:
        value: its value for a message.
        required: of a condition: what a batch has if it is true for any of its messages.
        column: where its texts stand in a batch; None: nowhere, or it is none that is searched.
        literal: the text that it is for every message; None: it depends, or is no text.
    """

    value: Evaluate
    required: tuple[RequiredOctets, ...] = ()
    column: Column | None = None
    literal: bytes | None = None

    def may_be_in(self, records: Records) -> bool:
        """Whether it may be true for a record of a batch."""
        return all(each.may_be_in(records) for each in self.required)

    def matches(self, records: Records, index: int) -> bool:
        """Whether it is true for a record."""
        return self.value(StoredMessage(records, index, records.properties(index))) is True


# -- operands


def constant(value: Scalar) -> Expression:
    """A literal."""
    return Expression(lambda _: value, literal=value if isinstance(value, bytes) else None)


def header(name: bytes) -> Expression:
    """A header of the message."""
    return Expression(
        lambda message: header_scalar(message.properties, name), column=Column.PROPERTIES
    )


def message_property(flag: int) -> Expression:
    """A property that is not the headers, by its flag."""
    return Expression(
        lambda message: property_value(message.properties, flag), column=Column.PROPERTIES
    )


ROUTING_KEY = Expression(
    lambda message: message.records.routing_key(message.index), column=Column.ROUTING_KEYS
)
EXCHANGE = Expression(lambda message: message.records.exchange)


def tagged(name: bytes, tags: Sequence[bytes]) -> Expression:
    """Whether a header is one of some texts, or has one of them between its commas."""
    wanted = frozenset(tags)

    def value(message: StoredMessage) -> bool:
        found = header_scalar(message.properties, name)
        if not isinstance(found, bytes):
            return False
        return found in wanted or (b"," in found and not wanted.isdisjoint(found.split(b",")))

    return Expression(value, _required(Column.PROPERTIES, *tags))


# -- logic


def both(left: Expression, right: Expression) -> Expression:
    """AND."""
    one, other = left.value, right.value

    def value(message: StoredMessage) -> bool | None:
        first = one(message)
        if first is False:
            return False
        second = other(message)
        if second is False:
            return False
        return True if first is True and second is True else None

    return Expression(value, left.required + right.required)


def either(left: Expression, right: Expression) -> Expression:
    """OR."""
    one, other = left.value, right.value

    def value(message: StoredMessage) -> bool | None:
        first = one(message)
        if first is True:
            return True
        second = other(message)
        if second is True:
            return True
        return False if first is False and second is False else None

    required: tuple[RequiredOctets, ...] = ()
    if left.required and right.required and left.required[0].column is right.required[0].column:
        required = _required(
            left.required[0].column, *left.required[0].any_of, *right.required[0].any_of
        )
    return Expression(value, required)


def negated(operand: Expression) -> Expression:
    """NOT."""
    of = operand.value

    def value(message: StoredMessage) -> bool | None:
        found = of(message)
        return not found if isinstance(found, bool) else None

    return Expression(value)


# -- comparison


_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_NUMBERS = (int, float)  # by exact type: a boolean is none


def _is_alike(one: Scalar, other: Scalar) -> bool:
    kind, of_other = type(one), type(other)
    return kind is of_other or (kind in _NUMBERS and of_other in _NUMBERS)


def compared(sign: str, left: Expression, right: Expression) -> Expression:
    """A comparison: values of unlike types are unequal, and none is less than the other, nor is a boolean."""
    compare, one, other = _COMPARISONS[sign], left.value, right.value
    is_order = compare not in (operator.eq, operator.ne)

    def value(message: StoredMessage) -> bool | None:
        first = one(message)
        if first is None:
            return None
        second = other(message)
        if second is None:
            return None
        if not _is_alike(first, second):
            return compare is operator.ne
        return False if is_order and isinstance(first, bool) else compare(first, second)

    if sign != "=":
        return Expression(value)
    required = _required(left.column, right.literal) or _required(right.column, left.literal)
    return Expression(value, required)


def among(operand: Expression, values: Sequence[Expression]) -> Expression:
    """IN: whether it is equal to any of some values."""
    of, choices = operand.value, [each.value for each in values]

    def value(message: StoredMessage) -> bool | None:
        found = of(message)
        if found is None:
            return None
        for choice in choices:
            other = choice(message)
            if other is not None and _is_alike(found, other) and found == other:
                return True
        return False

    return Expression(value, _required(operand.column, *(each.literal for each in values)))


def like(operand: Expression, pattern: LikePattern) -> Expression:
    """LIKE: unknown for what is no text of UTF-8."""
    of = operand.value

    def value(message: StoredMessage) -> bool | None:
        found = of(message)
        if not isinstance(found, bytes):
            return None
        try:
            return pattern.matches(found.decode())
        except UnicodeDecodeError:
            return None

    return Expression(value, _required(operand.column, pattern.literal.encode()))


def _required(column: Column | None, *texts: bytes | None) -> tuple[RequiredOctets, ...]:
    # For what is one of some texts, or has it in it. None is an unknown text, and an empty one is anywhere.
    found = tuple(text for text in texts if text)
    if column is None or len(found) < len(texts) or len(found) > ANY_OF_MAX:
        return ()
    return (RequiredOctets(column, found),)


def is_null(operand: Expression) -> Expression:
    """IS NULL: whether the operand is unknown."""
    of = operand.value
    return Expression(lambda message: of(message) is None)


# -- arithmetic


def _remainder(one: float, other: float) -> int | None:
    # Of whole numbers, with the sign of the first one.
    if not (isinstance(one, int) and isinstance(other, int)):
        return None
    rest = abs(one) % abs(other)
    return rest if one >= 0 else -rest


_CALCULATIONS: dict[str, Callable[[float, float], float | None]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "%": _remainder,
}


def calculated(left: Expression, sign: str, right: Expression) -> Expression:
    """Arithmetic: unknown when an operand is no number, or there is no result."""
    calculate, one, other = _CALCULATIONS[sign], left.value, right.value

    def value(message: StoredMessage) -> float | None:
        first, second = one(message), other(message)
        if type(first) not in _NUMBERS or type(second) not in _NUMBERS:
            return None
        try:
            return calculate(first, second)  # type: ignore[arg-type]
        except ArithmeticError:  # division by zero, overflow
            return None

    return Expression(value)
