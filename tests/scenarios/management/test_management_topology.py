"""Queues, exchanges, bindings and messages over HTTP, with pika on the other side."""

from __future__ import annotations

import base64
import json
import os
import shutil
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pika
import pytest
from pamqp import commands
from scenarios.clients.raw_client import RawClient, long, message, short
from support.broker_process import BrokerProcess
from support.management_door import ManagementDoor
from support.pika_client import PERSISTENT, Clients, Inbox, send
from support.waiting import wait_until

pytestmark = pytest.mark.differs_from_rabbitmq("needs its data directory")

QUEUE_KEYS = {"name", "vhost", "durable", "auto_delete", "exclusive", "arguments", "type", "node"}
QUEUE_KEYS |= {"state", "policy", "operator_policy", "effective_policy_definition", "consumers"}
QUEUE_KEYS |= {"messages", "messages_ready", "messages_unacknowledged"}


@pytest.fixture
def clients(world: BrokerProcess) -> Iterator[Clients]:
    opened = Clients(world.url)
    yield opened
    opened.close()


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[tuple[BrokerProcess, ManagementDoor, Clients]]:
    process = BrokerProcess(tmp_path / "alone").start()
    opened = Clients(process.url)
    yield process, ManagementDoor(process), opened
    opened.close()
    process.stop()


def test_a_queue_is_declared_filled_looked_at_purged_and_deleted(door, clients, name):
    body = {"durable": True, "arguments": {"x-max-length": 5}}
    assert door.ask("PUT", "queues", "/", name, body=body) == (201, None)
    assert door.ask("PUT", "queues", "/", name, body=body) == (204, None)
    status, answer = door.ask("PUT", "queues", "/", name, body={"durable": False})
    assert (status, answer["error"]) == (400, "bad_request")
    assert answer["reason"].startswith(f"inequivalent arg 'durable' for queue '{name}'")
    channel = clients.channel()
    send(channel, name, b"one", b"two")
    queue = door.get("queues", "/", name)
    assert queue.keys() >= QUEUE_KEYS
    assert (queue["messages"], queue["messages_ready"], queue["consumers"]) == (2, 2, 0)
    assert queue["arguments"] == {"x-max-length": 5}
    inbox = Inbox(channel, name, consumer_tag="me").wait_for(2)
    queue = door.get("queues", "/", name)
    assert (queue["messages_ready"], queue["messages_unacknowledged"]) == (0, 2)
    assert [each["consumer_tag"] for each in queue["consumer_details"]] == ["me"]
    assert door.ask("DELETE", "queues", "/", name, query="if-unused=true")[0] == 400
    channel.basic_nack(inbox.delivery_tags[-1], multiple=True)
    channel.basic_cancel(inbox.tag)
    channel.close()
    wait_until(lambda: door.get("queues", "/", name)["messages_ready"] == 2)
    assert door.ask("DELETE", "queues", "/", name, query="if-empty=true")[0] == 400
    assert door.ask("DELETE", "queues", "/", name, "contents")[0] == 204
    assert door.ask("DELETE", "queues", "/", name, query="if-empty=true")[0] == 204
    assert door.ask("GET", "queues", "/", name) == (
        404,
        {"error": "Object Not Found", "reason": f"no queue '{name}' in vhost '/'"},
    )


def test_arguments_of_a_queue_change_under_its_clients(door, clients, name):
    channel = clients.channel()
    channel.queue_declare(name, durable=True, arguments={"x-max-length": 5})
    channel.basic_qos(prefetch_count=1)
    inbox = Inbox(channel, name)
    send(channel, name, b"one", b"two", b"three")
    inbox.wait_for(1)
    changes = {"x-max-length": None, "x-queue-type": "quorum", "x-max-priority": 3}
    assert door.ask("PUT", "queues", "/", name, "arguments", body=changes) == (204, None)
    queue = door.get("queues", "/", name)
    wanted = {"x-queue-type": "quorum", "x-max-priority": 3}
    assert (queue["type"], queue["arguments"]) == ("quorum", wanted)
    assert (queue["messages_ready"], queue["messages_unacknowledged"]) == (2, 1)
    channel.basic_nack(inbox.delivery_tags[0])
    assert inbox.wait_for(2).bodies == [b"one", b"one"]
    assert inbox.deliveries[1][1].headers == {"x-delivery-count": 1}
    channel.queue_declare(name, durable=True, arguments=wanted)
    exported = door.get("definitions")["queues"]
    assert [each["arguments"] for each in exported if each["name"] == name] == [wanted]
    door.do("PUT", "queues", "/", name, "arguments", body={"x-max-priority": None})
    refusals = {
        "x-queue-type": ("stream", "received 'stream' but current is 'quorum'"),
        "x-partitions": (2, "received the value '2' of type 'signedint' but current is none"),
    }
    for argument, (value, text) in refusals.items():
        asked = {"x-queue-type": "quorum", argument: value}
        status, answer = door.ask("PUT", "queues", "/", name, "arguments", body=asked)
        reason = f"inequivalent arg '{argument}' for queue '{name}' in vhost '/': {text}"
        assert (status, answer["reason"]) == (400, reason)
        other = clients.channel()
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
            other.queue_declare(name, durable=True, arguments=asked)
        assert refused.value.reply_text == f"PRECONDITION_FAILED - {reason}"


def test_a_relaxed_redeclaration_is_told_to_the_log_and_changes_nothing(tmp_path, name):
    process = BrokerProcess(tmp_path / "relaxed", {"ROUTELOG_RELAXED_REDECLARATION": "true"})
    process.start()
    try:
        clients = Clients(process.url)
        channel = clients.channel()
        channel.queue_declare(name, durable=True, arguments={"x-max-length": 5})
        other = {"x-max-length": 6, "x-queue-type": "quorum"}
        channel.queue_declare(name, durable=True, arguments=other)
        row = ManagementDoor(process).get("queues", "/", name)
        assert row["arguments"] == {"x-max-length": 5}
        assert "x-max-length: the value '5' of type" in process.log_text()
        refused = [{"durable": False}, {"durable": True, "arguments": {"x-max-length": "many"}}]
        for declared in refused:
            with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="PRECONDITION_FAILED"):
                clients.channel().queue_declare(name, **declared)
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="RESOURCE_LOCKED"):
            clients.channel().queue_declare(name, durable=True, exclusive=True)
    finally:
        process.stop()


def test_a_queue_is_paused_over_a_restart_and_an_operator_still_takes_from_it(alone, name):
    process, door, clients = alone
    channel = clients.channel()
    channel.queue_declare(name, durable=True)
    assert door.ask("PUT", "queues", "/", name, "pause") == (204, None)
    channel.confirm_delivery()
    for body in (b"one", b"two"):
        channel.basic_publish("", name, body, PERSISTENT)
    assert channel.basic_get(name) == (None, None, None)
    assert process.terminate() == 0
    process.start()
    door = ManagementDoor(process)
    channel = Clients(process.url).channel()
    inbox = Inbox(channel, name)
    row = door.get("queues", "/", name)
    assert (row["state"], row["messages_ready"], row["consumers"]) == ("paused", 2, 1)
    taken = {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}
    assert [
        each["payload"] for each in door.do("POST", "queues", "/", name, "get", body=taken)
    ] == ["one"]
    assert inbox.bodies == []
    assert door.ask("PUT", "queues", "/", name, "resume") == (204, None)
    assert inbox.wait_for(1).bodies == [b"two"]
    assert door.get("queues", "/", name)["state"] == "running"


@pytest.mark.parametrize(
    ("method", "parts", "body", "status"),
    [
        ("PUT", ("queues", "/", "nope", "pause"), None, 404),
        ("PUT", ("queues", "/", "nope", "resume"), None, 404),
        ("PUT", ("queues", "/", "nope", "arguments"), {}, 404),
        ("PUT", ("queues", "/", "amq.mine"), {}, 401),
        ("PUT", ("queues", "/", "q"), [1], 400),
        ("PUT", ("queues", "/", "q"), {"arguments": {"x-max-length": "many"}}, 400),
        ("PUT", ("queues", "/", "q"), {"arguments": {"x": 2**70}}, 400),
        ("PUT", ("queues", "/", "q"), {"durable": "yes"}, 400),
        ("PUT", ("queues", "/", "q" * 256), {}, 400),
        ("PUT", ("queues", "nowhere", "q"), {}, 404),
        ("PUT", ("exchanges", "/", "x"), {"type": "nope"}, 400),
        ("PUT", ("exchanges", "/", "amq.topic"), {"type": "fanout"}, 400),
        ("DELETE", ("exchanges", "/", "amq.topic"), None, 401),
        ("DELETE", ("exchanges", "/", "amq.default"), None, 401),
        ("DELETE", ("exchanges", "/", "nope"), None, 404),
        ("POST", ("bindings", "/", "e", "amq.topic", "q", "nope"), {"routing_key": "a"}, 404),
        ("POST", ("bindings", "/", "e", "amq.topic", "x", "nope"), {"routing_key": "a"}, 404),
        ("POST", ("exchanges", "/", "amq.topic", "publish"), {"properties": {}}, 400),
        ("DELETE", ("connections", "nope"), None, 404),
        ("PATCH", ("queues", "/", "q"), {}, 405),
        ("GET", ("nowhere",), None, 404),
    ],
)
def test_what_cannot_be_is_answered_as_rabbitmq_does(door, method, parts, body, status):
    answered, answer = door.ask(method, *parts, body=body)
    assert answered == status, answer
    assert set(answer) == {"error", "reason"}


def test_names_of_any_kind_are_found_again(door, name):
    for queue in (f"{name}/a", f"{name}%2Fa", f"{name} é?&#", f"{name}..", f"../{name}"):
        door.do("PUT", "queues", "/", queue, body={})
        assert door.get("queues", "/", queue)["name"] == queue
        door.do("DELETE", "queues", "/", queue)


def test_bindings_are_found_by_their_ends_and_keys(door, name):
    door.do("PUT", "queues", "/", name, body={})
    door.do("PUT", "exchanges", "/", name, body={"type": "topic"})
    ends = ("bindings", "/", "e", name, "q", name)
    for key, arguments in (("", {}), ("a.#", {}), ("a.#", {"n": 1}), ("a.#", {"n": 2})):
        made = door.ask("POST", *ends, body={"routing_key": key, "arguments": arguments})
        assert made == (201, None)
    found = door.get(*ends)
    keys = [binding["properties_key"] for binding in found]
    assert len(set(keys)) == 4
    assert keys[:2] == ["~", "a.%23"]
    for binding in found:
        status, _, answer = door.raw(
            "GET", f"/bindings/%2F/e/{name}/q/{name}/{binding['properties_key']}"
        )
        assert status == 200, answer
    assert len(door.get("queues", "/", name, "bindings")) == 5
    assert len(door.get("exchanges", "/", name, "bindings", "source")) == 4
    assert door.ask("DELETE", *ends, "a.#") == (204, None)
    assert door.ask("DELETE", *ends, "a.#")[0] == 404
    assert len(door.get(*ends)) == 3
    door.do("POST", "bindings", "/", "e", name, "e", "amq.fanout", body={"routing_key": "k"})
    assert len(door.get("exchanges", "/", "amq.fanout", "bindings", "destination")) == 1


def test_messages_are_published_and_taken_for_debugging(door, clients, name):
    door.do("PUT", "queues", "/", name, body={})
    headers = {"n": [1, "é", None], "f": 0.1}
    properties = {"content_type": "text/plain", "delivery_mode": 2, "headers": headers, "type": "t",
                  "timestamp": 1_700_000_000, "priority": 3}  # fmt: skip
    bodies = [("héllo", "string"), (base64.b64encode(b"\xff\x00").decode(), "base64")]
    for payload, encoding in bodies:
        message = {
            "properties": properties,
            "routing_key": name,
            "payload": payload,
            "payload_encoding": encoding,
        }
        assert door.do("POST", "exchanges", "/", "amq.default", "publish", body=message) == {
            "routed": True
        }
    lost = {"properties": {}, "routing_key": "nobody", "payload": "", "payload_encoding": "string"}
    assert door.do("POST", "exchanges", "/", "amq.default", "publish", body=lost) == {
        "routed": False
    }
    take = {"count": 5, "ackmode": "ack_requeue_true", "encoding": "auto"}
    taken = door.do("POST", "queues", "/", name, "get", body=take)
    assert [(each["payload"], each["payload_encoding"]) for each in taken] == bodies
    assert taken[0]["properties"] == properties
    assert [each["redelivered"] for each in taken] == [False, False]
    take = {"count": 1, "ackmode": "reject_requeue_false", "encoding": "base64", "truncate": 1}
    (first,) = door.do("POST", "queues", "/", name, "get", body=take)
    assert (first["payload"], first["payload_bytes"], first["redelivered"]) == ("aA==", 6, True)
    assert first["message_count"] == 1
    found, got, body = clients.channel().basic_get(name, auto_ack=True)
    assert (found.redelivered, body) == (True, b"\xff\x00")
    assert got.headers == headers | {"f": 0}  # pika makes a whole number of every double


@pytest.mark.parametrize("queue_type", ["classic", "quorum"])
def test_what_is_rejected_over_http_becomes_a_dead_letter(door, clients, name, queue_type):
    dead = f"{name}-dead"
    door.do("PUT", "queues", "/", dead, body={})
    arguments = {"x-queue-type": queue_type, "x-dead-letter-exchange": ""}
    arguments["x-dead-letter-routing-key"] = dead
    door.do("PUT", "queues", "/", name, body={"durable": True, "arguments": arguments})
    send(clients.channel(), name, b"one", b"two")
    take = {"count": 1, "encoding": "auto"}
    for ackmode, payload in (
        ("reject_requeue_true", "one"),
        ("reject_requeue_false", "one"),
        ("ack_requeue_false", "two"),
    ):
        (taken,) = door.do("POST", "queues", "/", name, "get", body=take | {"ackmode": ackmode})
        assert taken["payload"] == payload
    assert door.get("queues", "/", name)["messages"] == 0
    wait_until(lambda: door.get("queues", "/", dead)["messages"] == 1)
    _, properties, body = clients.channel().basic_get(dead, auto_ack=True)
    (death,) = properties.headers["x-death"]
    assert (body, death["queue"], death["reason"], death["count"]) == (b"one", name, "rejected", 1)


def test_what_comes_back_over_http_is_counted_and_a_rejection_waits_for_its_retry(door, name):
    arguments = {"x-queue-type": "quorum", "x-delayed-retry-type": "failed"}
    arguments |= {"x-delayed-retry-min": 600_000, "x-delayed-retry-max": 600_000}
    door.do("PUT", "queues", "/", name, body={"durable": True, "arguments": arguments})
    message = {"properties": {}, "routing_key": name, "payload": "", "payload_encoding": "string"}
    door.do("POST", "exchanges", "/", "amq.default", "publish", body=message)
    take = {"count": 1, "encoding": "auto"}
    for count, ackmode in enumerate(("ack_requeue_true", "reject_requeue_true")):
        (taken,) = door.do("POST", "queues", "/", name, "get", body=take | {"ackmode": ackmode})
        assert taken["properties"]["headers"]["x-delivery-count"] == count
    queue = door.get("queues", "/", name)
    assert (queue["messages_ready"], queue["messages_delayed"]) == (0, 1)


def test_no_limit_drops_a_message_that_operators_look_at(door, name):
    arguments = {"x-delivery-limit": 1}
    door.do("PUT", "queues", "/", name, body={"durable": True, "arguments": arguments})
    message = {"properties": {}, "routing_key": name, "payload": "", "payload_encoding": "string"}
    door.do("POST", "exchanges", "/", "amq.default", "publish", body=message)
    take = {"count": 1, "encoding": "auto", "ackmode": "ack_requeue_true"}
    for count in range(4):
        (taken,) = door.do("POST", "queues", "/", name, "get", body=take)
        assert taken["properties"]["headers"]["x-delivery-count"] == count
    assert door.get("queues", "/", name)["messages_ready"] == 1


def test_a_message_whose_headers_cannot_be_read_is_shown_and_stays(world, door, name):
    door.do("PUT", "queues", "/", name, body={})
    table = short(b"\xff\xfe") + b"t\x01"
    with RawClient("127.0.0.1", world.port) as client:
        client.open()
        client.open_channel()
        client.send_bytes(message(name, b"odd", b"\x20\0" + long(table)))
        assert client.outcome().scope == "ok"
    take = {"count": 5, "ackmode": "ack_requeue_true", "encoding": "auto"}
    for _ in range(2):
        (shown,) = door.do("POST", "queues", "/", name, "get", body=take)
        assert shown["payload"] == "odd"
        undecoded = base64.b64encode(table).decode()
        assert shown["properties"] == {"headers": {"undecoded": undecoded}}
    assert door.get("queues", "/", name)["messages_ready"] == 1


def test_messages_that_are_taken_have_a_limit_in_bytes(door, clients, name):
    door.do("PUT", "queues", "/", name, body={})
    size = 16 * 1024 * 1024
    channel = clients.channel()
    for _ in range(5):
        channel.basic_publish("", name, bytes(size))
    wait_until(lambda: door.get("queues", "/", name)["messages"] == 5)
    take = {"count": 10, "ackmode": "ack_requeue_true", "encoding": "auto", "truncate": 1}
    taken = door.do("POST", "queues", "/", name, "get", body=take)
    assert [each["payload_bytes"] for each in taken] == [size] * 4
    assert door.get("queues", "/", name)["messages_ready"] == 5


@pytest.mark.parametrize("properties", [{"headers": []}, {"colour": 1, "delivery_mode": 2}])
def test_a_message_is_taken_as_rabbitmq_takes_it(door, name, properties):
    door.do("PUT", "queues", "/", name, body={})
    message = {"properties": properties, "routing_key": name}
    message |= {"payload": "", "payload_encoding": "string"}
    routed = door.do("POST", "exchanges", "/", "amq.default", "publish", body=message)
    assert routed == {"routed": True}


def test_an_exchange_without_a_type_is_direct_and_says_who_declared_it(door, clients, name):
    assert door.ask("PUT", "exchanges", "/", name, body={}) == (201, None)
    exchange = door.get("exchanges", "/", name)
    assert (exchange["type"], exchange["user_who_performed_action"]) == ("direct", "guest")
    clients.channel().exchange_declare(f"{name}-amqp", "topic")
    document = {"exchanges": [{"name": f"{name}-in", "vhost": "/", "type": "topic"}]}
    door.do("POST", "definitions", body=document)
    for one in (f"{name}-amqp", f"{name}-in"):
        assert door.get("exchanges", "/", one)["user_who_performed_action"] == "guest"
    assert door.get("exchanges", "/", "amq.topic")["user_who_performed_action"] == "rmq-internal"


def test_who_declared_an_exchange_outlives_a_restart(alone):
    process, door, _ = alone
    door.do("PUT", "exchanges", "/", "x", body={"type": "topic"})
    process.kill()
    process.start()
    again = ManagementDoor(process)
    assert again.get("exchanges", "/", "x")["user_who_performed_action"] == "guest"
    (cluster_id,) = again.get("global-parameters")
    assert cluster_id["name"] == "internal_cluster_id"
    assert again.get("global-parameters", "internal_cluster_id") == cluster_id


def test_a_transaction_and_where_messages_are_is_shown(door, clients, name):
    door.do("PUT", "queues", "/", name, body={})
    channel = clients.channel()
    for mode in (2, 2, 1):
        properties = pika.BasicProperties(delivery_mode=mode)
        channel.basic_publish("", name, b"", properties)
    wait_until(lambda: door.get("queues", "/", name)["messages"] == 3)
    queue = door.get("queues", "/", name)
    assert (queue["messages_ram"], queue["messages_persistent"]) == (3, 2)
    channel = clients.channel()
    channel.tx_select()
    for _ in range(2):
        channel.basic_ack(channel.basic_get(name)[0].delivery_tag)
    for _ in range(3):
        channel.basic_publish("", name, b"")

    def shown() -> list[tuple[int, int]]:
        rows = [each for each in door.get("channels") if each["transactional"]]
        return [(each["messages_uncommitted"], each["acks_uncommitted"]) for each in rows]

    wait_until(lambda: shown() == [(3, 2)])
    channel.tx_commit()
    assert shown() == [(0, 0)]


@pytest.mark.parametrize(
    ("argument", "value", "queue_type"),
    [
        ("x-queue-mode", "odd", "classic"),
        ("x-queue-version", 3, "classic"),
        ("x-queue-version", "2", "classic"),
        ("x-queue-master-locator", "odd", "classic"),
        ("x-queue-leader-locator", "odd", "quorum"),
        ("x-max-in-memory-length", -1, "quorum"),
        ("x-stream-max-segment-size-bytes", -5, "stream"),
        ("x-initial-cluster-size", "x", "stream"),
    ],
)
def test_arguments_without_effect_are_checked(door, name, argument, value, queue_type):
    body = {"durable": True, "arguments": {argument: value, "x-queue-type": queue_type}}
    status, answer = door.ask("PUT", "queues", "/", name, body=body)
    assert status == 400
    assert answer["reason"].startswith(f"invalid arg '{argument}' for queue '{name}'")


def test_arguments_without_effect_are_compared(door, name):
    body = {"arguments": {"x-queue-mode": "lazy", "x-queue-version": 2}}
    assert door.ask("PUT", "queues", "/", name, body=body) == (201, None)
    assert door.ask("PUT", "queues", "/", name, body=body) == (204, None)
    status, answer = door.ask("PUT", "queues", "/", name, body={})
    assert status == 400
    assert answer["reason"].startswith(f"inequivalent arg 'x-queue-mode' for queue '{name}'")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"properties": {"delivery_mode": 3}}, "delivery"),
        ({"properties": {"headers": 5}}, "headers are no object"),
        ({"properties": {"headers": {"x": 2**70}}}, "not one that AMQP knows"),
        ({"properties": {"expiration": "soon"}}, "invalid expiration 'soon'"),
        ({"properties": {"user_id": "root"}}, "user_id property set to 'root'"),
        ({"properties": {"content_type": "x" * 256}}, "properties cannot be"),
        ({"properties": {"priority": 256}}, "properties cannot be"),
        ({"properties": {"timestamp": -5}}, "properties cannot be"),
        ({"payload": "%", "payload_encoding": "base64"}, "no base64"),
        ({"payload_encoding": "hex"}, "payload_encoding"),
        ({"routing_key": "k" * 256}, "longer than 255"),
    ],
)
def test_a_message_that_cannot_be_is_refused(door, change, reason):
    message = {"properties": {}, "routing_key": "q", "payload": "", "payload_encoding": "string"}
    status, answer = door.ask(
        "POST", "exchanges", "/", "amq.topic", "publish", body=message | change
    )
    assert status == 400
    assert reason in answer["reason"]


@pytest.mark.parametrize(
    "path",
    [
        "bindings",
        "bindings/%2F",
        "channels",
        "connections",
        "connections/username/guest",
        "consumers",
        "exchanges",
        "exchanges/%2F",
        "exchanges/%2F/amq.topic/bindings/source",
        "global-parameters",
        "nodes",
        "parameters",
        "permissions",
        "policies",
        "queues",
        "queues/%2F",
        "topic-permissions",
        "user-limits",
        "users",
        "users/guest/permissions",
        "vhost-limits",
        "vhosts",
        "vhosts/%2F/channels",
        "vhosts/%2F/connections",
        "vhosts/%2F/permissions",
    ],
)
def test_lists_have_pages_where_rabbitmq_has_them(door, path):
    have_pages = ("channels", "connections", "exchanges", "queues", "vhosts")
    status, _, answer = door.raw("GET", f"/{path}?page=1&page_size=1&name=zzz")
    assert status == 200
    is_paged = path.split("/")[0] in have_pages and path.count("/") < 2
    assert isinstance(json.loads(answer), dict if is_paged or "username" in path else list)


def test_connections_channels_and_consumers_are_listed_and_closed(world, door, clients, name):
    connection = clients.connect(client_properties={"connection_name": name})
    channel = connection.channel()
    channel.basic_qos(prefetch_count=7)
    channel.queue_declare(name, exclusive=True)
    channel.basic_consume(name, lambda *_: None, consumer_tag=name)
    (mine,) = [each for each in door.get("connections") if each["user_provided_name"] == name]
    assert (mine["user"], mine["vhost"], mine["channels"], mine["state"]) == (
        "guest",
        "/",
        1,
        "running",
    )
    assert mine["client_properties"]["product"] == "Pika Python Client Library"
    assert mine["port"] == world.port
    assert door.get("connections", mine["name"]) == mine
    (seen,) = door.get("connections", mine["name"], "channels")
    assert (seen["number"], seen["consumer_count"], seen["prefetch_count"]) == (1, 1, 7)
    alone = door.get("channels", seen["name"])
    (consumer,) = [each for each in door.get("consumers") if each["consumer_tag"] == name]
    flows: dict[str, list[object]] = {"deliveries": [], "publishes": []}
    assert alone == {**seen, "consumer_details": [consumer], **flows}
    assert consumer["channel_details"]["peer_port"] == mine["peer_port"]
    assert (consumer["active"], consumer["activity_status"]) == (True, "up")
    assert consumer["queue"] == {"name": name, "vhost": "/"}
    status, _, _ = door.raw(
        "DELETE", f"/connections/{mine['name'].replace(' ', '%20')}", **{"X-Reason": "enough"}
    )
    assert status == 204
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        connection.process_data_events(5)
    assert (closed.value.reply_code, closed.value.reply_text) == (320, "CONNECTION_FORCED - enough")
    assert door.ask("GET", "queues", "/", name)[0] == 404


def test_consumers_tell_which_of_them_is_the_single_active_one(door, clients, name):
    channel = clients.channel()
    channel.queue_declare(name, exclusive=True, arguments={"x-single-active-consumer": True})
    tags = [channel.basic_consume(name, lambda *_: None) for _ in range(3)]
    channel.basic_cancel(tags.pop(0))
    shown = door.get("queues", "/", name)["consumer_details"]
    told = {each["consumer_tag"]: (each["active"], each["activity_status"]) for each in shown}
    assert told == {tags[0]: (True, "single_active"), tags[1]: (False, "waiting")}


def test_a_reason_in_any_octets_closes_a_connection(world, door):
    with RawClient("127.0.0.1", world.port) as client:
        client.open()
        mine = "{}:{} -> 127.0.0.1:{}".format(*client.socket.getsockname(), world.port)
        reason = {"X-Reason": "caf\xe9"}  # as Latin-1 on the wire
        assert door.raw("DELETE", f"/connections/{quote(mine)}", **reason)[0] == 204
        closed = client.expect(commands.Connection.Close)
        assert closed.reply_text == "CONNECTION_FORCED - caf�"


def test_a_reader_that_goes_away_is_no_fault_of_the_broker(world, door, clients, name):
    channel = clients.channel()
    for number in range(200):
        channel.queue_declare(f"{name}.{number}", auto_delete=True)
    path = "/api/queues?" + "&".join(f"x={number}" for number in range(100))
    request = f"GET {path} HTTP/1.1\r\nHost: x\r\n"
    request += "".join(f"{key}: {value}\r\n" for key, value in door.headers.items()) + "\r\n"
    for _ in range(5):
        with socket.create_connection((door.address.hostname, door.address.port)) as reader:
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            reader.sendall(request.encode() * 20)
            assert reader.recv(1)
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    assert door.get("whoami")["name"] == "guest"
    assert "an error of the broker" not in world.log_text()


def test_a_connection_that_is_being_closed_is_listed_no_more(world, door):
    with RawClient("127.0.0.1", world.port) as client:
        client.open()
        mine = "{}:{} -> 127.0.0.1:{}".format(*client.socket.getsockname(), world.port)
        assert mine in [each["name"] for each in door.get("connections")]
        assert door.raw("DELETE", f"/connections/{quote(mine)}")[0] == 204
        assert mine not in [each["name"] for each in door.get("connections")]
        client.expect(commands.Connection.Close)


def test_bodies_have_a_limit_however_they_come(door):
    status, _, _ = door.raw("PUT", "/queues/%2F/large", b" " * (1024 * 1024 + 1))
    assert status == 413
    assert door.raw("PUT", "/queues/%2F/large", b"[" * 100_000)[0] == 400
    for content in (b"\xff", b'{"arguments": {"x": "\xed\xa0\x80"}}', b'{"\\ud800": 1}'):
        assert door.raw("PUT", "/queues/%2F/large", content)[0] == 400


def test_a_node_tells_what_it_takes_and_how_much_there_is_as_rabbitmq_does(alone):
    world, door, clients = alone
    (before,) = door.get("nodes")
    held = [clients.channel() for _ in range(20)]
    (node,) = door.get("nodes")
    process = Path(f"/proc/{world.pid}")
    resident = int((process / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    assert 0.8 * resident < node["mem_used"] < 1.2 * resident
    assert node["mem_used"] < node["mem_limit"] <= os.sysconf("SC_PHYS_PAGES") * 4096
    assert node["mem_calculation_strategy"] == "rss"
    # Requests and files come and go
    assert abs(node["fd_used"] - before["fd_used"] - len(held)) < 5
    assert abs(node["fd_used"] - len(os.listdir(process / "fd"))) < 5
    assert node["fd_used"] < node["fd_total"]
    assert node["sockets_used"] - before["sockets_used"] == len(held)
    assert node["sockets_used"] < node["sockets_total"]
    assert 1 < node["proc_used"] < node["proc_total"]
    free = shutil.disk_usage(world.data_dir).free
    assert 0.8 * free < node["disk_free"] < 1.2 * free
    assert 0 < node["disk_free_limit"] < node["disk_free"]
    assert node["mem_alarm"] is node["disk_free_alarm"] is False
    assert node["processors"] == os.cpu_count()
    assert door.get("nodes", node["name"]).keys() == node.keys()
    (chosen,) = door.get("nodes", query="columns=name,mem_used")
    assert chosen.keys() == {"name", "mem_used"}
