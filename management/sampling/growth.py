"""What grows, and since when, from samples."""

from collections.abc import Sequence
from itertools import pairwise

from routelog.management.sampling.history import History

MINUTE = 60.0
GROWING_MINUTES = 5  # less is a burst
GROWN_MINUTES_MIN = 4  # of these: consumers may have caught up in one of them


def growing_since(history: History, columns: Sequence[int], now: float) -> float | None:
    """Since when the sum of some values grows, for minutes; None: it does not.

    Args:
        now: monotonic seconds of the newest sample.

    Returns:
        Monotonic seconds, to the minute.
    """
    ages = [at * MINUTE for at in range(GROWING_MINUTES + 1)]
    values = [history.at(now - age, columns) for age in ages]
    if sum(before < after for after, before in pairwise(values)) < GROWN_MINUTES_MIN:
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
