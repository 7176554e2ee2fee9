"""The whole life of a broker under confirmed load: what was promised, and whether it still holds."""

from __future__ import annotations

import os
import random
import time
from dataclasses import dataclass, field
from itertools import cycle

from broker_process import BrokerProcess
from crash.confirmed_load import (
    BARRIER_QUEUE,
    CHURN_MESSAGES,
    CHURN_QUEUES,
    Churn,
    Client,
    Consumer,
    Publisher,
    churn_queue,
)
from crash.frame_stream import Delivered, FrameStream
from crash.ledger import PromiseBroken, QueueLedger
from crash.numbered_message import NumberedMessages
from pamqp import commands

from benchmarks.connection import Connection
from benchmarks.frames import ack_frame

SEED = int(os.environ.get("ROUTELOG_TEST_SEED", "1"))
LOAD_SECONDS = (0.02, 0.35)
READY_SECONDS_MAX = (
    20.0  # far above what it takes, on a busy machine too; benchmarks.restart measures it
)
BODY_BYTES = (14, 100, 100, 1_000, 8_000, 60_000)
# Small, so that files are recycled, segments rolled and batches evicted within every cycle.
LIMITS = {
    "ROUTELOG_JOURNAL_FILE_BYTES": str(4 * 1024 * 1024),
    "ROUTELOG_JOURNAL_FILES_MAX": "4",
    "ROUTELOG_SEGMENT_BYTES": str(1024 * 1024),
    "ROUTELOG_MEMORY_TAIL_BYTES": str(4 * 1024 * 1024),
    "ROUTELOG_FLUSH_SECONDS": "0.05",
    "ROUTELOG_HANDSHAKE_SECONDS": "30",  # however busy the machine is
}


@dataclass
class History:
    """All that was promised so far, and what the crashes cost."""

    messages: list[NumberedMessages]
    ledgers: list[QueueLedger]
    generations: dict[int, int] = field(default_factory=dict)
    generation: int = 0
    choice: random.Random = field(default_factory=lambda: random.Random(SEED))
    kills: int = 0
    confirmed: int = 0
    recovered: int = 0
    ready_seconds_max: float = 0.0


def new_history() -> History:
    """Of a broker that has not been started yet."""
    names = [f"load-{number}" for number in range(len(BODY_BYTES))]
    return History(
        [
            NumberedMessages(*each)
            for each in zip(names, range(len(names)), BODY_BYTES, strict=True)
        ],
        [QueueLedger(name) for name in names],
    )


def declare_all(url: str, history: History) -> None:
    """Declare the durable queues of a load, each with another compression than its neighbour."""
    connection = Connection(url)
    names = [BARRIER_QUEUE, *(messages.queue for messages in history.messages)]
    for name, compression in zip(names, cycle(("none", "zstd", "lz4"))):
        arguments = {"x-compression": compression}
        declare = commands.Queue.Declare(queue=name, durable=True, arguments=arguments)
        connection.call(declare, commands.Queue.DeclareOk)
    connection.close()


def load_until_killed(broker: BrokerProcess, history: History) -> None:
    """Publish, consume and churn until the broker is killed, at a random moment."""
    choice = history.choice
    history.generation += 1000
    publisher = Publisher(broker.url, history.messages, history.ledgers, choice)
    consumer = Consumer(
        broker.url, history.messages, history.ledgers, random.Random(choice.random())
    )
    churn = Churn(broker.url, history.generations, history.generation)
    clients: list[Client] = [publisher, consumer, churn]
    for client in clients:
        client.start()
    time.sleep(choice.uniform(*LOAD_SECONDS))
    broker.kill()
    for client in clients:
        client.join(killed=True)
    history.confirmed += publisher.confirmed


def start_in_time(broker: BrokerProcess, history: History) -> None:
    """Start it again."""
    begun = time.monotonic()
    broker.start()
    seconds = time.monotonic() - begun
    history.ready_seconds_max = max(history.ready_seconds_max, seconds)
    assert seconds < READY_SECONDS_MAX, f"ready after {seconds:.2f} s; {broker.log_text()[-2000:]}"


def check_counts(url: str, history: History) -> None:
    """All queues have as many messages as they may have, while nobody consumes.

    Raises:
        PromiseBroken: one has not.
    """
    connection = Connection(url)
    for ledger in history.ledgers:
        ledger.check_count(message_count(connection, ledger.queue))
    for number in history.generations:
        count = message_count(connection, churn_queue(number))
        if count != CHURN_MESSAGES:
            raise PromiseBroken(f"{churn_queue(number)}: {count} of {CHURN_MESSAGES} messages")
    connection.close()


def drain_all(url: str, history: History) -> None:
    """Consume everything, message by message against the ledgers.

    Raises:
        PromiseBroken: something is lost, back, doubled, or in another order.
    """
    connection = Connection(url)
    for messages, ledger in zip(history.messages, history.ledgers, strict=True):
        sequences = [messages.read(body) for body in drain(connection, messages.queue)]
        ledger.check_drained(sequences)
        history.recovered += len(sequences)
    connection.call(commands.Queue.Purge(queue=BARRIER_QUEUE), commands.Queue.PurgeOk)
    connection.call(commands.Tx.Select(), commands.Tx.SelectOk)
    connection.call(commands.Tx.Commit(), commands.Tx.CommitOk)
    for ledger in history.ledgers:
        left = message_count(connection, ledger.queue)
        assert left == 0, f"{ledger.queue}: {left} messages after a drain"
        ledger.drained()
    connection.close()


def check_churned(url: str, history: History) -> None:
    """Consume the queues that came and went, and delete them."""
    connection = Connection(url)
    for number, generation in list(history.generations.items()):
        queue = churn_queue(number)
        messages = NumberedMessages(queue, generation % 0xFFFF, 100)
        sequences = [messages.read(body) for body in drain(connection, queue)]
        assert sequences == list(range(CHURN_MESSAGES)), f"{queue}: {sequences}"
    for number in range(CHURN_QUEUES):
        delete = commands.Queue.Delete(queue=churn_queue(number))
        connection.call(delete, commands.Queue.DeleteOk)
    history.generations.clear()
    connection.close()


def drain(connection: Connection, queue: str) -> list[bytes]:
    """All bodies of a queue that nobody else consumes, acknowledged."""
    count = message_count(connection, queue)
    if not count:
        return []
    consume = commands.Basic.Consume(queue=queue, consumer_tag="drain")
    connection.call(consume, commands.Basic.ConsumeOk)
    stream = FrameStream()
    bodies: list[bytes] = []
    tag = 0
    while len(bodies) < count:
        for event in stream.feed(connection.receive()):
            assert isinstance(event, Delivered)
            bodies.append(event.body)
            tag = event.tag
    connection.send(ack_frame(tag, multiple=True))
    cancel = commands.Basic.Cancel(consumer_tag="drain")
    connection.call(cancel, commands.Basic.CancelOk)
    return bodies


def message_count(connection: Connection, queue: str) -> int:
    """Messages that are ready."""
    declare = commands.Queue.Declare(queue=queue, passive=True)
    return connection.call(declare, commands.Queue.DeclareOk).message_count or 0
