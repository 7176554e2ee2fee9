"""While the cork is in, a socket sends the first that it is given, and keeps the rest to send it as one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import cast

import pytest
from support.loop_services import services_of
from unit.broker.sockets.test_long_write import Loop

from routelog.broker.loop.cork import Cork
from routelog.broker.sockets.client_socket import KEPT_BYTES_MAX, ClientSocket
from routelog.broker.sockets.long_write import TURN_BYTES_MAX
from routelog.vhosts import NodeCounters


class Transport:
    """Notes what each call of the system gets."""

    def __init__(self) -> None:
        self.calls: list[bytes] = []
        self.closed = False
        self.is_gone = False

    def get_extra_info(self, name: str) -> None: ...

    def set_write_buffer_limits(self, *, high: int) -> None: ...

    def is_closing(self) -> bool:
        return self.closed

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, part: bytes) -> None:
        assert not self.closed
        if self.is_gone:
            raise OSError("gone")
        self.calls.append(bytes(part))

    def writelines(self, parts: Sequence[bytes]) -> None:
        self.write(b"".join(parts))

    def close(self) -> None:
        self.closed = True

    abort = close


class Owner:
    traffic = NodeCounters().traffic

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def cork(loop: Loop) -> Cork:
    return Cork()


class Client:
    def __init__(self, loop: Loop, cork: Cork) -> None:
        self.transport = Transport()
        transport = cast(asyncio.Transport, self.transport)
        self.socket = ClientSocket(transport, services_of(loop, cork), Owner())


@pytest.fixture
def client(loop: Loop, cork: Cork) -> Client:
    return Client(loop, cork)


def test_what_is_written_goes_out_at_once(client: Client) -> None:
    client.socket.write((b"a",))
    client.socket.write((b"b", b"c"))
    assert client.transport.calls == [b"a", b"bc"]


def test_while_the_cork_is_in_all_but_the_first_go_out_as_one(
    loop: Loop, cork: Cork, client: Client
) -> None:
    other = Client(loop, cork)

    def write() -> None:
        for part in (b"a", b"b"):
            client.socket.write((part,))
        other.socket.write((b"x",))
        client.socket.write((b"c", b"d"))
        assert (client.transport.calls, other.transport.calls) == ([b"a"], [b"x"])

    for _ in range(2):
        cork.run(write)
        assert (client.transport.calls, other.transport.calls) == ([b"a", b"bcd"], [b"x"])
        client.transport.calls.clear()
        other.transport.calls.clear()
    client.socket.write((b"e",))
    assert client.transport.calls == [b"e"]


def test_the_outermost_counts(cork: Cork, client: Client) -> None:
    def write() -> None:
        cork.run(lambda: client.socket.write((b"a",)))
        for part in (b"b", b"c"):
            client.socket.write((part,))
        assert client.transport.calls == [b"a"]

    cork.run(write)
    assert client.transport.calls == [b"a", b"bc"]


def test_one_that_fails_keeps_nothing_back(loop: Loop, cork: Cork, client: Client) -> None:
    def fail() -> None:
        for part in (b"a", b"b"):
            client.socket.write((part,))
        raise OSError("no disk")

    with pytest.raises(OSError, match="no disk"):
        cork.run(fail)
    assert client.transport.calls == [b"a", b"b"]
    assert not cork.is_in


def test_much_does_not_wait(cork: Cork, client: Client) -> None:
    def write() -> None:
        for part in (b"a", b"b", bytes(KEPT_BYTES_MAX)):
            client.socket.write((part,))
        assert client.transport.calls == [b"a", b"b" + bytes(KEPT_BYTES_MAX)]
        client.socket.write((b"c",))

    cork.run(write)
    assert client.transport.calls[2:] == [b"c"]


def test_order_stays_when_more_is_written_than_a_turn_sends(
    loop: Loop, cork: Cork, client: Client
) -> None:
    def write() -> None:
        for part in (b"a", b"b", bytes(TURN_BYTES_MAX), b"c"):
            client.socket.write((part,))

    cork.run(write)
    while loop.soon:
        loop.turn()
    assert b"".join(client.transport.calls) == b"ab" + bytes(TURN_BYTES_MAX) + b"c"


def test_what_is_kept_goes_out_before_the_socket_is_closed(cork: Cork, client: Client) -> None:
    def write() -> None:
        for part in (b"a", b"b"):
            client.socket.write((part,))
        client.socket.close()
        assert client.transport.calls == [b"a", b"b"]

    cork.run(write)


def test_nothing_goes_out_behind_an_abort(cork: Cork, client: Client) -> None:
    def write() -> None:
        for part in (b"a", b"b"):
            client.socket.write((part,))
        client.socket.abort()

    cork.run(write)
    assert client.transport.calls == [b"a"]


def test_a_socket_that_fails_keeps_nothing_of_others_back(loop: Loop, cork: Cork) -> None:
    clients = [Client(loop, cork) for _ in range(3)]

    def write() -> None:
        for client in clients:
            for part in (b"a", b"b"):
                client.socket.write((part,))
        clients[1].transport.is_gone = True

    with pytest.raises(OSError, match="gone"):
        cork.run(write)
    assert [client.transport.calls for client in clients] == [[b"a", b"b"], [b"a"], [b"a", b"b"]]
    assert not cork.sockets
