"""What tools made for RabbitMQ's HTTP API send and look for: rabbitmqadmin, Nagios checks."""

from __future__ import annotations

import json
from urllib.parse import quote, unquote, unquote_plus

import pika
import pytest
from support.broker_process import BrokerProcess
from support.management_door import ManagementDoor

pytestmark = pytest.mark.differs_from_rabbitmq("needs its data directory")


@pytest.mark.parametrize("kind", ["queues", "exchanges"])
def test_booleans_may_come_as_text(door, name, kind):
    body = {"name": name, "vhost": "/", "type": "topic", "durable": "true", "auto_delete": "false"}
    if kind == "queues":
        body |= {"type": None, "arguments": {}}
    assert door.ask("PUT", kind, "/", name, body=body) == (201, None)
    made = door.get(kind, "/", name)
    assert (made["durable"], made["auto_delete"]) == (True, False)
    assert door.ask("PUT", kind, "/", name, body={**body, "durable": True})[0] == 204
    status, answer = door.ask("PUT", kind, "/", name, body={**body, "durable": "false"})
    assert (status, answer["reason"].split(" for ")[0]) == (400, "inequivalent arg 'durable'")


@pytest.mark.parametrize("wrong", ["yes", "True", "1", "", 1, None, []])
def test_what_is_no_boolean_is_refused(door, name, wrong):
    assert door.ask("PUT", "queues", "/", name, body={"durable": wrong})[0] == 400
    assert door.ask("GET", "queues", "/", name)[0] == 404


def test_an_empty_object_may_come_as_a_list(door, name):
    for kind in ("queues", "exchanges"):
        body = {"type": "direct", "arguments": []} if kind == "exchanges" else {"arguments": []}
        door.do("PUT", kind, "/", name, body=body)
        assert door.get(kind, "/", name)["arguments"] == {}
        assert door.ask("PUT", kind, "/", name, body={**body, "arguments": [1]})[0] == 400
    body = {"routing_key": "k", "arguments": []}
    assert door.ask("POST", "bindings", "/", "e", name, "q", name, body=body)[0] == 201


def test_a_new_binding_says_where_it_is(door, name):
    queue = f"{name} é/%"
    door.do("PUT", "queues", "/", queue, body={})
    path = "/bindings/%2F/e/amq.topic/q/" + quote(queue, safe="")
    for body in ({"routing_key": "a/b #"}, {"routing_key": "#", "arguments": {"one": "two"}}, {}):
        status, headers, _ = door.raw("POST", path, json.dumps(body).encode())
        destination, key = map(unquote_plus, headers["location"].split("/"))
        assert (status, destination) == (201, queue)
        found = door.get("bindings", "/", "e", "amq.topic", "q", queue, unquote(key))
        assert found["properties_key"] == key
        assert found["routing_key"] == body.get("routing_key", "")


def test_numbers_may_come_as_text(door, name):
    door.do("PUT", "queues", "/", name, body={})
    sent = {"properties": {}, "routing_key": name, "payload": "abc", "payload_encoding": "string"}
    door.do("POST", "exchanges", "/", "amq.default", "publish", body=sent)
    asked = {"count": "5", "truncate": "2", "ackmode": "ack_requeue_true", "encoding": "auto"}
    [taken] = door.do("POST", "queues", "/", name, "get", body=asked)
    assert (taken["payload"], taken["payload_bytes"]) == ("ab", 3)
    for wrong in ("", "1.5", "five", "5\n", "1" * 5_000):
        body = {**asked, "count": wrong}
        assert door.ask("POST", "queues", "/", name, "get", body=body)[0] == 400


def test_text_stays_text_where_text_is_meant(world, door, name):
    body = {"password": "true", "tags": "1,management"}
    door.do("PUT", "users", name, body=body)
    assert door.get("users", name)["tags"] == ["1", "management"]
    assert ManagementDoor(world, (name, "true")).ask("GET", "whoami")[0] == 200


def test_the_realm_is_rabbitmqs(world):
    status, headers, _ = ManagementDoor(world, None).raw("GET", "/overview")
    assert (status, headers["www-authenticate"]) == (401, 'Basic realm="RabbitMQ Management"')


def test_tags_keep_their_order(door, name):
    door.do("PUT", "users", name, body={"password": "x", "tags": "policymaker,management"})
    assert door.get("users", name)["tags"] == ["policymaker", "management"]
    [exported] = [user for user in door.get("definitions")["users"] if user["name"] == name]
    assert exported["tags"] == ["policymaker", "management"]


def test_topic_permissions_that_are_not_there_are_not_found(door, name):
    door.add_user(name)
    assert door.ask("GET", "topic-permissions", "/", name)[0] == 404
    assert door.get("users", name, "topic-permissions") == []
    rule = {"exchange": "amq.topic", "write": ".*", "read": ".*"}
    door.do("PUT", "topic-permissions", "/", name, body=rule)
    assert len(door.get("topic-permissions", "/", name)) == 1


def test_a_cluster_is_named_for_clients_and_after_a_restart(tmp_path):
    process = BrokerProcess(tmp_path / "node").start()
    try:
        door = ManagementDoor(process)
        node = door.get("nodes")[0]["name"]
        assert door.get("cluster-name") == {"name": node}
        for wrong in ({}, {"name": ""}, {"name": 1}, {"name": "x" * 256}):
            assert door.ask("PUT", "cluster-name", body=wrong)[0] == 400
        door.do("PUT", "cluster-name", body={"name": "rabbit@orders"})
        process.stop()
        process.start()
        door = ManagementDoor(process)
        assert door.get("cluster-name") == {"name": "rabbit@orders"}
        assert door.get("overview")["cluster_name"] == "rabbit@orders"
        assert door.get("overview")["node"] == node
        assert door.get("global-parameters", "cluster_name")["value"] == "rabbit@orders"
        connection = pika.BlockingConnection(pika.URLParameters(process.url))
        told = connection._impl.server_properties["cluster_name"]
        connection.close()
        assert told == "rabbit@orders"
        door.do("DELETE", "global-parameters", "cluster_name")
        assert door.get("cluster-name") == {"name": node}
    finally:
        process.stop()
