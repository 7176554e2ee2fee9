"""A backlog: while a queue's consumers nearly keep up with what comes, its publishers are to wait."""

from support.queue_samples import Node, Taker, fill, settle

from routelog.vhosts import Queue
from routelog.vhosts.queues.backlog import (
    BACKLOG_SECONDS_MAX,
    BACKLOG_SECONDS_MIN,
    CAME_TIMES_MAX,
)


def take(node: Node, queue: Queue, taker: Taker, times: int) -> None:
    """Settle so many times what was delivered, one millisecond after the other."""
    for _ in range(times):
        taker.settle_all()
        queue.wake()
        node.turns.pass_seconds(0.001)


def behind(node: Node, queue: Queue) -> Taker:
    """Let a queue be behind; returns its only consumer."""
    queue.add_consumer(taker := Taker(10))
    fill(queue, 5_000, 100)
    take(node, queue, taker, 30)
    assert queue.is_behind
    return taker


def test_a_queue_is_behind_while_more_is_ready_than_its_consumers_take_in_some_time(
    node: Node, queue: Queue
) -> None:
    queue.add_consumer(taker := Taker(100))
    fill(queue, 5_000, 100)
    take(node, queue, taker, 5)
    assert not queue.is_behind  # it is not known yet how much they take
    take(node, queue, taker, 30)
    assert queue.is_behind
    while queue.is_behind:
        left = queue.ready
        take(node, queue, taker, 1)
    assert 100 * 1_000 * BACKLOG_SECONDS_MIN <= left <= 100 * 1_000 * BACKLOG_SECONDS_MIN + 200


def test_who_waits_for_a_queue_is_told_once_when_its_consumers_have_caught_up(
    node: Node, queue: Queue
) -> None:
    queue.add_consumer(taker := Taker(100))
    fill(queue, 5_000, 100)
    take(node, queue, taker, 30)
    told: list[int] = []
    queue.on_caught_up = lambda: told.append(queue.ready)
    take(node, queue, taker, 10)
    assert queue.is_behind
    assert not told
    take(node, queue, taker, 20)
    assert not queue.is_behind
    assert len(told) == 1
    assert told[0] <= 100 * 1_000 * BACKLOG_SECONDS_MIN


def test_a_queue_whose_consumers_take_nothing_is_not_behind(node: Node, queue: Queue) -> None:
    behind(node, queue)
    for _ in range(30):
        fill(queue, 1)
        node.turns.pass_seconds(0.001)
    assert not queue.is_behind


def test_a_queue_is_not_behind_when_much_more_comes_than_consumers_take(
    node: Node, queue: Queue
) -> None:
    queue.add_consumer(taker := Taker(10))
    fill(queue, 500)
    for comes in (10 * CAME_TIMES_MAX // 2, 20 * CAME_TIMES_MAX):
        for _ in range(40):
            fill(queue, comes)
            take(node, queue, taker, 1)
        assert queue.is_behind is (comes < 10 * CAME_TIMES_MAX)


def test_a_queue_that_holds_more_than_consumers_take_in_a_second_is_a_store(
    node: Node, queue: Queue
) -> None:
    queue.add_consumer(taker := Taker(10))
    fill(queue, round(10 * 1_000 * BACKLOG_SECONDS_MAX) + 1_000, 1_000)
    take(node, queue, taker, 50)
    assert not queue.is_behind
    take(node, queue, taker, 80)
    assert queue.is_behind


def test_a_queue_without_consumers_is_not_behind(node: Node, queue: Queue) -> None:
    queue.detach([behind(node, queue)])
    fill(queue, 1)
    node.turns.run()
    assert not queue.is_behind


def test_what_consumers_could_hold_once_more_is_no_backlog(node: Node, queue: Queue) -> None:
    queue.add_consumer(taker := Taker(1_000))
    fill(queue, 2_000, 100)
    node.turns.run()
    assert queue.unacked == queue.ready == 1_000
    for _ in range(40):
        delivery = taker.deliveries.pop(0)
        settle(delivery)
        taker.unacked -= delivery.count
        fill(queue, delivery.count)
        node.turns.pass_seconds(0.001)
        assert not queue.is_behind
