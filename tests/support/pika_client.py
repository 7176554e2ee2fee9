"""Short ways to say what tests say often to a broker, with pika."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pika
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection
from pika.spec import Basic, BasicProperties
from support.waiting import POLL_SECONDS, WAIT_SECONDS, wait_until

Delivery = tuple[Basic.Deliver, BasicProperties, bytes]
PERSISTENT = BasicProperties(delivery_mode=2)


class Clients:
    """Opens connections to one broker and closes all of them in the end."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._opened: list[BlockingConnection] = []

    def connect(self, **parameters: Any) -> BlockingConnection:
        """A connection; keyword arguments set attributes of the connection parameters."""
        settings = pika.URLParameters(self._url)
        for name, value in {"socket_timeout": WAIT_SECONDS, **parameters}.items():
            setattr(settings, name, value)
        connection = BlockingConnection(settings)
        self._opened.append(connection)
        return connection

    def channel(self) -> BlockingChannel:
        """A channel on a connection of its own."""
        return self.connect().channel()

    def close(self) -> None:
        """Close what is still open."""
        for connection in self._opened:
            if connection.is_open:
                with contextlib.suppress(pika.exceptions.AMQPError):
                    connection.close()


class Inbox:
    """What one consumer has been given, in order."""

    def __init__(self, channel: BlockingChannel, queue: str, **consume: Any) -> None:
        self.channel = channel
        self.deliveries: list[Delivery] = []
        self.tag = channel.basic_consume(queue, self.take, **consume)

    @property
    def bodies(self) -> list[bytes]:
        """The bodies alone."""
        return [body for _, _, body in self.deliveries]

    @property
    def delivery_tags(self) -> list[int]:
        """The delivery tags alone."""
        return [deliver.delivery_tag for deliver, _, _ in self.deliveries]

    @property
    def redelivered(self) -> list[bool]:
        """The redelivered flags alone."""
        return [deliver.redelivered for deliver, _, _ in self.deliveries]

    def wait_for(self, count: int) -> Inbox:
        """Wait until this many deliveries are there; more at once fail the test."""
        self.wait_for_at_least(count)
        assert len(self.deliveries) == count, self.bodies
        return self

    def wait_for_at_least(self, count: int) -> None:
        """Wait until this many deliveries are there."""
        wait_until(lambda: len(self.deliveries) >= count, self.channel.connection)

    def take(
        self, _: BlockingChannel, deliver: Basic.Deliver, properties: BasicProperties, body: bytes
    ) -> None:
        """Add a delivery; of another queue, too, where it is given to `basic_consume`."""
        self.deliveries.append((deliver, properties, body))


def let_stop(stop: Callable[[], object], *connections: BlockingConnection) -> None:
    """Call what stops a broker; the connections answer its goodbye meanwhile.

    A client that is asleep keeps the broker waiting for its answer.
    """
    with ThreadPoolExecutor(1) as thread:
        stopping = thread.submit(stop)
        while not stopping.done() and (awake := [each for each in connections if each.is_open]):
            for connection in awake:
                with contextlib.suppress(pika.exceptions.AMQPError):
                    connection.process_data_events(time_limit=POLL_SECONDS)
        stopping.result()


def cut(connection: BlockingConnection) -> None:
    """End the connection as a broken network does: no close, only the end of the stream."""
    connection._impl._transport._sock.shutdown(socket.SHUT_RDWR)


def forget(connection: BlockingConnection) -> None:
    """Read nothing more of a connection that is at its end, and free the files that pika holds of it."""
    connection._impl._transport._sock.close()
    connection._impl.ioloop.close()


def round_trip(channel: BlockingChannel) -> None:
    """Wait until the broker has handled, and answered, all that this channel sent before."""
    channel.exchange_declare("amq.direct", passive=True)


def declare(channel: BlockingChannel, name: str = "", **options: Any) -> str:
    """Declare a queue, exclusive unless it is said to be something else, and return its name."""
    if not {"durable", "auto_delete", "exclusive"} & options.keys():
        options["exclusive"] = True
    return str(channel.queue_declare(name, **options).method.queue)


def send(channel: BlockingChannel, queue: str, *bodies: bytes) -> None:
    """Publish bodies to a queue and wait until they are in it."""
    for body in bodies:
        channel.basic_publish("", queue, body)
    channel.queue_declare(queue, passive=True)


def ready_count(channel: BlockingChannel, queue: str) -> int:
    """How many messages wait in the queue."""
    return int(channel.queue_declare(queue, passive=True).method.message_count)


def drain(channel: BlockingChannel, queue: str) -> list[bytes]:
    """Take all messages out of the queue."""
    bodies: list[bytes] = []
    while True:
        found, _, body = channel.basic_get(queue, auto_ack=True)
        if found is None:
            return bodies
        bodies.append(body)


def exists(connection: BlockingConnection, queue: str) -> bool:
    """Whether the queue is there (405 tells that it is, too)."""
    channel = connection.channel()
    try:
        channel.queue_declare(queue, passive=True)
    except pika.exceptions.ChannelClosedByBroker as closed:
        return bool(closed.reply_code == 405)
    channel.close()
    return True
