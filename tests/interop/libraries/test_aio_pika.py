"""aio-pika: the client of asyncio applications, with its own ideas of confirms and reconnecting."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import aio_pika
import pytest
from aio_pika import DeliveryMode, ExchangeType, Message
from aio_pika.abc import (
    AbstractChannel,
    AbstractConnection,
    AbstractIncomingMessage,
    AbstractRobustConnection,
)
from aio_pika.exceptions import (
    ChannelNotFoundEntity,
    ChannelPreconditionFailed,
    PublishError,
    QueueEmpty,
)
from support.waiting import WAIT_SECONDS

pytestmark = pytest.mark.asyncio

RECONNECT_SECONDS = 0.1

Open = Callable[[], Awaitable[AbstractConnection]]


@pytest.fixture
async def connect(broker) -> AsyncIterator[Open]:
    opened: list[AbstractConnection] = []

    async def one_more() -> AbstractConnection:
        opened.append(await aio_pika.connect(broker.url, timeout=WAIT_SECONDS))
        return opened[-1]

    yield one_more
    for connection in opened:
        await connection.close()


@pytest.fixture
async def channel(connect: Open) -> AbstractChannel:
    return await (await connect()).channel()


async def publish(channel: AbstractChannel, queue: str, *bodies: bytes) -> None:
    """Publish bodies to a queue, each confirmed."""
    for body in bodies:
        await channel.default_exchange.publish(Message(body), queue)


async def take(queue, count: int) -> list[AbstractIncomingMessage]:
    """Consume and acknowledge this many messages."""
    messages: list[AbstractIncomingMessage] = []
    async with asyncio.timeout(WAIT_SECONDS), queue.iterator() as incoming:
        async for message in incoming:
            await message.ack()
            messages.append(message)
            if len(messages) == count:
                return messages
    raise AssertionError("the iterator ended")


async def test_messages_are_iterated_in_the_order_they_were_published(channel):
    queue = await channel.declare_queue(exclusive=True)
    bodies = [b"%d" % number for number in range(500)]
    await asyncio.gather(*(publish(channel, queue.name, body) for body in bodies))
    assert [message.body for message in await take(queue, 500)] == bodies


async def test_a_publish_is_confirmed_once_it_is_in_the_queue(channel, connect):
    queue = await channel.declare_queue(exclusive=False, auto_delete=True)
    other = await (await connect()).channel()
    for number in range(20):
        await publish(channel, queue.name, b"x")
        seen = await other.declare_queue(queue.name, passive=True)
        assert seen.declaration_result.message_count == number + 1
    await queue.delete(if_empty=False, if_unused=False)


async def test_a_thousand_publishes_in_flight_are_all_confirmed(channel):
    queue = await channel.declare_queue(exclusive=True)
    publishes = [publish(channel, queue.name, b"x") for _ in range(1_000)]
    await asyncio.wait_for(asyncio.gather(*publishes), WAIT_SECONDS)
    declared = await channel.declare_queue(queue.name, passive=True)
    assert declared.declaration_result.message_count == 1_000


async def test_an_unroutable_message_raises_where_it_was_published(connect):
    channel = await (await connect()).channel(on_return_raises=True)
    with pytest.raises(PublishError) as caught:
        await channel.default_exchange.publish(Message(b"lost"), "nobody")
    returned: Any = caught.value.frame
    assert (returned.reply_code, returned.reply_text) == (312, "NO_ROUTE")


async def test_an_unroutable_message_comes_back_as_the_result(channel):
    result = await channel.default_exchange.publish(Message(b"back"), "nobody")
    assert (result.delivery.reply_code, result.body) == (312, b"back")


async def test_an_unroutable_message_that_is_not_mandatory_is_acked(channel):
    direct = await channel.get_exchange("amq.direct")
    result = await direct.publish(Message(b"x"), "nobody", mandatory=False)
    assert result.name == "Basic.Ack"


async def test_get_returns_a_message_or_says_that_there_is_none(channel):
    queue = await channel.declare_queue(exclusive=True)
    await publish(channel, queue.name, b"one")
    message = await queue.get()
    assert (message.body, message.message_count) == (b"one", 0)
    await message.ack()
    with pytest.raises(QueueEmpty):
        await queue.get()
    assert await queue.get(fail=False) is None


@pytest.mark.parametrize("refuse", ["nack", "reject"])
async def test_a_requeued_message_returns_as_redelivered(channel, refuse):
    queue = await channel.declare_queue(exclusive=True)
    await publish(channel, queue.name, b"again")
    first = await queue.get()
    assert not first.redelivered
    await getattr(first, refuse)(requeue=True)
    [second] = await take(queue, 1)
    assert (second.body, second.redelivered) == (b"again", True)


async def test_a_message_whose_processing_failed_is_dropped_or_requeued_as_asked(channel):
    queue = await channel.declare_queue(exclusive=True)
    await publish(channel, queue.name, b"x")
    for requeue in (True, False):
        message = await queue.get()
        with pytest.raises(RuntimeError, match="failed"):
            async with message.process(requeue=requeue):
                raise RuntimeError("failed")
    assert await queue.get(fail=False) is None


async def test_a_transaction_is_committed_or_rolled_back(connect):
    connection = await connect()
    channel = await connection.channel(publisher_confirms=False)
    queue = await channel.declare_queue(exclusive=True)
    async with channel.transaction():
        await publish(channel, queue.name, b"kept")
    with pytest.raises(RuntimeError, match="failed"):
        await publish_and_fail(channel, queue.name)
    assert [message.body for message in await take(queue, 1)] == [b"kept"]
    assert await queue.get(fail=False) is None


async def publish_and_fail(channel: AbstractChannel, queue: str) -> None:
    """A transaction that publishes and then ends in an error."""
    async with channel.transaction():
        await publish(channel, queue, b"lost")
        raise RuntimeError("failed")


@pytest.mark.parametrize(
    ("kind", "binding", "hits", "misses"),
    [
        (ExchangeType.DIRECT, "a.b", ["a.b"], ["a", "a.b.c"]),
        (ExchangeType.FANOUT, "", ["a", "b.c"], []),
        (ExchangeType.TOPIC, "a.*.#", ["a.b", "a.b.c.d"], ["a", "b.a"]),
    ],
)
async def test_an_exchange_routes_by_its_type(channel, kind, binding, hits, misses):
    exchange = await channel.declare_exchange(uuid.uuid4().hex, kind, auto_delete=True)
    queue = await channel.declare_queue(exclusive=True)
    await queue.bind(exchange, binding)
    for key in (*misses, *hits):
        await exchange.publish(Message(key.encode()), key)
    assert [message.body.decode() for message in await take(queue, len(hits))] == hits


async def test_a_headers_exchange_matches_values_with_their_types(channel):
    headers = await channel.get_exchange("amq.headers")
    queue = await channel.declare_queue(exclusive=True)
    await queue.bind(headers, arguments={"x-match": "all", "format": "pdf", "pages": 3})
    for pages in (3, "3", 4):
        sent = Message(str(pages).encode(), headers={"format": "pdf", "pages": pages})
        await headers.publish(sent, "", mandatory=False)
    [message] = await take(queue, 1)
    assert message.headers["pages"] == 3
    assert await queue.get(fail=False) is None


async def test_requests_find_their_replies(connect):
    server, client = await (await connect()).channel(), await (await connect()).channel()
    requests = await server.declare_queue(exclusive=True)
    replies = await client.declare_queue(exclusive=True)

    async def square(message: AbstractIncomingMessage) -> None:
        async with message.process():
            answer = Message(b"%d" % int(message.body) ** 2)
            answer.correlation_id = message.correlation_id
            await server.default_exchange.publish(answer, message.reply_to)

    await requests.consume(square)
    for number in range(20):
        request = Message(b"%d" % number, reply_to=replies.name, correlation_id=f"c{number}")
        await client.default_exchange.publish(request, requests.name)
    answers = {m.correlation_id: int(m.body) for m in await take(replies, 20)}
    assert answers == {f"c{number}": number**2 for number in range(20)}


@pytest.mark.parametrize("size", [0, 1, 131_064, 131_065, 1_048_576, 5 * 1_048_576])
async def test_a_body_of_any_size_comes_back_unchanged(channel, size):
    queue = await channel.declare_queue(exclusive=True)
    body = bytes(index * 7 % 251 for index in range(4_096)) * (size // 4_096 + 1)
    await publish(channel, queue.name, body[:size])
    [message] = await take(queue, 1)
    assert message.body == body[:size]


async def test_every_property_comes_back_unchanged(channel):
    queue = await channel.declare_queue(exclusive=True)
    moment = datetime(2031, 5, 6, 7, 8, 9, tzinfo=UTC)
    sent = Message(
        b"x",
        content_type="application/json",
        content_encoding="identity",
        delivery_mode=DeliveryMode.PERSISTENT,
        priority=7,
        correlation_id="c-1",
        reply_to="somewhere",
        expiration=60,
        message_id="m-1",
        timestamp=moment,
        type="order.created",
        user_id="guest",
        app_id="tests",
    )
    await channel.default_exchange.publish(sent, queue.name)
    [got] = await take(queue, 1)
    assert got.properties == sent.properties
    assert (got.timestamp, got.expiration, got.priority) == (moment, 60, 7)


HEADERS: dict[str, Any] = {
    "true": True,
    "false": False,
    "small": -7,
    "large": 2**40,
    "negative": -(2**40),
    "float": 2.5,
    "decimal": Decimal("12.34"),
    "text": "žluťoučký 🐇",
    "empty": "",
    "long": "x" * 10_000,
    "bytes": bytearray(b"\x00\xff\x80"),
    "moment": datetime(2031, 5, 6, 7, 8, 9, tzinfo=UTC),
    "none": None,
    "list": [1, "two", [3.0, None], {"four": 4}],
    "table": {"a": {"b": {"c": [True]}}},
}


async def test_every_type_of_header_value_comes_back_unchanged(channel):
    queue = await channel.declare_queue(exclusive=True)
    await channel.default_exchange.publish(Message(b"x", headers=HEADERS), queue.name)
    [message] = await take(queue, 1)
    assert message.headers == HEADERS


async def test_many_channels_work_at_once(connect):
    connection = await connect()

    async def work() -> list[bytes]:
        async with connection.channel() as channel:
            queue = await channel.declare_queue(exclusive=True)
            await publish(channel, queue.name, b"a", b"b")
            return [message.body for message in await take(queue, 2)]

    assert await asyncio.gather(*(work() for _ in range(100))) == [[b"a", b"b"]] * 100


async def test_a_thousand_bound_queues_each_receive_their_own(channel):
    exchange = await channel.declare_exchange(uuid.uuid4().hex, "direct", auto_delete=True)

    async def bound(number: int):
        queue = await channel.declare_queue(f"{exchange.name}.{number}", exclusive=True)
        await queue.bind(exchange, str(number))
        return queue

    queues = await asyncio.gather(*(bound(number) for number in range(1_000)))
    for number in range(1_000):
        await exchange.publish(Message(b"%d" % number), str(number))
    got = await asyncio.gather(*(queue.get(no_ack=True) for queue in queues))
    assert [message.body for message in got] == [b"%d" % number for number in range(1_000)]


async def test_a_thousand_queues_on_one_fanout_receive_one_message_each(channel):
    exchange = await channel.declare_exchange(uuid.uuid4().hex, "fanout", auto_delete=True)

    async def bound():
        queue = await channel.declare_queue(exclusive=True)
        await queue.bind(exchange)
        return queue

    queues = await asyncio.gather(*(bound() for _ in range(1_000)))
    await exchange.publish(Message(b"news"), "")
    got = await asyncio.gather(*(queue.get(no_ack=True) for queue in queues))
    assert {message.body for message in got} == {b"news"}


async def test_a_channel_error_leaves_the_connection_usable(connect):
    connection = await connect()
    with pytest.raises(ChannelNotFoundEntity):
        await (await connection.channel()).declare_queue("nowhere", passive=True)
    channel = await connection.channel()
    queue = await channel.declare_queue(uuid.uuid4().hex, auto_delete=True)
    with pytest.raises(ChannelPreconditionFailed, match="inequivalent arg 'auto_delete'"):
        await channel.declare_queue(queue.name, auto_delete=False)
    channel = await connection.channel()
    await (await channel.declare_queue(exclusive=True)).get(fail=False)


async def test_cancelling_an_iterator_returns_what_it_had_not_acked(channel):
    await channel.set_qos(prefetch_count=10)
    queue = await channel.declare_queue(exclusive=True)
    await publish(channel, queue.name, b"a", b"b", b"c")
    async with queue.iterator() as incoming:
        async for message in incoming:
            await message.ack()
            break
    assert [message.body for message in await take(queue, 2)] == [b"b", b"c"]


async def robust(url: str) -> AbstractRobustConnection:
    """A connection that comes back by itself, soon."""
    return await aio_pika.connect_robust(url, reconnect_interval=RECONNECT_SECONDS)


@pytest.mark.parametrize("end", ["terminate", "kill"])
async def test_a_robust_consumer_goes_on_after_the_broker_was_restarted(fresh_broker, end):
    broker = await asyncio.to_thread(fresh_broker)
    connection = await robust(broker.url)
    channel = await connection.channel()
    exchange = await channel.declare_exchange("orders", "topic", durable=True)
    queue = await channel.declare_queue("inbox", durable=True)
    await queue.bind(exchange, "order.#")
    received: asyncio.Queue[bytes] = asyncio.Queue()

    async def receive(message: AbstractIncomingMessage) -> None:
        await message.ack()
        received.put_nowait(message.body)

    await queue.consume(receive)
    await exchange.publish(Message(b"before"), "order.new")
    assert await asyncio.wait_for(received.get(), WAIT_SECONDS) == b"before"
    back = asyncio.Event()
    connection.reconnect_callbacks.add(lambda *_: back.set())
    await asyncio.to_thread(getattr(broker, end))
    await asyncio.to_thread(broker.start)
    await asyncio.wait_for(back.wait(), 2 * WAIT_SECONDS)
    await exchange.publish(Message(b"after"), "order.new")
    assert await asyncio.wait_for(received.get(), WAIT_SECONDS) == b"after"
    await connection.close()


async def test_a_robust_connection_restores_what_was_not_durable(fresh_broker):
    broker = await asyncio.to_thread(fresh_broker)
    connection = await robust(broker.url)
    channel = await connection.channel()
    queue = await channel.declare_queue("passing", durable=False, auto_delete=True)
    back = asyncio.Event()
    connection.reconnect_callbacks.add(lambda *_: back.set())
    await asyncio.to_thread(broker.restart)
    await asyncio.wait_for(back.wait(), 2 * WAIT_SECONDS)
    await channel.default_exchange.publish(Message(b"x"), "passing")
    assert (await queue.get()).body == b"x"
    await connection.close()
