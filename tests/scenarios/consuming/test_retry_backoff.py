"""What comes back to its queue waits, the longer the more often it came."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable

import pytest
from pika.adapters.blocking_connection import BlockingChannel
from support.management_door import ManagementDoor
from support.pika_client import PERSISTENT, Clients, Inbox, declare, drain, ready_count, send
from support.waiting import wait_until

MIN = 300  # ms
A_WHILE = 1_000  # ms

pytestmark = pytest.mark.differs_from_rabbitmq("no retry")


def retrying(kind: str = "all", least: int = A_WHILE, **more: object) -> dict[str, object]:
    hyphened = {f"x-{key.replace('_', '-')}": value for key, value in more.items()}
    return {"x-delayed-retry-type": kind, "x-delayed-retry-min": least, **hyphened}


def arrivals(channel: BlockingChannel, queue: str, count: int, back: Callable[[int], None]):
    """Times at which a message comes that is sent back each time, and the header with its count."""
    inbox = Inbox(channel, queue)
    send(channel, queue, b"m")
    times: list[float] = []
    while len(times) < count:
        inbox.wait_for_at_least(len(times) + 1)
        times.append(time.monotonic())
        back(inbox.delivery_tags[-1])
    counts = [(each.headers or {}).get("x-delivery-count") for _, each, _ in inbox.deliveries]
    return times, counts[:count]


@pytest.mark.parametrize("queue_type", ["classic", "quorum", "priority", "partitions"])
def test_the_wait_grows_with_each_delivery_up_to_its_limit(channel, queue_type):
    of_type = {
        "classic": {},
        "quorum": {"x-queue-type": "quorum"},
        "priority": {"x-max-priority": 3},
        "partitions": {"x-partitions": 2},
    }[queue_type]
    arguments = {**retrying(least=MIN, delayed_retry_max=2 * MIN), **of_type}
    queue = declare(channel, "growing", durable=True, exclusive=False, arguments=arguments)
    times, counts = arrivals(channel, queue, 4, channel.basic_nack)
    waits = [later - earlier for earlier, later in itertools.pairwise(times)]
    for wait, expected in zip(waits, (MIN, 2 * MIN, 2 * MIN), strict=True):
        assert expected / 1_000 - 0.005 <= wait
    assert counts == [None, 1, 2, 3]
    channel.queue_delete(queue)


@pytest.mark.parametrize(
    ("kind", "waits_after_nack", "waits_after_reject"),
    [
        ("all", True, True),
        ("failed", False, True),
        ("returned", True, False),
        ("disabled", False, False),
    ],
)
def test_the_type_says_what_waits(channel, kind, waits_after_nack, waits_after_reject):
    for back, waits in (
        (channel.basic_nack, waits_after_nack),
        (channel.basic_reject, waits_after_reject),
    ):
        queue = declare(channel, arguments=retrying(kind, least=60_000))
        send(channel, queue, b"m")
        method, _, _ = channel.basic_get(queue)
        back(method.delivery_tag, requeue=True)
        assert ready_count(channel, queue) == (0 if waits else 1)


@pytest.mark.parametrize(("kind", "waits"), [("failed", True), ("returned", False)])
def test_the_end_of_a_channel_is_a_failure(clients, channel, kind, waits):
    queue = declare(channel, auto_delete=True, arguments=retrying(kind))
    other = clients.channel()
    send(channel, queue, b"m")
    other.basic_get(queue)
    began = time.monotonic()
    other.close()
    is_back = ready_count(channel, queue) == 1
    wait_until(lambda: ready_count(channel, queue) == 1)
    assert time.monotonic() - began >= A_WHILE / 1_000 if waits else is_back


def test_others_go_on_meanwhile_and_order_comes_back(channel):
    queue = declare(channel, arguments=retrying())
    send(channel, queue, b"1", b"2", b"3")
    method, _, _ = channel.basic_get(queue)
    began = time.monotonic()
    channel.basic_nack(method.delivery_tag)
    assert ready_count(channel, queue) >= 2
    wait_until(lambda: ready_count(channel, queue) == 3)
    assert time.monotonic() - began >= A_WHILE / 1_000
    assert drain(channel, queue) == [b"1", b"2", b"3"]


def test_what_came_too_often_is_dead_at_once(channel):
    morgue = declare(channel)
    letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": morgue}
    queue = declare(channel, arguments={**retrying(least=MIN, delivery_limit=1), **letters})
    inbox = Inbox(channel, queue)
    send(channel, queue, b"m")
    for number in (1, 2):
        inbox.wait_for_at_least(number)
        channel.basic_reject(inbox.delivery_tags[-1])
    wait_until(lambda: ready_count(channel, morgue) == 1)


def test_a_policy_begins_and_ends_it_and_a_restart_ends_the_wait(fresh_broker):
    broker = fresh_broker()
    clients, door = Clients(broker.url), ManagementDoor(broker)
    channel = clients.channel()
    channel.confirm_delivery()
    queue = declare(channel, "jobs", durable=True, exclusive=False)
    definition = {"delayed-retry-type": "all", "delayed-retry-min": 3_600_000}
    door.do("PUT", "policies", "/", "retry", body={"pattern": "jobs", "definition": definition})
    channel.basic_publish("", queue, b"1", PERSISTENT)
    method, _, _ = channel.basic_get(queue)
    channel.basic_nack(method.delivery_tag)
    ready_count(channel, queue)
    row = door.get("queues", "/", "jobs")
    assert (row["messages"], row["messages_ready"], row["messages_delayed"]) == (1, 0, 1)
    assert door.ask("DELETE", "queues", "/", "jobs", query="if-empty=true")[0] == 400
    door.do("DELETE", "policies", "/", "retry")
    channel.basic_publish("", queue, b"2", PERSISTENT)
    method, _, body = channel.basic_get(queue)
    assert body == b"2"
    channel.basic_nack(method.delivery_tag)
    assert ready_count(channel, queue) == 1
    clients.close()
    broker.kill()
    broker.start()
    clients = Clients(broker.url)
    channel = clients.channel()
    assert drain(channel, queue) == [b"1", b"2"]
    clients.close()


def test_deleting_a_queue_ends_its_waits(channel):
    for _ in range(2):
        declare(channel, "retry.q", arguments=retrying())
        send(channel, "retry.q", b"m")
        method, _, _ = channel.basic_get("retry.q")
        channel.basic_nack(method.delivery_tag)
        channel.queue_delete("retry.q")
    declare(channel, "retry.q", arguments=retrying())
    later = declare(channel, arguments=retrying())
    send(channel, later, b"m")
    method, _, _ = channel.basic_get(later)
    channel.basic_nack(method.delivery_tag)
    wait_until(lambda: ready_count(channel, later) == 1)  # the waits that began before it are over
    assert ready_count(channel, "retry.q") == 0
    channel.queue_delete("retry.q")
