"""A process of consumers: large reads, deliveries counted by size, acks as slices."""

import select
import time
from collections.abc import Sequence
from typing import Protocol

from pamqp import commands
from pamqp.common import FieldTable

from routelog.benchmarks.traffic.connection import STALL_SECONDS, Connection
from routelog.benchmarks.traffic.counters import Counter, Counters
from routelog.benchmarks.traffic.deliveries import OFFSET_HEADER, DeliveryStream
from routelog.benchmarks.traffic.frames import ACK_BYTES, ack_frame, acks
from routelog.benchmarks.traffic.topology import Topology
from routelog.benchmarks.traffic.unexpected import BrokerStalled

_READ_BYTES_MAX = 1_048_576
_BUFFERS_BYTES = 64 * 1_048_576  # of all consumers of a process
_HEADS_BYTES = 65_536  # of a delivery, beside its body
_TICK_MILLISECONDS = 20  # without deliveries; then the consumer looks whether it was the last one


class Watch(Protocol):
    """Looks at a consumer's deliveries as they come."""

    def delivered(self, count: int) -> None:
        """So many, all told, by this moment."""

    def result(self) -> object:
        """What it has found in the end."""


class Consumer:
    """One connection that receives and settles.

    Args:
        watch: told after each read.
    """

    def __init__(
        self,
        uri: str,
        topology: Topology,
        number: int,
        buffer_bytes: int,
        watch: Watch | None = None,
    ) -> None:
        self._workload = topology.workload
        self._stream = DeliveryStream(topology, number)
        self._buffer = memoryview(bytearray(buffer_bytes))
        self._filled = 0
        self._acked = 0
        self._watch = watch
        self.connection = Connection(uri)
        self._subscribe(topology, number)

    def _subscribe(self, topology: Topology, number: int) -> None:
        if self._workload.prefetch:
            # For each consumer, which is what RabbitMQ means without `global`.
            qos = commands.Basic.Qos(prefetch_count=self._workload.prefetch)
            self.connection.call(qos, commands.Basic.QosOk)
        arguments: FieldTable = {}
        if self._workload.reads_log:
            arguments[OFFSET_HEADER] = "first"
        for each in topology.subscriptions_of(number):
            consume = commands.Basic.Consume(
                queue=each.queue,
                consumer_tag=each.consumer_tag,
                no_ack=not self._workload.ack_every,
                arguments=arguments,
            )
            self.connection.call(consume, commands.Basic.ConsumeOk)

    @property
    def received(self) -> int:
        """Deliveries so far."""
        return self._stream.received

    @property
    def checksum(self) -> int:
        """Sum of the lowest bytes of the numbers of all messages received."""
        return self._stream.checksum

    def read(self) -> int:
        """Take what is there, at least one byte; the number of deliveries it completed."""
        before = self._stream.received
        while True:
            self._filled += self.connection.receive_into(self._buffer[self._filled :])
            used = self._stream.feed(self._buffer[: self._filled])
            if used:
                self._buffer[: self._filled - used] = self._buffer[used : self._filled]
                self._filled -= used
                if self._watch is not None:
                    self._watch.delivered(self._stream.received)
                if self._workload.ack_every:
                    self._ack()
            if not self.connection.pending:
                return self._stream.received - before

    def _ack(self) -> None:
        step = self._workload.ack_every
        received = self._stream.received
        if step == 1:
            for frames in acks(self._acked + 1, received - self._acked):
                if self._workload.each:
                    self.connection.send_each(frames, ACK_BYTES)
                else:
                    self.connection.send(frames)
            self._acked = received
        elif (to := received // step * step) > self._acked:
            tags = range(self._acked + step, to + 1, step)
            frames = memoryview(b"".join(ack_frame(tag, multiple=True) for tag in tags))
            self.connection.send_each(frames, ACK_BYTES if self._workload.each else len(frames))
            self._acked = to

    def close(self) -> None:
        """Settle what is left and close in order: another delivery would show."""
        if self._workload.ack_every and self._acked < self._stream.received:
            self.connection.send(ack_frame(self._stream.received, multiple=True))
        self.connection.close()


class ConsumerWorker:
    """Consumers that share a process and wait in one poll.

    Args:
        numbers: of the consumers.
        worker: the slot of this process in the counters.
    """

    def __init__(
        self,
        uri: str,
        topology: Topology,
        numbers: Sequence[int],
        worker: int,
        counters: Counters,
        watch: Watch | None = None,
    ) -> None:
        self._uri = uri
        self._topology = topology
        self._numbers = numbers
        self._worker = worker
        self._counters = counters
        self._watch = watch
        self._received = 0

    def run(self) -> object:
        """Subscribe all, receive until everything expected is there, and close in order; what `watch` found."""
        body_bytes = self._topology.workload.body_bytes
        buffer_bytes = min(_READ_BYTES_MAX, _BUFFERS_BYTES // len(self._numbers))
        buffer_bytes = max(buffer_bytes, 2 * body_bytes + _HEADS_BYTES)
        consumers = {}
        for number in self._numbers:
            made = Consumer(self._uri, self._topology, number, buffer_bytes, self._watch)
            consumers[made.connection.socket.fileno()] = made
            self._counters.put(Counter.READY, len(consumers), self._worker)
        self._receive(consumers)
        total = sum(each.checksum for each in consumers.values())
        self._counters.put(Counter.RECEIVED_SUM, total, self._worker)
        for each in consumers.values():
            each.close()
        return self._watch.result() if self._watch is not None else None

    def _receive(self, consumers: dict[int, Consumer]) -> None:
        poll = select.poll()
        for descriptor in consumers:
            poll.register(descriptor, select.POLLIN)
        # Deliveries that came with the answer to the last subscription are no longer in the socket.
        readable = [fd for fd, each in consumers.items() if each.connection.pending]
        seen, moved = 0, time.monotonic()
        while True:
            for descriptor in readable:
                self._received += consumers[descriptor].read()
                self._counters.put(Counter.RECEIVED, self._received, self._worker)
            readable = [descriptor for descriptor, _ in poll.poll(_TICK_MILLISECONDS)]
            if readable:
                continue
            received, expected = self._counters[Counter.RECEIVED], self._expected()
            if self._counters[Counter.DONE] and received >= expected:
                return
            if received != seen or received >= expected:
                seen, moved = received, time.monotonic()
            elif time.monotonic() - moved > STALL_SECONDS:
                raise BrokerStalled(
                    f"{received} of {expected} messages received, and none for {STALL_SECONDS} s"
                )

    def _expected(self) -> int:
        return self._counters[Counter.PUBLISHED] * self._topology.workload.copies
