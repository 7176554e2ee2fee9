"""aio-pika: what its channels, queues and messages offer beside publishing and consuming."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import aio_pika
import pytest
from aio_pika import DeliveryMode, ExchangeType, IncomingMessage, Message
from aio_pika.abc import AbstractConnection, AbstractIncomingMessage, TransactionState
from aio_pika.exceptions import DuplicateConsumerTag
from aio_pika.robust_channel import RobustChannel
from aio_pika.robust_connection import RobustConnection
from aiormq.exceptions import ChannelAccessRefused, ChannelLockedResource
from support.waiting import WAIT_SECONDS

pytestmark = pytest.mark.interop


@pytest.fixture
async def connection(broker) -> AsyncIterator[AbstractConnection]:
    async with await aio_pika.connect(broker.url, timeout=WAIT_SECONDS) as opened:
        yield opened


@pytest.fixture
async def channel(connection: AbstractConnection) -> aio_pika.abc.AbstractChannel:
    return await connection.channel()


async def test_what_is_taken_apart_routes_nothing(channel, name) -> None:
    source = await channel.declare_exchange(f"{name}.source", ExchangeType.TOPIC, auto_delete=True)
    target = await channel.declare_exchange(f"{name}.target", ExchangeType.FANOUT, internal=True)
    queue = await channel.declare_queue(name, exclusive=True)
    await target.bind(source, "a.*")
    await queue.bind(target)
    for body in (b"1", b"2"):
        await source.publish(Message(body), "a.b")
    assert (await queue.purge()).message_count == 2
    await queue.bind(source, "b")
    await target.unbind(source, "a.*")
    await source.publish(Message(b"nowhere"), "a.b")
    await source.publish(Message(b"kept"), "b")
    assert (await queue.get(no_ack=True)).body == b"kept"
    assert await queue.get(fail=False) is None
    await queue.unbind(source, "b")  # and the exchange goes with its last binding
    with pytest.raises(aio_pika.exceptions.ChannelNotFoundEntity):
        await channel.get_exchange(f"{name}.source")
    await channel.reopen()
    assert (await channel.get_queue(name)).declaration_result.message_count == 0
    await channel.queue_delete(name)
    await channel.exchange_delete(f"{name}.target")


async def test_a_message_tells_where_it_came_from(channel, name) -> None:
    queue = await channel.declare_queue(name, exclusive=True)
    got: asyncio.Queue[AbstractIncomingMessage] = asyncio.Queue()
    tag = await queue.consume(got.put, consumer_tag="mine")
    sent = Message(b"body", headers={"n": 1}, delivery_mode=DeliveryMode.NOT_PERSISTENT)
    await channel.default_exchange.publish(sent, name)
    message = await asyncio.wait_for(got.get(), WAIT_SECONDS)
    assert isinstance(message, IncomingMessage)
    assert (message.consumer_tag, message.routing_key, message.exchange) == (tag, name, "")
    assert (message.body_size, message.headers) == (4, {"n": 1})
    assert message.info()["delivery_mode"] is DeliveryMode.NOT_PERSISTENT
    assert not message.processed
    await message.ack()
    assert message.processed
    assert (await queue.cancel(tag)).consumer_tag == tag
    await channel.default_exchange.publish(sent, name)
    assert (await queue.get(no_ack=True)).consumer_tag is None
    assert got.empty()


async def test_a_transaction_is_driven_by_hand(connection, name) -> None:
    channel = await connection.channel(publisher_confirms=False)
    queue = await channel.declare_queue(name, exclusive=True)
    transaction = channel.transaction()
    assert transaction.state is TransactionState.CREATED
    await transaction.select()
    assert transaction.state is TransactionState.STARTED
    await channel.default_exchange.publish(Message(b"never"), name)
    await transaction.rollback()
    assert transaction.state is TransactionState.ROLLED_BACK
    await channel.default_exchange.publish(Message(b"kept"), name)
    assert await queue.get(fail=False) is None
    await transaction.commit()
    assert transaction.state is TransactionState.COMMITED
    message = await queue.get()
    assert message.body == b"kept"
    await message.ack()
    await transaction.rollback()
    await message.channel.basic_recover(requeue=True)
    assert (await queue.get(no_ack=True)).redelivered  # as its acknowledgement was rolled back


async def test_channels_and_connections_tell_their_state(connection, channel) -> None:
    await connection.ready()
    await connection.update_secret("another", reason="the old one ends")
    assert (channel.is_initialized, channel.is_closed) == (True, False)
    assert (await channel.get_underlay_channel()).number == channel.number
    await channel.flow(active=True)
    await channel.close()
    assert channel.is_closed
    await channel.reopen()
    assert not channel.is_closed
    assert (await channel.declare_queue(exclusive=True)).name.startswith("amq.gen-")
    await connection.close()
    assert connection.is_closed


async def test_exchange_types_of_plugins_route_as_theirs(channel, name) -> None:
    queues = [await channel.declare_queue(exclusive=True) for _ in range(2)]
    spread: Counter[str] = Counter()
    for kind in (ExchangeType.X_CONSISTENT_HASH, ExchangeType.X_MODULUS_HASH):
        exchange = await channel.declare_exchange(f"{name}.{kind.value}", kind, auto_delete=True)
        for queue in queues:
            await queue.bind(exchange, "1")
        for at in range(200):
            await exchange.publish(Message(b""), f"key {at}")
        spread = Counter({queue.name: (await queue.purge()).message_count for queue in queues})
        assert spread.total() == 200
        assert min(spread.values()) > 20


@pytest.mark.differs_from_rabbitmq("the plugin for delayed messages is not part of it")
async def test_a_delayed_message_comes_later(channel, name) -> None:
    exchange = await channel.declare_exchange(
        name,
        ExchangeType.X_DELAYED_MESSAGE,
        auto_delete=True,
        arguments={"x-delayed-type": "direct"},
    )
    queue = await channel.declare_queue(exclusive=True)
    await queue.bind(exchange, "key")
    for delay in (300, 0):
        await exchange.publish(Message(b"%d" % delay, headers={"x-delay": delay}), "key")
    async with asyncio.timeout(WAIT_SECONDS), queue.iterator(no_ack=True) as incoming:
        assert [(await anext(incoming)).body for _ in range(2)] == [b"0", b"300"]


async def test_errors_of_a_channel_have_classes_of_their_own(broker, connection, name) -> None:
    channel = await connection.channel()
    with pytest.raises(ChannelAccessRefused, match="ACCESS_REFUSED"):
        await channel.declare_queue("amq.mine")
    await (await connection.channel()).declare_queue(name, exclusive=True)
    async with await aio_pika.connect(broker.url) as other:
        with pytest.raises(ChannelLockedResource, match="RESOURCE_LOCKED"):
            await (await other.channel()).declare_queue(name, passive=True)
    channel = await connection.channel()
    queue = await channel.declare_queue(exclusive=True)
    await queue.consume(print, consumer_tag="one")
    with pytest.raises(DuplicateConsumerTag):
        await queue.consume(print, consumer_tag="one")


async def test_a_robust_connection_is_told_to_reconnect(broker, name) -> None:
    connection = await aio_pika.connect_robust(broker.url, reconnect_interval=0.1)
    assert isinstance(connection, RobustConnection)
    channel = await connection.channel()
    assert isinstance(channel, RobustChannel)
    exchange = await channel.declare_exchange(name, auto_delete=True)
    queue = await channel.declare_queue(name, auto_delete=True)
    await queue.bind(exchange, "key")
    got: asyncio.Queue[AbstractIncomingMessage] = asyncio.Queue()
    await queue.consume(got.put, no_ack=True)
    await connection.reconnect()
    await asyncio.wait_for(connection.ready(), WAIT_SECONDS)
    await asyncio.wait_for(channel.ready(), WAIT_SECONDS)
    await exchange.publish(Message(b"after"), "key")
    assert (await asyncio.wait_for(got.get(), WAIT_SECONDS)).body == b"after"
    await connection.close()
