"""Dead letters of one queue: what leaves it unconsumed, on its way to the exchange for that.

A message stays unsettled until its dead letter is as safe as the queues that took it promise. So a crash
loses none, and may bring a message twice: as dead letter, and in its old place.

Strategy `at-least-once`: what no queue took is kept and tried again, instead of dropped.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from routelog.log_backend import Reason, RecordBatch, Records
from routelog.vhosts.messages.delivery import fitting
from routelog.vhosts.partitions.queue_partition import QueuePartition
from routelog.vhosts.posting.posting import Posted
from routelog.vhosts.rules.death import Death, DeathReason
from routelog.vhosts.rules.surroundings import Surroundings

LETTERS_MAX = 64  # between two looks at the clock: about 1 ms, most of it for their headers
LETTERS_BYTES_MAX = 262_144  # likewise, of bodies, but one message whole
# Between looks whether publishers may go on: as often as free space is looked at.
PRESSED_SECONDS = 0.1
RETRY_SECONDS = 5.0  # until what no queue took is tried again


@dataclass(frozen=True, slots=True)
class LetterAddress:
    """Where a queue sends its dead letters.

    Attributes:
        routing_key: that they get; None: they keep their own.
        at_least_once: what no queue takes is kept.
    """

    exchange: str
    routing_key: bytes | None
    at_least_once: bool


@dataclass(slots=True)
class _Leaving:
    # Messages [first, end) that left their queue for one reason and are not settled.
    partition: QueuePartition
    first: int
    end: int
    reason: DeathReason


def letter_address(arguments: Mapping[str, object]) -> LetterAddress | None:
    """Where the arguments of a queue send dead letters; None: they are dropped.

    `at-least-once` needs `x-overflow: reject-publish`, as in RabbitMQ; without, it is `at-most-once`.
    """
    exchange = arguments.get("x-dead-letter-exchange")
    if not isinstance(exchange, str):
        return None
    key = arguments.get("x-dead-letter-routing-key")
    wants_all = arguments.get("x-dead-letter-strategy") == "at-least-once"
    return LetterAddress(
        exchange,
        key.encode() if isinstance(key, str) else None,
        wants_all and arguments.get("x-overflow") == "reject-publish",
    )


class DeadLetters:
    """What leaves one queue unconsumed.

    Attributes:
        address: where dead letters go; None: messages are dropped. May be changed at any time.
    """

    def __init__(self, queue: str, surroundings: Surroundings) -> None:
        self.address: LetterAddress | None = None
        self._queue = queue
        self._surroundings = surroundings
        self._leaving: deque[_Leaving] = deque()
        self._untaken: list[_Leaving] = []
        self._refused: deque[tuple[Records, int]] = deque()  # with the index of the first one left
        self._scheduled = False  # until its turn is over
        self._sent = 0  # letters that are on their way, and not yet in all of their queues

    @property
    def waiting(self) -> int:
        """Messages that left the queue and wait for their turn, or for its end."""
        left = sum(each.end - each.first for each in (*self._leaving, *self._untaken))
        return left + self._sent

    def discard(self, partition: QueuePartition, first: int, end: int, reason: DeathReason) -> None:
        """Messages [first, end) leave their queue: nobody will be handed them any more."""
        if self.address is None:
            partition.finish(first, end, reason.settlement)
            return
        last = self._leaving[-1] if self._leaving else None
        if last and (last.partition, last.end, last.reason) == (partition, first, reason):
            last.end = end
        else:
            self._leaving.append(_Leaving(partition, first, end, reason))
        self._wake()

    def refuse(self, records: Records) -> None:
        """Messages that were never in the queue, because it was full, are dead at once."""
        if self.address is not None:
            self._refused.append((records, 0))
            self._wake()

    def _wake(self) -> None:
        # What is on its way wakes it then: letters of one queue come in order.
        if not self._scheduled and not self._sent:
            self._scheduled = True
            self._surroundings.letter_turns.postpone(self._turn)

    def _turn(self) -> None:
        turns = self._surroundings.letter_turns
        if self._surroundings.is_pressed():
            self._surroundings.call_later(PRESSED_SECONDS, partial(turns.postpone, self._turn))
            return
        try:
            goes_on = self._send_some()
        finally:
            self._scheduled = False
        if goes_on:
            self._wake()

    def _send_some(self) -> bool:
        # Whether there is more to do in the next turn.
        while self._refused or self._leaving:
            if self._refused:
                self._send_refused()
            elif not self._send_leaving():
                return False
            if self._sent or self._surroundings.letter_turns.is_over():
                return True
        return False

    def _send_leaving(self) -> bool:
        # False: what is next is not in memory.
        leaving = self._leaving[0]
        partition, first = leaving.partition, leaving.first
        if partition.log.closed:
            self._leaving.clear()
            return True
        batch = partition.log.read(first)
        if batch is None:
            partition.log.load(first, self._wake)  # behind a damage: not before a repair
            return False
        if batch.base_offset > first:
            end = min(leaving.end, batch.base_offset)
            self._advance(leaving, end)
            partition.finish(first, end, Reason.LOST)
            return True
        index = first - batch.base_offset
        count = min(leaving.end, batch.end_offset) - first
        count = fitting(batch.records, index, min(count, LETTERS_MAX), LETTERS_BYTES_MAX)
        self._advance(leaving, first + count)
        self._send(partition, first, count, leaving.reason, batch, index)
        return True

    def _send_refused(self) -> None:
        records, first = self._refused.popleft()
        count = fitting(records, first, min(records.count - first, LETTERS_MAX), LETTERS_BYTES_MAX)
        if first + count < records.count:
            self._refused.appendleft((records, first + count))
        address = self.address
        if address is not None:
            death = self._death(DeathReason.MAXLEN, address)
            self._sent = count
            done = self._refused_sent
            self._surroundings.letters.send(records, first, count, address.exchange, death, done)

    def _refused_sent(self, posted: Posted | None) -> None:
        if posted is None:
            self._refused.clear()  # nobody was promised anything
        self._arrived()

    def _advance(self, leaving: _Leaving, first: int) -> None:
        leaving.first = first
        if first >= leaving.end:
            self._leaving.popleft()

    def _send(
        self,
        partition: QueuePartition,
        first: int,
        count: int,
        reason: DeathReason,
        batch: RecordBatch,
        index: int,
    ) -> None:
        address = self.address
        if address is None:
            partition.finish(first, first + count, reason.settlement)
            return
        death = self._death(reason, address)
        self._sent = count
        done = partial(self._letters_sent, partition, first, count, reason, address)
        self._surroundings.letters.send(batch.records, index, count, address.exchange, death, done)

    def _letters_sent(
        self,
        partition: QueuePartition,
        first: int,
        count: int,
        reason: DeathReason,
        address: LetterAddress,
        posted: Posted | None,
    ) -> None:
        if posted is None:
            return  # the journal said so in the log; a restart brings back what is unsettled
        self._arrived()
        # What failed stays unsettled, too, until a restart tries it again.
        kept = posted.untaken if address.at_least_once else frozenset()
        start = first
        for place in sorted(kept | posted.failed):
            if place in kept:
                self._keep(_Leaving(partition, first + place, first + place + 1, reason))
            self._settle_later(posted, partition, start, first + place, reason)
            start = first + place + 1
        self._settle_later(posted, partition, start, first + count, reason)

    def _arrived(self) -> None:
        self._sent = 0
        if self._leaving or self._refused:
            self._wake()

    def _settle_later(
        self, posted: Posted, partition: QueuePartition, first: int, end: int, reason: DeathReason
    ) -> None:
        if first < end:
            done = partial(partition.finish, first, end, reason.settlement)
            self._surroundings.when_reached(posted, done)

    def _keep(self, leaving: _Leaving) -> None:
        if not self._untaken:
            self._surroundings.call_later(RETRY_SECONDS, self._retry)
        self._untaken.append(leaving)

    def _retry(self) -> None:
        untaken, self._untaken = self._untaken, []
        self._leaving.extendleft(reversed(untaken))
        self._wake()

    def _death(self, reason: DeathReason, address: LetterAddress) -> Death:
        seconds = self._surroundings.now() // 1_000_000
        return Death(self._queue, reason, seconds, address.routing_key)
