"""Which messages a request means, and what it may not say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from support.message_samples import batch, message
from support.queue_samples import records
from unit.management.managed_node import ManagedNode

from routelog.management.calls.failures import Refused
from routelog.management.calls.message_wanted import (
    OFFSET_MAX,
    log_place,
    message_filter,
    number_of,
    places_of,
)
from routelog.vhosts import UNSETTLED, InvalidFilter, MessageFilter, MessageState, Place, Queue

NOW = 1_700_000_000_000_000
HOUR = 3_600_000_000


@pytest.fixture
async def queue(node: ManagedNode) -> Queue:
    made = await node.queue("mine", x_partitions=2)
    for partition in made.partitions:
        partition.log.append(records("a", "b", "c"))
    await node.node.logs.journal.drain()
    return made


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (7, 7),
        ("7", 7),
        (-7, -7),
        ("-7", -7),
        ("--7", "--7"),
        ("-", "-"),
        ("first", "first"),
        ("9" * 20, "9" * 20),  # more than an offset: no number
        ("٧", "٧"),
        ("2026-01-02T03:04:05", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        (
            "2026-01-02T03:04:05+02:00",
            datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=2))),
        ),
    ],
)
def test_a_place_is_a_number_a_time_or_a_word(text: int | str, place: object) -> None:
    assert log_place(text) == place


async def test_a_filter_is_what_was_said() -> None:
    assert await message_filter({}, NOW) == MessageFilter(UNSETTLED, None, None, None, 0, None)
    said = {"state": "settled", "key": "k", "header": "a=b=c", "text": "t", "time": "1h"}
    assert await message_filter({**said, "until": "1970-01-01T00:00:01Z"}, NOW) == MessageFilter(
        frozenset((MessageState.SETTLED,)), b"k", (b"a", b"b=c"), b"t", NOW - HOUR, 1_000_000
    )
    assert (await message_filter({"state": "all"}, NOW)).states == frozenset(MessageState)
    assert (await message_filter({"text": ""}, NOW)).text is None
    said = {"id": "m-1", "correlation_id": "größe"}
    assert await message_filter(said, NOW) == MessageFilter(
        message_id=b"m-1", correlation_id="größe".encode()
    )


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"state": "lost"}, "state is .*, not 'lost'"),
        ({"header": "a"}, "name=value"),
        ({"header": "=b"}, "name=value"),
        ({"time": "yesterday"}, "time is a time .* or an age such as 1h, not 'yesterday'"),
        ({"until": "17"}, "until is a time"),
    ],
)
async def test_what_cannot_be_is_refused(said: dict[str, str], reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        await message_filter(said, NOW)


async def test_a_condition_is_read_or_refused() -> None:
    condition = (await message_filter({"filter": "n > 1"}, NOW)).condition
    assert condition is not None
    assert condition.matches(batch(message(headers={"n": 2})), 0)
    with pytest.raises(InvalidFilter, match="it ends too early"):
        await message_filter({"filter": ""}, NOW)


async def test_a_search_begins_where_the_request_says(queue: Queue) -> None:
    assert places_of(queue, {}, NOW) == [Place(0, 0), Place(1, 0)]
    assert places_of(queue, {"offset": "2"}, NOW) == [Place(0, 2), Place(1, 2)]
    assert places_of(queue, {"offset": "-2"}, NOW) == [Place(0, 1), Place(1, 1)]
    assert places_of(queue, {"offset": "next", "partition": "1"}, NOW) == [Place(1, 3)]
    assert places_of(queue, {"offset": "1:2,0:0-1"}, NOW) == [Place(1, 2), Place(0, 0, 1)]


@pytest.mark.parametrize(
    "said",
    [
        {"offset": "somewhere"},
        {"offset": "1:x"},
        {"offset": "2:0"},
        {"offset": f"0:{OFFSET_MAX + 1}"},
        {"offset": f"0:0-{OFFSET_MAX + 1}"},
        {"offset": "0:"},
        {"partition": "2"},
        {"partition": "-1"},
    ],
)
async def test_a_place_that_is_not_there_is_refused(queue: Queue, said: dict[str, str]) -> None:
    with pytest.raises(Refused):
        places_of(queue, said, NOW)


def test_a_number_has_a_default_and_limits() -> None:
    assert number_of({}, "count", 5, 10) == 5
    assert number_of({"count": "10"}, "count", 5, 10) == 10
    for text in ("11", "0", "", "-1", "1.0", "٣", "1" * 20):
        with pytest.raises(Refused, match="count is not between 1 and 10"):
            number_of({"count": text}, "count", 5, 10, least=1)
