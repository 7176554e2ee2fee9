"""A queue: who gets what, in which order, and when not."""

from typing import Any

import pytest
from support.queue_samples import (
    Node,
    Taker,
    bodies,
    declare_queue,
    fill,
    give_back,
    got,
    numbered,
    records,
    settle,
)

from routelog.log_backend import Lane, PartitionClosed
from routelog.vhosts import (
    ConsumptionRefused,
    Delivery,
    Queue,
    QueueLocked,
    QueueProperties,
    ReturnReason,
)
from routelog.vhosts.queues.dispatcher import (
    DELIVERY_BYTES_MAX,
    DELIVERY_BYTES_MIN,
    DELIVERY_COUNT_MAX,
    FRAMES_BYTES,
    TURN_BYTES_MAX,
)


def consume(queue: Queue, *takers: Taker) -> tuple[Taker, ...]:
    for taker in takers:
        queue.add_consumer(taker)
    return takers


@pytest.mark.parametrize("batch", [1, 7, 100])
def test_messages_come_in_the_order_of_publishing(node: Node, queue: Queue, batch: int) -> None:
    (taker,) = consume(queue, Taker())
    fill(queue, 100, batch)
    assert taker.deliveries == []  # not within the turn of the publisher
    node.turns.run()
    assert taker.bodies() == numbered(0, 100)
    assert (queue.ready, queue.unacked) == (0, 100)
    assert not any(delivery.redelivered for delivery in taker.deliveries)
    for delivery in taker.take():
        settle(delivery)
    assert (queue.ready, queue.unacked) == (0, 0)


def test_what_was_published_before_comes_too(node: Node, queue: Queue) -> None:
    fill(queue, 3)
    (taker,) = consume(queue, Taker())
    node.turns.run()
    assert taker.bodies() == numbered(0, 3)


# -- sharing


@pytest.mark.parametrize("batch", [1, 10, 120])
@pytest.mark.parametrize("count", [2, 3, 4])
def test_consumers_without_limits_share_evenly(
    node: Node, queue: Queue, batch: int, count: int
) -> None:
    takers = consume(queue, *(Taker(no_ack=True) for _ in range(count)))
    fill(queue, 120, batch)
    node.turns.run()
    shares = [len(taker.bodies()) for taker in takers]
    assert sum(shares) == 120
    assert min(shares) >= 120 // count - 10
    assert max(shares) <= 120 // count + 10


def test_single_messages_go_to_one_consumer_after_the_other(node: Node, queue: Queue) -> None:
    takers = consume(queue, Taker(), Taker(), Taker())
    for number in range(9):
        queue.publish(records(f"m{number}"), waited=False)
        node.turns.run()
    assert [taker.bodies() for taker in takers] == [
        ["m0", "m3", "m6"],
        ["m1", "m4", "m7"],
        ["m2", "m5", "m8"],
    ]


def test_a_busy_consumer_leaves_the_rest_to_the_others(node: Node, queue: Queue) -> None:
    slow, fast = consume(queue, Taker(1), Taker())
    fill(queue, 50, 10)
    node.turns.run()
    assert len(slow.bodies()) == 1
    assert len(fast.bodies()) == 49


def test_everything_is_delivered_once(node: Node, queue: Queue) -> None:
    takers = consume(queue, Taker(7), Taker(3), Taker(1), Taker())
    fill(queue, 200, 9)
    node.turns.run()
    delivered = sorted(body for taker in takers for body in taker.bodies())
    assert delivered == sorted(numbered(0, 200))


# -- credit


def test_no_more_than_the_credit_is_delivered(node: Node, queue: Queue) -> None:
    (taker,) = consume(queue, Taker(5))
    fill(queue, 12, 12)
    node.turns.run()
    assert taker.bodies() == numbered(0, 5)
    assert (queue.ready, queue.unacked) == (7, 5)
    taker.settle_all()
    queue.wake()
    node.turns.run()
    assert taker.bodies() == numbered(5, 10)


def test_without_credit_the_queue_waits_to_be_woken(node: Node, queue: Queue) -> None:
    (taker,) = consume(queue, Taker(0))
    fill(queue, 3)
    node.turns.run()
    assert taker.deliveries == []
    taker.prefetch = 2
    queue.wake()
    queue.wake()
    assert node.turns.one() == 1
    assert taker.bodies() == ["m0", "m1"]


def test_without_acks_messages_are_settled_at_once(node: Node, queue: Queue) -> None:
    consume(queue, Taker(no_ack=True))
    fill(queue, 30, 4)
    node.turns.run()
    assert (queue.ready, queue.unacked) == (0, 0)
    assert queue.partitions[0].cursor.low_water == 30


# -- priorities


def test_higher_priorities_come_first_while_they_have_credit(node: Node, queue: Queue) -> None:
    low, high, middle = consume(
        queue, Taker(priority=-1), Taker(2, priority=10), Taker(3, priority=5)
    )
    fill(queue, 8, 8)
    node.turns.run()
    assert high.bodies() == ["m0", "m1"]
    assert middle.bodies() == ["m2", "m3", "m4"]
    assert low.bodies() == ["m5", "m6", "m7"]


def test_consumers_of_one_priority_take_turns(node: Node, queue: Queue) -> None:
    low, *high = consume(queue, Taker(), Taker(priority=3), Taker(priority=3))
    for number in range(6):
        queue.publish(records(f"m{number}"), waited=False)
        node.turns.run()
    assert [taker.bodies() for taker in high] == [["m0", "m2", "m4"], ["m1", "m3", "m5"]]
    assert low.deliveries == []


def test_those_of_lower_priority_do_not_count_for_the_shares(node: Node, queue: Queue) -> None:
    _, high = consume(queue, Taker(), Taker(priority=3))
    fill(queue, 10, 10)
    node.turns.run()
    assert [delivery.count for delivery in high.deliveries] == [10]


# -- exclusive consumers


def test_an_exclusive_consumer_stays_alone(queue: Queue) -> None:
    (alone,) = consume(queue, Taker(exclusive=True))
    for second in (Taker(), Taker(exclusive=True), Taker(priority=9)):
        with pytest.raises(ConsumptionRefused) as caught:
            queue.add_consumer(second)
        assert str(caught.value) == "queue 'q' in vhost '/' in exclusive use"
    queue.detach([alone])
    consume(queue, Taker(), Taker())


def test_an_exclusive_consumer_needs_a_queue_without_others(node: Node, queue: Queue) -> None:
    (first,) = consume(queue, Taker())
    refused = Taker(exclusive=True)
    with pytest.raises(ConsumptionRefused):
        queue.add_consumer(refused)
    fill(queue, 2)
    node.turns.run()
    assert refused.deliveries == []
    assert queue.consumer_count == 1
    assert first.bodies() == ["m0", "m1"]


def test_a_removed_consumer_gets_nothing_more(node: Node, queue: Queue) -> None:
    first, second = consume(queue, Taker(), Taker())
    fill(queue, 2)
    queue.detach([first])
    queue.detach([first])
    node.turns.run()
    assert first.deliveries == []
    assert second.bodies() == ["m0", "m1"]
    assert queue.consumer_count == 1


# -- messages that come back


def test_what_comes_back_is_redelivered_in_its_old_place(node: Node, queue: Queue) -> None:
    (taker,) = consume(queue, Taker(4))
    fill(queue, 6, 6)
    node.turns.run()
    (delivery,) = taker.take()
    delivery.partition.give_back(1, 2, ReturnReason.FAILED)
    delivery.partition.give_back(3, 4, ReturnReason.RETURNED)
    assert (queue.ready, queue.unacked) == (4, 2)
    taker.unacked = 0
    taker.prefetch = None
    queue.wake()
    node.turns.run()
    assert taker.bodies() == ["m1", "m3", "m4", "m5"]
    assert [delivery.redelivered for delivery in taker.deliveries] == [True, True, False]


def test_what_is_due_is_served_once_and_waits_for_one_turn_only(node: Node, queue: Queue) -> None:
    waiting = node.turns.scheduler._lines[Lane.FRESH].steps
    queue.wake()
    assert queue.has_turn
    queue.serve_due()
    assert not queue.has_turn
    queue.wake()  # it stands in the line still
    assert queue.has_turn
    assert len(waiting) == 1
    node.turns.run()
    assert not queue.has_turn
    queue.wake()
    assert len(waiting) == 1


def test_the_queue_wakes_when_something_comes_back(node: Node, queue: Queue) -> None:
    first, second = consume(queue, Taker(1), Taker(0))
    fill(queue, 1)
    node.turns.run()
    (delivery,) = first.take()
    second.prefetch = 1
    give_back(delivery)
    node.turns.run()
    assert second.bodies() == ["m0"]
    assert second.deliveries[0].redelivered


# -- basic.get


def test_get_hands_out_one_message(queue: Queue) -> None:
    fill(queue, 2, 2)
    first = got(queue)
    assert first is not None
    assert bodies(first) == ["m0"]
    assert (queue.ready, queue.unacked) == (1, 1)
    second = got(queue)
    assert second is not None
    assert bodies(second) == ["m1"]
    assert got(queue) is None
    settle(second)
    give_back(first)
    again = got(queue)
    assert again is not None
    assert (bodies(again), again.redelivered) == (["m0"], True)


# -- emptying


def test_a_purge_drops_what_is_ready_only(node: Node, queue: Queue) -> None:
    (taker,) = consume(queue, Taker(2))
    fill(queue, 5, 5)
    node.turns.run()
    assert queue.purge() == 3
    assert (queue.ready, queue.unacked) == (0, 2)
    (delivery,) = taker.take()
    delivery.partition.give_back(0, 1)
    assert queue.purge() == 1
    assert (queue.ready, queue.unacked) == (0, 1)
    delivery.partition.settle(1, 2)
    assert queue.unacked == 0
    assert queue.partitions[0].cursor.low_water == 5
    assert queue.purge() == 0


def test_a_purge_leaves_to_a_consumer_what_it_is_due_though_a_turn_of_backlogs_is_over(
    node: Node, queue: Queue
) -> None:
    fill(queue, 5)
    node.turns.scheduler.begin(Lane.BACKLOG)
    node.turns.clock.microseconds += 10_000
    assert node.turns.scheduler.is_over()
    (taker,) = consume(queue, Taker(2))
    assert queue.purge() == 3
    assert len(taker.bodies()) == 2


def test_a_deleted_queue_takes_and_delivers_nothing(node: Node, queue: Queue) -> None:
    takers = consume(queue, Taker(1), Taker(1))
    fill(queue, 3)
    node.vhost.delete_queue(queue)
    handed_out = [taker.take() for taker in takers]
    assert [len(each) for each in handed_out] == [1, 1]  # they were due before
    for taker, each in zip(takers, handed_out, strict=True):
        taker.unacked = 0
        settle(each[0])
    node.turns.run()
    assert [(taker.deleted, taker.deliveries) for taker in takers] == [(1, []), (1, [])]
    with pytest.raises(PartitionClosed):
        fill(queue, 1)


def test_deliveries_of_a_deleted_queue_can_still_be_settled(node: Node, queue: Queue) -> None:
    (taker,) = consume(queue, Taker(2))
    fill(queue, 3)
    node.turns.run()
    node.vhost.delete_queue(queue)
    first, second = taker.take()
    settle(first)
    give_back(second)
    node.turns.run()
    assert taker.deliveries == []


# -- limits of a delivery and of a turn


def test_large_messages_go_out_in_pieces_of_a_batch(node: Node, queue: Queue) -> None:
    (taker,) = consume(queue, Taker())
    large = b"x" * (DELIVERY_BYTES_MAX // 3)
    queue.publish(records(*[large] * 7, bytes(2 * DELIVERY_BYTES_MAX), b"end"), waited=False)
    node.turns.run()
    assert [delivery.count for delivery in taker.deliveries] == [3, 3, 1, 1, 1]


def test_a_dispatch_ends_its_turn_after_some_bytes(node: Node, queue: Queue) -> None:
    size = TURN_BYTES_MAX // 4
    for _ in range(12):
        queue.publish(records(b"x" * size), waited=False)
    (taker,) = consume(queue, Taker())
    node.turns.one()
    assert 4 <= len(taker.deliveries) <= 6
    node.turns.run()
    assert len(taker.deliveries) == 12


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_turn_hands_out_as_many_as_came_since_the_last_one(node: Node, partitions: int) -> None:
    arguments = {"x-partitions": partitions}
    queue, _ = declare_queue(node.vhost, QueueProperties("many", arguments=arguments), None)
    (taker,) = consume(queue, Taker(no_ack=True))
    turn = TURN_BYTES_MAX // DELIVERY_BYTES_MIN
    for round_ in (1, 2):
        fill(queue, 3 * turn)  # as many batches
        node.turns.one()
        assert len(taker.deliveries) == round_ * 3 * turn


def test_the_frames_of_small_messages_count_in_a_turn(node: Node, queue: Queue) -> None:
    for _ in range(8):
        queue.publish(records(*[b"16 bytes of text"] * DELIVERY_COUNT_MAX), waited=False)
    (taker,) = consume(queue, Taker(no_ack=True))
    node.turns.one()
    first_turn = sum(delivery.count for delivery in taker.deliveries)
    assert first_turn <= TURN_BYTES_MAX // (16 + FRAMES_BYTES) + DELIVERY_COUNT_MAX
    node.turns.run()
    assert sum(delivery.count for delivery in taker.deliveries) == 8 * DELIVERY_COUNT_MAX


# -- access


def test_an_exclusive_queue_is_its_owners(node: Node) -> None:
    owner = object()
    queue, _ = declare_queue(node.vhost, QueueProperties("mine", exclusive=True), owner)
    queue.check_access(owner)
    with pytest.raises(QueueLocked) as caught:
        queue.check_access(object())
    assert str(caught.value).startswith(
        "cannot obtain exclusive access to locked queue 'mine' in vhost '/'"
    )


def test_any_other_queue_is_everybodys(queue: Queue) -> None:
    queue.check_access(object())


def test_a_turn_of_small_batches_ends_before_all_are_out(node: Node, queue: Queue) -> None:
    turn = TURN_BYTES_MAX // DELIVERY_BYTES_MIN
    fill(queue, 3 * turn)
    (taker,) = consume(queue, Taker(no_ack=True))
    node.turns.one()
    assert len(taker.deliveries) == turn + 1
    node.turns.run()
    assert taker.bodies() == numbered(0, 3 * turn)


class Slow(Taker):
    """Each delivery takes more than half a turn of the clock."""

    def __init__(self, node: Node) -> None:
        super().__init__(no_ack=True)
        self._clock = node.turns.clock

    def deliver(self, delivery: Delivery) -> None:
        """See `Consumer`."""
        self._clock.microseconds += 600
        super().deliver(delivery)


def test_a_backlog_is_handed_out_while_the_turn_has_time(node: Node, queue: Queue) -> None:
    fill(queue, 10)
    (taker,) = consume(queue, Slow(node))
    handed = []
    for _ in range(5):
        node.turns.one()
        handed.append(len(taker.deliveries))
    assert handed == [2, 4, 6, 8, 9]  # what each turn took too much comes off the next


async def test_backlogs_of_several_vhosts_share_a_turn(node: Node, queue: Queue) -> None:
    await node.vhosts.add("other")
    other, done = declare_queue(node.vhosts.get("other"), QueueProperties("q"), object())
    assert done is None
    takers: list[Any] = []
    for each in (queue, other):
        fill(each, 4)
        takers += consume(each, Slow(node))
    handed = []
    for _ in range(4):
        node.turns.one()
        handed.append(sum(len(taker.deliveries) for taker in takers))
    assert handed == [2, 4, 6, 8]


def test_what_has_just_come_is_handed_out_however_long_it_takes(node: Node, queue: Queue) -> None:
    (taker,) = consume(queue, Slow(node))
    fill(queue, 10)
    node.turns.one()
    assert len(taker.deliveries) == 10


def test_consumers_that_go_together_leave_the_others_their_turns(node: Node, queue: Queue) -> None:
    takers = consume(queue, *(Taker(1, priority=at % 2) for at in range(6)))
    queue.detach({*takers[:4], Taker()})
    fill(queue, 4)
    node.turns.run()
    assert [taker.bodies() for taker in takers[4:]] == [["m1"], ["m0"]]
    assert queue.consumer_count == 2
