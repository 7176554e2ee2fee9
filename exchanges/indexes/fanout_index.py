"""Fanout exchanges: every binding matches every message. Two types remember messages, as their
arguments say.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from routelog.exchanges.bindings.binding import Binding
from routelog.exchanges.bindings.destinations import (
    Held,
    Match,
    matches,
    with_destination,
    without_destination,
)
from routelog.exchanges.bindings.errors import InvalidExchangeArguments
from routelog.exchanges.bindings.exchange import Exchange
from routelog.exchanges.indexes.binding_index import Message


class FanoutIndex:
    """All bindings, keys ignored."""

    key_decides = True
    reads_headers = False
    remembers = False

    def __init__(self) -> None:
        self._destinations: Held = None

    def check(self, binding: Binding) -> None:
        """Accept every binding."""

    def add(self, binding: Binding) -> None:
        """Add a binding."""
        self._destinations = with_destination(self._destinations, binding)

    def remove(self, binding: Binding) -> None:
        """Remove a binding."""
        self._destinations = without_destination(self._destinations, binding)

    def match(self, routing_key: bytes, message: Message) -> Iterable[Match]:
        """Return the destinations of all bindings."""
        return matches(self._destinations)


class StatefulFanoutIndex(FanoutIndex):
    """A fanout whose exchange keeps state of earlier messages: deduplication or recent history."""

    key_decides = False
    reads_headers = True
    remembers = True


RECENT_HISTORY = "x-recent-history"
HISTORY_LENGTH = 20  # the default
HISTORY_LENGTH_MAX = 10_000  # a new binding gets all of them in one turn of the event loop

_LENGTH = "x-recent-history-length"


def history_length(exchange: Exchange) -> int:
    """Return how many messages a recent history exchange keeps.

    Raises:
        InvalidExchangeArguments: the length is not in its range.
    """
    length = exchange.arguments.get(_LENGTH, HISTORY_LENGTH)
    if not isinstance(length, int) or isinstance(length, bool) or length < 1:
        reason = f"Invalid argument {length!r}, '{_LENGTH}' must be a positive integer"
        raise InvalidExchangeArguments(reason)
    if length > HISTORY_LENGTH_MAX:
        raise InvalidExchangeArguments(f"'{_LENGTH}' must not be greater than {HISTORY_LENGTH_MAX}")
    return length


DEDUPLICATION = "x-message-deduplication"
CACHE_SIZE_MAX = 10_000_000  # some 200 bytes of memory each: 2 GB

_SIZE, _TTL, _PERSISTENCE = "x-cache-size", "x-cache-ttl", "x-cache-persistence"


@dataclass(frozen=True, slots=True)
class DeduplicationOptions:
    """How a deduplication exchange remembers.

    Attributes:
        size: the most keys that it remembers; above it, the oldest key is forgotten.
        ttl: milliseconds until a key is forgotten; None: no limit.
        is_persistent: keys survive a restart.

    Source:
        rabbitmq-message-deduplication: the arguments and its texts.
    """

    size: int
    ttl: int | None
    is_persistent: bool


def deduplication_options(exchange: Exchange) -> DeduplicationOptions:
    """Return the options in the arguments of a deduplication exchange.

    Raises:
        InvalidExchangeArguments: the size is missing, or an argument is invalid.
    """
    arguments = exchange.arguments
    size = whole_number(arguments.get(_SIZE))
    if size is None or size < 1:
        reason = f"Missing or invalid argument, '{_SIZE}' must be an integer greater than 0"
        raise InvalidExchangeArguments(reason)
    if size > CACHE_SIZE_MAX:
        raise InvalidExchangeArguments(f"'{_SIZE}' must not be greater than {CACHE_SIZE_MAX}")
    ttl = whole_number(arguments.get(_TTL))
    if arguments.get(_TTL) is not None and (ttl is None or ttl < 1):
        raise InvalidExchangeArguments(
            f"Invalid argument, '{_TTL}' must be an integer greater than 0"
        )
    persistence = arguments.get(_PERSISTENCE, "memory")
    if persistence not in ("disk", "memory"):
        raise InvalidExchangeArguments(
            f"Invalid argument, '{_PERSISTENCE}' must be either 'disk' or 'memory'"
        )
    return DeduplicationOptions(size, ttl, persistence == "disk")


def whole_number(value: object) -> int | None:
    """Return the value of an integer, or of a string of digits; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        return int(value)
    return None
