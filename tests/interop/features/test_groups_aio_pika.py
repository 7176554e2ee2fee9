"""Consumer groups with aio-pika: members that come, go and return, on connections of their own."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import aio_pika
import pytest
from aio_pika import DeliveryMode, Message
from support.waiting import until

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.differs_from_rabbitmq("it has no consumer groups"),
]

MESSAGES = 300


class Member:
    """A consumer of a group that returns every fifth message once and acks the others."""

    def __init__(self, group: str, acked: Counter[int]) -> None:
        self.group = group
        self.acked = acked
        self.count = 0

    async def join(self, connection, queue_name: str) -> None:
        channel = await connection.channel()
        await channel.set_qos(prefetch_count=7)
        queue = await channel.get_queue(queue_name)
        arguments = {"x-group": self.group, "x-stream-offset": "first"}
        await queue.consume(self.take, arguments=arguments)

    async def take(self, message) -> None:
        self.count += 1
        number = int(message.body)
        assert message.headers["x-stream-offset"] == number
        if number % 5 == 0 and not message.redelivered:
            await message.nack(requeue=True)
        else:
            self.acked[number] += 1
            await message.ack()


async def publish(connection, queue_name: str, first: int, end: int) -> None:
    channel = await connection.channel()
    for number in range(first, end):
        message = Message(b"%d" % number, delivery_mode=DeliveryMode.PERSISTENT)
        await channel.default_exchange.publish(message, queue_name)


@pytest.mark.parametrize("kind", [{"x-queue-type": "stream"}, {"x-retention": "1h"}])
async def test_members_on_many_connections_share_each_group(broker, name, kind) -> None:
    connections = [await aio_pika.connect(broker.url) for _ in range(7)]
    channel = await connections[0].channel()
    await channel.declare_queue(name, durable=True, arguments=kind)
    groups: dict[str, Counter[Any]] = {group: Counter() for group in ("a", "b", "c")}
    members = [Member(group, acked) for group, acked in groups.items() for _ in range(2)]
    await publish(connections[0], name, 0, MESSAGES // 2)
    for member, connection in zip(members, connections[1:], strict=True):
        await member.join(connection, name)
    await publish(connections[0], name, MESSAGES // 2, MESSAGES)
    await until(lambda: all(len(acked) == MESSAGES for acked in groups.values()))
    for acked in groups.values():
        assert set(acked.values()) == {1}
    assert all(member.count for member in members)
    for connection in connections:
        await connection.close()


async def test_members_that_reconnect_after_a_crash_go_on(fresh_broker) -> None:
    broker = fresh_broker()
    publisher = await aio_pika.connect(broker.url)
    channel = await publisher.channel()
    await channel.declare_queue("q", durable=True, arguments={"x-queue-type": "stream"})
    groups: dict[str, Counter[Any]] = {group: Counter() for group in ("a", "b")}
    robust = [await aio_pika.connect_robust(broker.url, reconnect_interval=0.1) for _ in groups]
    for (group, acked), connection in zip(groups.items(), robust, strict=True):
        await Member(group, acked).join(connection, "q")
    await publish(publisher, "q", 0, 50)
    await until(lambda: all(len(acked) == 50 for acked in groups.values()))
    await publish(publisher, "q", 50, 51)  # behind it, the acks before are durable
    await asyncio.to_thread(broker.kill)
    await asyncio.to_thread(broker.start)
    publisher = await aio_pika.connect(broker.url)
    await publish(publisher, "q", 51, 100)
    await until(lambda: all(len(acked) == 100 for acked in groups.values()))
    for each in (*robust, publisher):
        await each.close()
