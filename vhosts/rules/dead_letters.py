"""Dead letters of one queue: rejected, expired or dropped messages, published to the dead letter exchange.

The block of the journal that has a dead letter in its queues settles the message in its old one, so after a
crash it is in one place. In memory it is settled when that block is durable.

Strategy `at-least-once`: a dead letter that no queue took is kept and tried again, instead of dropped.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from routelog.log_backend import Lane, Reason, RecordBatch, Records, Settlement
from routelog.vhosts.arguments.argument_checks import KEY_BYTES_MAX
from routelog.vhosts.messages.delivery import fitting
from routelog.vhosts.partitions.queue_partition import QueuePartition
from routelog.vhosts.publishing.internal_publish import Posted
from routelog.vhosts.rules.death import DeadMessage, Death, DeathReason
from routelog.vhosts.rules.rule_services import RuleServices

# Messages between two looks at the clock: about 1 ms, most of it for their headers
LETTERS_MAX = 64
LETTERS_BYTES_MAX = 262_144  # likewise, of their bodies; a larger message goes alone
# Until publishers are checked again for back-pressure: as often as free space is.
PRESSED_SECONDS = 0.1
RETRY_SECONDS = 5.0  # until dead letters that no queue took are tried again


@dataclass(frozen=True, slots=True)
class LetterAddress:
    """Where a queue sends its dead letters.

    Attributes:
        routing_key: of the dead letters; None: that of each message.
        at_least_once: keep dead letters that no queue takes.
    """

    exchange: str
    routing_key: bytes | None
    at_least_once: bool


@dataclass(slots=True)
class _Departure:
    # Messages [first, end) that left their queue for one reason and are not settled. Some queues have them
    # already: another one refused them. `size`: bytes of the bodies of letters that were tried.
    partition: QueuePartition
    first: int
    end: int
    reason: DeathReason
    taken_by: frozenset[str] = frozenset()
    size: int = 0

    @property
    def kind(self) -> tuple[object, ...]:
        """What neighbours that leave together have in common."""
        return self.partition, self.reason, self.taken_by, bool(self.size)


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
        _short(key) if isinstance(key, str) else None,
        wants_all and arguments.get("x-overflow") == "reject-publish",
    )


def _short(key: str) -> bytes:
    # A policy of an earlier version may have a longer key: its letters would end their consumers' connections.
    # Half a character would be no text.
    return key.encode()[:KEY_BYTES_MAX].decode(errors="ignore").encode()


class DeadLetters:
    """The messages that leave one queue unconsumed.

    Attributes:
        address: where dead letters go; None: messages are dropped. May be changed at any time.
    """

    def __init__(self, queue: str, services: RuleServices) -> None:
        self.address: LetterAddress | None = None
        self._queue = queue
        self._rule_services = services
        self._departures: deque[_Departure] = deque()
        self._retry_ranges: list[_Departure] = []
        # With the index of the first record that is not done
        self._refused_records: deque[tuple[Records, int]] = deque()
        self._scheduled = False  # until its turn is over
        self._letters_in_flight = 0  # published, and not yet durable in all their queues
        self._bytes_in_flight = 0  # of their bodies, if they are kept when no queue takes them
        # In `_departures` and `_retry_ranges`: messages, and bytes of the bodies of letters that were tried
        self._left_count = self._left_bytes = 0

    @property
    def waiting(self) -> int:
        """How many messages left the queue whose dead letters are not durable yet."""
        return self._left_count + self._letters_in_flight

    @property
    def kept(self) -> tuple[int, int]:
        """Messages that `at-least-once` keeps until a queue takes their letters, and bytes of their bodies.

        The bytes are of letters that were tried: nobody has read the others yet.
        """
        if self.address is None or not self.address.at_least_once:
            return 0, 0
        return self.waiting, self._left_bytes + self._bytes_in_flight

    def discard(self, partition: QueuePartition, first: int, end: int, reason: DeathReason) -> None:
        """Messages [first, end) leave their queue: no consumer will get them."""
        if self.address is None:
            partition.finish(first, end, reason.settlement)
            return
        last = self._departures[-1] if self._departures else None
        self._left_count += end - first
        leaving = _Departure(partition, first, end, reason)
        if last is None or not _joined(last, leaving):
            self._departures.append(leaving)
        self._wake()

    def refuse(self, records: Records) -> None:
        """Make dead letters of messages that the full queue refused; not of those that are too many to wait."""
        if self.address is not None and self._rule_services.keep_refused(records.batch_bytes):
            self._refused_records.append((records, 0))
            self._wake()

    def _wake(self) -> None:
        # The letters in flight wake it when they are durable: letters of one queue keep their order.
        if not self._scheduled and not self._letters_in_flight:
            self._scheduled = True
            self._postpone()

    def _postpone(self) -> None:
        self._rule_services.scheduler.call(Lane.LETTERS, self._turn)

    def _turn(self) -> None:
        if self._rule_services.is_pressed():
            self._rule_services.call_later(PRESSED_SECONDS, self._postpone)
            return
        try:
            goes_on = self._send_some()
        finally:
            self._scheduled = False
        if goes_on:
            self._wake()

    def _send_some(self) -> bool:
        # Returns whether there is more to do in the next turn.
        while self._refused_records or self._departures:
            if self._refused_records:
                self._send_refused()
            elif not self._send_leaving():
                return False
            if self._letters_in_flight or self._rule_services.scheduler.is_over():
                return True
        return False

    def _send_leaving(self) -> bool:
        # Returns False when the next message is not in memory.
        leaving = self._departures[0]
        partition, first = leaving.partition, leaving.first
        if partition.log.closed:
            self._departures.clear()
            self._left_count = self._left_bytes = 0
            return True
        batch = partition.log.read(first)
        if batch is None:
            partition.log.load(first, self._wake)  # behind damage: only a repair helps
            return False
        if batch.base_offset > first:
            end = min(leaving.end, batch.base_offset)
            self._advance(leaving, end)
            partition.finish(first, end, Reason.LOST)
            return True
        dead = _neighbours(leaving, batch)
        sent = replace(leaving, first=first, end=first + len(dead))
        self._advance(leaving, sent.end)
        self._send(sent, dead)
        return True

    def _send_refused(self) -> None:
        records, first = self._refused_records.popleft()
        count = fitting(records, first, min(records.count - first, LETTERS_MAX), LETTERS_BYTES_MAX)
        if first + count < records.count:
            self._refused_records.appendleft((records, first + count))
        else:
            self._rule_services.let_go_refused(records.batch_bytes)
        address = self.address
        if address is not None:
            death = self._death(DeathReason.MAXLEN, address)
            self._letters_in_flight = count
            done = self._refused_sent
            dead = [(records, index) for index in range(first, first + count)]
            self._rule_services.letters.send(dead, address.exchange, death, done)

    def _refused_sent(self, posted: Posted | None) -> None:
        if posted is None:
            # No publisher was promised that these are kept.
            left, self._refused_records = self._refused_records, deque()
            self._rule_services.let_go_refused(sum(records.batch_bytes for records, _ in left))
        self._arrived()

    def _advance(self, leaving: _Departure, first: int) -> None:
        part = leaving.size * (first - leaving.first) // (leaving.end - leaving.first)
        self._left_count -= first - leaving.first
        self._left_bytes -= part
        leaving.first, leaving.size = first, leaving.size - part
        if first >= leaving.end:
            self._departures.popleft()

    def _send(self, leaving: _Departure, dead: Sequence[DeadMessage]) -> None:
        address = self.address
        if address is None:
            leaving.partition.finish(leaving.first, leaving.end, leaving.reason.settlement)
            return
        death = self._death(leaving.reason, address)
        self._letters_in_flight = len(dead)
        sizes = [len(records.body(at)) for records, at in dead] if address.at_least_once else []
        self._bytes_in_flight = sum(sizes)
        self._rule_services.letters.send(
            dead,
            address.exchange,
            death,
            self._letters_sent,
            partial(self._settle, leaving, address, sizes),
            keeps_refused=address.at_least_once,
            taken_by=leaving.taken_by,
        )

    def _settle(
        self,
        leaving: _Departure,
        address: LetterAddress,
        sizes: Sequence[int],
        places: range,
        posted: Posted,
    ) -> None:
        # A message that failed stays unsettled until a restart tries it again.
        partition, first, reason = leaving.partition, leaving.first, leaving.reason
        kept = posted.untaken if address.at_least_once else frozenset()
        ranges: list[tuple[int, int]] = []
        start = places.start
        for place in sorted(each for each in kept | posted.failed if each in places):
            if place in kept:
                taken_by = posted.taken_by.get(place, leaving.taken_by)
                at = first + place
                self._keep(_Departure(partition, at, at + 1, reason, taken_by, sizes[place]))
            ranges.append((first + start, first + place))
            start = place + 1
        ranges.append((first + start, first + places.stop))
        gone = [(begin, end) for begin, end in ranges if begin < end]
        if gone:
            settlement = Settlement(partition.cursor.number, gone, reason.settlement)
            done = partial(_finish, partition, gone, reason)
            self._rule_services.when_moved(posted, [(partition.log, settlement)], done)

    def _letters_sent(self, posted: Posted | None) -> None:
        if (
            posted is not None
        ):  # else the journal logged it; a restart brings back unsettled messages
            self._arrived()

    def _arrived(self) -> None:
        self._letters_in_flight = self._bytes_in_flight = 0
        if self._departures or self._refused_records:
            self._wake()

    def _keep(self, leaving: _Departure) -> None:
        if not self._retry_ranges:
            self._rule_services.call_later(RETRY_SECONDS, self._retry)
        self._left_count += leaving.end - leaving.first
        self._left_bytes += leaving.size
        if not self._retry_ranges or not _joined(self._retry_ranges[-1], leaving):
            self._retry_ranges.append(leaving)

    def _retry(self) -> None:
        untaken, self._retry_ranges = self._retry_ranges, []
        self._departures.extendleft(reversed(untaken))
        self._wake()

    def _death(self, reason: DeathReason, address: LetterAddress) -> Death:
        seconds = self._rule_services.now() // 1_000_000
        return Death(self._queue, reason, seconds, address.routing_key)


def _joined(last: _Departure, leaving: _Departure) -> bool:
    # Whether the second one's messages are neighbours of the first one's: these are the first one's now.
    if leaving.first != last.end or leaving.kind != last.kind:
        return False
    last.end, last.size = leaving.end, last.size + leaving.size
    return True


def _neighbours(leaving: _Departure, batch: RecordBatch | None) -> list[DeadMessage]:
    # The first messages, of one batch or several that are alike and in memory; a larger message goes alone.
    log, at = leaving.partition.log, leaving.first
    alike = None if batch is None else (batch.records.attributes, batch.records.exchange)
    dead: list[DeadMessage] = []
    bytes_left = LETTERS_BYTES_MAX
    while batch is not None and batch.base_offset <= at < leaving.end:
        records, index = batch.records, at - batch.base_offset
        size = records.bodies_bytes + records.properties_bytes
        if dead and (size > bytes_left or (records.attributes, records.exchange) != alike):
            break
        count = min(leaving.end, batch.end_offset) - at
        count = fitting(records, index, min(count, LETTERS_MAX - len(dead)), bytes_left)
        dead += [(records, each) for each in range(index, index + count)]
        at, bytes_left = at + count, bytes_left - size
        if bytes_left <= 0 or len(dead) >= LETTERS_MAX:
            break
        batch = log.read(at)
    return dead


def _finish(
    partition: QueuePartition, ranges: Sequence[tuple[int, int]], reason: DeathReason
) -> None:
    for first, end in ranges:
        partition.finish(first, end, reason.settlement)
