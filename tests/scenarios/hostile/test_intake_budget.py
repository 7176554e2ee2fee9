"""Clients that begin much and end nothing, or read nothing: memory stays bounded, and others go on."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from pamqp import commands
from scenarios.clients.bystander import Bystander
from scenarios.clients.raw_client import (
    Dropped,
    RawClient,
    Silent,
    content_body,
    content_header,
    message,
    method,
    plain,
    publish,
)
from support.broker_process import BrokerProcess
from support.management_door import ManagementDoor

Basic, Channel, Confirm, Connection = (
    commands.Basic,
    commands.Channel,
    commands.Confirm,
    commands.Connection,
)
Exchange, Queue, Tx = commands.Exchange, commands.Queue, commands.Tx

MIB = 1_048_576
NODE, USER, CONNECTION = 24 * MIB, 16 * MIB, 8 * MIB
# What the process may grow by while the budget holds: the budget, what the C library has not given back,
# and what a busy broker needs for itself. Without a budget each of these tests takes hundreds of megabytes.
RESIDENT_BYTES_MAX = NODE + 100 * MIB
PIECE = b"x" * 100_000
BODY_BYTES = MIB


class World:
    """A broker with small budgets, a client that must not notice, and a door to its counters."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.broker = broker
        self.door = ManagementDoor(broker)
        self.bystander = Bystander(broker.host, broker.port)
        self.resident = self.resident_bytes()

    def client(self, user: str = "guest") -> RawClient:
        return RawClient(self.broker.host, self.broker.port).open(response=plain(user, user))

    def user(self, name: str, write: str = ".*") -> None:
        assert self.door.ask("PUT", "users", name, body={"password": name, "tags": ""})[0] == 201
        permissions = {"configure": ".*", "write": write, "read": ".*"}
        assert self.door.ask("PUT", "permissions", "/", name, body=permissions)[0] == 201

    def resident_bytes(self) -> int:
        statm = Path(f"/proc/{self.broker.pid}/statm").read_text()
        return int(statm.split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def intake_bytes(self) -> int:
        (node,) = self.door.get("nodes")
        assert node["intake_bytes_limit"] == NODE
        return int(node["intake_bytes"])

    def wait_for_intake(self, wanted: Callable[[int], bool]) -> None:
        deadline = time.monotonic() + 60
        while not wanted(self.intake_bytes()):
            assert time.monotonic() < deadline, self.intake_bytes()
            time.sleep(0.02)

    def assert_bounded(self) -> None:
        assert self.intake_bytes() <= NODE + BODY_BYTES + 1_000
        assert self.resident_bytes() - self.resident < RESIDENT_BYTES_MAX
        self.bystander.assert_undisturbed()

    def assert_all_came_back(self) -> None:
        self.wait_for_intake(lambda size: size == 0)
        self.bystander.assert_undisturbed()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    broker = BrokerProcess(
        tmp_path_factory.mktemp("intake"),
        {
            "ROUTELOG_INTAKE_BYTES_MAX": str(NODE),
            "ROUTELOG_INTAKE_USER_BYTES_MAX": str(USER),
            "ROUTELOG_INTAKE_CONNECTION_BYTES_MAX": str(CONNECTION),
            "ROUTELOG_HISTORIES_BYTES_MAX": str(8 * MIB),
        },
    ).start()
    made = World(broker)
    yield made
    made.bystander.stop()
    broker.stop()


def open_channels(client: RawClient, numbers: range) -> None:
    client.send_bytes(b"".join(method(20, 10, b"\0", number) for number in numbers))
    for _ in numbers:
        client.expect(Channel.OpenOk)


def begun(
    number: int, exchange: str = "", size: int = BODY_BYTES, sent: int = BODY_BYTES - 1
) -> bytes:
    """A publish of which the last byte never comes."""
    frames = [publish(exchange, "nobody", 0, number), content_header(size, channel=number)]
    for at in range(0, sent, len(PIECE)):
        frames.append(content_body(PIECE[: sent - at], number))
    return b"".join(frames)


def closes(client: RawClient, count: int) -> list[commands.Channel.Close]:
    """So many channel.close; other frames are passed over."""
    found: list[commands.Channel.Close] = []
    while len(found) < count:
        _, value = client.receive()
        if isinstance(value, Channel.Close):
            found.append(value)
    return found


def test_bodies_that_never_end_are_refused_above_the_connections_limit(world: World) -> None:
    with world.client() as client:
        open_channels(client, range(1, 201))
        for number in range(1, 201):
            client.send_bytes(begun(number))
        for close in closes(client, 192):
            assert close.reply_code == 406
            assert "incomplete, of 8388608" in close.reply_text
        world.assert_bounded()
        client.send_bytes(content_body(b"x", 1))  # what was taken can be ended
        client.send(Channel.Close(200, "", 0, 0), 1)
        client.expect(Channel.CloseOk)
        world.wait_for_intake(lambda size: size <= 7 * (BODY_BYTES + 100))
    world.assert_all_came_back()


@pytest.mark.parametrize(
    ("exchange", "write", "code"), [("", "^none$", 403), ("absent", ".*", 404)]
)
def test_nothing_is_kept_of_a_publish_that_is_refused(
    world: World, exchange: str, write: str, code: int
) -> None:
    user = f"user{code}"
    world.user(user, write)
    with world.client(user) as client:
        open_channels(client, range(1, 101))
        client.send_bytes(begun(1, exchange, sent=0))
        assert closes(client, 1)[0].reply_code == code, "before any of its body has come"
        for number in range(2, 101):
            client.send_bytes(begun(number, exchange))
        assert {close.reply_code for close in closes(client, 99)} == {code}
        assert world.intake_bytes() == 0
        client.send(Channel.CloseOk(), 1)
        client.open_channel(1)
        world.assert_bounded()


def test_the_next_large_message_of_an_idle_connection_waits_and_is_told(world: World) -> None:
    hoarders = [world.client() for _ in range(2)]
    for hoarder in hoarders:
        open_channels(hoarder, range(1, 9))
        hoarder.send_bytes(b"".join(begun(number) for number in range(1, 9)))
    world.wait_for_intake(lambda size: size >= USER)
    with world.client() as honest:
        honest.open_channel()
        queue = honest.declare()
        honest.call(Confirm.Select(), Confirm.SelectOk)
        honest.send_bytes(message(queue, b"small"))
        assert honest.expect(Basic.Ack).delivery_tag == 1, "what comes in whole does not wait"
        honest.send_bytes(
            publish("", queue) + content_header(3 * len(PIECE)) + content_body(PIECE) * 3
        )
        assert "low on memory" in honest.expect(Connection.Blocked).reason
        world.user("neighbour")
        with world.client("neighbour") as neighbour:
            neighbour.open_channel()
            other = neighbour.declare()
            neighbour.send_bytes(
                publish("", other) + content_header(3 * len(PIECE)) + content_body(PIECE) * 3
            )
            assert neighbour.get(other) == 3 * PIECE, "another user is not in its way"
        hoarders[0].socket.close()
        honest.expect(Connection.Unblocked)
        assert honest.expect(Basic.Ack).delivery_tag == 2
        assert honest.get(queue) == b"small"
        assert honest.get(queue) == 3 * PIECE
    hoarders[1].socket.close()
    world.assert_all_came_back()


def commit(client: RawClient) -> None:
    client.call(Tx.Commit(), Tx.CommitOk)


def rollback(client: RawClient) -> None:
    client.call(Tx.Rollback(), Tx.RollbackOk)


def close_channel(client: RawClient) -> None:
    client.call(Channel.Close(200, "", 0, 0), Channel.CloseOk)


def close_connection(client: RawClient) -> None:
    client.send(Connection.Close(200, "", 0, 0))
    client.expect(Connection.CloseOk)


def abort(client: RawClient) -> None:
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    client.socket.close()


def soft_error(client: RawClient) -> None:
    client.send(Queue.Declare(queue="nowhere", passive=True), 1)
    assert closes(client, 1)[0].reply_code == 404


def hard_error(client: RawClient) -> None:
    client.send_bytes(content_body(b"nothing announced it"))
    assert client.expect(Connection.Close).reply_code == 505


def refused_commit(client: RawClient) -> None:
    client.send_bytes(message("full", b"x", b"\x10\0\2"))
    client.send(Tx.Commit(), 1)
    assert closes(client, 1)[0].reply_code == 406


ENDS = [
    commit,
    rollback,
    close_channel,
    close_connection,
    abort,
    soft_error,
    hard_error,
    refused_commit,
]


@pytest.mark.parametrize("end", ENDS)
def test_what_a_transaction_took_comes_back_however_it_ends(
    world: World, end: Callable[[RawClient], None]
) -> None:
    with world.client() as client:
        client.open_channel()
        full = {"x-max-length": 0, "x-overflow": "reject-publish"}
        client.call(Queue.Declare(queue="full", arguments=full), Queue.DeclareOk)
        client.call(Tx.Select(), Tx.SelectOk)
        client.send_bytes(message("nobody", PIECE) * 20)
        client.send_bytes(
            begun(1, sent=0) + content_body(PIECE) * 10 + content_body(PIECE[:48_576])
        )
        world.wait_for_intake(lambda size: 3_000_000 < size < 5_000_000)
        end(client)
        world.assert_all_came_back()


@pytest.mark.parametrize("end", [close_connection, abort, hard_error])
def test_what_unfinished_bodies_took_comes_back_with_their_connection(
    world: World, end: Callable[[RawClient], None]
) -> None:
    with world.client() as client:
        open_channels(client, range(1, 5))
        client.send_bytes(b"".join(begun(number) for number in range(1, 5)))
        world.wait_for_intake(lambda size: size > 4 * BODY_BYTES)
        if end is hard_error:
            client.send_bytes(method(50, 99, channel=1))
            assert client.expect(Connection.Close).reply_code == 505
        else:
            end(client)
        world.assert_all_came_back()


def test_transactions_that_are_never_committed_are_refused_above_the_limit(world: World) -> None:
    with world.client() as client:
        open_channels(client, range(1, 9))
        for number in range(1, 9):
            client.call(Tx.Select(), Tx.SelectOk, number)
        for number in range(1, 9):
            client.send_bytes(message("nobody", PIECE, channel=number) * 60)
        refused = closes(client, 7)
        assert {close.reply_code for close in refused} == {406}
        world.assert_bounded()
        client.call(Tx.Commit(), Tx.CommitOk, 1)
        world.wait_for_intake(lambda size: size == 0)
    world.assert_all_came_back()


def test_what_clients_leave_unread_counts_and_they_are_told_no_more(world: World) -> None:
    back = publish("", "nobody", 1) + content_header(len(PIECE)) + content_body(PIECE)
    clients = []
    for _ in range(6):
        client = world.client()
        client.open_channel()
        client.socket.settimeout(0.5)
        with suppress(OSError):
            for _ in range(300):  # 30 MB are returned
                client.socket.sendall(back)
        clients.append(client)
    world.assert_bounded()
    world.wait_for_intake(lambda size: size > USER // 2)
    reader = clients.pop()
    with suppress(Silent, Dropped):
        while True:
            reader.receive(3)
    reader.socket.close()
    for client in clients:
        client.socket.close()
    world.assert_all_came_back()


def test_histories_of_all_exchanges_are_bounded(world: World) -> None:
    with world.client() as client:
        client.open_channel()
        arguments = {"x-recent-history-length": 10_000}
        names = [f"history{number}" for number in range(20)]
        for name in names:
            client.call(
                Exchange.Declare(
                    exchange=name, exchange_type="x-recent-history", arguments=arguments
                ),
                Exchange.DeclareOk,
            )
            client.send_bytes(
                (publish(name, "k") + content_header(len(PIECE)) + content_body(PIECE)) * 100
            )
            assert client.outcome().scope == "ok"
        world.assert_bounded()
        queue = client.declare()
        client.call(Queue.Bind(queue=queue, exchange=names[-1]), Queue.BindOk)
        assert client.get(queue) == PIECE
        for name in names:
            client.call(Exchange.Delete(exchange=name), Exchange.DeleteOk)
