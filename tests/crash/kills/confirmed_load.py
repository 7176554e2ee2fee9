"""Clients that keep a broker busy until it dies: one publishes, one consumes, one churns queues.

Each runs in a thread and alone writes what its part of the ledgers says.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence

from crash.kills.frame_stream import Delivered, FrameStream, Settled
from crash.kills.load_queue import Cursor, LoadQueue
from crash.kills.numbered_message import NumberedMessages
from pamqp import commands, frame

from routelog.benchmarks.traffic.connection import Connection
from routelog.benchmarks.traffic.frames import CHANNEL, ack_frame
from routelog.benchmarks.traffic.unexpected import BrokerStalled, RunFailed

IN_FLIGHT_MAX = 400
IN_FLIGHT_BYTES_MAX = 1024 * 1024  # below one commit: then a confirm covers acks processed before
RUN_BYTES_MAX = 32 * 1024
PREFETCH = 500
ACKED_SHARE = 0.9
BARRIER_QUEUE = "barrier"
CHURN_QUEUES = 8
CHURN_MESSAGES = 20


class Client:
    """A thread that talks to the broker until the connection ends."""

    def __init__(self, url: str) -> None:
        self.failure: Exception | None = None
        self.connection = Connection(url)
        self._stream = FrameStream()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def join(self, *, killed: bool) -> None:
        """Wait for the end; raises what went wrong, but for the end of a killed broker."""
        self._thread.join(30)
        self.connection.socket.close()
        failure = self.failure
        ended = isinstance(failure, OSError | RunFailed) and not isinstance(failure, BrokerStalled)
        if failure is not None and not (killed and ended):
            raise failure

    def _run(self) -> None:
        try:
            self.work()
        except Exception as error:
            self.failure = error

    def work(self) -> None:
        """What the client does; ends with the connection."""
        raise NotImplementedError


class Publisher(Client):
    """Publishes runs to random queues, several hundred messages in flight."""

    def __init__(self, url: str, queues: Sequence[LoadQueue], choice: random.Random) -> None:
        super().__init__(url)
        self._queues = queues
        self._choice = choice
        self._tag = 0
        self._unconfirmed: dict[int, tuple[LoadQueue, int]] = {}
        self._lowest = 1
        self._bytes = 0
        self.confirmed = 0
        self.connection.call(commands.Confirm.Select(), commands.Confirm.SelectOk)

    def work(self) -> None:
        """See `Client`."""
        while True:
            while len(self._unconfirmed) < IN_FLIGHT_MAX and self._bytes < IN_FLIGHT_BYTES_MAX:
                self._publish_run(self._choice.choice(self._queues))
            self._receive()

    def publish_to_each(self) -> None:
        """Publish a run to each queue; all of it is confirmed when this returns."""
        for queue in self._queues:
            self._publish_run(queue)
        while self._unconfirmed:
            self._receive()

    def _publish_run(self, queue: LoadQueue) -> None:
        messages, ledger = queue.messages, queue.ledger
        most = max(1, RUN_BYTES_MAX // messages.body_bytes)
        first = ledger.published
        end = first + self._choice.randint(1, min(most, IN_FLIGHT_MAX))
        end += -end % messages.cycle  # every filter matches the last one
        for sequence in range(first, end):
            self._tag += 1
            self._unconfirmed[self._tag] = queue, sequence
        self._bytes += (end - first) * messages.body_bytes
        ledger.published = end  # before it is sent: a part may arrive
        self.connection.send(messages.encoded(first, end))

    def _receive(self) -> None:
        for event in self._stream.feed(self.connection.receive()):
            assert isinstance(event, Settled)
            self._settle(event)

    def _settle(self, event: Settled) -> None:
        tags = range(self._lowest, event.tag + 1) if event.multiple else (event.tag,)
        for tag in tags:
            place = self._unconfirmed.pop(tag, None)
            if place is None:
                continue
            queue, sequence = place
            self._bytes -= queue.messages.body_bytes
            if event.confirmed:
                queue.ledger.confirmed.add(sequence)
                self.confirmed += 1
        if event.multiple:
            self._lowest = event.tag + 1


class Consumer(Client):
    """Takes through all cursors and acknowledges most of it; a confirm now and then is a barrier."""

    def __init__(self, url: str, cursors: Sequence[Cursor], choice: random.Random) -> None:
        super().__init__(url)
        self._cursors = cursors
        self._choice = choice
        self._acked: list[tuple[Cursor, int]] = []
        self._before_barrier: list[tuple[Cursor, int]] = []
        self._barrier = NumberedMessages(BARRIER_QUEUE, 0xFFFF, 0).encoded(0, 1)
        self.connection.call(commands.Confirm.Select(), commands.Confirm.SelectOk)
        self.connection.call(commands.Basic.Qos(prefetch_count=PREFETCH), commands.Basic.QosOk)

    def work(self) -> None:
        """See `Client`."""
        for number, cursor in enumerate(self._cursors):
            cursor.ledger.connected()
            consume = commands.Basic.Consume(
                queue=cursor.messages.queue,
                consumer_tag=str(number),
                nowait=True,
                arguments=dict(cursor.arguments),
            )
            self.connection.send(frame.marshal(consume, CHANNEL))
        while True:
            acks = b""
            for event in self._stream.feed(self.connection.receive()):
                if isinstance(event, Delivered):
                    acks += self._take(event)
                else:
                    self._barrier_reached()
            if acks:
                self.connection.send(acks)
            if self._acked and not self._before_barrier:
                self._before_barrier, self._acked = self._acked, []
                self.connection.send(self._barrier)

    def _take(self, event: Delivered) -> bytes:
        cursor = self._cursors[int(event.consumer_tag)]
        sequence = cursor.messages.read(event.body)
        cursor.ledger.check_delivery(sequence)
        if self._choice.random() > ACKED_SHARE:
            return b""
        cursor.ledger.acked.add(sequence)
        self._acked.append((cursor, sequence))
        return ack_frame(event.tag, multiple=False)

    def _barrier_reached(self) -> None:
        for cursor, sequence in self._before_barrier:
            cursor.ledger.settled.add(sequence)
        self._before_barrier = []


class Churn(Client):
    """Deletes and declares queues of the same names, each time with new confirmed messages.

    Attributes:
        generations: of each queue whose state is certain: the number in its messages.
    """

    def __init__(self, url: str, generations: dict[int, int], first_generation: int) -> None:
        super().__init__(url)
        self.generations = generations
        self._generation = first_generation
        self._choice = random.Random(first_generation)
        self.connection.call(commands.Confirm.Select(), commands.Confirm.SelectOk)

    def work(self) -> None:
        """See `Client`."""
        while True:
            number = self._choice.randrange(CHURN_QUEUES)
            queue = churn_queue(number)
            self.generations.pop(number, None)
            self.connection.call(commands.Queue.Delete(queue=queue), commands.Queue.DeleteOk)
            declare = commands.Queue.Declare(queue=queue, durable=True)
            self.connection.call(declare, commands.Queue.DeclareOk)
            self._generation += 1
            self._publish(queue, self._generation)
            self.generations[number] = self._generation

    def _publish(self, queue: str, generation: int) -> None:
        messages = NumberedMessages(queue, generation % 0xFFFF, 100)
        self.connection.send(messages.encoded(0, CHURN_MESSAGES))
        confirmed = 0
        while confirmed < CHURN_MESSAGES:
            for event in self._stream.feed(self.connection.receive()):
                assert isinstance(event, Settled)
                assert event.confirmed
                confirmed += self._covered(event)

    _settled_to = 0

    def _covered(self, event: Settled) -> int:
        if not event.multiple:
            self._settled_to = max(self._settled_to, event.tag)
            return 1
        covered = event.tag - self._settled_to
        self._settled_to = event.tag
        return covered


def churn_queue(number: int) -> str:
    """Name of one of the queues that come and go."""
    return f"churn-{number}"
