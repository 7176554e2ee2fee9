"""The delayed message exchange: it holds a message with `x-delay`, and routes any other by an inner type.

A message to hold is routed to a special name that no queue can have. The vhost keeps the message until it is
due, negates its delay and routes it again. So a message is held only once, whether it was published or came
along a binding, by an alternate exchange or as a dead letter.

Source: the README and `rabbit_delayed_message_utils.erl` of RabbitMQ's delayed message exchange.
"""

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal

from routelog.exchanges.bindings.binding import Binding
from routelog.exchanges.bindings.destinations import Match
from routelog.exchanges.bindings.errors import InvalidExchangeArguments, UnknownExchangeType
from routelog.exchanges.bindings.exchange import Exchange
from routelog.exchanges.indexes.binding_index import BindingIndex, Message

DELAYED_TYPE = "x-delayed-message"
TYPE_ARGUMENT = "x-delayed-type"
DELAY_HEADER = "x-delay"

DELAY_MAX = 2**63 // 1_000 - 2**52  # ms, 150,000 years: times have 64 bits of microseconds

_HELD = "\0delayed/"  # control characters are in no queue's name
_DIGITS_MAX = 19


def held_name(exchange: str) -> str:
    """The special name in a route for messages that an exchange holds."""
    return _HELD + exchange


def holding_exchange(name: str) -> str | None:
    """The exchange that holds the message, from a name in a route; None: it is a queue's name."""
    return name[len(_HELD) :] if name.startswith(_HELD) else None


def delay_milliseconds(headers: Mapping[str, object]) -> int:
    """How long a message is held; 0: not at all.

    As in RabbitMQ, the header may be a number or a decimal string; the result is at most DELAY_MAX.
    """
    value = headers.get(DELAY_HEADER)
    if isinstance(value, bool) or value is None:
        return 0
    try:
        delay = _whole(value)
    except (ValueError, OverflowError, ArithmeticError):
        return 0
    return min(max(delay, 0), DELAY_MAX)


def _whole(value: object) -> int:
    if isinstance(value, int | float | Decimal):
        return int(value)
    if isinstance(value, str | bytes) and len(value) <= _DIGITS_MAX:
        return int(value)
    return 0


class DelayedIndex:
    """The bindings of a delayed message exchange, in an index of the inner type."""

    key_decides = False
    reads_headers = True
    remembers = False  # nor may the inner type

    def __init__(self, exchange: str, inner: BindingIndex) -> None:
        self._inner = inner
        self._hold = (Binding(exchange, held_name(exchange), "queue", ""),)

    def check(self, binding: Binding) -> None:
        """Refuse a binding that this type cannot understand."""
        self._inner.check(binding)

    def add(self, binding: Binding) -> None:
        """Add a checked binding that the index does not have."""
        self._inner.add(binding)

    def remove(self, binding: Binding) -> None:
        """Remove a binding that the index has."""
        self._inner.remove(binding)

    def match(self, routing_key: bytes, message: Message) -> Iterable[Match]:
        """Return the destinations of the bindings that match a message, in any order; one may come twice."""
        if delay_milliseconds(message.headers):
            return self._hold
        return self._inner.match(routing_key, message)


def delayed_index(
    exchange: Exchange, types: Mapping[str, Callable[[Exchange], BindingIndex]]
) -> DelayedIndex:
    """The index of a delayed message exchange.

    Args:
        types: the types that `x-delayed-type` may name.

    Raises:
        InvalidExchangeArguments: it names no type, or one that cannot be an inner type.
        UnknownExchangeType: there is no such type.
    """
    inner = exchange.arguments.get(TYPE_ARGUMENT)
    if not isinstance(inner, str):
        reason = f"Invalid argument, '{TYPE_ARGUMENT}' must be an existing exchange type"
        raise InvalidExchangeArguments(reason)
    if inner == DELAYED_TYPE:
        raise _no_inner_type(inner)
    factory = types.get(inner)
    if factory is None:
        raise UnknownExchangeType(inner)
    index = factory(exchange)
    if index.remembers:
        raise _no_inner_type(inner)
    return DelayedIndex(exchange.name, index)


def routing_type(exchange: Exchange) -> object:
    """The type by which an exchange routes: its own, or the inner type of a delayed message exchange."""
    return exchange.arguments.get(TYPE_ARGUMENT) if exchange.type == DELAYED_TYPE else exchange.type


def _no_inner_type(name: str) -> InvalidExchangeArguments:
    reason = f"Invalid argument, '{name}' can't be used for '{TYPE_ARGUMENT}'"
    return InvalidExchangeArguments(reason)
