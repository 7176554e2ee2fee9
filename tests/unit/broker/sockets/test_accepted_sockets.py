from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from routelog.broker.sockets.accepted_sockets import (
    WARN_SECONDS,
    AcceptedSocket,
    AcceptedSockets,
    SocketLimits,
)

LIMITS = SocketLimits(all=6, unauthenticated=4)
CROWD, HONEST = "127.0.0.2", "127.0.0.3"


class House:
    """The sockets of a protocol, which of them were dropped, and a clock."""

    def __init__(self, limits: SocketLimits = LIMITS) -> None:
        self.seconds = 0.0
        self.sockets = AcceptedSockets("AMQP", limits, lambda: self.seconds)
        self.dropped: list[AcceptedSocket] = []
        self._handles: list[socket.socket] = []

    def come(self, peer: str | None) -> AcceptedSocket | None:
        handle = socket.socket()
        self._handles.append(handle)
        accepted = self.sockets.admit(handle, peer)
        if accepted is not None:
            accepted.drop = lambda: self.dropped.append(accepted)
        return accepted

    def admitted(self, peer: str | None) -> AcceptedSocket:
        accepted = self.come(peer)
        assert accepted is not None
        return accepted

    def close(self) -> None:
        for handle in self._handles:
            handle.close()


@pytest.fixture
def house() -> Iterator[House]:
    house = House()
    yield house
    house.close()


def test_the_oldest_that_has_not_logged_in_makes_room(house: House) -> None:
    came = [house.admitted(CROWD) for _ in range(6)]
    assert house.dropped == came[:2]
    assert len(house.sockets) == 4


def test_an_address_with_many_drops_its_own(house: House) -> None:
    honest = house.admitted(HONEST)
    came = [house.admitted(CROWD) for _ in range(20)]
    assert honest not in house.dropped
    assert house.dropped == came[:17]
    latest = house.admitted(HONEST)
    assert house.dropped == came[:18]
    assert latest not in house.dropped


def test_who_has_logged_in_makes_room_for_nobody(house: House) -> None:
    friends = [house.admitted(CROWD) for _ in range(3)]
    for friend in friends:
        friend.authenticated()
    for _ in range(10):
        house.admitted(CROWD)
    assert len(house.sockets) == LIMITS.all
    assert not set(friends) & set(house.dropped)


def test_when_all_have_logged_in_the_next_is_refused(house: House) -> None:
    for _ in range(LIMITS.all):
        house.admitted(CROWD).authenticated()
    assert house.come(HONEST) is None
    assert house.dropped == []


def test_a_socket_that_is_closed_leaves_its_place(house: House) -> None:
    came = [house.admitted(CROWD) for _ in range(4)]
    for accepted in (came[0], came[0], came[3]):  # it may be said twice
        accepted.closed()
    came[3].authenticated()  # too late
    assert len(house.sockets) == 2
    house.admitted(CROWD)
    house.admitted(CROWD)
    assert house.dropped == []
    house.admitted(CROWD)
    assert house.dropped == [came[1]]


def test_whom_a_proxy_speaks_for_counts(house: House) -> None:
    honest = house.admitted("127.0.0.1")
    crowd = [house.admitted("127.0.0.1") for _ in range(3)]
    honest.comes_from(HONEST)
    for each in crowd:
        each.comes_from(CROWD)
    house.admitted(HONEST)
    assert house.dropped == crowd[:1]
    crowd[0].comes_from(HONEST)  # its header was on the way
    assert len(house.sockets) == 4


def test_the_addresses_of_one_network_of_ipv6_are_one(house: House) -> None:
    honest = house.admitted("2001:db8:2::1")
    came = [house.admitted(f"2001:db8:1::{number:x}") for number in range(1, 9)]
    assert house.dropped == came[:5]
    assert honest not in house.dropped


def test_a_flood_is_one_line_of_the_log_for_a_while(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(10):
        house.admitted(CROWD)
    assert len(caplog.records) == 1
    house.seconds = WARN_SECONDS
    house.admitted(CROWD)
    said = caplog.messages
    assert len(said) == 2
    assert said[1].endswith("dropped 6 of these")
