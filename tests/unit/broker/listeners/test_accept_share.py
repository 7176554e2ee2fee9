"""Who of several processes accepts a client."""

from __future__ import annotations

import pytest

from routelog.broker.listeners.accept_share import LOOKS_MAX, AcceptShare
from routelog.broker.listeners.shared_page import SharedPage


class House:
    """Processes that look at one listening socket, one after the other."""

    def __init__(self, count: int) -> None:
        self.page = SharedPage(count)
        for number in self.page.all:
            self.page.started(number, 1_000 + number)
            self.page.ready(number)
        self.page.all_ready()
        self.shares = {number: AcceptShare(self.page, number) for number in self.page.all}

    @property
    def counts(self) -> list[int]:
        """How many connections each process has."""
        return [self.page.connections(number) for number in self.page.all]

    def come(self, connections: int) -> None:
        """Connections come; who is asked first is each time another one."""
        for each in range(connections):
            order = [*self.page.all, *self.page.all][each % self.page.count :]
            there = (number for number in order if self.page.is_ready(number))
            taker = next(number for number in there if self.shares[number].takes())
            self.shares[taker].has(self.page.connections(taker) + 1)


@pytest.mark.parametrize(
    ("processes", "connections", "shares"),
    [(2, 30, [10, 20]), (4, 13, [1, 4, 4, 4]), (4, 8, [0, 3, 3, 2]), (4, 130, [10, 40, 40, 40])],
)
def test_each_has_its_share(processes: int, connections: int, shares: list[int]) -> None:
    house = House(processes)
    house.come(connections)
    assert sum(house.counts) == connections
    assert all(abs(has - due) <= 1 for has, due in zip(house.counts, shares, strict=True))


def test_a_process_that_is_away_is_not_waited_for() -> None:
    house = House(3)
    house.page.ended(2)
    house.come(30)
    assert house.counts[1] == 0
    assert house.page.process(2) == 0
    assert min(house.counts[0], house.counts[2]) > 0


def test_who_comes_back_gets_the_next_ones() -> None:
    house = House(3)
    house.come(21)
    house.page.ended(2)
    house.page.started(2, 5)
    house.page.ready(2)
    house.come(5)
    assert house.counts[1] == 5


def test_clients_that_others_leave_waiting_are_taken() -> None:
    house = House(2)
    share = house.shares[1]
    share.has(9)
    looks = 1
    while not share.takes():
        looks += 1
    assert looks == LOOKS_MAX + 1
    assert all(share.takes() for _ in range(100))  # the other one stands still
    share.nobody_waits()
    assert [share.takes() for _ in range(LOOKS_MAX + 1)] == [False] * LOOKS_MAX + [True]
    house.shares[2].has(1)  # it does not any more
    assert share.takes()
    assert [share.takes() for _ in range(LOOKS_MAX + 1)] == [False] * LOOKS_MAX + [True]


def test_the_first_process_leaves_clients_to_those_that_are_about_to_start() -> None:
    page = SharedPage(2)
    page.started(1, 5)
    page.ready(1)
    share = AcceptShare(page, 1)
    for _ in range(2):
        assert [share.takes() for _ in range(LOOKS_MAX + 1)] == [False] * LOOKS_MAX + [True]
    page.all_ready()
    assert share.takes()


def test_connections_of_all_count_for_the_limit_of_the_node() -> None:
    house = House(3)
    for number, count in ((1, 4), (2, 5), (3, 6)):
        house.shares[number].has(count)
    assert [house.shares[number].elsewhere() for number in house.page.all] == [11, 10, 9]
