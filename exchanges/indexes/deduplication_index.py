"""The deduplication exchange: a fanout that lets each message through once, by its header."""

from dataclasses import dataclass

from routelog.exchanges.bindings.errors import InvalidExchangeArguments
from routelog.exchanges.bindings.exchange import Exchange
from routelog.exchanges.indexes.fanout_index import FanoutIndex

DEDUPLICATION = "x-message-deduplication"
CACHE_SIZE_MAX = 10_000_000  # some 200 bytes of memory each: 2 GB

_SIZE, _TTL, _PERSISTENCE = "x-cache-size", "x-cache-ttl", "x-cache-persistence"


class DeduplicationIndex(FanoutIndex):
    """All bindings; a message that is a duplicate never reaches the index."""

    key_decides = False
    reads_headers = True
    remembers = True


@dataclass(frozen=True, slots=True)
class DeduplicationOptions:
    """How a deduplication exchange remembers.

    Attributes:
        size: the most keys; above it the oldest key is forgotten.
        ttl: milliseconds until a key is forgotten; None: only `size` counts.
        is_persistent: keys outlive a restart.

    Source:
        rabbitmq-message-deduplication: the arguments and its texts.
    """

    size: int
    ttl: int | None
    is_persistent: bool


def deduplication_options(exchange: Exchange) -> DeduplicationOptions:
    """Return what the arguments of a deduplication exchange say.

    Raises:
        InvalidExchangeArguments: the size is missing, or one of them cannot be.
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
    """Return the number that a value is, or that its digits spell; None: neither."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        return int(value)
    return None
