"""The socket of a connection: its name, its outbox, and that it always ends."""

import asyncio
import re
import socket
from typing import Any, cast

import pytest
from support.loop_services import services_of

from routelog.broker.sockets import client_socket
from routelog.broker.sockets.client_socket import ClientSocket
from routelog.broker.sockets.proxy_header import Endpoint
from routelog.vhosts import NodeCounters


class Transport:
    """Keeps what is written, like a client that never reads."""

    def __init__(self, address: object) -> None:
        self.address = address
        self.socket: socket.socket | None = None
        self.unsent = 0
        self.reading = True
        self.has_two_sides = True
        self.calls: list[str] = []

    def get_extra_info(self, name: str) -> object:
        return {"peername": self.address, "socket": self.socket}.get(name)

    def set_write_buffer_limits(self, *, high: int) -> None: ...

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def is_closing(self) -> bool:
        return bool(self.calls)

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def can_write_eof(self) -> bool:
        return self.has_two_sides

    def write_eof(self) -> None:
        self.calls.append("end")

    def close(self) -> None:
        self.calls.append("close")

    def abort(self) -> None:
        self.calls.append("abort")


class Timers:
    """A loop of which only the timers are used."""

    def __init__(self) -> None:
        self.set: list[tuple[float, Any]] = []

    def call_soon(self, call: Any) -> None: ...

    def call_later(self, seconds: float, call: Any) -> Any:
        timer = (seconds, call)
        self.set.append(timer)
        return cast(Any, type("Timer", (), {"cancel": lambda _: self.set.remove(timer)})())


class Owner:
    """A connection that is told when to deliver."""

    traffic = NodeCounters().traffic

    def __init__(self) -> None:
        self.told: list[str] = []

    def pause_writing(self) -> None:
        self.told.append("pause")

    def resume_writing(self) -> None:
        self.told.append("resume")


def connected(address: object = ("192.0.2.1", 7)) -> tuple[ClientSocket, Transport, Timers]:
    transport, timers = Transport(address), Timers()
    owner = Owner()
    client = ClientSocket(cast(asyncio.Transport, transport), services_of(timers), owner)
    return client, transport, timers


@pytest.mark.parametrize(
    ("address", "peer", "name"),
    [(("192.0.2.1", 7), "192.0.2.1", "192.0.2.1:7"), ("", "", "local"), (None, None, "local")],
)
def test_a_connection_is_called_after_its_other_end(
    address: object, peer: str | None, name: str
) -> None:
    client, _, _ = connected(address)
    assert (client.peer, client.name) == (peer, name)


def test_a_client_behind_a_proxy_is_called_after_itself() -> None:
    transport = cast(asyncio.Transport, Transport(("198.51.100.1", 9)))
    client = ClientSocket(transport, services_of(Timers()), Owner(), Endpoint("192.0.2.1", 7))
    assert (client.peer, client.name) == ("192.0.2.1", "192.0.2.1:7")


def test_connections_without_a_port_have_names_of_their_own() -> None:
    names = set()
    with socket.socket(socket.AF_UNIX) as one, socket.socket(socket.AF_UNIX) as other:
        for each in (one, other):
            for address, proxied in (("", None), (("198.51.100.1", 9), Endpoint("0.0.0.0", 0))):
                transport = Transport(address)
                transport.socket = each
                door = cast(asyncio.Transport, transport)
                client = ClientSocket(door, services_of(Timers()), Owner(), proxied)
                names.add(client.ends_name())
    assert len(names) == 4
    assert all(re.fullmatch(r"(0\.0\.0\.0)?:[1-9]\d* -> :0", each) for each in names), names


def test_a_client_that_does_not_read_what_is_unsent_is_dropped_in_the_end() -> None:
    client, transport, timers = connected()
    client.close()
    ((seconds, call),) = timers.set
    assert seconds == client_socket.CLOSE_SECONDS_MAX
    call()
    assert transport.calls == ["close", "abort"]


@pytest.mark.parametrize(("has_two_sides", "call"), [(True, "end"), (False, "close")])
def test_a_client_that_does_not_end_its_side_is_dropped_in_the_end(
    has_two_sides: bool, call: str
) -> None:
    client, transport, timers = connected()
    transport.has_two_sides = has_two_sides
    client.set_reading(False)
    client.end()
    assert transport.reading
    ((seconds, expire),) = timers.set
    assert seconds == client_socket.CLOSE_SECONDS_MAX
    expire()
    assert transport.calls == [call, "abort"]


def test_a_client_that_leaves_has_a_moment_before_our_side_ends() -> None:
    client, transport, timers = connected()
    client.end(leaves=True)
    assert transport.calls == []
    ((seconds, expire),) = timers.set
    assert seconds == client_socket.LEAVE_SECONDS
    expire()
    assert transport.calls == ["end"]
    assert [seconds for seconds, _ in timers.set] == [client_socket.CLOSE_SECONDS_MAX]


def test_a_client_that_is_given_up_is_reset() -> None:
    client, transport, _ = connected()
    with socket.create_server(("127.0.0.1", 0)) as door:
        other = socket.create_connection(door.getsockname())
        transport.socket, _ = door.accept()
        transport.socket.sendall(b"what nobody reads")
        client.abort()
        assert transport.calls == ["abort"]
        transport.socket.close()
        with other:
            assert other.recv(100) == b"what nobody reads"
            with pytest.raises(ConnectionResetError):
                other.recv(1)


def test_one_deadline_takes_the_place_of_another() -> None:
    client, _, timers = connected()
    client.abort_after(10)
    client.abort_after(20)
    assert [seconds for seconds, _ in timers.set] == [20]
    client.stop()
    client.stop()
    assert timers.set == []


def test_the_outbox_is_full_when_more_is_unsent_than_its_limit() -> None:
    client, transport, _ = connected()
    transport.unsent = client_socket.OUTBOX_BYTES_MAX
    assert not client.outbox_full
    transport.unsent += 1
    assert client.outbox_full


def test_a_closing_socket_is_not_asked_to_read() -> None:
    client, transport, _ = connected()
    client.set_reading(False)
    assert not transport.reading
    client.close()
    client.set_reading(True)
    assert not transport.reading
