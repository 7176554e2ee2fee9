"""A closed connection goes at once: the garbage collector has nothing to find, and need not hold the loop."""

import asyncio
import gc
import socket
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pika
import pytest
from support.waiting import WAIT_SECONDS

from routelog.amqp_front.connections.channel import Channel
from routelog.amqp_front.connections.connection import Connection
from routelog.amqp_front.server.front import AmqpFront
from routelog.broker.node.configuration import BrokerConfig
from routelog.broker.process.broker import Broker
from routelog.log_backend import SystemClock


@pytest.fixture(autouse=True)
def uncollected() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def consume(channel: Any) -> None:
    channel.queue_declare("q")
    channel.basic_qos(prefetch_count=1)
    channel.confirm_delivery()
    for size in (1, 100_000):
        channel.basic_publish("", "q", b"x" * size)
    channel.basic_consume("q", lambda *arguments: None, consumer_tag="a")
    channel.connection.process_data_events(0.1)


def use_transaction(channel: Any) -> None:
    channel.tx_select()
    channel.queue_declare("t", durable=True)
    channel.basic_publish("", "t", b"x", pika.BasicProperties(delivery_mode=2))
    channel.tx_commit()
    channel.basic_get("t")
    channel.basic_publish("", "t", b"never committed")


def be_refused(channel: Any) -> None:
    consume(channel)
    with suppress(pika.exceptions.ChannelClosedByBroker):
        channel.queue_declare("nothing", passive=True)


def vanish(channel: Any) -> None:
    consume(channel)
    channel.connection._impl._transport._sock.shutdown(socket.SHUT_RDWR)
    with suppress(pika.exceptions.AMQPConnectionError):
        channel.connection.process_data_events(0.1)


@pytest.mark.parametrize(
    "use", [lambda channel: None, consume, use_transaction, be_refused, vanish]
)
async def test_a_closed_connection_is_freed_without_the_garbage_collector(
    use: Callable[[Any], None], tmp_path: Path
) -> None:
    others = left(())  # of tests before, in this process
    config = BrokerConfig(data_dir=tmp_path, port=0, management=False)
    broker = Broker(config, AmqpFront(config, "node", SystemClock()))
    address = await broker.start()
    try:

        def be_client() -> None:
            parameters = pika.ConnectionParameters(address.host, address.port)
            connection = pika.BlockingConnection(parameters)
            channel = connection.channel()
            assert left(others)
            use(channel)
            if connection.is_open:
                connection.close()

        await asyncio.to_thread(be_client)
        with suppress(TimeoutError):
            async with asyncio.timeout(WAIT_SECONDS):
                while left(others):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
        assert not left(others)
    finally:
        await broker.stop()


def left(others: Collection[Connection | Channel]) -> list[Connection | Channel]:
    """Connections and channels that are there, but for others."""
    found = [each for each in gc.get_objects() if isinstance(each, Connection | Channel)]
    return [each for each in found if each not in others]
