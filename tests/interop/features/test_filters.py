"""Filters of readers and groups with aio-pika."""

from __future__ import annotations

import asyncio
from collections import Counter

import aio_pika
import pytest
from aio_pika import DeliveryMode, Message
from aio_pika.exceptions import ChannelPreconditionFailed
from support.waiting import until

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.differs_from_rabbitmq("its clients of AMQP 0-9-1 filter again, and have no SQL"),
]

STREAM = {"x-queue-type": "stream"}
COLOURS = ("red", "blue", "red,blue", None)
MESSAGES = 200


class Orders:
    """A stream of numbered messages: each fourth is red, blue, both, or has no colour."""

    def __init__(self, connection, queue, exchange) -> None:
        self.connection = connection
        self.queue = queue
        self.exchange = exchange

    async def publish(self, first: int, end: int) -> None:
        for number in range(first, end):
            colour = COLOURS[number % 4]
            headers = {"number": number} | ({"x-stream-filter-value": colour} if colour else {})
            message = Message(
                b"%d" % number, headers=headers, delivery_mode=DeliveryMode.PERSISTENT
            )
            await self.exchange.publish(message, self.queue.name)

    async def consume(self, arguments, *, returns: int = 0) -> Counter[int]:
        """Count what comes; each message is returned so often before it is acknowledged."""
        channel = await self.connection.channel()
        await channel.set_qos(prefetch_count=7)
        queue = await channel.get_queue(self.queue.name)
        taken: Counter[int] = Counter()

        async def take(message) -> None:
            number = int(message.body)
            taken[number] += 1
            if taken[number] > returns:
                await message.ack()
            else:
                await message.nack(requeue=True)

        await queue.consume(take, arguments=arguments)
        return taken


@pytest.fixture
async def orders(broker, name):
    connection = await aio_pika.connect(broker.url)
    channel = await connection.channel()
    queue = await channel.declare_queue(name, durable=True, arguments=STREAM)
    yield Orders(connection, queue, channel.default_exchange)
    await connection.close()


def numbers(*places: int) -> set[int]:
    return {number for number in range(MESSAGES) if number % 4 in places}


RED = {"x-stream-filter": "red"}
SQL = {"x-filter": "number >= 100 AND [x-stream-filter-value] LIKE '%blue'"}


async def test_readers_and_groups_of_one_stream_each_get_what_they_select(orders) -> None:
    await orders.publish(0, MESSAGES // 2)
    begin = {"x-stream-offset": "first"}
    everything = await orders.consume(begin)
    red = await orders.consume(begin | RED)
    others = await orders.consume(begin | RED | {"x-stream-match-unfiltered": True})
    table = await orders.consume(begin | {"x-stream-filter": {"number": 17}})
    group = [await orders.consume(begin | RED | {"x-group": "red"}, returns=1) for _ in range(2)]
    blue = await orders.consume(begin | SQL | {"x-group": "blue"})
    await orders.publish(MESSAGES // 2, MESSAGES)
    last = {number for number in numbers(1, 2) if number >= 100}
    await until(lambda: set(everything) == set(range(MESSAGES)))
    await until(lambda: set(red) == numbers(0, 2))
    await until(lambda: set(others) == numbers(0, 2, 3))
    await until(lambda: set(blue) == last)
    await until(lambda: set(group[0]) | set(group[1]) == numbers(0, 2))
    await until(lambda: (group[0] + group[1]).total() >= 2 * len(numbers(0, 2)))
    assert set(table) == {17}
    assert set(red.values()) == set(others.values()) == set(blue.values()) == {1}


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"x-filter": "number > 1 AND OR"}, "invalid x-filter: unexpected 'OR' at column 16"),
        ({"x-filter": ""}, "invalid x-filter: it ends too early"),
        ({"x-filter": 1}, "invalid arg 'x-filter' of a consumer: unacceptable type"),
        ({"x-stream-filter": 1}, "invalid arg 'x-stream-filter' of a consumer"),
        (RED | {"x-filter-match-type": "some"}, "invalid arg 'x-filter-match-type'"),
        (RED | {"x-group": "g"}, "inequivalent arg 'x-filter' for group 'g' of queue"),
    ],
)
async def test_a_filter_that_cannot_be_is_refused(orders, arguments, reason) -> None:
    await orders.consume({"x-group": "g", "x-filter": "TRUE"} | RED)
    with pytest.raises(ChannelPreconditionFailed, match=reason):
        await asyncio.wait_for(orders.consume(arguments), 30)


@pytest.mark.parametrize("kind", [{}, {"x-retention": "1h"}])
@pytest.mark.parametrize("filtering", [RED, {"x-filter": "TRUE"}])
async def test_consumers_of_a_queue_itself_have_no_filter(broker, name, kind, filtering) -> None:
    async with await aio_pika.connect(broker.url) as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue(name, durable=True, arguments=kind)
        with pytest.raises(ChannelPreconditionFailed, match="only streams and groups have filters"):
            await queue.consume(print, arguments=filtering)


async def test_a_filtered_group_loses_nothing_over_kills_and_gets_nothing_else(
    fresh_broker,
) -> None:
    broker = fresh_broker()
    async with await aio_pika.connect(broker.url) as connection:
        channel = await connection.channel()
        await channel.declare_queue("q", durable=True, arguments=STREAM)
    robust = await aio_pika.connect_robust(broker.url, reconnect_interval=0.1)
    acked = await Orders(robust, await (await robust.channel()).get_queue("q"), None).consume(
        {"x-group": "g", "x-stream-offset": "first"} | RED, returns=1
    )

    async def publish_and_kill(first: int, end: int) -> None:
        async with await aio_pika.connect(broker.url) as connection:
            channel = await connection.channel()
            queue = await channel.get_queue("q")
            await Orders(connection, queue, channel.default_exchange).publish(first, end)
            await until(lambda: len(acked) > first // 4)
        await asyncio.to_thread(broker.kill)
        await asyncio.to_thread(broker.start)

    await publish_and_kill(0, 60)
    await publish_and_kill(60, 120)
    expected = {number for number in numbers(0, 2) if number < 120}
    await until(lambda: set(acked) >= expected)
    await until(lambda: all(count >= 2 for count in acked.values()))
    assert set(acked) == expected
    await robust.close()
