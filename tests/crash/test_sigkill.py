"""SIGKILL of the real broker under confirmed load, again and again on one ageing data directory."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import cycle

import pytest
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

pytestmark = pytest.mark.crash

KILLS = int(os.environ.get("ROUTELOG_TEST_KILLS", "200"))
SEED = int(os.environ.get("ROUTELOG_TEST_SEED", "1"))
DRAIN_EVERY = 20
LOAD_SECONDS = (0.02, 0.35)
READY_SECONDS_MAX = 2.0
BODY_BYTES = (14, 100, 100, 1_000, 8_000, 60_000)
# Small, so that files are recycled, segments rolled and batches evicted within every cycle.
LIMITS = {
    "ROUTELOG_JOURNAL_FILE_BYTES": str(4 * 1024 * 1024),
    "ROUTELOG_JOURNAL_FILES_MAX": "4",
    "ROUTELOG_SEGMENT_BYTES": str(1024 * 1024),
    "ROUTELOG_MEMORY_TAIL_BYTES": str(4 * 1024 * 1024),
    "ROUTELOG_FLUSH_SECONDS": "0.05",
}


def kills_of_rounds() -> list[int]:
    """How many kills each round has; it ends with a drain of everything."""
    full, rest = divmod(KILLS, DRAIN_EVERY)
    return [DRAIN_EVERY] * full + [rest] * bool(rest)


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


@pytest.fixture(scope="module")
def history() -> History:
    """Of all rounds: the data directory ages from one to the next."""
    return new_history()


@pytest.fixture(scope="module")
def ageing_broker(
    tmp_path_factory: pytest.TempPathFactory, history: History
) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path_factory.mktemp("sigkill") / "data", LIMITS)
    broker.start()
    declare_all(broker.url, history)
    yield broker
    broker.stop()


@pytest.mark.parametrize("kills", kills_of_rounds())
def test_nothing_confirmed_is_lost_doubled_or_reordered_by_sigkill(
    ageing_broker: BrokerProcess, history: History, kills: int, capsys: pytest.CaptureFixture[str]
) -> None:
    if not ageing_broker.alive:
        pytest.skip("the broker did not survive an earlier round")
    try:
        for _ in range(kills):
            load_until_killed(ageing_broker, history)
            start_in_time(ageing_broker, history)
            check_counts(ageing_broker.url, history)
        drain_all(ageing_broker.url, history)
        check_churned(ageing_broker.url, history)
    except BaseException:
        print(ageing_broker.log_text()[-5000:])  # noqa: T201
        ageing_broker.stop()
        raise
    history.kills += kills
    if history.kills == KILLS:
        with capsys.disabled():
            print_summary(history)


def test_the_broker_still_stops_in_order_after_all_kills(ageing_broker: BrokerProcess) -> None:
    if not ageing_broker.alive:
        pytest.skip("the broker did not survive the kills")
    assert ageing_broker.terminate() == 0


def new_history() -> History:
    names = [f"load-{number}" for number in range(len(BODY_BYTES))]
    return History(
        [
            NumberedMessages(*each)
            for each in zip(names, range(len(names)), BODY_BYTES, strict=True)
        ],
        [QueueLedger(name) for name in names],
    )


def declare_all(url: str, history: History) -> None:
    connection = Connection(url)
    names = [BARRIER_QUEUE, *(messages.queue for messages in history.messages)]
    for name, compression in zip(names, cycle(("none", "zstd", "lz4"))):
        arguments = {"x-compression": compression}
        declare = commands.Queue.Declare(queue=name, durable=True, arguments=arguments)
        connection.call(declare, commands.Queue.DeclareOk)
    connection.close()


def load_until_killed(broker: BrokerProcess, history: History) -> None:
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
    begun = time.monotonic()
    broker.start()
    seconds = time.monotonic() - begun
    history.ready_seconds_max = max(history.ready_seconds_max, seconds)
    assert seconds < READY_SECONDS_MAX, f"ready after {seconds:.2f} s; {broker.log_text()[-2000:]}"


def check_counts(url: str, history: History) -> None:
    connection = Connection(url)
    for ledger in history.ledgers:
        ledger.check_count(message_count(connection, ledger.queue))
    for number in history.generations:
        count = message_count(connection, churn_queue(number))
        if count != CHURN_MESSAGES:
            raise PromiseBroken(f"{churn_queue(number)}: {count} of {CHURN_MESSAGES} messages")
    connection.close()


def drain_all(url: str, history: History) -> None:
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
    declare = commands.Queue.Declare(queue=queue, passive=True)
    return connection.call(declare, commands.Queue.DeclareOk).message_count or 0


def print_summary(history: History) -> None:
    print(  # noqa: T201
        f"\n{KILLS} kills (seed {SEED}): {history.confirmed} messages confirmed, "
        f"{history.recovered} recovered and drained, "
        f"ready at most {history.ready_seconds_max:.2f} s after the start"
    )
