"""Which messages of a queue a request means: where to look for them, and what they are known by."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime

from routelog.management.calls.failures import bad_request
from routelog.vhosts import (
    UNSETTLED,
    InvalidStreamOffset,
    MessageFilter,
    MessageState,
    Place,
    Queue,
    age_microseconds,
    sql_condition,
    stream_position,
)

OFFSET_MAX = 2**63 - 1
_STATES = {each.value: frozenset((each,)) for each in MessageState}
_STATES["all"] = frozenset(MessageState)


def log_place(text: int | str) -> object:
    """A place in a log as `stream_position` takes it: a number, a time (UTC unless it says so), or a word."""
    if isinstance(text, int):
        return text
    digits = text.removeprefix("-")
    if digits.isdecimal() and digits.isascii() and len(digits) < 20:
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return text
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


async def message_filter(said: Mapping[str, str], now: int) -> MessageFilter:
    """The filter that the parameters of a request describe, but for those that say where to look.

    Args:
        now: microseconds since 1970.

    Raises:
        Refused: one of them cannot be.
        InvalidFilter: `filter` is no condition.
    """
    state = said.get("state")
    if state is not None and state not in _STATES:
        raise bad_request(f"state is {', '.join(_STATES)}, not '{state}'")
    header = said.get("header")
    name, equals, value = (header or "").partition("=")
    if header is not None and not (name and equals):
        raise bad_request("header is expected as name=value")
    texts = ("key", "id", "correlation_id", "text")
    octets = {each: said[each].encode() for each in texts if each in said}
    sql = said.get("filter")
    return MessageFilter(
        UNSETTLED if state is None else _STATES[state],
        octets.get("key"),
        None if header is None else (name.encode(), value.encode()),
        octets.get("text") or None,
        moment_of(said, "time", now) or 0,
        moment_of(said, "until", now),
        octets.get("id"),
        octets.get("correlation_id"),
        None if sql is None else await asyncio.to_thread(sql_condition, sql),
    )


def places_of(queue: Queue, said: Mapping[str, str], now: int) -> list[Place]:
    """Where `offset`, `time` and `partition` let a search begin.

    Raises:
        Refused: there is no such place.
    """
    offset, count = said.get("offset"), len(queue.partitions)
    if offset is not None and ":" in offset:
        return [_place(part, queue) for part in offset.split(",")]
    chosen = list(range(count))
    if "partition" in said:
        chosen = [number_of(said, "partition", 0, count - 1)]
    wanted = log_place(offset if offset is not None else said.get("time", "first"))
    try:
        return [
            Place(at, stream_position(queue.partitions[at].log, wanted, now).offset)
            for at in chosen
        ]
    except InvalidStreamOffset as error:
        raise bad_request(str(error)) from None


def number_of(
    said: Mapping[str, str], name: str, default: int, most: int, *, least: int = 0
) -> int:
    """A whole number that is not too large."""
    text = said.get(name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) < 20 and least <= int(text) <= most):
        raise bad_request(f"{name} is not between {least} and {most}")
    return int(text)


def moment_of(said: Mapping[str, str], name: str, now: int) -> int | None:
    """A time (ISO 8601), or an age such as 1h, in microseconds since 1970; None: it is not said.

    Raises:
        Refused: it is neither.
    """
    text = said.get(name)
    if text is None:
        return None
    place = log_place(text)
    if isinstance(place, datetime):
        return int(place.timestamp() * 1_000_000)
    age = age_microseconds(place)
    if age is None:
        raise bad_request(f"{name} is a time (ISO 8601) or an age such as 1h, not '{text}'")
    return now - age


def _place(text: str, queue: Queue) -> Place:
    partition, _, rest = text.partition(":")
    offset, dash, end = rest.partition("-")
    numbers = (partition, offset, end) if dash else (partition, offset)
    if not all(each.isascii() and each.isdigit() and len(each) < 20 for each in numbers):
        raise bad_request("a place is partition:offset, as the answer gives it")
    place = Place(*map(int, numbers))
    if place.partition >= len(queue.partitions) or max(place[1], place[2] or 0) > OFFSET_MAX:
        raise bad_request(f"queue '{queue.name}' has no place {text}")
    return place
