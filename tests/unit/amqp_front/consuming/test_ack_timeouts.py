"""What was not settled in time is looked for in turns, once for all consumers, and goes back in its order."""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest
from support.loop_services import scheduler_on
from support.queue_samples import SetClock

from routelog.amqp_front.consuming.ack_timeouts import LOOKED_RUNS, AckTimeouts
from routelog.amqp_front.consuming.unacked import EndedLease, Unacked, UnackedRun
from routelog.log_backend import Lane
from routelog.log_backend.loop.scheduler import SHARE_SECONDS
from routelog.vhosts import UNCOUNTED, ReturnReason


class Source:
    """A partition that notes what comes back."""

    counters = UNCOUNTED

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.pauses = 0

    def give_back(self, first: int, end: int, reason: ReturnReason) -> None:
        """See `DeliverySource`."""
        assert reason is ReturnReason.RETURNED
        self.offsets += range(first, end)

    def pause(self) -> None:
        """See `DeliverySource`."""
        self.pauses += 1

    def resume(self) -> None:
        """See `DeliverySource`."""
        self.pauses -= 1


class Holdings:
    """A channel with the deliveries of three consumers of two queues by turns."""

    number = 1
    vhost: Any = None
    counters = UNCOUNTED

    def __init__(self, count: int) -> None:
        self.unacked = Unacked()
        self.sources = [Source(), Source()]
        self.aside: list[object] = []
        self.paused: list[bool] = []  # when somebody had to stand aside
        queues = [
            SimpleNamespace(name="q", vhost="/", stand_aside=partial(self._aside, at))
            for at in range(2)
        ]
        self.consumers = [_Consumer(queues[at % 2]) for at in range(3)]
        for tag in range(1, count + 1):
            at = tag % 3
            source, consumer = cast(Any, self.sources[at % 2]), cast(Any, self.consumers[at])
            self.unacked.add(UnackedRun(tag, tag + 1, source, 10 * tag, consumer))
            consumer.unacked += 1

    def _aside(self, queue: int, consumer: object) -> None:
        self.aside.append(consumer)
        self.paused.append(self.sources[queue].pauses > 0)

    def begin_turn(self) -> None:
        """See `Holdings`."""

    def let_go(self, holder: object, count: int) -> None:
        """See `Holdings`."""
        raise AssertionError("it counts for the prefetch count until the client settles it")


class _Consumer:
    tag = "c"
    group = ""

    def __init__(self, queue: SimpleNamespace) -> None:
        self.queue = self.source = queue
        self.unacked = self.lapsed = self.timed_out = 0


@pytest.fixture
async def services() -> Any:
    clock = SetClock()
    clock.look_microseconds = round(2_000_000 * SHARE_SECONDS[Lane.JOBS])
    loop = asyncio.get_running_loop()
    events = SimpleNamespace(note=lambda key, **fields: None)
    return SimpleNamespace(
        clock=clock,
        loop=loop,
        scheduler=scheduler_on(loop, clock),
        settlings=deque(),
        vhosts=SimpleNamespace(events=events),
    )


async def turns_to_the_end(services: Any) -> int:
    turns = 0
    while services.scheduler._jobs:
        await asyncio.sleep(0)
        turns += 1
        assert turns < 1_000
    return turns


async def test_what_several_consumers_hold_too_long_goes_back_in_turns(services: Any) -> None:
    count = 6 * LOOKED_RUNS
    holdings = Holdings(count)
    ends = AckTimeouts(cast(Any, holdings), services)
    one, other, fresh = holdings.consumers
    end_tag = count - 3
    ends.end(cast(Any, one), end_tag)
    ends.end(cast(Any, other), end_tag)
    assert await turns_to_the_end(services) > count // LOOKED_RUNS
    for at, consumer in enumerate((one, other)):
        tags = [tag for tag in range(1, end_tag) if tag % 3 == at]
        assert holdings.sources[at].offsets == [10 * tag for tag in tags]
        assert (consumer.timed_out, consumer.lapsed) == (len(tags), len(tags))
    assert set(holdings.aside) == {one, other}
    assert (fresh.timed_out, holdings.unacked.count) == (0, count)
    runs = [run for run in holdings.unacked if isinstance(run.partition, EndedLease)]
    assert sum(map(len, runs)) == one.lapsed + other.lapsed
    assert len({run.partition for run in runs}) == 2  # one for all that a consumer held of a queue


async def test_a_queue_hands_out_nothing_before_all_is_back(services: Any) -> None:
    holdings = Holdings(9)
    ends = AckTimeouts(cast(Any, holdings), services)
    for consumer in holdings.consumers:
        ends.end(cast(Any, consumer), 10)
    assert await turns_to_the_end(services) > 1
    assert holdings.paused == [True] * 3  # else who follows would get what is behind it
    assert not any(source.pauses for source in holdings.sources)


async def test_who_is_late_during_a_look_has_another_one(services: Any) -> None:
    holdings = Holdings(3 * LOOKED_RUNS)
    ends = AckTimeouts(cast(Any, holdings), services)
    one, other, _ = holdings.consumers
    ends.end(cast(Any, one), 10)
    await asyncio.sleep(0)
    ends.end(cast(Any, other), 10)
    await turns_to_the_end(services)
    assert [source.offsets for source in holdings.sources] == [[30, 60, 90], [10, 40, 70]]
    ends.end(cast(Any, one), 10)  # what is back does not come back again
    await turns_to_the_end(services)
    assert holdings.sources[0].offsets == [30, 60, 90]


async def test_a_broker_that_stops_takes_all_back(services: Any) -> None:
    holdings = Holdings(6 * LOOKED_RUNS)
    ends = AckTimeouts(cast(Any, holdings), services)
    ends.end(cast(Any, holdings.consumers[0]), 6 * LOOKED_RUNS)
    services.scheduler.finish()
    assert len(holdings.sources[0].offsets) == 2 * LOOKED_RUNS - 1


async def test_an_error_of_ours_ends_one_look_only(services: Any) -> None:
    holdings = Holdings(30)
    ends = AckTimeouts(cast(Any, holdings), services)
    one, other, _ = holdings.consumers

    def fail(consumer: object) -> None:
        raise ZeroDivisionError

    one.queue.stand_aside = fail
    ends.end(cast(Any, one), 10)
    (look,) = services.scheduler._jobs
    await turns_to_the_end(services)
    assert isinstance(look.done.exception(), ZeroDivisionError)
    ends.end(cast(Any, other), 10)
    await turns_to_the_end(services)
    assert [source.offsets for source in holdings.sources] == [[30, 60, 90], [10, 40, 70]]
