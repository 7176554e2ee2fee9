"""The recent history exchange: a fanout that hands its newest messages to each new binding."""

from routelog.exchanges.bindings.errors import InvalidExchangeArguments
from routelog.exchanges.bindings.exchange import Exchange

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
