"""SIGKILL under confirmed publishes to many queues: each confirmed message is in every queue, in order."""

from __future__ import annotations

import os
import random
import threading

import pika
import pytest
from pika.exceptions import AMQPError
from support.broker_process import BrokerProcess
from support.pika_client import PERSISTENT, Clients, Inbox

QUEUES = [f"q{number}" for number in range(50)]
KILLS = int(os.environ.get("ROUTELOG_TEST_FAN_OUT_KILLS", "2"))
SEED = int(os.environ.get("ROUTELOG_TEST_SEED", "1"))
SIZES = (0, 1_000, 20_000)
pytestmark = [pytest.mark.crash, pytest.mark.differs_from_rabbitmq("is not killed here")]


class Publisher(threading.Thread):
    """Publishes numbered messages to a fanout exchange, each confirmed before the next, until it is killed.

    Attributes:
        confirmed: how many were, before the kill.
    """

    def __init__(self, url: str, first: int) -> None:
        super().__init__()
        self.first = self.confirmed = first
        self.begun = threading.Event()
        self._connection = pika.BlockingConnection(pika.URLParameters(url))

    def run(self) -> None:
        """See `Thread`."""
        channel = self._connection.channel()
        channel.confirm_delivery()
        try:
            while True:
                body = b"%d " % self.confirmed + bytes(SIZES[self.confirmed % len(SIZES)])
                channel.basic_publish("all", "", body, PERSISTENT)
                self.confirmed += 1
                self.begun.set()
        except (AMQPError, OSError):
            self.begun.set()


def numbers(url: str, first: int) -> list[list[int]]:
    """The messages of each queue from a number on; it is empty then.

    A kill may bring back those before: an automatic ack waits for nothing.
    """
    clients = Clients(url)
    channel = clients.channel()
    counts = [channel.queue_declare(each, passive=True).method.message_count for each in QUEUES]
    inboxes = [Inbox(channel, each, auto_ack=True) for each in QUEUES]
    for inbox, count in zip(inboxes, counts, strict=True):
        inbox.wait_for(count)
    clients.close()
    found = [[int(body.split()[0]) for body in inbox.bodies] for inbox in inboxes]
    return [[number for number in each if number >= first] for each in found]


def test_a_confirmed_message_is_in_every_queue_after_a_kill(broker: BrokerProcess) -> None:
    clients = Clients(broker.url)
    channel = clients.channel()
    channel.exchange_declare("all", "fanout", durable=True)
    for queue in QUEUES:
        channel.queue_declare(queue, durable=True)
        channel.queue_bind(queue, "all")
    moments = random.Random(SEED)
    first = 0
    for _ in range(KILLS):
        publisher = Publisher(broker.url, first)
        publisher.start()
        assert publisher.begun.wait(60)
        publisher.join(moments.uniform(0.05, 0.5))
        broker.kill()
        publisher.join()
        broker.start()
        expected = list(range(first, publisher.confirmed))
        found = numbers(broker.url, first)
        # The last one may be there, too: in all queues, or in none.
        assert found[0][: len(expected)] == expected
        assert found[0][len(expected) :] in ([], [publisher.confirmed])
        assert found == [found[0]] * len(QUEUES)
        assert publisher.confirmed > first
        first = publisher.confirmed + 1
