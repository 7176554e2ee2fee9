"""SIGKILL under readers that note `x-stream-offset` and go on behind it: they miss no confirmed message."""

from __future__ import annotations

import os
import random
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from crash.kills.confirmed_load import PREFETCH, Client, Publisher
from crash.kills.load_queue import LoadQueue
from crash.kills.loaded_history import LIMITS, LOAD_SECONDS, SEED, declare_queue
from crash.kills.log_reader import LogReader, ReadLog
from crash.kills.numbered_message import NumberedMessages
from pamqp import commands
from support.broker_process import BrokerProcess

from routelog.benchmarks.traffic.connection import Connection

pytestmark = pytest.mark.crash

KILLS = int(os.environ.get("ROUTELOG_TEST_READER_KILLS", "2"))
READ_SECONDS_MAX = 5.0  # to the last message; longer when readers have missed that
# Of transient messages nothing survives; the offsets that readers saw of them do.
TRANSIENT = "retention-transient"
KINDS: Mapping[str, Mapping[str, object]] = {
    "stream": {"x-queue-type": "stream"},
    "stream-os": {"x-queue-type": "stream", "x-durability": "os"},
    "retention": {"x-retention": "1D"},
    TRANSIENT: {"x-retention": "1D"},
}
BODY_BYTES = 100
RUN_MAX = 60
PAUSE_SECONDS = 0.0005  # some 50,000 messages a second, which the reader keeps up with


def test_a_reader_that_goes_on_behind_its_last_offset_misses_nothing_confirmed(
    tmp_path: Path, figures: Callable[[str], None]
) -> None:
    broker = BrokerProcess(tmp_path / "data", LIMITS).start()
    choice = random.Random(SEED)
    queues = [
        LoadQueue(number, name, BODY_BYTES, arguments, lost=())
        for number, (name, arguments) in enumerate(KINDS.items())
    ]
    logs = [ReadLog(queue) for queue in queues]
    missed = dict.fromkeys((queue.name for queue in queues), 0)
    read = confirmed = 0
    try:
        connection = Connection(broker.url)
        connection.call(commands.Basic.Qos(prefetch_count=PREFETCH), commands.Basic.QosOk)
        for queue in queues:
            declare_queue(connection, queue)
        connection.close()
        for _ in range(KILLS):
            read_until_killed(broker, logs, choice)
            read += sum(len(log.seen) for log in logs)
            broker.start()
            confirmed += publish_to_each(broker.url, queues, choice)
            read_to_the_end(broker, logs)
            for log in logs:
                missed[log.queue.name] += len(log.queue.ledger.confirmed - log.seen)
                log.queue.ledger.emptied()
                log.seen.clear()
    finally:
        broker.stop()
    figures(
        f"{KILLS} kills (seed {SEED}) under readers of logs: {read} messages read before them, "
        f"{confirmed} confirmed behind them; missed by readers: {missed}"
    )
    assert read > KILLS
    assert not any(missed.values()), missed


class Flood(Client):
    """Publishes without confirms: nobody waits for the journal, which is behind by most then."""

    def __init__(self, url: str, queues: Sequence[LoadQueue], choice: random.Random) -> None:
        super().__init__(url)
        self._queues = queues
        self._choice = choice

    def work(self) -> None:
        """See `Client`."""
        while True:
            queue = self._choice.choice(self._queues)
            first = queue.ledger.published
            queue.ledger.published += self._choice.randint(1, RUN_MAX)
            self.connection.send(queue.messages.encoded(first, queue.ledger.published))
            time.sleep(PAUSE_SECONDS)


def read_until_killed(
    broker: BrokerProcess, logs: Sequence[ReadLog], choice: random.Random
) -> None:
    """Publish and read until the broker is killed, at a random moment."""
    for log in logs:
        log.queue.messages = messages(log.queue, persistent=log.queue.name != TRANSIENT)
    reader = LogReader(broker.url, logs)
    flood = Flood(broker.url, [log.queue for log in logs], choice)
    clients: list[Client] = [reader, flood]
    for client in clients:
        client.start()
    time.sleep(choice.uniform(*LOAD_SECONDS))
    broker.kill()
    for client in clients:
        client.join(killed=True)


def publish_to_each(url: str, queues: Sequence[LoadQueue], choice: random.Random) -> int:
    """Have messages confirmed that survive; returns how many."""
    for queue in queues:
        queue.messages = messages(queue, persistent=True)
    publisher = Publisher(url, queues, choice)
    publisher.publish_to_each()
    publisher.connection.close()
    return publisher.confirmed


def read_to_the_end(broker: BrokerProcess, logs: Sequence[ReadLog]) -> None:
    """Go on behind what was read, as long as something of what is confirmed comes."""
    reader = LogReader(broker.url, logs)
    reader.start()
    deadline = time.monotonic() + READ_SECONDS_MAX
    while time.monotonic() < deadline:
        if all(log.queue.ledger.published - 1 in log.seen for log in logs):
            break
        time.sleep(0.01)
    reader.connection.socket.shutdown(socket.SHUT_RDWR)
    reader.join(killed=True)


def messages(queue: LoadQueue, *, persistent: bool) -> NumberedMessages:
    """The publishes of a queue."""
    known = queue.messages
    return NumberedMessages(known.queue, known.number, known.body_bytes, persistent=persistent)
