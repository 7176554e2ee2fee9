"""The deduplication exchange: a fanout that lets each message through once, by its header."""

from dataclasses import dataclass

from routelog.exchanges.bindings.errors import InvalidExchangeArguments
from routelog.exchanges.bindings.exchange import Exchange

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
