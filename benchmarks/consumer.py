"""The consumer's loop: large reads, deliveries counted by size, acks as slices."""

from pamqp import commands

from benchmarks.cases import Case
from benchmarks.connection import Connection
from benchmarks.counters import Counter, Counters
from benchmarks.deliveries import DeliveryStream
from benchmarks.frames import AckRun, ack_frame

_READ_BYTES = 1_048_576


class Consumer:
    """Receives until the producer's last message is there."""

    def __init__(self, url: str, queue: str, case: Case, counters: Counters) -> None:
        self._case = case
        self._counters = counters
        self._queue = queue
        self._stream = DeliveryStream(queue, case.body_bytes)
        self._single_acks = AckRun()
        self._acked = 0
        self._connection = Connection(url)

    def run(self) -> None:
        """Subscribe, receive, settle what is left, and close in order."""
        self._subscribe()
        self._counters[Counter.READY] = 1
        self._receive_all()
        self._settle_rest()
        self._connection.close()

    def _subscribe(self) -> None:
        if self._case.prefetch:
            qos = commands.Basic.Qos(prefetch_count=self._case.prefetch)
            self._connection.call(qos, commands.Basic.QosOk)
        consume = commands.Basic.Consume(
            queue=self._queue, consumer_tag="c", no_ack=not self._case.ack_every
        )
        self._connection.call(consume, commands.Basic.ConsumeOk)

    def _receive_all(self) -> None:
        buffer = memoryview(bytearray(_READ_BYTES))
        rest = 0
        while self._stream.received != self._counters[Counter.FINAL] or not self._stream.received:
            end = rest + self._connection.receive_into(buffer[rest:])
            used = self._stream.feed(buffer[:end])
            rest = end - used
            buffer[:rest] = buffer[used:end]
            self._counters[Counter.RECEIVED] = self._stream.received
            if self._case.ack_every:
                self._ack()

    def _ack(self) -> None:
        if self._case.ack_every == 1:
            unsettled = self._stream.received - self._acked
            for acks in self._single_acks.encoded(self._acked + 1, unsettled):
                self._connection.send(acks)
            self._acked = self._stream.received
        else:
            self._ack_by_range(self._case.ack_every)

    def _ack_by_range(self, step: int) -> None:
        to = self._stream.received // step * step
        if to > self._acked:
            tags = range(self._acked + step, to + 1, step)
            self._connection.send(b"".join(ack_frame(tag, multiple=True) for tag in tags))
            self._acked = to

    def _settle_rest(self) -> None:
        if self._case.ack_every and self._acked < self._stream.received:
            self._connection.send(ack_frame(self._stream.received, multiple=True))
