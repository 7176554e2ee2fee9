"""Deduplication over kills: what was confirmed is there once, and so is what was published again."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
from pika.spec import BasicProperties
from support.broker_process import BrokerProcess
from support.pika_client import Clients, Inbox, drain
from support.sampling import sampled

pytestmark = pytest.mark.crash

SEED = 20_251
ARGUMENTS = {"x-cache-size": 100_000, "x-cache-persistence": "disk"}
SMALL_FILES = {"ROUTELOG_JOURNAL_FILE_BYTES": str(4 << 20), "ROUTELOG_FLUSH_SECONDS": "0.1"}


def declare(clients: Clients, queues: int = 2) -> None:
    channel = clients.channel()
    channel.exchange_declare("once", "x-message-deduplication", durable=True, arguments=ARGUMENTS)
    for number in range(queues):
        channel.queue_declare(f"q{number}", durable=True)
        channel.queue_bind(f"q{number}", "once", "")


def publish(channel: pika.adapters.blocking_connection.BlockingChannel, number: int) -> None:
    properties = BasicProperties(
        delivery_mode=2, headers={"x-deduplication-header": f"row/{number}"}
    )
    channel.basic_publish("once", "", b"%d" % number, properties)


@pytest.fixture
def process(tmp_path: Path) -> Iterator[BrokerProcess]:
    started = BrokerProcess(tmp_path / "data", SMALL_FILES).start()
    yield started
    started.stop()


def test_a_confirmed_message_is_known_after_a_kill(process: BrokerProcess) -> None:
    clients = Clients(process.url)
    declare(clients)
    channel = clients.channel()
    channel.confirm_delivery()
    for number in range(50):
        publish(channel, number)
    process.kill()
    process.start()
    channel = Clients(process.url).channel()
    channel.confirm_delivery()
    for number in range(60):
        publish(channel, number)
    for queue in ("q0", "q1"):
        assert drain(channel, queue) == [b"%d" % number for number in range(60)]


@pytest.mark.parametrize("seed", sampled(range(SEED, SEED + 2), 2))
def test_what_is_published_again_after_a_kill_is_there_once(
    process: BrokerProcess, seed: int
) -> None:
    chance = random.Random(seed)
    declare(Clients(process.url))
    published = 0
    for _ in range(3):
        first = max(0, published - chance.randrange(1_000))
        killer = threading.Timer(chance.uniform(0.1, 0.3), process.kill)
        clients = Clients(process.url)
        channel = clients.channel()
        killer.start()
        number = first
        try:
            while True:
                publish(channel, number)
                number += 1
        except (pika.exceptions.AMQPError, OSError):
            pass
        killer.join()
        published = max(published, number)
        process.start()
    assert published > 300
    channel = Clients(process.url).channel()
    for number in range(published):
        publish(channel, number)
    deadline = time.monotonic() + 30
    while channel.queue_declare("q1", passive=True).method.message_count < published:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    for queue in ("q0", "q1"):
        inbox = Inbox(channel, queue, auto_ack=True).wait_for(published)
        assert Counter(inbox.bodies) == Counter(b"%d" % number for number in range(published))
