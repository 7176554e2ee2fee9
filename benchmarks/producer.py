"""The producer's loop: slices of pre-encoded publishes, bounded by the consumer and by confirms."""

import time

from pamqp import commands

from benchmarks.cases import Case
from benchmarks.confirms import ConfirmTally
from benchmarks.connection import STALL_SECONDS, Connection
from benchmarks.counters import Counter, Counters
from benchmarks.frames import PublishRun
from benchmarks.unexpected import BrokerStalled

_PAUSE_SECONDS = 0.0002  # while the consumer is too far behind


class Producer:
    """Publishes until the run is stopped, then one message more, known as the last."""

    def __init__(self, url: str, queue: str, case: Case, counters: Counters) -> None:
        self._case = case
        self._counters = counters
        self._run = PublishRun(queue, case.body_bytes, persistent=case.durable)
        self._outstanding_max = case.outstanding_max(self._run.publish_bytes)
        self._published = 0
        self._tally = ConfirmTally()
        self._connection = Connection(url)

    def run(self) -> None:
        """Publish once the consumer is there, and close in order after the last message."""
        self._wait_for_consumer()
        if self._case.confirms_in_flight:
            self._connection.call(commands.Confirm.Select(), commands.Confirm.SelectOk)
            self._publish_with_confirms(self._case.confirms_in_flight)
        else:
            self._publish_freely()
        self._connection.close()

    def _wait_for_consumer(self) -> None:
        deadline = time.monotonic() + STALL_SECONDS
        while not self._counters[Counter.READY]:
            if time.monotonic() > deadline:
                raise BrokerStalled("the consumer did not come up")
            time.sleep(_PAUSE_SECONDS)

    def _publish_freely(self) -> None:
        while not self._counters[Counter.STOP]:
            self._publish(self._room(self._run.messages_max))
        self._publish_last()

    def _publish_with_confirms(self, window: int) -> None:
        while not self._counters[Counter.STOP]:
            free = window - (self._published - self._tally.confirmed)
            if free:
                self._publish(self._room(min(free, self._run.messages_max)))
            if self._published > self._tally.confirmed:
                self._take_confirms()
        while self._tally.confirmed < self._published:
            self._take_confirms()
        self._publish_last()
        while self._tally.confirmed < self._published:
            self._take_confirms()

    def _take_confirms(self) -> None:
        self._tally.feed(self._connection.receive())
        self._counters[Counter.CONFIRMED] = self._tally.confirmed

    def _room(self, wanted: int) -> int:
        """How many of the wanted messages the backlog allows; pauses when there is no room."""
        outstanding = self._published - self._counters[Counter.RECEIVED]
        room = self._outstanding_max - outstanding
        if room <= 0:
            time.sleep(_PAUSE_SECONDS)
            return 0
        return min(wanted, room)

    def _publish(self, count: int) -> None:
        if not count:
            return
        self._connection.send(self._run.encoded(self._published, count))
        self._published += count
        self._counters[Counter.PUBLISHED] = self._published

    def _publish_last(self) -> None:
        self._counters[Counter.FINAL] = self._published + 1
        self._publish(1)
