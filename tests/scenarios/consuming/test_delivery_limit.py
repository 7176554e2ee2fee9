"""Messages that come back too often."""

from __future__ import annotations

import pika
import pytest
from support.pika_client import PERSISTENT, Clients, declare, ready_count, send
from support.waiting import wait_until


@pytest.fixture
def morgue(channel) -> str:
    return declare(channel)


def limited(channel, name: str, morgue: str, **more) -> str:
    arguments = {
        "x-queue-type": "quorum",
        "x-delivery-limit": 2,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": morgue,
    }
    return declare(channel, name, durable=True, arguments=arguments | more)


def next_one(channel, queue: str):
    got = []

    def arrived() -> bool:
        found, properties, _ = channel.basic_get(queue)
        if found is not None:
            got.append((found, properties))
        return bool(got)

    wait_until(arrived)
    return got[0]


def count(properties: pika.BasicProperties) -> int:
    return int((properties.headers or {}).get("x-delivery-count", 0))


@pytest.mark.parametrize("how", ["reject", "nack", "close"])
def test_a_message_that_comes_back_too_often_is_dead(clients, channel, name, morgue, how):
    queue = limited(channel, name, morgue)
    try:
        send(channel, queue, b"poison")
        for attempt in range(3):
            using = clients.channel()
            found, properties = next_one(using, queue)
            assert count(properties) == attempt
            if how == "close":
                using.close()
            else:
                getattr(using, f"basic_{how}")(found.delivery_tag, requeue=True)
        wait_until(lambda: ready_count(channel, morgue) == 1)
        _, properties, body = channel.basic_get(morgue, auto_ack=True)
        assert (body, properties.headers["x-death"][0]["reason"]) == (b"poison", "delivery_limit")
        assert ready_count(channel, queue) == 0
    finally:
        channel.queue_delete(queue)


@pytest.mark.differs_from_rabbitmq("classic queues have no limit there")
def test_classic_queues_have_a_limit_too(channel, name, morgue):
    queue = declare(channel, name, arguments={"x-delivery-limit": 1})
    send(channel, queue, b"poison", b"good")
    for attempt in range(2):
        found, properties = next_one(channel, queue)
        assert count(properties) == attempt
        channel.basic_nack(found.delivery_tag, requeue=True)
    assert channel.basic_get(queue, auto_ack=True)[2] == b"good"


@pytest.mark.differs_from_rabbitmq("the default came with RabbitMQ 4")
def test_quorum_queues_have_a_limit_of_twenty(channel, name):
    queue = declare(channel, name, durable=True, arguments={"x-queue-type": "quorum"})
    send(channel, queue, b"poison")
    for _ in range(21):
        found, _ = next_one(channel, queue)
        channel.basic_nack(found.delivery_tag, requeue=True)
    assert ready_count(channel, queue) == 0
    channel.queue_delete(queue)


def test_the_count_outlives_a_kill(fresh_broker):
    broker = fresh_broker()
    clients = Clients(broker.url)
    channel = clients.channel()
    channel.queue_declare("morgue", durable=True)
    queue = limited(channel, "q", "morgue")
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"poison", PERSISTENT)
    for _ in range(2):
        found, _ = next_one(channel, queue)
        channel.basic_nack(found.delivery_tag, requeue=True)
    channel.basic_publish("", queue, b"behind", PERSISTENT)
    broker.kill()
    broker.start()
    channel = clients.channel()
    found, properties = next_one(channel, queue)
    assert count(properties) == 2
    channel.basic_nack(found.delivery_tag, requeue=True)
    wait_until(lambda: ready_count(channel, "morgue") == 1)
    clients.close()
