"""A process of producers: slices of messages encoded beforehand, bounded by consumers and confirms."""

import select
import time
from collections.abc import Sequence

from pamqp import commands

from routelog.benchmarks.traffic.confirms import ConfirmTally
from routelog.benchmarks.traffic.connection import STALL_SECONDS, Connection
from routelog.benchmarks.traffic.counters import Counter, Counters
from routelog.benchmarks.traffic.publish_run import publishes_of
from routelog.benchmarks.traffic.topology import Topology
from routelog.benchmarks.traffic.unexpected import BrokerStalled, unexpected

_UNBOUNDED = 1 << 62
_PAUSE_SECONDS = 0.0002  # while the consumers are too far behind
_TICK_MILLISECONDS = 20


class Producer:
    """One connection that publishes, and counts its confirms."""

    def __init__(self, uri: str, topology: Topology, number: int) -> None:
        self.connection = Connection(uri)
        workload = topology.workload
        self._with_confirms = bool(workload.confirms_in_flight)
        self._window = workload.confirms_in_flight
        self._each = workload.each
        self._run = publishes_of(topology, number, self.connection.frame_max)
        self._tally = ConfirmTally()
        self.published = 0
        share, rest = divmod(workload.messages, workload.producers)
        self._messages_left = share + (number < rest) if workload.messages else _UNBOUNDED
        if self._with_confirms:
            self.connection.call(commands.Confirm.Select(), commands.Confirm.SelectOk)

    @property
    def publish_bytes(self) -> int:
        """Bytes of the frames of one message."""
        return self._run.publish_bytes

    @property
    def confirmed(self) -> int:
        """Messages confirmed so far."""
        return self._tally.confirmed

    @property
    def in_flight(self) -> int:
        """Messages that wait for their confirms; 0 without confirms."""
        return self.published - self._tally.confirmed if self._with_confirms else 0

    @property
    def window_left(self) -> int:
        """Messages it may publish now, for what its confirms and its share allow."""
        if not self._with_confirms:
            return self._messages_left
        return min(self._messages_left, self._window - self.published + self._tally.confirmed)

    @property
    def is_done(self) -> bool:
        """Whether it has published its share."""
        return not self._messages_left

    @property
    def checksum(self) -> int:
        """Sum of the lowest bytes of the numbers of its messages."""
        return self._run.checksum(self.published)

    def publish(self, room: int) -> int:
        """Publish one run, within its window; returns the number of messages.

        Args:
            room: messages at most; below 0 where other processes have gone too far ahead.
        """
        count = max(0, min(room, self._run.messages_max, self.window_left))
        if count:
            messages = self._run.encoded(self.published, count)
            if self._each:
                self.connection.send_each(messages, self._run.publish_bytes)
            else:
                self.connection.send(messages)
            self.published += count
            self._messages_left -= count
        return count

    def read(self) -> None:
        """Take what the broker said, at least one byte: confirms, or why it closes."""
        while True:
            data = self.connection.receive()
            if not self._with_confirms:
                raise unexpected("nothing at all", data)
            self._tally.feed(data)
            if not self.connection.pending:
                return


class ProducerWorker:
    """Producers that share a process.

    Args:
        numbers: of the producers.
        worker: the slot of this process in the counters.
        run_ahead: whether they wait for no consumer.
    """

    def __init__(
        self,
        uri: str,
        topology: Topology,
        numbers: Sequence[int],
        worker: int,
        counters: Counters,
        run_ahead: bool,
    ) -> None:
        self._uri = uri
        self._topology = topology
        self._numbers = numbers
        self._worker = worker
        self._run_ahead = run_ahead
        self._counters = counters
        self._producers: dict[int, Producer] = {}
        self._poll = select.poll()
        self._copies = topology.workload.copies
        self._room_max = _UNBOUNDED
        self._published = 0
        self._confirmed = 0

    def run(self) -> None:
        """Connect, publish from the start signal to the stop signal, and close in order."""
        for number in self._numbers:
            made = Producer(self._uri, self._topology, number)
            descriptor = made.connection.socket.fileno()
            self._producers[descriptor] = made
            self._poll.register(descriptor, select.POLLIN)
            self._counters.put(Counter.READY, len(self._producers), self._worker)
        workload = self._topology.workload
        if workload.consumers and not self._run_ahead:
            publish_bytes = next(iter(self._producers.values())).publish_bytes
            self._room_max = workload.outstanding_max(publish_bytes)
        while not self._counters[Counter.GO]:
            time.sleep(_PAUSE_SECONDS)
        if workload.confirms_in_flight:
            self._publish_with_confirms()
        else:
            self._publish_freely()
        total = sum(each.checksum for each in self._producers.values())
        self._counters.put(Counter.SENT_SUM, total, self._worker)
        for each in self._producers.values():
            each.connection.close()

    def _publish_freely(self) -> None:
        going = list(self._producers.values())
        while going and not self._counters[Counter.STOP]:
            if not sum(self._publish(each) for each in going):
                time.sleep(_PAUSE_SECONDS)
            going = [each for each in going if not each.is_done]
            for descriptor, _ in self._poll.poll(0):
                self._producers[descriptor].read()

    def _publish_with_confirms(self) -> None:
        is_limited = bool(self._topology.workload.messages)
        ready = list(self._producers.values())
        moved = time.monotonic()
        while True:
            if not self._counters[Counter.STOP]:
                # Who has nothing in flight found no room, and no confirm will wake it.
                ready = [each for each in ready if not self._fill(each)]
            elif not any(each.in_flight for each in self._producers.values()):
                return
            if is_limited and self._is_done():
                return
            events = self._poll.poll(1 if ready else _TICK_MILLISECONDS)
            for descriptor, _ in events:
                producer = self._producers[descriptor]
                before = producer.confirmed
                producer.read()
                self._confirmed += producer.confirmed - before
                ready.append(producer)
            self._counters.put(Counter.CONFIRMED, self._confirmed, self._worker)
            if events or ready:
                moved = time.monotonic()
            elif time.monotonic() - moved > STALL_SECONDS:
                raise BrokerStalled(f"no confirm for {STALL_SECONDS} s")

    def _fill(self, producer: Producer) -> bool:
        """Publish what its window allows; whether a confirm will come, or it is done."""
        while producer.window_left and self._publish(producer):
            pass
        return producer.in_flight > 0 or producer.is_done

    def _is_done(self) -> bool:
        return all(each.is_done and not each.in_flight for each in self._producers.values())

    def _publish(self, producer: Producer) -> int:
        counters = self._counters
        room = self._room_max
        if room != _UNBOUNDED:
            room -= counters[Counter.PUBLISHED] - counters[Counter.RECEIVED] // self._copies
        count = producer.publish(room)
        if count:
            self._published += count
            counters.put(Counter.PUBLISHED, self._published, self._worker)
        return count
