"""Clients of a node of several processes: whichever serves them, lists have them, and operators close them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pika
import pytest
from pika.adapters.blocking_connection import BlockingConnection
from scenarios.nodes.process_family import PROCESSES, Family
from support.broker_process import ROOT
from support.management_door import ManagementDoor
from support.ports import free_port
from support.waiting import WAIT_SECONDS, wait_until


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Family]:
    family = Family(tmp_path_factory.mktemp("processes"))
    yield family
    family.close()


@pytest.fixture
def door(family: Family) -> Iterator[ManagementDoor]:
    """The HTTP API; clients that a test leaves do not stay for the next one."""
    yield (door := ManagementDoor(family.broker))
    family.clients.close()
    wait_until(lambda: door.get("connections") == [])


def name_of(connection: BlockingConnection) -> str:
    """What the broker calls a connection."""
    client = connection._impl._transport._sock
    return " -> ".join("{}:{}".format(*end) for end in (client.getsockname(), client.getpeername()))


def names(rows: list[dict[str, Any]]) -> set[str]:
    """What rows are called; none is there twice."""
    found = {str(row["name"]) for row in rows}
    assert len(found) == len(rows)
    return found


def until_closed(connection: BlockingConnection) -> Any:
    """Why a connection is closed by its process."""
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        connection.process_data_events(time_limit=WAIT_SECONDS)
    return closed.value


def command(family: Family, *words: str) -> str:
    """What a command of an operator prints."""
    environment = {**os.environ, "ROUTELOG_DATA_DIR": str(family.broker.data_dir)}
    line = [sys.executable, "-m", "routelog", *words]
    done = subprocess.run(line, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_lists_have_the_clients_of_all_processes(family: Family, door: ManagementDoor) -> None:
    connections = family.one_each()
    connections[1].channel().queue_declare("listed", durable=True)
    for number, connection in connections.items():
        channel = connection.channel()
        channel.basic_consume("listed", lambda *message: None, consumer_tag=f"of {number}")
    tags = {f"of {number}" for number in connections}
    expected = {name_of(each) for each in connections.values()}
    rows = door.get("connections")
    assert names(rows) == expected
    assert len({row["node"] for row in rows}) == 1
    for path in (("connections", "username", "guest"), ("vhosts", "/", "connections")):
        assert names(door.get(*path)) == expected
    page = door.get("connections", query="page=2&page_size=2&sort=name&name=127")
    assert (page["total_count"], page["filtered_count"], page["page_count"]) == (3, 3, 2)
    assert [row["name"] for row in page["items"]] == sorted(expected)[2:]
    channels = {f"{name_of(each)} (1)" for each in connections.values()}
    channels |= {f"{name_of(connections[1])} (2)"}
    assert names(door.get("channels")) == names(door.get("vhosts", "/", "channels")) == channels
    for listed in (door.get("consumers"), door.get("consumers", "/")):
        assert {row["consumer_tag"] for row in listed} == tags
    of_queue = door.get("queues", "/", "listed")["consumer_details"]
    assert {row["consumer_tag"] for row in of_queue} == tags
    totals = door.get("overview")["object_totals"]
    assert (totals["connections"], totals["channels"], totals["consumers"]) == (3, 4, 3)
    (node,) = door.get("nodes")
    assert node["sockets_used"] == 3
    for number in (2, 3):
        name = name_of(connections[number])
        assert door.get("connections", name)["user"] == "guest"
        assert names(door.get("connections", name, "channels")) == {f"{name} (1)"}
        (consumer,) = door.get("channels", f"{name} (1)")["consumer_details"]
        assert consumer["consumer_tag"] == f"of {number}"
    assert door.get("health", "checks", "ready-to-serve-clients")["status"] == "ok"


def test_what_clients_of_all_processes_publish_and_get_adds_up(
    family: Family, door: ManagementDoor
) -> None:
    connections = family.one_each()
    connections[1].channel().queue_declare("counted", durable=True)
    before = door.get("overview").get("message_stats", {}).get("publish", 0)
    for connection in connections.values():
        channel = connection.channel()
        channel.confirm_delivery()
        for _ in range(10):
            channel.basic_publish("amq.direct", "", b"dropped")
            channel.basic_publish("", "counted", b"kept")
        for _ in range(10):
            assert channel.basic_get("counted", auto_ack=True)[0] is not None

    stats = door.get("overview")["message_stats"]
    assert stats["publish"] - before == 60
    (node,) = door.get("nodes")
    assert node["message_stats"]["publish"] == stats["publish"]
    assert node["connection_created"] == door.get("overview")["churn_rates"]["connection_created"]
    assert door.get("vhosts", "/")["message_stats"]["publish"] == stats["publish"]
    of_channels = [row["message_stats"] for row in door.get("channels") if "message_stats" in row]
    assert [(each["publish"], each["get_no_ack"]) for each in of_channels] == [(20, 10)] * 3
    exchange = door.get("exchanges", "/", "amq.direct")
    assert exchange["message_stats"]["publish_in"] == 30
    assert {row["channel_details"]["connection_name"] for row in exchange["incoming"]} == {
        name_of(each) for each in connections.values()
    }
    taken = door.get("queues", "/", "counted")["deliveries"]
    assert {row["channel_details"]["connection_name"] for row in taken} == {
        name_of(each) for each in connections.values()
    }


def scraped(port: int, form: str = "") -> list[str]:
    """The lines of metrics."""
    with urlopen(f"http://127.0.0.1:{port}/metrics{form}") as answer:
        return str(answer.read().decode()).split("\n")


def test_metrics_have_the_clients_of_each_process(family: Family, door: ManagementDoor) -> None:
    connections = family.one_each()
    listeners = {each["protocol"]: each["port"] for each in door.get("overview")["listeners"]}
    port = listeners["http/prometheus"]
    sums = scraped(port)
    for number in connections:
        assert f'rabbitmq_connections{{process="{number}"}} 1' in sums
    assert f"rabbitmq_process_open_tcp_sockets {PROCESSES}" in sums
    name = "rabbitmq_connection_channels"
    each = {f'{name}{{process="{n}",connection="{name_of(c)}"}} 0' for n, c in connections.items()}
    assert each <= set(scraped(port, "/per-object"))


def test_metrics_have_all_clients_without_the_http_api(tmp_path: Path) -> None:
    port = free_port()
    family = Family(tmp_path, ROUTELOG_MANAGEMENT="false", ROUTELOG_PROMETHEUS_PORT=str(port))
    try:
        connections = family.one_each()
        wanted = {f'rabbitmq_connections{{process="{number}"}} 1' for number in connections}
        wait_until(lambda: wanted <= set(scraped(port)))
    finally:
        family.close()


def test_a_user_sees_and_closes_what_is_his_own(family: Family, door: ManagementDoor) -> None:
    own = ManagementDoor(family.broker, door.add_user("member", "management"))
    theirs, others = family.one_each("member"), family.one_each()
    assert names(own.get("connections")) == {name_of(each) for each in theirs.values()}
    assert own.get("overview")["object_totals"]["connections"] == PROCESSES
    assert own.ask("GET", "connections", name_of(others[2]))[0] == 401
    assert own.ask("DELETE", "connections", name_of(others[2]))[0] == 401
    own.do("DELETE", "connections", name_of(theirs[3]))
    assert until_closed(theirs[3]).reply_code == 320
    assert all(each.is_open for each in others.values())


def test_operators_are_shown_the_process_that_signals_end(
    family: Family, door: ManagementDoor
) -> None:
    (node,) = door.get("nodes")
    assert node["os_pid"] == str(family.broker.pid)
    assert str(family.broker.pid) in command(family, "status").split()


def test_a_deleted_user_and_a_deleted_vhost_have_no_clients(
    family: Family, door: ManagementDoor
) -> None:
    door.add_user("gone")
    connections = family.one_each("gone")
    door.do("DELETE", "users", "gone")
    assert door.get("connections", "username", "gone") == []
    for connection in connections.values():
        assert until_closed(connection).reply_code == 320


def test_limits_count_the_clients_of_all_processes(family: Family, door: ManagementDoor) -> None:
    door.add_user("many")
    connections = family.one_each("many")
    door.do("PUT", "user-limits", "many", "max-connections", body={"value": PROCESSES})

    def is_refused() -> bool:
        try:
            credentials = pika.PlainCredentials("many", "many")
            connection = family.clients.connect(credentials=credentials)
        except pika.exceptions.ProbableAccessDeniedError as error:
            return "connection limit" in str(error)
        connection.close()
        return False

    for _ in range(2 * PROCESSES):  # whichever is asked
        wait_until(is_refused)
    connections[2].close()
    wait_until(lambda: not is_refused())


def test_a_process_that_stands_still_is_neither_ready_nor_up(
    family: Family, door: ManagementDoor
) -> None:
    listeners = {each["protocol"]: each["port"] for each in door.get("overview")["listeners"]}

    def told() -> tuple[int, str]:
        status, _ = door.ask("GET", "health", "checks", "ready-to-serve-clients")
        name = 'routelog_process_up{process="3"} '
        (up,) = (line for line in scraped(listeners["http/prometheus"]) if line.startswith(name))
        return status, up.removeprefix(name)

    assert told() == (200, "1.0")
    stopped = family.pid(3)
    os.kill(stopped, signal.SIGSTOP)
    try:
        wait_until(lambda: told() == (503, "0.0"))
    finally:
        os.kill(stopped, signal.SIGCONT)
    wait_until(lambda: told() == (200, "1.0"))


@pytest.mark.parametrize(("killed", "kept"), [(2, 3), (1, 2)])
def test_lists_have_the_clients_of_processes_that_were_started_again(
    family: Family, killed: int, kept: int
) -> None:
    file, starts = family.broker.data_dir / "management.json", len(family.pids(killed))

    def listed() -> set[str]:
        try:
            return names(ManagementDoor(family.broker).get("connections"))
        except OSError:  # process 1 is about to be there
            return set()

    connections = family.one_each()
    os.kill(family.pid(killed), signal.SIGKILL)
    wait_until(lambda: len(family.pids(killed)) > starts)
    wait_until(lambda: file.exists() and name_of(connections[kept]) in listed())
    again = family.one_each()
    wait_until(lambda: name_of(again[killed]) in listed())
    family.clients.close()
