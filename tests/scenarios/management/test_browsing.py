"""Operators look at messages, in memory and on the disk, and nothing becomes of them."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlencode

import pika
import pytest
from support.broker_process import BrokerProcess
from support.management_door import ManagementDoor
from support.pika_client import Clients, Inbox
from support.waiting import wait_until

pytestmark = pytest.mark.differs_from_rabbitmq("has no way to look at messages")


def browse(door: ManagementDoor, queue: str, **asked: object) -> dict[str, object]:
    page: dict[str, object] = door.get("queues", "/", queue, "messages", query=urlencode(asked))
    return page


def bodies(page: dict[str, object]) -> list[str]:
    items = page["items"]
    assert isinstance(items, list)
    return [each["payload"] for each in items]


def test_messages_are_found_and_stay_as_they_are(
    fresh_broker: Callable[[], BrokerProcess],
) -> None:
    broker = fresh_broker()
    door, clients = ManagementDoor(broker), Clients(broker.url)
    channel = clients.channel()
    channel.confirm_delivery()
    channel.queue_declare("q", durable=True)
    for number in range(10):
        properties = pika.BasicProperties(
            delivery_mode=2, headers={"customer": number % 2, "name": f"n{number}"}
        )
        channel.basic_publish("", "q", f"body {number}".encode(), properties)
    consuming = clients.connect()
    taking = consuming.channel()
    taking.basic_qos(prefetch_count=3)
    inbox = Inbox(taking, "q", consumer_tag="mine").wait_for(3)

    page = browse(door, "q")
    assert bodies(page) == [f"body {number}" for number in range(10)]
    assert (page["next"], page["end"], page["unreadable"]) == (None, "0:10", [])
    rows = page["items"]
    assert isinstance(rows, list)
    assert [row["state"] for row in rows] == ["unacked"] * 3 + ["ready"] * 7
    holder = rows[0]["consumer"]
    assert (holder["consumer_tag"], holder["channel"]) == ("mine", taking.channel_number)
    assert holder["connection"] in [each["name"] for each in door.get("connections")]
    assert rows[9]["consumer"] is None
    assert rows[9]["properties"] == {
        "delivery_mode": 2,
        "headers": {"customer": 1, "name": "n9"},
    }
    assert bodies(browse(door, "q", state="ready", count=2)) == ["body 3", "body 4"]
    following = browse(door, "q", state="ready", count=2)["next"]
    assert following == "0:5"
    assert bodies(browse(door, "q", offset=following, count=2)) == ["body 5", "body 6"]
    assert bodies(browse(door, "q", header="customer=1")) == [f"body {n}" for n in range(1, 10, 2)]
    assert bodies(browse(door, "q", header="name=n4", text="body")) == ["body 4"]
    assert bodies(browse(door, "q", key="other")) == []
    assert bodies(browse(door, "q", offset=8, truncate=6)) == ["body 8"[:6]] * 1 + ["body 9"[:6]]
    assert bodies(browse(door, "q", time="1h")) == bodies(page)
    assert bodies(browse(door, "q", offset="next")) == []

    taking.basic_ack(inbox.deliveries[-1][0].delivery_tag, multiple=True)
    consuming.close()
    wait_until(lambda: door.get("queues", "/", "q")["messages_ready"] == 7)
    clients.close()


def test_after_a_restart_messages_are_read_from_the_disk(
    fresh_broker: Callable[[], BrokerProcess],
) -> None:
    broker = fresh_broker()
    clients = Clients(broker.url)
    channel = clients.channel()
    channel.confirm_delivery()
    channel.queue_declare("q", durable=True)
    for number in range(300):
        channel.basic_publish(
            "", "q", b"%d " % number + b"x" * 1_000, pika.BasicProperties(delivery_mode=2)
        )
    clients.close()
    broker.restart()
    door = ManagementDoor(broker)
    page = browse(door, "q", count=1_000, truncate=3)
    assert [int(body.split()[0].rstrip("x")) for body in bodies(page)] == list(range(300))
    clients = Clients(broker.url)
    got, _, body = clients.channel().basic_get("q", auto_ack=True)
    assert (got.redelivered, body[:2]) == (False, b"0 ")
    clients.close()


@pytest.mark.parametrize(
    "asked",
    [
        {"offset": "x"},
        {"offset": "0:1-"},
        {"offset": "1:0"},
        {"offset": "0:99999999999999999999"},
        {"count": 0},
        {"count": 1_001},
        {"state": "gone"},
        {"header": "x"},
        {"until": "yesterday"},
        {"partition": 1},
        {"encoding": "rot13"},
        {"truncate": -1},
    ],
)
def test_what_cannot_be_asked_is_refused(broker: BrokerProcess, asked: dict[str, object]) -> None:
    door = ManagementDoor(broker)
    door.do("PUT", "queues", "/", "asked", body={})
    status, answer = door.ask("GET", "queues", "/", "asked", "messages", query=urlencode(asked))
    assert (status, answer["error"]) == (400, "bad_request")
    assert door.ask("GET", "queues", "/", "missing", "messages")[0] == 404


def test_it_takes_the_permission_to_read(broker: BrokerProcess) -> None:
    door = ManagementDoor(broker)
    door.do("PUT", "queues", "/", "secret", body={})
    door.do("PUT", "users", "peeper", body={"password": "p", "tags": "management"})
    none = {"configure": ".*", "write": ".*", "read": "^$"}
    door.do("PUT", "permissions", "/", "peeper", body=none)
    peeper = ManagementDoor(broker, ("peeper", "p"))
    assert peeper.ask("GET", "queues", "/", "secret", "messages")[0] == 401
