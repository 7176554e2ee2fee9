"""Consumers with credit take turns, and those without are not looked at."""

from __future__ import annotations

import tracemalloc

from support.queue_samples import Taker

from routelog.vhosts.queues.credit_ring import CreditRing


class Counting(Taker):
    """Counts how often it is asked for its credit."""

    looks = 0

    def credit(self) -> int:
        self.looks += 1
        return super().credit()


def ring_of(*consumers: Taker) -> CreditRing:
    ring = CreditRing()
    for consumer in consumers:
        ring.add(consumer)
    return ring


def following(ring: CreditRing, count: int) -> list[object]:
    return [ring.next()[0] for _ in range(count)]


def test_those_of_the_highest_priority_with_credit_take_turns() -> None:
    low, first, second = Taker(1), Taker(1, priority=5), Taker(2, priority=5)
    ring = ring_of(low, first, second)
    assert following(ring, 3) == [first, second, first]
    first.unacked = 1
    assert following(ring, 2) == [second, second]
    second.unacked = 2
    assert following(ring, 1) == [low]
    low.unacked = 1
    assert ring.next() == (None, 0)


def test_a_consumer_without_credit_is_not_looked_at_again() -> None:
    blocked = [Counting(0) for _ in range(100)]
    worker = Taker(10)
    ring = ring_of(*blocked, worker)
    assert following(ring, 50) == [worker] * 50
    assert {consumer.looks for consumer in blocked} == {1}
    assert ring.size(0) == 1


def test_no_more_credit_is_counted_than_is_wanted() -> None:
    second, third = Counting(2), Counting(3)
    takers = [Counting(0), second, third]
    ring = ring_of(*takers)
    assert [ring.credit(wanted) for wanted in (1, 3, 9)] == [2, 5, 5]
    assert [taker.looks for taker in takers] == [1, 3, 2]
    assert following(ring, 3) == [second, third, second]
    assert ring.credit(1) == 3
    assert following(ring, 1) == [third]
    second.unacked, third.unacked = 2, 3
    assert ring.credit(1) == 0
    assert ring.size(0) == 0


def test_a_consumer_with_credit_again_stands_behind_the_others() -> None:
    first, second, third = Taker(1), Taker(1), Taker(1)
    ring = ring_of(first, second, third)
    assert ring.next() == (first, 1)
    ring.spend(first)
    assert ring.size(0) == 2
    ring.has_credit(first)
    ring.has_credit(first)
    assert following(ring, 4) == [second, third, first, second]


def test_one_that_nobody_spoke_for_waits_until_all_may_have_credit() -> None:
    first, second = Taker(1), Taker(1)
    ring = ring_of(first, second)
    first.unacked = 1
    assert following(ring, 2) == [second, second]
    first.unacked = 0
    assert following(ring, 2) == [second, second]
    ring.have_credit()
    assert set(following(ring, 2)) == {first, second}


def test_who_has_left_gets_no_turn_and_does_not_come_back() -> None:
    first, second, third = Taker(0), Taker(1), Taker(1)
    ring = ring_of(first, second, third)
    assert ring.next()[0] is second
    ring.remove([first, second])
    ring.spend(second)
    ring.has_credit(first)
    ring.have_credit()
    first.prefetch = 1
    assert following(ring, 2) == [third, third]


def test_priorities_that_nobody_has_any_more_are_forgotten() -> None:
    stays, other = Taker(1), Taker(1, priority=-1)
    ring = ring_of(stays, other)
    tracemalloc.start()
    try:
        for priority in range(1, 1_001):
            comes = Taker(priority % 2, priority=priority)
            ring.add(comes)
            assert ring.next()[0] is (comes if comes.prefetch else stays)
            ring.remove([comes])
            ring.spend(comes)
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert grown < 100_000  # bytes; an empty ring takes some 700
    stays.unacked = 1
    assert ring.next()[0] is other
