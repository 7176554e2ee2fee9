"""What grows, and since when, from samples."""

from collections.abc import Callable, Sequence
from itertools import pairwise

from routelog.management.sampling.history import History

MINUTE = 60.0
GROWING_MINUTES = 5  # less is a burst
GROWN_MINUTES_MIN = 4  # of these: consumers may have caught up in one of them


def grows(value: Callable[[float], float], least: float) -> bool:
    """Whether something grows for minutes: by so much in the last five, and in nearly each of them.

    Args:
        value: at an age in seconds.
        least: less is no growth.
    """
    values = [value(at * MINUTE) for at in range(GROWING_MINUTES + 1)]
    grown_minutes = sum(before < after for after, before in pairwise(values))
    return grown_minutes >= GROWN_MINUTES_MIN and values[0] - values[-1] >= least


def growing_since(
    history: History, columns: Sequence[int], now: float, least: float
) -> float | None:
    """Since when the sum of some values grows, see `grows`; None: it does not.

    Args:
        now: monotonic seconds of the newest sample.

    Returns:
        Monotonic seconds, to the minute.
    """
    if not grows(lambda age: history.at(now - age, columns), least):
        return None
    window = GROWING_MINUTES * MINUTE

    def value(time: float) -> int:
        return history.at(time, columns)

    since = now - window
    while since > history.first_time and value(since - MINUTE) < value(since - MINUTE + window):
        since -= MINUTE
    while value(since + MINUTE) <= value(since):  # the rest before it
        since += MINUTE
    return max(since, history.first_time)


def grown(history: History, columns: Sequence[int], now: float) -> int:
    """How much the sum of some values grew in the last minutes; negative: it fell."""
    before = now - GROWING_MINUTES * MINUTE
    return history.at(now, columns) - history.at(before, columns)


def unchanged_since(history: History, columns: Sequence[int], now: float) -> float:
    """Since when the sum of some values is as it is, or longer: monotonic seconds, to the minute."""
    value, since = history.at(now, columns), now
    while since > history.first_time and history.at(since - MINUTE, columns) == value:
        since -= MINUTE
    return max(since, history.first_time)
