"""Small answers of the HTTP API that tools made for RabbitMQ ask for."""

from __future__ import annotations

import subprocess
from http.client import HTTPConnection

import pytest
from support.management_door import ManagementDoor
from support.pika_client import Clients

pytestmark = pytest.mark.differs_from_rabbitmq("needs its data directory")


def test_publishing_to_an_exchange_that_is_not_there_is_a_bad_request(door) -> None:
    body = {"routing_key": "", "payload": "", "payload_encoding": "string", "properties": {}}
    status, told = door.ask("POST", "exchanges", "/", "absent", "publish", body=body)
    assert status == 400
    assert "no exchange 'absent' in vhost '/'" in told["reason"]
    assert door.ask("POST", "exchanges", "absent", "x", "publish", body=body)[0] == 404


def test_publishing_to_a_full_queue_says_which(door, world) -> None:
    full = {"x-max-length": 0, "x-overflow": "reject-publish"}
    door.do("PUT", "queues", "/", "full", body={"arguments": full})
    body = {"routing_key": "full", "payload": "", "payload_encoding": "string", "properties": {}}
    status, told = door.ask("POST", "exchanges", "/", "amq.default", "publish", body=body)
    assert status == 400
    assert "not stored: maxlen: queue 'full' in vhost '/'" in told["reason"]


@pytest.mark.parametrize("kind", ["permissions", "topic-permissions"])
def test_a_permission_where_there_is_no_vhost_or_user_is_a_bad_request(door, kind) -> None:
    body = {"configure": "", "write": "", "read": "", "exchange": ""}
    for place in (("absent", "guest"), ("/", "nobody")):
        status, told = door.ask("PUT", kind, *place, body=body)
        assert (status, told["reason"]) == (400, "vhost_or_user_not_found")
        assert door.ask("GET", kind, "absent", "guest")[0] == 404


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


def test_what_only_rabbitmq_has_is_answered_as_empty(door, world) -> None:
    node = door.get("overview")["node"]
    for parts in (
        ("shovels",),
        ("shovels", "/"),
        ("federation-links",),
        ("federation-links", "/"),
        ("federation-links", "state", "down"),
        ("auth", "attempts", node),
        ("auth", "attempts", node, "source"),
    ):
        assert door.get(*parts) == []
    assert door.get("auth") == {"enable_uaa": False, "uaa_client_id": "", "uaa_location": ""}
    used = door.get("nodes", node, "memory")["memory"]
    assert used["strategy"] == "rss"
    assert used["total"]["rss"] == used["total"]["allocated"] > 1_000_000
    assert door.get("nodes", node, "memory", "relative") == {"memory": {"total": 100}}
    for parts in (("shovels", "absent"), ("auth", "attempts", "n@x"), ("nodes", "n@x", "memory")):
        assert door.ask("GET", *parts)[0] == 404


def test_what_only_rabbitmq_does_is_done_already(door, world) -> None:
    node = door.get("overview")["node"]
    door.do("PUT", "queues", "/", "acts", body={"durable": True})
    actions = ("queues", "/", "acts", "actions")
    for action in ("sync", "cancel_sync"):
        assert door.ask("POST", *actions, body={"action": action})[0] == 204
    assert door.ask("POST", *actions, body={"action": "dance"})[0] == 400
    assert door.ask("POST", *actions, body={})[0] == 400
    assert door.ask("POST", "queues", "/", "no", "actions", body={"action": "sync"})[0] == 404
    assert door.ask("POST", "rebalance", "queues")[0] == 204
    assert door.ask("POST", "vhosts", "/", "start", node)[0] == 204
    status, told = door.ask("POST", "vhosts", "/", "start", "n@x")
    assert (status, told["reason"]) == (400, "Request to node n@x failed with nodedown")
    assert door.ask("DELETE", "auth", "attempts", node)[0] == 204
    assert door.ask("DELETE", "reset")[0] == 204
    assert door.ask("DELETE", "reset", node)[0] == 204
    assert door.ask("DELETE", "reset", "n@x")[0] == 404


def test_feature_flags_are_rabbitmqs_and_on(door) -> None:
    flags = door.get("feature-flags")
    assert {each["state"] for each in flags} == {"enabled"}
    assert door.ask("PUT", "feature-flags", flags[0]["name"], "enable", body={})[0] == 204
    status, told = door.ask("PUT", "feature-flags", "of_nobody", "enable", body={})
    assert (status, told["reason"]) == (400, "unsupported")


def test_what_is_not_there_cannot_be_taken_away(door, name) -> None:
    door.do("PUT", "users", name, body={"tags": "", "password": "p"})
    for user in (name, "nobody"):
        assert door.ask("DELETE", "permissions", "/", user)[0] == 404
        assert door.ask("DELETE", "topic-permissions", "/", user)[0] == 404
        assert door.ask("DELETE", "topic-permissions", "/", user, "amq.topic")[0] == 404
    door.do("PUT", "permissions", "/", name, body={"configure": "", "write": "", "read": ""})
    assert door.ask("DELETE", "permissions", "/", name)[0] == 204
    status, told = door.ask("POST", "users", "bulk-delete", body={"users": [name, "nobody"]})
    assert (status, told["reason"]) == (400, "no_such_user: nobody")
    assert door.get("users", name)["name"] == name
    assert door.ask("POST", "users", "bulk-delete", body={"users": [name, name]})[0] == 204


@pytest.mark.parametrize(
    ("port", "status"), [("abc", 400), ("5672x", 400), ("0", 503), ("-1", 503), ("70000", 503)]
)
def test_a_port_is_a_number(door, port, status) -> None:
    assert door.ask("GET", "health", "checks", "port-listener", port)[0] == status


def test_who_downloads_rabbitmqadmin_is_told_what_to_use(world) -> None:
    door = ManagementDoor(world, None)
    connection = HTTPConnection(str(door.address.hostname), door.address.port, timeout=60)
    connection.request("GET", "/cli/rabbitmqadmin")
    script = connection.getresponse().read()
    connection.close()
    done = subprocess.run(["sh"], input=script, capture_output=True, check=False)
    assert done.returncode == 1
    assert b"use 'routelog'" in done.stderr
