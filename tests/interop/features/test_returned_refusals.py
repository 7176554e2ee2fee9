"""Mandatory messages that a full queue refuses come back to clients that ask for them."""

from __future__ import annotations

from typing import Any

import aio_pika
import pytest
from aio_pika.exceptions import DeliveryError, PublishError
from pika.exceptions import NackError
from pika.spec import BasicProperties
from support.pika_client import Clients, declare

pytestmark = pytest.mark.differs_from_rabbitmq("it tells publishers of AMQP 0-9-1 no reason")

ASKS = {"return_refused": True}
FULL: dict[str, Any] = {"x-max-length": 1, "x-overflow": "reject-publish"}


@pytest.fixture
def clients(broker):
    opened = Clients(broker.url)
    yield opened
    opened.close()


def test_pika_has_the_message_and_the_reason_with_the_nack(clients: Clients) -> None:
    channel = clients.connect(client_properties=ASKS).channel()
    queue = declare(channel, arguments=FULL)
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"first", mandatory=True)
    for body in (b"second", b"third"):
        with pytest.raises(NackError) as refused:
            channel.basic_publish("", queue, body, BasicProperties(type="order"), mandatory=True)
        (returned,) = refused.value.messages
        assert returned.method.reply_code == 311
        assert returned.method.reply_text == f"maxlen: queue '{queue}' in vhost '/'"
        assert (returned.method.exchange, returned.method.routing_key) == ("", queue)
        assert (returned.properties.type, returned.body) == ("order", body)
    with pytest.raises(NackError) as refused:
        channel.basic_publish("", queue, b"not mandatory")
    assert refused.value.messages == []


def test_a_channel_without_confirms_has_it_too(clients: Clients) -> None:
    channel = clients.connect(client_properties=ASKS).channel()
    queue = declare(channel, arguments=FULL)
    returned: list[tuple[int, bytes]] = []
    channel.add_on_return_callback(lambda _, how, __, body: returned.append((how.reply_code, body)))
    for body in (b"first", b"second"):
        channel.basic_publish("", queue, body, mandatory=True)
    channel.basic_publish("", queue, b"not mandatory")
    channel.connection.process_data_events(30)
    assert returned == [(311, b"second")]


def test_nobody_else_has_any(clients: Clients) -> None:
    channel = clients.channel()
    queue = declare(channel, arguments=FULL)
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"first", mandatory=True)
    with pytest.raises(NackError) as refused:
        channel.basic_publish("", queue, b"second", mandatory=True)
    assert refused.value.messages == []


@pytest.mark.asyncio
async def test_aio_pika_raises_the_reason_or_at_least_the_nack(broker, name) -> None:
    asking = await aio_pika.connect(broker.url, client_properties=ASKS)
    plain = await aio_pika.connect(broker.url)
    try:
        channel = await asking.channel(on_return_raises=True)
        await channel.declare_queue(name, arguments=FULL, exclusive=False, auto_delete=True)
        publish = channel.default_exchange.publish
        await publish(aio_pika.Message(b"first"), name)
        with pytest.raises(PublishError) as refused:
            await publish(aio_pika.Message(b"second"), name)
        frame: Any = refused.value.frame
        assert (frame.reply_code, refused.value.message.body) == (311, b"second")
        assert frame.reply_text.startswith(f"maxlen: queue '{name}'")
        # It overlooks a nack behind a return, and takes the publish for done.
        exchange = (await plain.channel()).default_exchange
        with pytest.raises(DeliveryError):
            await exchange.publish(aio_pika.Message(b"third"), name)
    finally:
        await plain.close()
        await asking.close()
