"""Small answers of the HTTP API that tools made for RabbitMQ ask for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from broker_process import BrokerProcess
from management_door import ManagementDoor
from pika_client import Clients

pytestmark = pytest.mark.differs_from_rabbitmq("needs its data directory")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path_factory.mktemp("answers")).start()
    yield process
    process.stop()


@pytest.fixture
def door(world: BrokerProcess) -> ManagementDoor:
    return ManagementDoor(world)


def test_publishing_to_an_exchange_that_is_not_there_is_a_bad_request(door) -> None:
    body = {"routing_key": "", "payload": "", "payload_encoding": "string", "properties": {}}
    status, told = door.ask("POST", "exchanges", "/", "absent", "publish", body=body)
    assert status == 400
    assert "no exchange 'absent' in vhost '/'" in told["reason"]
    assert door.ask("POST", "exchanges", "absent", "x", "publish", body=body)[0] == 404


@pytest.mark.parametrize("kind", ["permissions", "topic-permissions"])
def test_a_permission_where_there_is_no_vhost_or_user_is_a_bad_request(door, kind) -> None:
    body = {"configure": "", "write": "", "read": "", "exchange": ""}
    for place in (("absent", "guest"), ("/", "nobody")):
        status, told = door.ask("PUT", kind, *place, body=body)
        assert (status, told["reason"]) == (400, "vhost_or_user_not_found")
        assert door.ask("GET", kind, "absent", "guest")[0] == 404


def test_columns_choose_of_single_things_too(door, world) -> None:
    clients = Clients(world.url)
    clients.channel().queue_declare("one", durable=True, arguments={"x-max-length": 3})
    clients.close()
    query = "columns=name,arguments.x-max-length"
    expected = {"name": "one", "arguments": {"x-max-length": 3}}
    assert door.get("queues", "/", "one", query=query) == expected
    assert door.get("exchanges", "/", "amq.topic", query="columns=type") == {"type": "topic"}
    assert list(door.get("overview", query="columns=node")) == ["node"]


@pytest.mark.parametrize("name", ["", "amq.default"])
def test_the_default_exchange_is_an_empty_part_of_a_path_too(door, world, name) -> None:
    clients = Clients(world.url)
    clients.channel().queue_declare("bound", durable=True)
    clients.close()
    rows = door.get("exchanges", "/", name, "bindings", "source")
    assert ("", "bound") in [(row["source"], row["destination"]) for row in rows]
    assert door.get("exchanges", "/", name, "bindings", "destination") == []
    body = {"routing_key": "bound", "payload": "", "payload_encoding": "string", "properties": {}}
    assert door.do("POST", "exchanges", "/", name, "publish", body=body) == {"routed": True}


def test_the_overview_names_where_http_is_spoken(door, world) -> None:
    overview = door.get("overview")
    (context,) = overview["contexts"]
    assert context == {
        "node": overview["node"],
        "description": "RouteLog Management",
        "path": "/",
        "ip": "127.0.0.1",
        "port": str(door.address.port),
    }
    assert door.get("healthchecks", "node", context["node"]) == {"status": "ok"}
    assert door.get("healthchecks", "node", "") == {"status": "ok"}
    watched = ManagementDoor(world, door.add_user("watched", "management"))
    assert "contexts" not in watched.get("overview")
