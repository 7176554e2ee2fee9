"""aiormq: the client below aio-pika, with AMQP's methods as they are; its whole surface."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import aiormq
import pytest
from aiormq.abc import AbstractChannel, AbstractConnection, DeliveredMessage
from aiormq.exceptions import (
    ChannelAccessRefused,
    ChannelNotFoundEntity,
    ChannelPreconditionFailed,
    ConnectionClosed,
    ConnectionNotImplemented,
    PublishError,
)
from pamqp.commands import Basic, Channel, Confirm, Connection, Exchange, Queue, Tx
from support.waiting import WAIT_SECONDS

pytestmark = pytest.mark.interop


@pytest.fixture
async def connection(broker) -> AsyncIterator[AbstractConnection]:
    opened = await aiormq.connect(broker.url + "?heartbeat=5")
    yield opened
    await opened.close()


@pytest.fixture
async def channel(connection: AbstractConnection) -> AbstractChannel:
    return await connection.channel(publisher_confirms=False)


@pytest.fixture
async def queue(connection: AbstractConnection) -> str:
    declared = await (await connection.channel()).queue_declare(exclusive=True)
    return str(declared.queue)


async def count(channel: AbstractChannel, queue: str) -> int:
    declared = await channel.queue_declare(queue, passive=True)
    assert declared.message_count is not None
    return declared.message_count


async def has(channel: AbstractChannel, queue: str, messages: int) -> None:
    """Wait until the queue has so many; RabbitMQ counts before it has handled what was sent."""
    async with asyncio.timeout(WAIT_SECONDS):
        while await count(channel, queue) != messages:
            pass


async def test_content_comes_as_it_went(channel, queue) -> None:
    properties = Basic.Properties(
        content_type="text/plain",
        headers={"n": 1, "list": [True, None]},
        priority=4,
        message_id="m",
    )
    await channel.basic_publish(bytes(300_000), routing_key=queue, properties=properties)
    got = await channel.basic_get(queue)
    assert isinstance(got.delivery, Basic.GetOk)
    assert (len(got.body), got.delivery.message_count, got.redelivered) == (300_000, 0, False)
    assert got.header.properties.headers == {"n": 1, "list": [True, None]}
    assert (got.header.properties.priority, got.header.properties.message_id) == (4, "m")
    await channel.basic_ack(got.delivery.delivery_tag)
    assert isinstance((await channel.basic_get(queue)).delivery, Basic.GetEmpty)


async def test_settlement_of_one_and_of_many(channel, queue) -> None:
    for number in range(6):
        await channel.basic_publish(b"%d" % number, routing_key=queue)
    tags = [(await channel.basic_get(queue)).delivery.delivery_tag for _ in range(6)]
    await channel.basic_nack(tags[0], requeue=True)
    await channel.basic_nack(tags[1], requeue=False)
    await channel.basic_reject(tags[2], requeue=False)
    await channel.basic_reject(tags[3], requeue=True)
    await channel.basic_ack(tags[4], multiple=True)
    await has(channel, queue, 2)
    assert isinstance(await channel.basic_recover(requeue=True), Basic.RecoverOk)
    left = [await channel.basic_get(queue, no_ack=True) for _ in range(3)]
    assert [(each.body, each.redelivered) for each in left] == [
        (b"0", True),
        (b"3", True),
        (b"5", True),
    ]


async def test_consumers_and_flow(channel, queue) -> None:
    got: asyncio.Queue[DeliveredMessage] = asyncio.Queue()
    assert isinstance(await channel.basic_qos(prefetch_count=2), Basic.QosOk)
    consuming = await channel.basic_consume(queue, got.put, consumer_tag="mine")
    assert consuming.consumer_tag == "mine"
    for number in range(4):
        await channel.basic_publish(b"%d" % number, routing_key=queue)
    first = [await asyncio.wait_for(got.get(), WAIT_SECONDS) for _ in range(2)]
    assert isinstance(await channel.flow(active=True), Channel.FlowOk)
    await has(channel, queue, 2)
    assert got.empty()
    for message in first:
        await channel.basic_ack(message.delivery.delivery_tag)
    rest = [await asyncio.wait_for(got.get(), WAIT_SECONDS) for _ in range(2)]
    assert [each.body for each in first + rest] == [b"0", b"1", b"2", b"3"]
    assert isinstance(await channel.basic_cancel("mine"), Basic.CancelOk)


async def test_a_pause_of_the_flow_is_refused_as_rabbitmq_does(broker) -> None:
    connection = await aiormq.connect(broker.url)
    channel = await connection.channel()
    with pytest.raises(ConnectionNotImplemented, match="active=false"):
        await channel.flow(active=False)
    assert connection.is_closed


async def test_exchanges_bindings_and_queues(channel, queue, name) -> None:
    source, target = f"{name}.source", f"{name}.target"
    assert isinstance(
        await channel.exchange_declare(source, exchange_type="headers"), Exchange.DeclareOk
    )
    await channel.exchange_declare(target, exchange_type="fanout", auto_delete=True)
    arguments = {"x-match": "any", "a": 1}
    bound = await channel.exchange_bind(target, source, arguments=arguments)
    assert isinstance(bound, Exchange.BindOk)
    assert isinstance(await channel.queue_bind(queue, target), Queue.BindOk)
    matching = Basic.Properties(headers={"a": 1})
    await channel.basic_publish(b"x", exchange=source, properties=matching)
    await has(channel, queue, 1)
    assert isinstance(await channel.queue_unbind(queue, target), Queue.UnbindOk)
    await channel.queue_bind(queue, "amq.direct", "k")
    assert (await channel.queue_purge(queue)).message_count == 1
    assert isinstance(await channel.exchange_delete(source), Exchange.DeleteOk)
    other = await channel.queue_declare(f"{name}.other", arguments={"x-max-length": 1})
    await channel.basic_publish(b"1", routing_key=other.queue)
    assert (await channel.queue_delete(other.queue)).message_count == 1


async def test_what_needs_no_answer_gets_none(channel, queue, name) -> None:
    await channel.exchange_declare(name, nowait=True)
    await channel.queue_bind(queue, name, "k", nowait=True)
    got: asyncio.Queue[DeliveredMessage] = asyncio.Queue()
    await channel.basic_publish(b"x", exchange=name, routing_key="k")
    await has(channel, queue, 1)
    await channel.queue_purge(queue, nowait=True)
    consuming = await channel.basic_consume(queue, got.put)
    await channel.basic_cancel(consuming.consumer_tag, nowait=True)
    await channel.exchange_delete(name, nowait=True)
    await channel.queue_delete(queue, nowait=True)
    with pytest.raises(ChannelNotFoundEntity):
        await channel.queue_declare(queue, passive=True)


async def test_confirms_and_returns(connection, queue) -> None:
    channel = await connection.channel(on_return_raises=True)  # which selects confirms
    confirmed = await channel.basic_publish(b"x", routing_key=queue, mandatory=True)
    assert isinstance(confirmed, Basic.Ack)
    sent = [channel.basic_publish(b"%d" % at, routing_key=queue) for at in range(200)]
    assert all(isinstance(each, Basic.Ack) for each in await asyncio.gather(*sent))
    with pytest.raises(PublishError, match="NO_ROUTE"):
        await channel.basic_publish(b"x", routing_key="no." + queue, mandatory=True)
    await has(channel, queue, 201)


async def test_transactions(channel, queue) -> None:
    assert isinstance(await channel.tx_select(), Tx.SelectOk)
    await channel.basic_publish(b"committed", routing_key=queue)
    assert await count(channel, queue) == 0
    assert isinstance(await channel.tx_commit(), Tx.CommitOk)
    await channel.basic_publish(b"never", routing_key=queue)
    assert isinstance(await channel.tx_rollback(), Tx.RollbackOk)
    await has(channel, queue, 1)
    with pytest.raises(ChannelPreconditionFailed, match="cannot switch from tx to confirm mode"):
        await channel.confirm_delivery()


async def test_a_channel_selects_confirms_itself(channel, queue) -> None:
    assert isinstance(await channel.confirm_delivery(), Confirm.SelectOk)
    channel.publisher_confirms = True
    assert isinstance(await channel.basic_publish(b"x", routing_key=queue), Basic.Ack)


async def test_a_connection_tells_what_was_agreed_and_takes_a_new_secret(connection) -> None:
    await connection.ready()
    assert connection.server_capabilities["basic.nack"]
    assert connection.consumer_cancel_notify
    assert connection.exchange_exchange_bindings
    assert connection.connection_tune.frame_max == 131_072
    updated = await connection.update_secret("another", reason="the old one ends")
    assert isinstance(updated, Connection.UpdateSecretOk)


async def test_exchanges_are_unbound_and_calls_are_made_by_hand(channel, queue, name) -> None:
    await channel.exchange_declare(name, exchange_type="direct", auto_delete=True)
    await channel.exchange_bind("amq.fanout", name, "key")
    await channel.queue_bind(queue, "amq.fanout")
    await channel.basic_publish(b"1", exchange=name, routing_key="key")
    await has(channel, queue, 1)
    unbound = await channel.exchange_unbind("amq.fanout", name, "key")
    assert isinstance(unbound, Exchange.UnbindOk)
    with pytest.raises(ChannelNotFoundEntity, match="no exchange"):  # its last binding is gone
        await channel.rpc(Exchange.Declare(exchange=name, passive=True))


@pytest.mark.parametrize(
    ("act", "error"),
    [
        (lambda channel: channel.queue_declare("amq.mine"), ChannelAccessRefused),
        (lambda channel: channel.queue_delete("", if_empty=True), ChannelNotFoundEntity),
        (lambda channel: channel.basic_ack(7), ChannelPreconditionFailed),
        (lambda channel: channel.basic_qos(prefetch_size=1), ConnectionNotImplemented),
    ],
)
async def test_errors_have_classes_of_their_own(broker, act, error) -> None:
    connection = await aiormq.connect(broker.url)
    channel = await connection.channel()

    async def act_and_wait() -> None:
        await act(channel)
        await channel.basic_qos()

    with pytest.raises(error):
        await act_and_wait()
    assert connection.is_closed == issubclass(error, ConnectionClosed)
    await connection.close()


async def test_an_error_closes_its_channel_only(connection, channel, name) -> None:
    with pytest.raises(ChannelNotFoundEntity, match="NOT_FOUND - no exchange"):
        await channel.queue_bind(
            (await channel.queue_declare(exclusive=True)).queue, "no." + name, "k"
        )
    assert channel.is_closed
    assert not connection.is_closed
    other = await connection.channel()
    assert (await other.queue_declare(exclusive=True)).queue
    await other.close()
