"""Expiry: messages of a queue leave it when they have expired and are at its head, as in RabbitMQ; an unused
queue with `x-expires` is deleted when its lease ends.

The time to live of a message is `x-message-ttl` or its own `expiration`, the shorter one. All messages of a
batch came in at once, so without `expiration` they expire by ranges: the time of each batch is enough, and no
message is read. A new message is always offered to consumers first, even with a time to live of 0.
"""

from collections.abc import Callable

from routelog.log_backend import EXPIRING, RecordBatch, Timer
from routelog.vhosts.messages.property_list import expiration
from routelog.vhosts.partitions.queue_partition import QueuePartition
from routelog.vhosts.rules.rule_services import RuledQueue, RuleServices

RANGES_MAX = 256  # that expire in one turn: about 1 ms
TAKEN_RANGES_MAX = 1_024  # that expire while a consumer waits for the next message: about 4 ms
MESSAGES_MAX = 512  # of a batch whose expirations are read at once: about 1 ms
TIMER_SECONDS_MAX = 3_600.0  # the clock may be set meanwhile
MILLISECOND = 1_000  # us


class Expiry:
    """Expires the messages of one queue.

    Attributes:
        ttl: `x-message-ttl` in microseconds; None: only `expiration` counts.
        expected: some message has an `expiration`.
        watchful: look for messages with an `expiration` even if none is known.

    Args:
        discard: takes expired messages [first, end) of a partition.
    """

    def __init__(
        self,
        queue: RuledQueue,
        services: RuleServices,
        discard: Callable[[QueuePartition, int, int], None],
    ) -> None:
        self.ttl: int | None = None
        self.expected = self.watchful = False
        self._queue = queue
        self._rule_services = services
        self._discard = discard
        # Messages from this offset on were not offered to consumers yet
        self._first_unoffered: dict[QueuePartition, int] = {}
        self._looking = False
        self._timer: Timer | None = None

    def publishing(self) -> None:
        """New messages are about to be appended: note from which offset on they must be offered first."""
        for partition in self._queue.partitions:
            self._first_unoffered.setdefault(partition, partition.log.ready_end)
        self.look_soon()

    def look_soon(self) -> None:
        """The head may have changed: expire messages after this turn."""
        if not self._looking and (self.ttl is not None or self.expected or self.watchful):
            self._looking = True
            self._rule_services.call_soon(self.look_now)

    def look_now(self) -> None:
        """If a look is due, look at once."""
        if self._looking:
            self._look()

    def stop(self) -> None:
        """The queue was deleted: expire nothing more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def takeable(self, partition: QueuePartition, count_max: int) -> int:
        """See `PartitionRules`."""
        if self.ttl is None and not (self.expected or self.watchful):
            return count_max
        for _ in range(TAKEN_RANGES_MAX):
            head = partition.head
            batch = partition.log.read(head[0]) if head is not None else None
            if head is None or batch is None or batch.base_offset > head[0]:
                return count_max  # `take` finds out
            over, left = self._over(partition, batch, *head, count_max)
            if left:
                return min(count_max, left)
            self._leave(partition, over, batch.end_offset)
        partition.on_ready()
        return 0

    def _look(self) -> None:
        self._looking = False
        if self._queue.deleted:
            return
        if self._first_unoffered and self._queue.has_turn:
            self.look_soon()  # consumers come first
            return
        self._first_unoffered = {
            each: each.log.ready_end for each in self._first_unoffered if each.log.is_open
        }
        self.stop()
        deadlines = [self._expire(partition) for partition in self._queue.partitions]
        known = [deadline for deadline in deadlines if deadline is not None]
        if known:
            seconds = (min(known) - self._rule_services.now()) / 1_000_000
            seconds = min(max(seconds, 0.0), TIMER_SECONDS_MAX)
            self._timer = self._rule_services.call_later(seconds, self.look_soon)

    def _expire(self, partition: QueuePartition) -> int | None:
        # Discards expired messages at the head; returns when the next head expires, if it does.
        ranges = 0
        if self.ttl is not None:
            oldest = self._rule_services.now() - self.ttl + 1
            below = partition.log.offset_at(oldest)
            while ranges < RANGES_MAX and self._leave(partition, below, below):
                ranges += 1
        while (head := partition.head) is not None:
            batch = partition.log.read(head[0])
            if batch is None:
                partition.log.load(head[0], self.look_soon)
                return None
            if batch.base_offset > head[0]:
                return None  # transient, of an earlier run: `take` finds out
            over, left = self._over(partition, batch, *head, 1)
            if left:
                return self._deadline(batch, head[0])
            if ranges >= RANGES_MAX:
                self.look_soon()
                return None
            self._leave(partition, over, batch.end_offset)
            ranges += 1
        if partition.ready:
            partition.prepare(self.look_soon)
        return None

    def _leave(self, partition: QueuePartition, count: int, below: int) -> bool:
        gone = partition.withdraw(count, below)
        if gone is not None:
            self._discard(partition, *gone)
        return gone is not None

    def _over(
        self, partition: QueuePartition, batch: RecordBatch, first: int, end: int, wanted: int
    ) -> tuple[int, int]:
        # How many messages from the first on have expired; if the first has not, how many of the wanted ones
        # have not: a consumer that takes one at a time would have each read again for each before it.
        end = min(end, batch.end_offset)
        if first >= self._first_unoffered.get(partition, end):
            return 0, end - first
        age = self._rule_services.now() - batch.records.last_time
        if self.ttl is not None and age >= self.ttl:
            return end - first, 0
        if not batch.records.attributes & EXPIRING:
            return 0, end - first
        end = min(end, first + MESSAGES_MAX)
        has_expired, count = False, 0
        for place in range(first - batch.base_offset, end - batch.base_offset):
            own = expiration(batch.records.properties(place))
            is_over = own is not None and age >= own * MILLISECOND
            if count and is_over is not has_expired:
                break
            has_expired, count = is_over, count + 1
            if count >= wanted and not is_over:
                break
        return (count, 0) if has_expired else (0, count)

    def _deadline(self, batch: RecordBatch, offset: int) -> int | None:
        time = batch.records.last_time
        times = [] if self.ttl is None else [self.ttl]
        if batch.records.attributes & EXPIRING:
            own = expiration(batch.records.properties(offset - batch.base_offset))
            times += [] if own is None else [own * MILLISECOND]
        return time + min(times) if times else None


class QueueLease:
    """The lease of one queue.

    Every declaration, `basic.get` and consumer that leaves renews it, and so does a start of the broker.
    """

    def __init__(self, queue: RuledQueue, services: RuleServices, milliseconds: int) -> None:
        self._queue = queue
        self._rule_services = services
        self._seconds = milliseconds / 1_000
        self._timer = services.call_later(self._seconds, self._over)
        self._is_over = False  # while consumers were away

    def renew(self) -> None:
        """The queue was used: start the lease anew."""
        self._timer.cancel()
        self._is_over = False
        if not self._queue.deleted:
            self._timer = self._rule_services.call_later(self._seconds, self._over)

    def consumers_back(self) -> None:
        """All consumers are known: a lease that was over before begins anew."""
        if self._is_over:
            self.renew()

    def stop(self) -> None:
        """End the lease without deleting the queue."""
        self._timer.cancel()

    def _over(self) -> None:
        # A queue with consumers is in use: the lease starts when the last one leaves.
        services = self._rule_services
        if not services.has_begun:
            self.renew()
        elif services.awaited.are_away:
            self._is_over = True
        elif not (self._queue.consumer_count or self._queue.deleted):
            services.remove(self._queue.name)
