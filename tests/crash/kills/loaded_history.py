"""The whole life of a broker under confirmed load: what was promised, and whether it still holds."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from crash.kills.confirmed_load import (
    BARRIER_QUEUE,
    CHURN_MESSAGES,
    CHURN_QUEUES,
    PREFETCH,
    Churn,
    Client,
    Consumer,
    Publisher,
    churn_queue,
)
from crash.kills.drain import drain, message_count, until_empty, until_last
from crash.kills.ledger import PromiseBroken
from crash.kills.load_queue import LoadQueue, load_queues
from crash.kills.numbered_message import NumberedMessages
from pamqp import commands
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker
from support.broker_process import BrokerProcess
from support.pika_client import Clients

from routelog.benchmarks.traffic.connection import Connection

SEED = int(os.environ.get("ROUTELOG_TEST_SEED", "1"))
LOAD_SECONDS = (0.02, 0.35)
# Of processor time
READY_SECONDS_MAX = 10.0
LOG_MESSAGES_MAX = 60_000  # of a log that keeps everything: it is read as a whole after each round
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

    queues: list[LoadQueue]
    generations: dict[int, int] = field(default_factory=dict)
    generation: int = 0
    choice: random.Random = field(default_factory=lambda: random.Random(SEED))
    kills: int = 0
    confirmed: int = 0
    recovered: int = 0
    logs_begun: int = 0
    ready_seconds_max: float = 0.0


def new_history(lost: Collection[str]) -> History:
    """Of a broker that has not been started yet.

    Args:
        lost: the levels of `x-durability` that the crashes take.
    """
    return History(load_queues(lost))


def declare_all(url: str, history: History) -> None:
    """Declare what a load needs."""
    connection = Connection(url)
    declare = commands.Queue.Declare(queue=BARRIER_QUEUE, durable=True)
    connection.call(declare, commands.Queue.DeclareOk)
    connection.call(commands.Basic.Qos(prefetch_count=PREFETCH), commands.Basic.QosOk)
    for queue in history.queues:
        declare_queue(connection, queue)
    connection.close()


def declare_queue(connection: Connection, queue: LoadQueue) -> None:
    """Declare a queue that is not there: with its exchange, and its groups at the begin of its log."""
    name = queue.name
    declare = commands.Queue.Declare(queue=name, durable=True, arguments=dict(queue.arguments))
    connection.call(declare, commands.Queue.DeclareOk)
    if queue.ledger.keys > 1:
        exchange = commands.Exchange.Declare(exchange=name, exchange_type="fanout", durable=True)
        connection.call(exchange, commands.Exchange.DeclareOk)
        connection.call(commands.Queue.Bind(queue=name, exchange=name), commands.Queue.BindOk)
    for cursor in queue.cursors:
        if cursor.arguments:
            drain(connection, cursor.messages, cursor.arguments, lambda _: True)


def load_until_killed(broker: BrokerProcess, history: History) -> None:
    """Publish, consume and churn until the broker is killed, at a random moment."""
    choice = history.choice
    history.generation += 1000
    publisher = Publisher(broker.url, history.queues, choice)
    cursors = [cursor for queue in history.queues for cursor in queue.cursors]
    consumer = Consumer(broker.url, cursors, random.Random(choice.random()))
    churn = Churn(broker.url, history.generations, history.generation)
    clients: list[Client] = [publisher, consumer, churn]
    for client in clients:
        client.start()
    time.sleep(choice.uniform(*LOAD_SECONDS))
    broker.kill()
    for client in clients:
        client.join(killed=True)
    for queue in history.queues:
        queue.ledger.crashed()
    history.confirmed += publisher.confirmed


def start_in_time(broker: BrokerProcess, history: History) -> None:
    """Start it again."""
    broker.start()
    seconds = processor_seconds(broker.pid)
    history.ready_seconds_max = max(history.ready_seconds_max, seconds)
    assert seconds < READY_SECONDS_MAX, f"ready after {seconds:.2f} s; {broker.log_text()[-2000:]}"


def processor_seconds(process: int) -> float:
    """What a process has used so far: other work on the machine takes time, but not of this."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")  # user and system


def check_counts(url: str, history: History) -> None:
    """All queues have as many messages as they may have, while nobody consumes.

    Raises:
        PromiseBroken: one has not.
    """
    connection = Connection(url)
    for queue in history.queues:
        queue.check_count(message_count(connection, queue.name))
    for number in history.generations:
        count = message_count(connection, churn_queue(number))
        if count != CHURN_MESSAGES:
            raise PromiseBroken(f"{churn_queue(number)}: {count} of {CHURN_MESSAGES} messages")
    connection.close()


def check_filters(url: str, history: History) -> None:
    """Each group with a filter has the stored one: consumers that name another, or none, are refused."""
    clients = Clients(url)
    connection = clients.connect()
    filtered = [
        cursor for queue in history.queues for cursor in queue.cursors if cursor.is_filtered
    ]
    for cursor in filtered:
        unfiltered = {"x-group": cursor.arguments["x-group"]}
        for arguments in (unfiltered, unfiltered | {"x-stream-filter": "another"}):
            check_refused(connection.channel(), cursor.messages.queue, arguments)
    clients.close()


def check_refused(channel: BlockingChannel, queue: str, arguments: dict[str, object]) -> None:
    """Raises PromiseBroken unless a consumer with these arguments is told that the group's are others."""
    channel.basic_qos(prefetch_count=PREFETCH)
    try:
        channel.basic_consume(queue, lambda *_: None, arguments=arguments)
    except ChannelClosedByBroker as closed:
        if closed.reply_code == 406 and "inequivalent arg" in closed.reply_text:
            return
        raise
    raise PromiseBroken(f"{queue}: a group took a consumer with {arguments}")


def drain_all(url: str, history: History) -> None:
    """Publish to each queue once more, and consume everything, message by message against the ledgers.

    Raises:
        PromiseBroken: something is lost, back, doubled, or in another order.
    """
    publish_to_each(url, history)
    connection = Connection(url)
    connection.call(commands.Basic.Qos(prefetch_count=PREFETCH), commands.Basic.QosOk)
    for queue in history.queues:
        for cursor in queue.cursors:
            until = until_last(queue) if cursor.arguments else until_empty(connection, queue)
            records = drain(connection, cursor.messages, cursor.arguments, until)
            cursor.ledger.check_drained([sequence for _, sequence in records])
            history.recovered += len(records)
        if queue.keeps_log:
            from_first = {"x-stream-offset": "first"}
            records = drain(connection, queue.messages, from_first, until_last(queue))
            queue.ledger.check_log(records)
    connection.call(commands.Queue.Purge(queue=BARRIER_QUEUE), commands.Queue.PurgeOk)
    connection.call(commands.Tx.Select(), commands.Tx.SelectOk)
    connection.call(commands.Tx.Commit(), commands.Tx.CommitOk)
    for queue in history.queues:
        note_drained(connection, queue, history)
    connection.close()


def publish_to_each(url: str, history: History) -> None:
    """Publish to each queue: a log or group that delivers the last message has delivered all."""
    publisher = Publisher(url, history.queues, history.choice)
    publisher.publish_to_each()
    publisher.connection.close()
    history.confirmed += publisher.confirmed


def note_drained(connection: Connection, queue: LoadQueue, history: History) -> None:
    """All cursors of a queue were drained; a log that has become long begins anew."""
    for cursor in queue.cursors:
        cursor.ledger.drained()
    if not queue.keeps_log:
        queue.ledger.emptied()
    elif len(queue.ledger.confirmed) > LOG_MESSAGES_MAX:
        connection.call(commands.Queue.Delete(queue=queue.name), commands.Queue.DeleteOk)
        declare_queue(connection, queue)
        queue.ledger.emptied()
        history.logs_begun += 1
    if not queue.is_stream:
        left = message_count(connection, queue.name)
        assert left == 0, f"{queue.name}: {left} messages after a drain"


def check_churned(url: str, history: History) -> None:
    """Consume the queues that came and went, and delete them."""
    connection = Connection(url)
    for number, generation in list(history.generations.items()):
        queue = churn_queue(number)
        messages = NumberedMessages(queue, generation % 0xFFFF, 100)
        records = drain(connection, messages, {}, lambda read: len(read) == CHURN_MESSAGES)
        sequences = [sequence for _, sequence in records]
        assert sequences == list(range(CHURN_MESSAGES)), f"{queue}: {sequences}"
    for number in range(CHURN_QUEUES):
        delete = commands.Queue.Delete(queue=churn_queue(number))
        connection.call(delete, commands.Queue.DeleteOk)
    history.generations.clear()
    connection.close()
