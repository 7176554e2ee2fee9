"""Messages that are published together over HTTP, with pika on the other side."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from support.broker_process import BrokerProcess
from support.management_door import ManagementDoor
from support.pika_client import Clients

from routelog.management.views.exchange_views import BATCH_BYTES_MAX, BATCH_MESSAGES_MAX

pytestmark = pytest.mark.differs_from_rabbitmq("a path of its own")


@pytest.fixture
def clients(world: BrokerProcess) -> Iterator[Clients]:
    opened = Clients(world.url)
    yield opened
    opened.close()


def message(routing_key: str, payload: str = "", **properties: object) -> dict[str, Any]:
    properties.setdefault("delivery_mode", 2)
    body = {"routing_key": routing_key, "payload": payload, "payload_encoding": "string"}
    return body | {"properties": properties}


def batch(door: ManagementDoor, *messages: Any, exchange: str = "amq.default") -> Any:
    return door.ask("POST", "exchanges", "/", exchange, "publish", "batch", body=list(messages))


def outcome(confirmed: int, unroutable: tuple[int, ...] = (), refused: tuple[int, ...] = ()) -> Any:
    return 200, {
        "confirmed": confirmed,
        "unroutable": list(unroutable),
        "refused": list(refused),
    }


def declare(door: ManagementDoor, name: str, **arguments: object) -> None:
    given = {key.replace("_", "-"): value for key, value in arguments.items()}
    door.do("PUT", "queues", "/", name, body={"arguments": given})


def taken(clients: Clients, queue: str) -> list[tuple[bytes, Any]]:
    """All messages of a queue: bodies and properties."""
    channel, found = clients.channel(), []
    while (got := channel.basic_get(queue, auto_ack=True))[0] is not None:
        found.append((got[2], got[1]))
    return found


def ready(door: ManagementDoor, queue: str) -> int:
    return len(door.get("queues", "/", queue, "messages", query="count=1000")["items"])


def test_a_batch_is_confirmed_and_lies_in_its_order(door, clients, name) -> None:
    declare(door, name)
    others = message(name, "two", delivery_mode=1), message(name, "three", message_id="m")
    binary = message(name, base64.b64encode(b"\xff\x00").decode()) | {"payload_encoding": "base64"}
    sent = message(name, "one", headers={"n": 1}), *others, message("nowhere"), binary
    assert batch(door, *sent) == outcome(4, unroutable=(3,))
    found = taken(clients, name)
    assert [body for body, _ in found] == [b"one", b"two", b"three", b"\xff\x00"]
    assert [each.delivery_mode for _, each in found] == [2, 1, 2, 2]
    assert (found[0][1].headers, found[2][1].message_id) == ({"n": 1}, "m")
    assert batch(door) == outcome(0)


def test_lines_are_messages_too(door, clients, name) -> None:
    declare(door, name)
    lines = [json.dumps(message(name, f"{number}")) for number in range(3)]
    body = "\n".join((*lines[:2], "", lines[2], "")).encode()
    path = "/exchanges/%2F/amq.default/publish/batch"
    lined = {"Content-Type": "application/x-ndjson; charset=utf-8"}
    status, _, answer = door.raw("POST", path, body, **lined)
    assert (status, json.loads(answer)["confirmed"]) == (200, 3)
    assert [each for each, _ in taken(clients, name)] == [b"0", b"1", b"2"]
    status, _, answer = door.raw("POST", path, body + b'{"routing_key": ', **lined)
    assert (status, json.loads(answer)["reason"][:28]) == (400, "not_json: behind 3 elements:")
    assert ready(door, name) == 0


def test_a_wrong_element_is_named_and_nothing_is_published(door, name) -> None:
    declare(door, name)
    good = message(name, "good")
    for wrong, reason in (
        ("text", "not_json"),
        ({"routing_key": name}, "missing required field"),
        (good | {"payload": 1}, "Expected `str`"),
        (good | {"payload": "?", "payload_encoding": "base64"}, "no base64"),
        (message("k" * 256), "longer than 255 bytes"),
        (message(name, headers=1), "headers are no object"),
        (message(name, delivery_mode=3), "Invalid delivery_mode"),
        (message(name, expiration="soon"), "invalid expiration 'soon'"),
        (message(name, user_id="somebody"), "user_id property set to 'somebody'"),
        (message(name, reply_to="amq.rabbitmq.reply-to"), "fast reply consumer does not exist"),
        (message(name, headers={"CC": 1}), "CC"),
    ):
        status, answer = batch(door, good, good, wrong, "never looked at")
        assert (status, answer["error"]) == (400, "bad_request"), answer
        assert answer["reason"].startswith("element 2: "), answer
        assert reason in answer["reason"]
    assert batch(door, good, exchange="absent")[0] == 400
    status, answer = door.ask("POST", "exchanges", "/", "amq.default", "publish", "batch", body={})
    assert (status, answer["reason"]) == (400, "not_json: expected an array")
    assert ready(door, name) == 0


def test_what_a_full_queue_refuses_is_told(door, name) -> None:
    declare(door, name, x_max_length=3, x_overflow="reject-publish")
    other = f"{name}.other"
    declare(door, other)
    sent = [message(name), message(other), message(name), message(name), message(name)]
    assert batch(door, *sent, message("nowhere")) == outcome(4, unroutable=(5,), refused=(4,))
    assert (ready(door, name), ready(door, other)) == (3, 1)


def test_permissions_are_those_of_a_client(world, door, name) -> None:
    declare(door, name)
    door.do("POST", "bindings", "/", "e", "amq.topic", "q", name, body={"routing_key": "#"})
    user = ManagementDoor(world, door.add_user(name, "management"))
    topic = {"exchange": "amq.topic", "write": "^mine", "read": ".*"}
    door.do("PUT", "topic-permissions", "/", name, body=topic)
    mine, theirs = message("mine.1"), message("theirs.1")
    assert batch(user, mine, mine, exchange="amq.topic") == outcome(2)
    copied = message("mine.1", headers={"CC": ["theirs.2"]})
    for wrong, key in ((theirs, "theirs.1"), (copied, "theirs.2")):
        status, answer = batch(user, mine, wrong, exchange="amq.topic")
        assert (status, answer["error"]) == (401, "not_authorised")
        assert answer["reason"].startswith(f"element 1: write access to topic '{key}'")
    door.do("PUT", "permissions", "/", name, body={"configure": "", "write": "x", "read": ""})
    status, answer = batch(user, mine, exchange="amq.topic")
    assert (status, answer["error"]) == (401, "not_authorised")
    assert answer["reason"].startswith("write access to exchange 'amq.topic'")
    assert ready(door, name) == 2


def test_copies_and_duplicates_are_as_of_a_client(door, clients, name) -> None:
    declare(door, name)
    other = f"{name}.other"
    declare(door, other)
    copied = message(name, "copied", headers={"BCC": [other]})
    assert batch(door, message(name, "before"), copied, message(name, "behind")) == outcome(3)
    assert [body for body, _ in taken(clients, name)] == [b"before", b"copied", b"behind"]
    assert [body for body, _ in taken(clients, other)] == [b"copied"]

    declared = {"type": "x-message-deduplication", "arguments": {"x-cache-size": 1_000}}
    door.do("PUT", "exchanges", "/", name, body=declared)
    door.do("POST", "bindings", "/", "e", name, "q", name, body={})
    sent = [message("", f"{at}", headers={"x-deduplication-header": at % 190}) for at in range(200)]
    assert batch(door, *sent, exchange=name) == outcome(200)
    assert [body for body, _ in taken(clients, name)] == [b"%d" % at for at in range(190)]


def test_the_largest_batches_are_published(door, name) -> None:
    declare(door, name, x_queue_type="stream")
    one = message(name, "x")
    assert batch(door, *[one] * BATCH_MESSAGES_MAX) == outcome(BATCH_MESSAGES_MAX)
    half = message(name, "x" * (BATCH_BYTES_MAX // 2 - 1_000))
    assert batch(door, half, half) == outcome(2)
    assert door.get("queues", "/", name)["messages"] == BATCH_MESSAGES_MAX + 2
    status, answer = batch(door, message(name, "x" * BATCH_BYTES_MAX))
    assert (status, answer["error"]) == (413, "payload_too_large")
