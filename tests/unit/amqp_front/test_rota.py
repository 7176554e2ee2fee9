"""Who goes on in which turn of the event loop."""

from __future__ import annotations

from typing import Any, cast

import pytest
from queue_samples import SetClock
from unit.amqp_front.test_long_write import Loop

from amqp_front.cork import Cork
from amqp_front.rota import FEW, HEARD_SECONDS, LONG_SECONDS, WORK_SECONDS, Rota


class Node:
    """A rota of clients that always have more to say.

    Args:
        seconds: that each takes when it goes on.
        read_seconds: that each takes with what is read of it in the turn that it goes on in.
    """

    def __init__(self, clients: int, seconds: float, read_seconds: float = 0.0) -> None:
        self.loop, self.clock = Loop(), SetClock()
        self.cork = Cork(cast(Any, self.loop))
        self.rota = Rota(cast(Any, self.loop), self.clock, self.cork)
        self.seconds, self.read_seconds = seconds, read_seconds
        self.went_on: list[int] = []
        for client in range(clients):
            self.wait(client)
        self.loop.turn()  # the rest of the one in which they came

    def wait(self, client: int) -> None:
        self.rota.wait(lambda: self.go_on(client))

    def go_on(self, client: int) -> None:
        assert self.cork.is_in
        self.went_on.append(client)
        self.take(self.seconds)
        self.wait(client)

    def take(self, seconds: float) -> None:
        self.clock.microseconds += round(seconds * 1e6)

    def turn(self) -> list[int]:
        """Who goes on in one turn of the loop."""
        self.went_on = []
        self.loop.turn()
        self.take(self.read_seconds * len(self.went_on))
        return self.went_on


def test_all_have_their_turns_one_after_the_other() -> None:
    node = Node(100, 0.9 * LONG_SECONDS / FEW)
    order = [client for _ in range(100) for client in node.turn()]
    assert order[:300] == 3 * list(range(100))


def test_few_go_on_in_one_turn() -> None:
    node = Node(100, 0.9 * LONG_SECONDS / FEW)
    assert len(node.turn()) == FEW


def test_few_that_wait_go_on_together() -> None:
    node = Node(FEW, 0.0)
    assert node.turn() == list(range(FEW))


def test_fewer_go_on_when_a_turn_was_long() -> None:
    node = Node(100, 0.0, 1.1 * LONG_SECONDS / FEW)
    assert [len(node.turn()) for _ in range(3)] == [FEW, FEW // 2, FEW // 2]


def test_one_goes_on_however_long_its_turn_is() -> None:
    node = Node(100, 0.0, 10 * LONG_SECONDS)
    assert [len(node.turn()) for _ in range(5)] == [4, 2, 1, 1, 1]


def test_no_other_goes_on_when_one_has_taken_long_already() -> None:
    node = Node(100, 10 * LONG_SECONDS)
    assert [node.turn() for _ in range(3)] == [[0], [1], [2]]


def test_what_others_take_is_no_reason_for_fewer() -> None:
    node = Node(100, 0.0, 0.9 * LONG_SECONDS / FEW)
    for _ in range(5):
        node.take(others := 10 * LONG_SECONDS)
        node.rota.others_took(others)
        assert len(node.turn()) >= FEW


def test_where_others_take_long_those_that_wait_have_half_as_much() -> None:
    each = LONG_SECONDS / 2
    node = Node(100, 0.0, each)
    turns = []
    for _ in range(40):
        node.rota.others_took(10 * LONG_SECONDS)
        node.take(10 * LONG_SECONDS)
        turns.append(len(node.turn()))
    assert max(turns) * each <= 5 * LONG_SECONDS
    assert turns[-1] * each >= 2 * LONG_SECONDS


def test_more_go_on_as_long_as_turns_are_short() -> None:
    node = Node(100, 0.0, LONG_SECONDS / 2 / 10.5)
    turns = [len(node.turn()) for _ in range(20)]
    assert turns[:8] == [4, 5, 6, 7, 8, 9, 10, 11]
    assert turns[-1] == 11


def test_whoever_comes_meanwhile_waits_until_the_others_had_their_turns() -> None:
    node = Node(2 * FEW, 0.9 * LONG_SECONDS / FEW)
    node.wait(99)
    turns = [node.turn() for _ in range(3)]
    assert turns[0] + turns[1] == list(range(2 * FEW))
    assert turns[2][0] == 99


def test_a_client_that_fails_does_not_stop_the_others() -> None:
    node = Node(0, 0.0)

    def fail() -> None:
        raise RuntimeError("a fault of ours")

    node.rota.wait(fail)
    node.wait(7)
    node.loop.turn()
    with pytest.raises(RuntimeError):
        node.loop.turn()
    assert node.turn() == [7]


def test_time_without_anybody_is_no_long_turn() -> None:
    node = Node(0, 0.9 * LONG_SECONDS / FEW)
    node.rota.wait(lambda: None)
    for _ in range(3):
        node.loop.turn()
    assert not node.loop.soon
    node.clock.microseconds += 10_000_000
    for client in range(100):
        node.wait(client)
    node.loop.turn()
    assert len(node.turn()) == FEW


def test_few_go_on_again_when_nobody_has_waited_for_a_turn() -> None:
    node = Node(0, 0.0)
    for _ in range(100):
        node.rota.wait(lambda: None)
    turns = 0
    while node.loop.soon:
        node.loop.turn()
        turns += 1
    assert turns < 15  # there were more in each
    for client in range(100):
        node.wait(client)
    node.loop.turn()
    assert len(node.turn()) == FEW


def test_works_share_some_time_of_a_turn() -> None:
    node = Node(0, 0.0)
    done: list[int] = []

    def do_some(work: int) -> None:
        assert node.cork.is_in
        done.append(work)
        node.take(0.6 * WORK_SECONDS)

    for work in range(5):
        node.rota.work(lambda work=work: do_some(work))  # type: ignore[misc]
    in_turns = []
    while node.loop.soon:
        node.loop.turn()
        in_turns.append(len(done))
    assert in_turns[:3] == [2, 4, 5]
    assert done == list(range(5))


def test_works_do_not_wait_for_those_that_wait_nor_these_for_them() -> None:
    node = Node(100, 0.0, LONG_SECONDS)
    done: list[int] = []

    def do_some() -> None:
        done.append(len(node.went_on))
        node.take(WORK_SECONDS)
        node.rota.work(do_some)

    node.rota.work(do_some)
    order = [client for _ in range(20) for client in node.turn()]
    assert order == list(range(len(order)))
    assert len(order) >= 20
    assert done == 20 * [0]


def test_a_turn_is_late_when_clients_with_much_to_say_have_made_it_long() -> None:
    node = Node(0, 0.0)
    assert not node.rota.is_late
    node.rota.heard_much()
    node.take(HEARD_SECONDS - 1e-6)
    node.rota.heard_much()
    assert not node.rota.is_late
    node.take(1e-6)
    assert node.rota.is_late
    node.loop.turn()
    assert not node.rota.is_late
    node.rota.heard_much()
    assert not node.rota.is_late
