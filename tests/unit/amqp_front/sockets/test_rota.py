"""Who goes on in which turn of the event loop."""

from __future__ import annotations

from collections import Counter
from typing import Any, cast

import pytest
from queue_samples import SetClock
from unit.broker.sockets.test_long_write import Loop

from routelog.amqp_front.sockets.rota import (
    BYTE_SECONDS,
    FAVOURED_SECONDS,
    FEW,
    HEARD_SECONDS,
    LATE_SECONDS,
    LINE_SECONDS,
    LINES_SECONDS,
    REACHED_SECONDS,
    Rota,
)
from routelog.broker.loop.cork import Cork

QUICK = 0.9 * LINE_SECONDS / FEW  # so that few of them have their turn


class Node:
    """A rota of clients that always have more to say.

    Args:
        seconds: that each takes when it goes on.
        room: how many of them are heard in time in one turn, when they are read again.
    """

    def __init__(self, clients: int, seconds: float, room: int = 1_000_000) -> None:
        self.loop, self.clock = Loop(), SetClock()
        self.cork = Cork(cast(Any, self.loop))
        self.rota = Rota(cast(Any, self.loop), self.clock, self.cork)
        self.seconds, self.room = seconds, room
        self.went_on: list[int] = []
        for client in range(clients):
            self.rota.wait(self.client(client))
        self.loop.turn()  # the rest of the one in which they came

    def client(self, number: int) -> Any:
        def go_on() -> None:
            assert self.cork.is_in
            self.went_on.append(number)
            self.take(self.seconds)

        return go_on

    def take(self, seconds: float) -> None:
        self.clock.microseconds += round(seconds * 1e6)

    def turn(self) -> list[int]:
        """Who goes on in one turn of the loop; what is read of them comes in the next one."""
        self.went_on = []
        self.loop.turn()
        went_on = self.went_on
        for number in went_on[: self.room]:
            self.rota.wait(self.client(number))
        for number in went_on[self.room :]:
            self.rota.came_late(self.client(number), has_waited=True)
        return went_on


def test_all_have_their_turns_one_after_the_other() -> None:
    node = Node(100, QUICK)
    order = [client for _ in range(100) for client in node.turn()]
    assert order[:300] == 3 * list(range(100))


def test_few_go_on_in_one_turn() -> None:
    assert len(Node(100, QUICK).turn()) == FEW


def test_few_that_wait_go_on_together() -> None:
    assert Node(FEW, 0.0).turn() == list(range(FEW))


def test_fewer_go_on_when_some_of_them_were_late() -> None:
    node = Node(100, 0.0, room=FEW - 1)
    assert len(node.turn()) == FEW
    assert len(node.turn()) == FEW // 2 + 1  # the one that was late, too


def test_one_goes_on_however_late_they_are() -> None:
    node = Node(100, LINE_SECONDS, room=0)
    turns = [node.turn() for _ in range(20)]
    assert all(turns)
    assert len(turns[-1]) <= 2  # of those that were late, and of the others


def test_who_was_late_goes_on_before_those_that_wait() -> None:
    node = Node(100, 0.0, room=FEW - 1)
    assert node.turn()[-1] == FEW - 1
    assert node.turn()[0] == FEW - 1


def test_no_other_goes_on_when_one_has_taken_long_already() -> None:
    node = Node(100, 10 * LINES_SECONDS)
    assert [node.turn() for _ in range(3)] == [[0], [1], [2]]


def test_more_go_on_as_long_as_none_is_late() -> None:
    node = Node(100, 0.0)
    assert [len(node.turn()) for _ in range(8)] == [4, 5, 6, 7, 8, 9, 10, 11]


def test_whoever_comes_meanwhile_waits_until_the_others_had_their_turns() -> None:
    node = Node(2 * FEW, QUICK)
    node.rota.wait(node.client(99))
    order = [client for _ in range(3) for client in node.turn()]
    assert order[: 2 * FEW + 1] == [*range(2 * FEW), 99]


def test_a_client_that_fails_does_not_stop_the_others() -> None:
    node = Node(0, 0.0)

    def fail() -> None:
        raise RuntimeError("a fault of ours")

    node.rota.wait(fail)
    node.rota.wait(node.client(7))
    node.loop.turn()
    with pytest.raises(RuntimeError):
        node.loop.turn()
    assert node.turn() == [7]


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
        node.rota.wait(node.client(client))
    node.loop.turn()
    assert len(node.turn()) == FEW


class Lines:
    """Clients that came late, and others that wait, all of them again and again.

    Args:
        seconds: that each takes.
    """

    def __init__(self, seconds: float) -> None:
        self.node = Node(0, 0.0)
        self.done: Counter[str] = Counter()
        self._seconds = seconds
        for _ in range(50):
            self._come_late()
            self._wait()

    def _come_late(self) -> None:
        self.node.rota.came_late(lambda: self._do("late", self._come_late), has_waited=False)

    def _wait(self) -> None:
        self.node.rota.wait(lambda: self._do("wait", self._wait))

    def _do(self, line: str, again: Any) -> None:
        self.done[line] += 1
        self.node.take(self._seconds)
        again()

    def turns(self, count: int) -> float:
        """Take turns; returns the longest, in seconds."""
        longest = 0.0
        for _ in range(count):
            begin = self.node.clock.monotonic()
            self.node.loop.turn()
            longest = max(longest, self.node.clock.monotonic() - begin)
        return longest


def test_all_lines_share_the_time_of_a_turn() -> None:
    each = LINES_SECONDS / 20
    lines = Lines(each)
    assert lines.turns(300) <= LINES_SECONDS + each + 1e-6
    assert min(lines.done.values()) * each > 300 * LINE_SECONDS / 2


def test_no_line_waits_for_another_whose_members_take_a_whole_turn() -> None:
    lines = Lines(2 * LINES_SECONDS)
    assert lines.turns(300) <= 2 * LINES_SECONDS + 1e-6
    assert min(lines.done.values()) >= 70


def test_a_line_alone_has_no_more_than_its_share() -> None:
    node = Node(0, 0.0)
    for client in range(100):
        node.rota.came_late(node.client(client), has_waited=False)
    node.seconds = LATE_SECONDS / 5
    node.loop.turn()
    assert len(node.went_on) == 5


def late_after(node: Node, seconds: float, is_favoured: bool = False) -> bool:
    """Whether a turn is late when what is read has taken so long."""
    node.loop.turn()
    node.take(10.0)
    assert not node.rota.is_late(False)  # the first of the turn
    node.take(seconds)
    return node.rota.is_late(is_favoured)


def test_a_turn_is_late_when_what_is_read_has_made_it_long() -> None:
    node = Node(0, 0.0)
    assert not late_after(node, HEARD_SECONDS - 1e-5)
    assert late_after(node, HEARD_SECONDS + 1e-5)


def test_it_is_late_later_for_those_that_have_waited() -> None:
    node = Node(0, 0.0)
    assert not late_after(node, FAVOURED_SECONDS - 1e-5, is_favoured=True)
    assert late_after(node, FAVOURED_SECONDS + 1e-5, is_favoured=True)


def test_the_next_turn_is_not_late() -> None:
    node = Node(0, 0.0)
    assert late_after(node, 2 * HEARD_SECONDS)
    node.loop.turn()
    assert not node.rota.is_late(False)


def test_short_turns_together_are_not_a_late_one() -> None:
    node = Node(0, 0.0)
    for _ in range(100):
        assert not node.rota.is_late(False)
        node.take(HEARD_SECONDS / 3)
        node.loop.turn()


def test_the_end_of_a_turn_is_looked_for_once_in_a_while() -> None:
    node = Node(0, 0.0)
    looked = 0
    for _ in range(100):
        node.rota.is_late(False)
        looked += len(node.loop.soon)
        node.take(HEARD_SECONDS / 10)
        node.loop.turn()
    assert 0 < looked <= 11


def test_queues_that_were_reached_make_a_turn_late() -> None:
    node = Node(0, 0.0)
    assert not late_after(node, 0.0)
    node.rota.reached(round(HEARD_SECONDS / REACHED_SECONDS) + 1)
    assert node.rota.is_late(False)


def test_what_was_read_makes_a_turn_late_where_others_wait() -> None:
    node = Node(1, 0.0)
    much = round(HEARD_SECONDS / BYTE_SECONDS) + 1000
    assert not node.rota.is_late(False)
    node.rota.heard(much)
    assert node.rota.is_late(False)
    alone = Node(0, 0.0)
    assert not late_after(alone, 0.0)
    alone.rota.heard(much)
    assert not alone.rota.is_late(False)
