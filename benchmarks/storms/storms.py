"""Storms of AMQP: large requests of one client."""

import time
from collections.abc import Callable, Iterator
from itertools import islice

from pamqp import body, commands, frame, header
from pamqp.common import FieldTable

from routelog.benchmarks.traffic.connection import Connection
from routelog.benchmarks.traffic.frames import CHANNEL, content_frames

FRAME_BYTES = 131_072
FRAME_OVERHEAD = 8
DECLARES_IN_FLIGHT = 500
PUBLISHES_AT_ONCE = 10_000  # less than 1 MiB
LARGE_BYTES = 16 << 20  # as large as a broker allows by default
FLUSH_SECONDS = 2.0  # the broker writes segments once a second
ROUTED_QUEUES = 100
HELD_QUEUES = 1_000
LETTERS_SECONDS = 3.0  # for 100,000 dead letters
DELIVERY_FRAMES = 3  # of a small message
# Each word of such a key matches in all nodes of such patterns.
CRAFTED_PATTERNS = 100
CRAFTED_WORDS = 60
SLOW_SECONDS = 1.0
NOTHING_SECONDS = 3.0  # so that a p99 is of a few thousand waits
PARTITIONS = 256  # the most that a queue may have


class Storms:
    """The storms of one client."""

    def __init__(self, url: str, scale: float) -> None:
        self._url = url
        self._scale = scale
        self._connection = Connection(url)
        large = self._scaled(LARGE_BYTES) >> 20
        self.all: dict[str, Callable[[], None]] = {
            "nothing": lambda: time.sleep(NOTHING_SECONDS * min(1.0, 10 * scale)),
            f"declare {self._scaled(20_000):,} exclusive queues": self._declare,
            f"leave {self._scaled(20_000):,} exclusive queues behind": self._leave,
            f"declare and delete {self._scaled(40):,} queues of {PARTITIONS} partitions": self._divide,
            f"publish {large} MiB in one message": self._publish_large,
            f"get the {large} MiB": self._get_large,
            f"publish {large} MiB in one persistent message": self._persist_large,
            f"get the {large} MiB that are flushed": self._get_persistent,
            f"publish to {self._scaled(1_000):,} durable queues, to be flushed": self._flush,
            f"publish {self._scaled(1_000_000):,} messages": self._publish_many,
            "get them all and ack at once": self._ack_multiple,
            "publish them again": self._publish_many,
            "purge them": self._purge,
            f"route {self._scaled(100_000):,} new keys by their hash": self._hash_keys,
            f"route {self._scaled(20_000):,} new keys by crafted patterns": self._match_keys,
            f"route {self._scaled(1_000):,} new keys by {self._scaled(10_000):,} patterns": self._wind_keys,
            f"route {self._scaled(1_000):,} more, each between two of another exchange": self._wind_single_keys,
            f"leave {self._scaled(100_000):,} deliveries of 1 KiB unread": self._read_nothing,
            f"cancel {self._scaled(1_000):,} consumers at once": self._cancel,
            f"reject {self._scaled(100):,} deliveries of each of 1,000 queues": self._reject,
            f"commit the acks of {self._scaled(100):,} of each": self._commit_acks,
        }

    def _scaled(self, count: int) -> int:
        return max(1, int(count * self._scale))

    def _await_frames(self, count: int, connection: Connection | None = None) -> None:
        rest = b""
        while count:
            rest += (connection or self._connection).receive()
            at = 0
            while len(rest) - at >= FRAME_OVERHEAD:
                end = at + FRAME_OVERHEAD + int.from_bytes(rest[at + 3 : at + 7], "big")
                if end > len(rest):
                    break
                at = end
                count -= 1
            rest = rest[at:]

    def _declare(self) -> None:
        names = (f"fairness.exclusive.{number}" for number in range(self._scaled(20_000)))
        frames = [
            frame.marshal(commands.Queue.Declare(queue=name, exclusive=True), CHANNEL)
            for name in names
        ]
        for at in range(0, len(frames), DECLARES_IN_FLIGHT):
            part = frames[at : at + DECLARES_IN_FLIGHT]
            self._connection.send(b"".join(part))
            self._await_frames(len(part))

    def _leave(self) -> None:
        self._connection.close()
        self._connection = Connection(self._url)

    def _divide(self) -> None:
        names = [f"fairness.divided.{number}" for number in range(self._scaled(40))]
        for kind, durable in (("stream", True), ("classic", False)):
            arguments: FieldTable = {"x-queue-type": kind, "x-partitions": PARTITIONS}
            declares = [
                commands.Queue.Declare(queue=name, durable=durable, arguments=arguments)
                for name in names
            ]
            deletes = [commands.Queue.Delete(queue=name) for name in names]
            for _ in self._connection.call_each(declares, commands.Queue.DeclareOk):
                pass
            for _ in self._connection.call_each(deletes, commands.Queue.DeleteOk):
                pass

    def _publish_large(self) -> None:
        self._send_large("fairness.large", durable=False)

    def _persist_large(self) -> None:
        self._send_large("fairness.persistent", durable=True)
        time.sleep(FLUSH_SECONDS)

    def _send_large(self, queue: str, *, durable: bool) -> None:
        self._queue(queue, durable=durable)
        size = self._scaled(LARGE_BYTES)
        properties = commands.Basic.Properties(delivery_mode=2 if durable else 1)
        self._connection.send(
            frame.marshal(commands.Basic.Publish(routing_key=queue), CHANNEL)
            + frame.marshal(header.ContentHeader(0, size, properties), CHANNEL)
        )
        while size:
            part = min(size, FRAME_BYTES - FRAME_OVERHEAD)
            self._connection.send(frame.marshal(body.ContentBody(b"m" * part), CHANNEL))
            size -= part
        self._queue(queue, durable=durable)

    def _get_large(self) -> None:
        self._receive_large("fairness.large")

    def _get_persistent(self) -> None:
        self._receive_large("fairness.persistent")

    def _receive_large(self, queue: str) -> None:
        size = self._scaled(LARGE_BYTES)
        get = commands.Basic.Get(queue=queue, no_ack=True)
        self._connection.send(frame.marshal(get, CHANNEL))
        self._await_frames(2 - (-size // (FRAME_BYTES - FRAME_OVERHEAD)))

    def _flush(self) -> None:
        count = self._scaled(1_000)
        for number in range(count):
            self._queue(f"fairness.flushed.{number}", durable=True)
        for number in range(count):
            publish = commands.Basic.Publish(routing_key=f"fairness.flushed.{number}")
            self._connection.send(frame.marshal(publish, CHANNEL) + content_frames(0, 100, True))
        self._queue("fairness.flushed.0", durable=True)
        time.sleep(FLUSH_SECONDS)

    def _publish_many(self) -> None:
        self._queue("fairness.many", durable=False)
        publish = frame.marshal(commands.Basic.Publish(routing_key="fairness.many"), CHANNEL)
        message = publish + content_frames(0, 16, persistent=False)
        left = self._scaled(1_000_000)
        while left:
            count = min(left, PUBLISHES_AT_ONCE)
            self._connection.send(message * count)
            left -= count
        self._queue("fairness.many", durable=False)

    def _ack_multiple(self) -> None:
        count = self._scaled(1_000_000)
        consume = commands.Basic.Consume(queue="fairness.many", consumer_tag="all")
        self._connection.send(frame.marshal(consume, CHANNEL))
        self._await_frames(1 + 3 * count)
        self._connection.send(frame.marshal(commands.Basic.Ack(0, multiple=True), CHANNEL))
        self._connection.call(commands.Basic.Cancel("all"), commands.Basic.CancelOk)

    def _purge(self) -> None:
        purge = commands.Queue.Purge(queue="fairness.many")
        self._connection.call(purge, commands.Queue.PurgeOk)

    def _queue(self, name: str, *, durable: bool) -> None:
        declare = commands.Queue.Declare(queue=name, durable=durable)
        self._connection.call(declare, commands.Queue.DeclareOk)

    # -- routes that are not cached

    def _hash_keys(self) -> None:
        self._exchange("fairness.hash", "x-consistent-hash")
        for number in range(ROUTED_QUEUES):
            self._queue(f"fairness.hashed.{number}", durable=False)
            self._bind(f"fairness.hashed.{number}", "fairness.hash", "1")
        self._publish_keys("fairness.hash", (f"key.{n}" for n in range(self._scaled(100_000))))

    def _match_keys(self) -> None:
        self._exchange("fairness.topic", "topic")
        self._queue("fairness.matched", durable=False)
        pattern = ".".join(["#.a"] * CRAFTED_WORDS)
        for number in range(CRAFTED_PATTERNS):
            self._bind("fairness.matched", "fairness.topic", f"{pattern}.{number}")
        keys = (f"{n}." + "a." * CRAFTED_WORDS + "b" for n in range(self._scaled(20_000)))
        self._publish_keys("fairness.topic", keys)

    def _wind_keys(self) -> None:
        # Patterns that differ from the first words on, all of which match.
        self._exchange("fairness.winding", "topic")
        self._queue("fairness.matched", durable=False)
        for number in range(self._scaled(10_000)):
            pairs = ("#.*" if number >> bit & 1 else "#.a" for bit in range(14))
            self._bind("fairness.matched", "fairness.winding", f"{'.'.join(pairs)}.#.a")
        self._publish_keys("fairness.winding", self._winding_keys("a"))

    def _wind_single_keys(self) -> None:
        # So neighbouring messages are no run. The patterns are bound already.
        content = content_frames(0, 16, persistent=False)
        between = frame.marshal(commands.Basic.Publish(exchange="amq.fanout"), CHANNEL) + content
        self._publish_keys("fairness.winding", self._winding_keys("b.a"), between)

    def _winding_keys(self, end: str) -> Iterator[str]:
        return (f"{n}." + "a." * (2 * CRAFTED_WORDS) + end for n in range(self._scaled(1_000)))

    def _publish_keys(self, exchange: str, keys: Iterator[str], between: bytes = b"") -> None:
        content = content_frames(0, 16, persistent=False) + between
        while some := list(islice(keys, PUBLISHES_AT_ONCE)):
            publishes = (commands.Basic.Publish(exchange=exchange, routing_key=k) for k in some)
            frames = [frame.marshal(each, CHANNEL) + content for each in publishes]
            self._connection.send(b"".join(frames))
        self._exchange(exchange, "", passive=True)

    def _exchange(self, name: str, kind: str, *, passive: bool = False) -> None:
        declare = commands.Exchange.Declare(exchange=name, exchange_type=kind, passive=passive)
        self._connection.call(declare, commands.Exchange.DeclareOk)

    def _bind(self, queue: str, exchange: str, key: str) -> None:
        bind = commands.Queue.Bind(queue=queue, exchange=exchange, routing_key=key)
        self._connection.call(bind, commands.Queue.BindOk)

    # -- consumers

    def _read_nothing(self) -> None:
        self._queue("fairness.unread", durable=False)
        publish = frame.marshal(commands.Basic.Publish(routing_key="fairness.unread"), CHANNEL)
        message = publish + content_frames(0, 1_024, persistent=False)
        left = self._scaled(100_000)
        while left:
            some = min(left, PUBLISHES_AT_ONCE // 10)
            self._connection.send(message * some)
            left -= some
        self._queue("fairness.unread", durable=False)
        deaf = Connection(self._url)
        consume = commands.Basic.Consume(queue="fairness.unread", no_ack=True)
        deaf.send(frame.marshal(consume, CHANNEL))
        time.sleep(SLOW_SECONDS)
        deaf.socket.close()

    def _cancel(self) -> None:
        self._queue("fairness.crowded", durable=False)
        crowd = range(self._scaled(1_000))
        consumes = [
            commands.Basic.Consume(queue="fairness.crowded", consumer_tag=f"{number}")
            for number in crowd
        ]
        for _ in self._connection.call_each(consumes, commands.Basic.ConsumeOk):
            pass
        cancels = [frame.marshal(commands.Basic.Cancel(f"{number}"), CHANNEL) for number in crowd]
        self._connection.send(b"".join(cancels))
        self._await_frames(len(crowd))

    def _reject(self) -> None:
        letters: FieldTable = {
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "fairness.letters",
        }
        self._queue("fairness.letters", durable=False)
        client = self._holder(letters)
        client.send(frame.marshal(commands.Basic.Nack(0, True, requeue=False), CHANNEL))
        time.sleep(LETTERS_SECONDS * min(1.0, self._scale))
        client.close()

    def _commit_acks(self) -> None:
        client = self._holder({})
        client.call(commands.Tx.Select(), commands.Tx.SelectOk)
        client.send(frame.marshal(commands.Basic.Ack(0, True), CHANNEL))
        client.call(commands.Tx.Commit(), commands.Tx.CommitOk)
        client.close()

    def _holder(self, arguments: FieldTable) -> Connection:
        """A client with unacknowledged deliveries of many queues in turn, no two neighbours of one queue."""
        client = Connection(self._url)
        names = [f"fairness.held.{number}" for number in range(HELD_QUEUES)]
        declares = (
            commands.Queue.Declare(queue=name, auto_delete=True, arguments=arguments)
            for name in names
        )
        for _ in client.call_each(declares, commands.Queue.DeclareOk):
            pass
        consumes = (commands.Basic.Consume(queue=name) for name in names)
        for _ in client.call_each(consumes, commands.Basic.ConsumeOk):
            pass
        content = content_frames(0, 16, persistent=False)
        publishes = (commands.Basic.Publish(routing_key=name) for name in names)
        messages = b"".join(frame.marshal(each, CHANNEL) + content for each in publishes)
        for _ in range(self._scaled(100)):
            self._connection.send(messages)
            self._await_frames(HELD_QUEUES * DELIVERY_FRAMES, client)
        return client
