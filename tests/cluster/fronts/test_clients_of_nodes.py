"""Clients of any node: lists have them, limits count them, an operator closes them."""

from __future__ import annotations

import contextlib
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
from cluster.brokers.mirrored_brokers import MirroredBrokers, mirrored_brokers
from support.broker_process import BrokerProcess
from support.management_door import ManagementDoor
from support.waiting import WAIT_SECONDS, wait_until

TRACE = "amq.rabbitmq.trace"


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MirroredBrokers]:
    """Three brokers."""
    folder: Path = tmp_path_factory.mktemp("fronts")
    with mirrored_brokers(folder) as nodes:
        nodes.until_led(in_sync=3)
        yield nodes


@pytest.fixture
def door(nodes: MirroredBrokers) -> ManagementDoor:
    """The HTTP API of the leader."""
    leader = nodes.leader()
    wait_until((leader.data_dir / "management.json").exists)
    return ManagementDoor(leader)


class Clients:
    """A connection with each node, whose name begins with that of the node.

    Attributes:
        leader: name of the node that leads.
    """

    def __init__(self, nodes: MirroredBrokers, stack: contextlib.ExitStack) -> None:
        self._stack = stack
        self._brokers = nodes.brokers
        leading = nodes.leader()
        (self.leader,) = (name for name, each in nodes.brokers.items() if each is leading)

    @property
    def fronts(self) -> list[str]:
        """Names of the other nodes."""
        return [name for name in self._brokers if name != self.leader]

    def connect(self, node: str, user: str = "guest", vhost: str = "/") -> pika.BlockingConnection:
        """A client of a node; it is closed at the end."""
        broker: BrokerProcess = self._brokers[node]
        parameters = pika.ConnectionParameters(
            broker.host,
            broker.port,
            vhost,
            pika.PlainCredentials(user, user),
            client_properties={"connection_name": f"{node} of {user}"},
        )
        connection = pika.BlockingConnection(parameters)
        self._stack.callback(_close, connection)
        return connection


def _close(connection: pika.BlockingConnection) -> None:
    if connection.is_open:
        connection.close()


@pytest.fixture
def clients(nodes: MirroredBrokers) -> Iterator[Clients]:
    """Clients of all nodes."""
    with contextlib.ExitStack() as stack:
        yield Clients(nodes, stack)


def rows(door: ManagementDoor, *path: str, user: str) -> dict[str, Any]:
    """The connections of a user, by what their clients call themselves."""
    found = door.get("connections", "username", user)
    return {row["user_provided_name"]: row for row in found}


def until_closed(connection: pika.BlockingConnection) -> Any:
    """Why a connection is closed by its node."""
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        connection.process_data_events(time_limit=WAIT_SECONDS)
    return closed.value


def test_lists_have_the_clients_of_all_nodes(clients: Clients, door: ManagementDoor) -> None:
    door.add_user("lister")
    clients.connect(clients.leader).channel().queue_declare("listed", durable=True)
    for node in (clients.leader, *clients.fronts):
        connection = clients.connect(node, "lister")
        connection.channel().basic_consume("listed", lambda *message: None, consumer_tag=node)
    found = rows(door, user="lister")
    assert {name: row["node"] for name, row in found.items()} == {
        f"{node} of lister": f"{node}@test" for node in (clients.leader, *clients.fronts)
    }
    page = door.get("connections", query="page=1&page_size=2&sort=user_provided_name&name=.")
    assert (page["filtered_count"], len(page["items"])) == (4, 2)
    channels = [row for row in door.get("channels") if row["user"] == "lister"]
    assert {row["node"] for row in channels} == {"a@test", "b@test", "c@test"}
    listed = [row for row in door.get("consumers", "/") if row["queue"]["name"] == "listed"]
    assert {row["consumer_tag"]: row["channel_details"]["node"] for row in listed} == {
        node: f"{node}@test" for node in "abc"
    }
    queue = door.get("queues", "/", "listed")
    assert {each["consumer_tag"] for each in queue["consumer_details"]} == set("abc")
    totals = door.get("overview")["object_totals"]
    assert (totals["connections"], totals["channels"], totals["consumers"]) == (4, 4, 3)
    name = found[f"{clients.fronts[0]} of lister"]["name"]
    assert door.get("connections", name)["user"] == "lister"
    assert len(door.get("connections", name, "channels")) == 1
    (consumer,) = door.get("channels", f"{name} (1)")["consumer_details"]
    assert consumer["consumer_tag"] == clients.fronts[0]


def test_rates_of_clients_of_other_nodes_are_measured_there(
    clients: Clients, door: ManagementDoor
) -> None:
    connection = clients.connect(clients.fronts[0])
    channel = connection.channel()
    channel.confirm_delivery()

    def published() -> float:
        for _ in range(50):
            channel.basic_publish("amq.fanout", "", b"x")
        (row,) = (
            each
            for each in door.get("channels")
            if each["node"] == f"{clients.fronts[0]}@test" and each["confirm"]
        )
        details = row.get("message_stats", {}).get("publish_details", {})
        rate: float = details.get("rate", 0.0)
        return rate

    wait_until(published, connection)
    exchange = door.get("exchanges", "/", "amq.fanout")
    assert [each["channel_details"]["node"] for each in exchange["incoming"]] == [
        f"{clients.fronts[0]}@test"
    ]


def test_a_connection_of_another_node_is_closed(clients: Clients, door: ManagementDoor) -> None:
    door.add_user("leaver")
    first, second = (clients.connect(node, "leaver") for node in clients.fronts)
    name = rows(door, user="leaver")[f"{clients.fronts[0]} of leaver"]["name"]
    status, _, _ = door.raw("DELETE", f"/connections/{_quoted(name)}", **{"X-Reason": "enough"})
    assert status == 204
    closed = until_closed(first)
    assert (closed.reply_code, "enough" in closed.reply_text) == (320, True)
    assert door.ask("DELETE", "connections", name)[0] == 404
    door.do("DELETE", "connections", "username", "leaver")
    until_closed(second)
    wait_until(lambda: rows(door, user="leaver") == {})


def _quoted(name: str) -> str:
    return name.replace(" ", "%20").replace(">", "%3E")


def test_lists_are_answered_without_a_node_that_is_silent(
    nodes: MirroredBrokers, clients: Clients, door: ManagementDoor
) -> None:
    door.add_user("stalled")
    for node in (clients.leader, *clients.fronts):
        clients.connect(node, "stalled")
    silent, other = clients.fronts
    nodes.brokers[silent].signal(signal.SIGSTOP)
    try:
        found = rows(door, user="stalled")  # it waits for a moment, and not until the node goes on
        assert sorted(found) == sorted(f"{node} of stalled" for node in (clients.leader, other))
    finally:
        nodes.brokers[silent].signal(signal.SIGCONT)
    wait_until(lambda: len(rows(door, user="stalled")) == 3)


def test_the_command_line_lists_and_closes(
    nodes: MirroredBrokers, clients: Clients, door: ManagementDoor
) -> None:
    front = clients.fronts[0]
    connection = clients.connect(front)
    data = {"ROUTELOG_DATA_DIR": str(nodes.leader().data_dir)}
    listed = nodes.command("list", "connections", "--json", environment=data)
    rows = [json.loads(line) for line in listed.stdout.splitlines()]
    (row,) = (row for row in rows if row["node"] == f"{front}@test")
    assert nodes.command("connection", "close", row["name"], environment=data).returncode == 0
    assert until_closed(connection).reply_code == 320


def test_a_deleted_user_and_a_deleted_vhost_have_no_clients_anywhere(
    clients: Clients, door: ManagementDoor
) -> None:
    door.add_user("gone")
    door.do("PUT", "vhosts", "closing")
    door.do(
        "PUT",
        "permissions",
        "closing",
        "guest",
        body={"configure": ".*", "write": ".*", "read": ".*"},
    )
    everywhere = [clients.leader, *clients.fronts]
    of_user = [clients.connect(node, "gone") for node in everywhere]
    of_vhost = [clients.connect(node, vhost="closing") for node in everywhere]
    door.do("DELETE", "users", "gone")
    assert rows(door, user="gone") == {}
    door.do("DELETE", "vhosts", "closing")
    assert all(row["vhost"] != "closing" for row in door.get("connections"))
    for connection in (*of_user, *of_vhost):
        assert until_closed(connection).reply_code == 320
    for node in everywhere:
        with pytest.raises(pika.exceptions.ProbableAuthenticationError):
            clients.connect(node, "gone")
        with pytest.raises(pika.exceptions.ProbableAccessDeniedError):
            clients.connect(node, vhost="closing")


def test_a_permission_is_withdrawn_at_all_nodes_when_that_is_answered(
    clients: Clients, door: ManagementDoor
) -> None:
    door.add_user("writer")
    channels = [clients.connect(node, "writer").channel() for node in clients.fronts]
    for channel in channels:
        channel.confirm_delivery()
        channel.basic_publish("amq.fanout", "", b"")
    none = {"configure": "^$", "write": "^$", "read": "^$"}
    door.do("PUT", "permissions", "/", "writer", body=none)
    for channel in channels:
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="ACCESS_REFUSED"):
            channel.basic_publish("amq.fanout", "", b"")
    door.do("PUT", "users", "writer", body={"password": "changed", "tags": ""})
    for node in clients.fronts:
        with pytest.raises(pika.exceptions.ProbableAuthenticationError):
            clients.connect(node, "writer")


def test_limits_count_the_clients_of_all_nodes(clients: Clients, door: ManagementDoor) -> None:
    door.add_user("many")
    door.do("PUT", "user-limits", "many", "max-connections", body={"value": 2})
    first = clients.connect(clients.fronts[0], "many")
    clients.connect(clients.leader, "many")
    for node in (clients.fronts[1], clients.fronts[0], clients.leader):
        wait_until(lambda node=node: _is_refused(clients, node, "many"))  # type: ignore[misc]
    first.close()
    wait_until(lambda: not _is_refused(clients, clients.fronts[1], "many"))


def _is_refused(clients: Clients, node: str, user: str) -> bool:
    try:
        connection = clients.connect(node, user)
    except pika.exceptions.ProbableAccessDeniedError as error:
        return "connection limit" in str(error)
    connection.close()
    return False


def test_the_firehose_has_what_clients_of_all_nodes_publish_and_get(
    clients: Clients, door: ManagementDoor
) -> None:
    reader = clients.connect(clients.leader)
    channel = reader.channel()
    channel.queue_declare("copies", exclusive=True)
    channel.queue_bind("copies", TRACE, "#")
    door.do("PUT", "vhosts", "/", body={"tracing": True})
    try:
        publisher = clients.connect(clients.fronts[0]).channel()
        publisher.confirm_delivery()
        publisher.queue_declare("traced", exclusive=True)

        found: set[tuple[str, str]] = set()

        def copied() -> set[tuple[str, str]]:
            publisher.basic_publish("", "traced", b"hello")
            publisher.basic_get("traced", auto_ack=True)
            while (got := channel.basic_get("copies", auto_ack=True))[0] is not None:
                method, properties, _ = got
                found.add((method.routing_key, properties.headers["node"]))
            return found

        node = f"{clients.fronts[0]}@test"
        wait_until(lambda: {("publish.", node), ("deliver.traced", node)} <= copied(), reader)
    finally:
        door.do("PUT", "vhosts", "/", body={"tracing": False})
