"""Groups that nobody uses go, by a clock that the test moves."""

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from support.queue_samples import Node, SetClock, Taker, declare_queue, records, settle
from support.waiting import until

from routelog.log_backend import MetadataUnavailable, Scheduler
from routelog.vhosts import ConsumerGroup, GroupOptions, Queue, QueueProperties
from routelog.vhosts.vhost.group_expiry import SWEEP_SECONDS, GroupExpiry

HOUR = 3_600_000_000


class Clock:
    """Calls come when the time is moved on."""

    def __init__(self) -> None:
        self.seconds = 1_000.0
        self.calls: list[tuple[float, Callable[[], None]]] = []

    def monotonic(self) -> float:
        return self.seconds

    def call_later(self, delay: float, call: Callable[[], None]) -> "Clock":
        self.calls.append((self.seconds + delay, call))
        return self

    def cancel(self) -> None:
        self.calls.clear()

    def pass_by(self, seconds: float) -> int:
        """Move on; returns how many calls it was."""
        end, made = self.seconds + seconds, 0
        while self.calls and min(self.calls, key=lambda each: each[0])[0] <= end:
            due = min(self.calls, key=lambda each: each[0])
            self.calls.remove(due)
            self.seconds = due[0]
            due[1]()
            made += 1
        self.seconds = end
        return made


@pytest.fixture
def clock(node: Node) -> Clock:
    clock = Clock()
    expiry(node, clock).start()
    return clock


def expiry(node: Node, clock: Clock) -> GroupExpiry:
    """One whose turns are passes of a loop that belongs to the clock, too; each look takes a share of one."""
    hasty = SetClock()
    hasty.look_microseconds = 1_000
    loop: Any = SimpleNamespace(call_soon=partial(clock.call_later, 0.0))
    scheduler = Scheduler(loop, hasty)
    return GroupExpiry(node.vhosts.all, clock.monotonic, clock.call_later, scheduler)


@pytest.fixture
async def queue(node: Node) -> Queue:
    arguments = {"x-retention": "1h", "x-durability": "memory"}
    properties = QueueProperties("q", durable=True, arguments=arguments)
    queue, declared = declare_queue(node.vhost, properties, object())
    assert declared is not None
    await declared
    return queue


async def join(
    node: Node, queue: Queue, name: str = "g", expires: int | None = HOUR
) -> ConsumerGroup:
    group, made = node.vhost.hosted.groups.join(queue, GroupOptions(name, expires), "first", 0)
    assert made is not None
    await made
    return group


async def test_a_group_goes_when_nobody_used_it_for_long(
    node: Node, clock: Clock, queue: Queue
) -> None:
    short, for_ever = await join(node, queue), await join(node, queue, "stays", None)
    clock.pass_by(3_600)
    assert not short.deleted
    clock.pass_by(2 * SWEEP_SECONDS)
    assert short.deleted
    assert list(queue.groups.values()) == [for_ever]
    clock.pass_by(86_400)
    assert not for_ever.deleted
    await declare_queue(node.vhost, QueueProperties("later", durable=True), object())[1]
    stored = [key for key, _ in node.logs.metadata.scan(b"groups/")]
    assert stored == [b"groups/%2F/q/stays"]


async def test_the_time_begins_when_the_last_consumer_leaves(
    node: Node, clock: Clock, queue: Queue
) -> None:
    group = await join(node, queue)
    taker = Taker()
    clock.pass_by(3_000)
    queue.join_group(group, taker)
    clock.pass_by(10_000)
    queue.detach([taker])
    clock.pass_by(3_600 - SWEEP_SECONDS)
    queue.join_group(group, taker)  # between two looks
    queue.detach([taker])
    clock.pass_by(3_600)
    assert not group.deleted
    clock.pass_by(2 * SWEEP_SECONDS)
    assert group.deleted


async def test_deliveries_that_may_still_be_acknowledged_keep_a_group(
    node: Node, clock: Clock, queue: Queue
) -> None:
    group = await join(node, queue)
    queue.publish(records("m"), waited=False)
    taker = Taker()
    queue.join_group(group, taker)
    node.turns.run()
    queue.detach([taker])
    clock.pass_by(10_000)
    assert not group.deleted
    settle(taker.deliveries[0])
    clock.pass_by(3_600 + 2 * SWEEP_SECONDS)
    assert group.deleted


async def test_what_an_expired_group_held_is_let_go(node: Node, clock: Clock, queue: Queue) -> None:
    await join(node, queue)
    log = queue.partitions[0].log
    queue.publish(records("m"), waited=False)
    queue.purge()
    assert log.low_water() == 0
    clock.pass_by(3_600 + 2 * SWEEP_SECONDS)
    await until(lambda: list(log.cursors) == [0])
    assert log.low_water() == 1


async def test_a_round_looks_at_all_groups_in_turns(node: Node, clock: Clock, queue: Queue) -> None:
    groups = [await join(node, queue, f"g{number}") for number in range(5)]
    assert clock.pass_by(SWEEP_SECONDS) > len(groups)
    clock.pass_by(3_600)
    assert all(group.deleted for group in groups)


async def test_when_nothing_can_be_written_groups_stay(
    node: Node, clock: Clock, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = await join(node, queue)

    def fail(*_: object) -> None:
        raise MetadataUnavailable("full")

    monkeypatch.setattr(node.writer, "submit", fail)
    clock.pass_by(4_000)
    assert not group.deleted
    assert queue.groups == {"g": group}
    assert clock.calls == []


async def test_a_stopped_expiry_looks_at_nothing(node: Node, queue: Queue) -> None:
    clock = Clock()
    stopped = expiry(node, clock)
    stopped.stop()
    stopped.start()
    stopped.stop()
    assert clock.pass_by(1_000) == 0
