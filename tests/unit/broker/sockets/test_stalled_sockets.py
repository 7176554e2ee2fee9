from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest
from support.waiting import WAIT_SECONDS

from routelog.broker.sockets.accepted_sockets import AcceptedSocket, AcceptedSockets, SocketLimits
from routelog.broker.sockets.stalled_sockets import LOOKS, StalledSockets, is_stalled, progress
from routelog.log_backend import scheduler_of

BUFFER = 1 << 20


class Pair:
    """Both ends of a connection; what is written to ours fills the buffers."""

    def __init__(self, family: socket.AddressFamily, stack: ExitStack) -> None:
        listening = stack.enter_context(socket.socket(family))
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
        listening.bind(("127.0.0.1" if family is socket.AF_INET else "::1", 0))
        listening.listen()
        self.client = stack.enter_context(socket.socket(family))
        self.client.connect(listening.getsockname())
        self.own = stack.enter_context(listening.accept()[0])
        self.own.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
        self.own.setblocking(False)

    def fill(self) -> None:
        try:
            while True:
                self.own.send(bytes(4_096))
        except BlockingIOError:
            pass

    def accepted(self) -> AcceptedSocket:
        limits = SocketLimits(4, 4)
        accepted = AcceptedSockets("AMQP", limits, lambda: 0.0).admit(self.own, None)
        assert accepted is not None
        return accepted


@pytest.fixture(params=[socket.AF_INET, socket.AF_INET6])
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    with ExitStack() as stack:
        yield Pair(request.param, stack)


def looks(accepted: AcceptedSocket, count: int) -> list[bool]:
    return [is_stalled(accepted) for _ in range(count)]


def test_a_client_that_takes_nothing_is_stalled_after_so_many_looks(pair: Pair) -> None:
    accepted = pair.accepted()
    pair.fill()
    # The kernel may still deliver what was written, on a busy machine: that is progress.
    while True:
        accepted.taken, accepted.idle_looks = -1, 0
        before = progress(pair.own)
        found = looks(accepted, LOOKS + 1)
        if progress(pair.own) == before:
            break
    assert found == [False] * LOOKS + [True]


def test_a_client_to_which_nothing_is_sent_is_not(pair: Pair) -> None:
    accepted = pair.accepted()
    assert not any(looks(accepted, 4 * LOOKS))
    pair.own.send(b"read at once")
    assert pair.client.recv(100)
    assert not any(looks(accepted, 4 * LOOKS))


def test_a_client_that_takes_little_from_time_to_time_is_not(pair: Pair) -> None:
    accepted = pair.accepted()
    for _ in range(8):
        pair.fill()
        assert not any(looks(accepted, LOOKS))
        while progress(pair.own)[1] == accepted.taken:  # its window opens after some of it
            assert pair.client.recv(65_536)


def test_a_closed_socket_is_not_looked_at(pair: Pair) -> None:
    accepted = pair.accepted()
    pair.fill()
    pair.own.close()
    assert not any(looks(accepted, 2 * LOOKS))


def test_a_unix_socket_is_not_looked_at() -> None:
    own, client = socket.socketpair(socket.AF_UNIX)
    with own, client:
        own.setblocking(False)
        accepted = AcceptedSockets("AMQP", SocketLimits(4, 4), lambda: 0.0).admit(own, None)
        assert accepted is not None
        with suppress(BlockingIOError):
            own.send(bytes(1 << 24))
        assert not any(looks(accepted, 2 * LOOKS))


async def test_a_stalled_client_is_dropped_and_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sockets = AcceptedSockets("AMQP", SocketLimits(4, 4), lambda: 0.0)
    with ExitStack() as stack:
        stuck, idle = Pair(socket.AF_INET, stack), Pair(socket.AF_INET, stack)
        stuck.fill()
        dropped = asyncio.Event()
        for pair in (stuck, idle):
            accepted = sockets.admit(pair.own, "127.0.0.1")
            assert accepted is not None
            accepted.drop = dropped.set if pair is stuck else pytest.fail
        looking = StalledSockets(
            loop := asyncio.get_running_loop(), scheduler_of(loop), sockets, 0.02
        )
        async with asyncio.timeout(WAIT_SECONDS):
            await dropped.wait()
        looking.stop()
        host, port = stuck.client.getsockname()
        assert f"{host}:{port}: the client took nothing" in caplog.text
