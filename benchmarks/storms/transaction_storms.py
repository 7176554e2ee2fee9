"""Storms of transactions: very large commits of one client."""

from collections.abc import Callable, Iterable, Sequence
from itertools import cycle, islice

from pamqp import commands, frame

from routelog.benchmarks.traffic.connection import Connection
from routelog.benchmarks.traffic.frames import CHANNEL, content_frames

SMALL_BYTES = 100
LARGE_BYTES = 1 << 20
ROUTED_QUEUES = 100
SENT_AT_ONCE = 1_000  # messages
EXCHANGES = "fairness.first", "fairness.second"


class TransactionStorms:
    """Transactions of persistent messages to durable queues."""

    def __init__(self, url: str, scale: float) -> None:
        self._client = Connection(url)
        self._client.call(commands.Tx.Select(), commands.Tx.SelectOk)
        self._messages = max(1, int(100_000 * scale))
        self._mixed = max(1, int(50_000 * scale))
        self._queues = max(1, int(20_000 * scale))
        self._large = max(1, int(100 * scale))
        self.all: dict[str, Callable[[], None]] = {
            f"commit {self._messages:,} messages in one transaction": self._commit_by_turns,
            f"commit {self._mixed:,}, by turns of two exchanges to one queue": self._commit_mixed,
            f"commit one to each of {self._queues:,} queues": self._commit_to_many,
            f"commit {self._large} messages of 1 MiB": self._commit_large,
        }

    def _commit_by_turns(self) -> None:
        names = self._declared("fairness.committed", ROUTED_QUEUES)
        self._commit(_to(names, SMALL_BYTES), self._messages)

    def _commit_mixed(self) -> None:
        (queue,) = self._declared("fairness.mixed", 1)
        for exchange in EXCHANGES:
            declare = commands.Exchange.Declare(exchange=exchange, exchange_type="fanout")
            self._client.call(declare, commands.Exchange.DeclareOk)
            bind = commands.Queue.Bind(queue=queue, exchange=exchange)
            self._client.call(bind, commands.Queue.BindOk)
        content = content_frames(0, SMALL_BYTES, persistent=True)
        publishes = (commands.Basic.Publish(exchange=each) for each in EXCHANGES)
        messages = [frame.marshal(each, CHANNEL) + content for each in publishes]
        self._commit(messages, self._mixed)

    def _commit_to_many(self) -> None:
        names = self._declared("fairness.each", self._queues)
        self._commit(_to(names, SMALL_BYTES), len(names))

    def _commit_large(self) -> None:
        names = self._declared("fairness.heavy", 1)
        self._commit(_to(names, LARGE_BYTES), self._large)

    def _declared(self, prefix: str, count: int) -> list[str]:
        names = [f"{prefix}.{number}" for number in range(count)]
        declares = (
            commands.Queue.Declare(queue=name, durable=True, exclusive=True) for name in names
        )
        for _ in self._client.call_each(declares, commands.Queue.DeclareOk):
            pass
        return names

    def _commit(self, messages: Sequence[bytes], count: int) -> None:
        left = islice(cycle(messages), count)
        while some := b"".join(islice(left, SENT_AT_ONCE)):
            self._client.send(some)
        self._client.call(commands.Tx.Commit(), commands.Tx.CommitOk)


def _to(names: Iterable[str], size: int) -> list[bytes]:
    content = content_frames(0, size, persistent=True)
    publishes = (commands.Basic.Publish(routing_key=name) for name in names)
    return [frame.marshal(each, CHANNEL) + content for each in publishes]
