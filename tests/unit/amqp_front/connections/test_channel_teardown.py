"""The channels of a connection that ends: one after the other, some in each turn."""

from collections import deque
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from support.loop_services import ended_in_turn, scheduler_on
from support.queue_samples import SetClock

from routelog.amqp_front.connections.channel_table import ChannelTable
from routelog.amqp_front.connections.channel_teardown import CHANNELS_MAX, are_many, torn_down
from routelog.amqp_front.consuming.settling import LEAVING_MAX
from routelog.log_backend.loop.scheduler import SHARE_SECONDS, Lane

COUNT = 100
STEP_SECONDS = SHARE_SECONDS[Lane.JOBS] / 4


class Channel:
    """A channel that takes two steps to leave; it is its own settling."""

    def __init__(self, number: int, services: Any, log: list[str]) -> None:
        self.number = number
        self.closing = False
        self.fails = False
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

    def end(self) -> None:
        self._log.append(f"end {self.number}")


@pytest.fixture
def services() -> Any:
    turns: list[Any] = []
    loop = SimpleNamespace(create_future=Done, call_soon=turns.append, turns=turns)
    admission = SimpleNamespace(channel_closed=lambda user: None)
    clock = SetClock()
    return SimpleNamespace(
        clock=clock,
        settlings=deque(),
        scheduler=scheduler_on(loop, clock),
        loop=loop,
        admission=admission,
    )


class Done:
    """A future, as far as a job needs one."""

    error: Exception | None = None
    is_done = False

    def done(self) -> bool:
        return self.is_done

    def set_result(self, value: object) -> None:
        self.is_done = True

    def set_exception(self, error: Exception) -> None:
        self.is_done, self.error = True, error


def channels(services: Any, log: list[str], count: int = COUNT) -> list[Any]:
    return [Channel(number, services, log) for number in range(count)]


def test_they_leave_in_their_order_and_few_of_them_in_a_turn(services: Any) -> None:
    log: list[str] = []
    teardown = torn_down(channels(services, log), services)
    turns, most, before = 0, 0, 0
    while not ended_in_turn(teardown, services.scheduler):
        turns += 1
        ended = sum(each.startswith("end") for each in log)
        most, before = max(most, ended - before), ended
    assert most * 2 * STEP_SECONDS <= 2 * SHARE_SECONDS[Lane.JOBS]
    assert turns >= COUNT // 4
    assert log == [f"{what} {n}" for n in range(COUNT) for what in ("leave", "end")]
    assert not services.settlings


def test_a_broker_that_stops_lets_all_leave_at_once(services: Any) -> None:
    log: list[str] = []
    teardown = torn_down(channels(services, log), services)
    assert not ended_in_turn(teardown, services.scheduler)
    services.scheduler.run(teardown, Lane.JOBS)
    services.scheduler.finish()
    assert log.count(f"end {COUNT - 1}") == 1
    assert not services.settlings


def test_they_wait_for_what_settled_before(services: Any) -> None:
    log: list[str] = []
    services.settlings.append(object())
    teardown = torn_down(channels(services, log), services)
    assert not ended_in_turn(teardown, services.scheduler)
    assert not ended_in_turn(teardown, services.scheduler)
    assert log == ["leave 0"]


def test_one_that_fails_keeps_none_of_the_others(services: Any) -> None:
    log: list[str] = []
    crowd = channels(services, log, 3)
    crowd[0].fails = True
    teardown = torn_down(crowd, services)
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
def test_many_channels_or_consumers_are_stopped_at_once_and_leave_later(
    services: Any, count: int, consumers: int, in_turns: bool
) -> None:
    log: list[str] = []
    connection = SimpleNamespace(services=services, user="u", consumers=consumers)
    table = ChannelTable(cast(Any, connection))
    table._channels = dict(enumerate(channels(services, log, count)))
    assert are_many(count, consumers) is in_turns
    under_way = table.release()
    assert len(table) == 0
    if in_turns:
        assert log == [f"stop {n}" for n in range(count)]
        while services.loop.turns:
            services.loop.turns.pop(0)()
        assert cast(Any, under_way[0]).done()
        assert [each for each in log if "end" in each] == [f"end {n}" for n in range(count)]
    else:
        assert not under_way
        assert log == [f"{what} {n}" for n in range(count) for what in ("release", "end")]
