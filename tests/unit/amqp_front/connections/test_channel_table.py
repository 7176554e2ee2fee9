"""The channels of a connection: which of them wait for content."""

import asyncio
from collections import deque
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from support.loop_services import ended_in_turn, scheduler_on
from support.queue_samples import SetClock

from routelog.amqp_front.connections.channel_table import (
    CHANNELS_MAX,
    ChannelTable,
    are_many,
    torn_down,
)
from routelog.amqp_front.consuming.settling import LEAVING_MAX
from routelog.amqp_front.wire.command import ACK, Frame, PublishRun, SettleRun
from routelog.amqp_front.wire.frame_cutter import (
    FRAME_BODY,
    FRAME_HEADER,
    FRAME_HEARTBEAT,
    FRAME_METHOD,
)
from routelog.log_backend.loop.scheduler import SHARE_SECONDS, Lane


def channel(number: int) -> Any:
    return SimpleNamespace(number=number, partial=None, closing=False, release=lambda: None)


def test_content_is_waited_for_until_the_last_channel_has_its_own() -> None:
    table = ChannelTable(cast(Any, None))
    one, other = channel(1), channel(2)
    table.note(one)
    assert not table.assembling
    one.partial = other.partial = object()
    for each in (one, other):
        table.note(each)
    one.partial = None
    table.note(one)
    assert table.assembling
    other.partial = None
    table.note(other)
    assert not table.assembling


def test_released_channels_wait_for_nothing() -> None:
    table = ChannelTable(cast(Any, None))
    waiting = channel(7)
    waiting.partial = object()
    table.note(waiting)
    table.release()
    assert not table.assembling


BASIC_PUBLISH, BASIC_ACK, TX_COMMIT = b"\0\x3c\0\x28", b"\0\x3c\0\x50", b"\0\x5a\0\x14"


def table_with(**state: Any) -> ChannelTable:
    table = ChannelTable(cast(Any, None))
    channel: Any = SimpleNamespace(**{"closing": False, "transactions": None} | state)
    table._channels[1] = channel
    return table


def run(channel: int) -> PublishRun:
    empty = memoryview(b"")
    return PublishRun(channel, empty, empty, 1, b"", b"k", 0, 0, True)


@pytest.mark.parametrize(
    ("command", "publishes"),
    [
        (run(1), True),
        (run(2), False),
        (SettleRun(1, ACK, 1, 1, False), False),
        (Frame(FRAME_METHOD, 1, BASIC_PUBLISH + bytes(5)), True),
        (Frame(FRAME_HEADER, 1, b""), True),
        (Frame(FRAME_BODY, 1, b""), True),
        (Frame(FRAME_METHOD, 1, BASIC_ACK + bytes(9)), False),
        (Frame(FRAME_METHOD, 1, TX_COMMIT), False),
        (Frame(FRAME_METHOD, 2, BASIC_PUBLISH), False),
        (Frame(FRAME_METHOD, 0, BASIC_PUBLISH), False),
        (Frame(FRAME_HEARTBEAT, 0, b""), False),
    ],
)
def test_what_brings_in_messages_is_known(command: Any, publishes: bool) -> None:
    assert table_with().publishes(command) is publishes
    assert not table_with(closing=True).publishes(command)


def test_a_commit_publishes_when_its_transaction_does() -> None:
    commit = Frame(FRAME_METHOD, 1, TX_COMMIT)
    for publishes in (True, False):
        table = table_with(transactions=SimpleNamespace(publishes=publishes))
        assert table.publishes(commit) is publishes


COUNT = 100
STEP_SECONDS = SHARE_SECONDS[Lane.JOBS] / 4


class Channel:
    """A channel that takes two steps to leave; it is its own settling."""

    def __init__(self, number: int, services: Any, log: list[str]) -> None:
        self.number = number
        self.closing = False
        self.fails = False
        self.is_known: asyncio.Future[None] = asyncio.Future()
        self._services = services
        self._log = log

    def stop(self) -> None:
        self.closing = True
        self._log.append(f"stop {self.number}")

    def release(self) -> None:
        self._log.append(f"release {self.number}")

    def leave(self) -> "Channel":
        self._log.append(f"leave {self.number}")
        return self

    def steps(self) -> Iterator[None]:
        services = self._services
        while services.settlings[0] is not self:
            yield
        for _ in range(2):
            services.clock.microseconds += round(STEP_SECONDS * 1e6)
            if services.scheduler.is_over():
                yield
        services.settlings.popleft()
        if self.fails:
            raise ValueError(self.number)

    def known(self) -> "asyncio.Future[None]":
        return self.is_known

    def end(self) -> None:
        self._log.append(f"end {self.number}")


@pytest.fixture
def services() -> Any:
    turns: list[Any] = []
    loop = SimpleNamespace(create_future=asyncio.Future, call_soon=turns.append, turns=turns)
    admission = SimpleNamespace(channel_closed=lambda user: None)
    clock = SetClock()
    return SimpleNamespace(
        clock=clock,
        settlings=deque(),
        scheduler=scheduler_on(loop, clock),
        loop=loop,
        admission=admission,
    )


def channels(services: Any, log: list[str], count: int = COUNT) -> list[Any]:
    return [Channel(number, services, log) for number in range(count)]


async def test_they_leave_in_their_order_and_few_of_them_in_a_turn(services: Any) -> None:
    log: list[str] = []
    teardown = torn_down(channels(services, log), services, [])
    turns, most, before = 0, 0, 0
    while not ended_in_turn(teardown, services.scheduler):
        turns += 1
        ended = sum(each.startswith("end") for each in log)
        most, before = max(most, ended - before), ended
    assert most * 2 * STEP_SECONDS <= 2 * SHARE_SECONDS[Lane.JOBS]
    assert turns >= COUNT // 4
    assert log == [f"{what} {n}" for n in range(COUNT) for what in ("leave", "end")]
    assert not services.settlings


async def test_a_broker_that_stops_lets_all_leave_at_once(services: Any) -> None:
    log: list[str] = []
    teardown = torn_down(channels(services, log), services, [])
    assert not ended_in_turn(teardown, services.scheduler)
    services.scheduler.run(teardown, Lane.JOBS)
    services.scheduler.finish()
    assert log.count(f"end {COUNT - 1}") == 1
    assert not services.settlings


async def test_they_wait_for_what_settled_before(services: Any) -> None:
    log: list[str] = []
    services.settlings.append(object())
    teardown = torn_down(channels(services, log), services, [])
    assert not ended_in_turn(teardown, services.scheduler)
    assert not ended_in_turn(teardown, services.scheduler)
    assert log == ["leave 0"]


async def test_one_that_fails_keeps_none_of_the_others(services: Any) -> None:
    log: list[str] = []
    crowd = channels(services, log, 3)
    crowd[0].fails = True
    teardown = torn_down(crowd, services, [])
    with pytest.raises(ValueError, match="0"):
        deque(teardown)
    assert [each for each in log if each.startswith("end")] == ["end 0", "end 1", "end 2"]


@pytest.mark.parametrize(
    ("count", "consumers", "in_turns"),
    [
        (1, 0, False),
        (CHANNELS_MAX, LEAVING_MAX, False),
        (CHANNELS_MAX + 1, 0, True),
        (1, LEAVING_MAX + 1, True),
    ],
)
async def test_many_channels_or_consumers_are_stopped_at_once_and_leave_later(
    services: Any, count: int, consumers: int, in_turns: bool
) -> None:
    log: list[str] = []
    connection = SimpleNamespace(services=services, user="u", consumers=consumers)
    table = ChannelTable(cast(Any, connection))
    crowd = channels(services, log, count)
    table._channels = dict(enumerate(crowd))
    assert are_many(count, consumers) is in_turns
    under_way = table.release()
    assert len(table) == 0
    if in_turns:
        assert log == [f"stop {n}" for n in range(count)]
        while services.loop.turns:
            services.loop.turns.pop(0)()
        assert [each for each in log if "end" in each] == [f"end {n}" for n in range(count)]
        (left,) = under_way
        for each in crowd:
            assert not cast(Any, left).done()
            each.is_known.set_result(None)
            await asyncio.sleep(0)
        async with asyncio.timeout(30):
            await left
    else:
        assert not under_way
        assert log == [f"{what} {n}" for n in range(count) for what in ("release", "end")]
