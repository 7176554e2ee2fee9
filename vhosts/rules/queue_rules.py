"""The rules of a queue: dead letters, expiry, limits, lease, retry, deduplication, by its arguments.

A queue without such arguments has no rules object, so its hot path checks one attribute.
"""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from routelog.log_backend import Reason, Records, split_records
from routelog.vhosts.arguments.argument_checks import AGE_MAX
from routelog.vhosts.messages.delivery import DeliverySource, ReturnReason
from routelog.vhosts.partitions.queue_partition import QueuePartition
from routelog.vhosts.partitions.withheld_messages import WithheldMessages
from routelog.vhosts.rules.dead_letters import DeadLetters, letter_address
from routelog.vhosts.rules.death import DeathReason
from routelog.vhosts.rules.delivery_limit import delivery_limit, within_limit
from routelog.vhosts.rules.expiry import MILLISECOND, Expiry, QueueLease
from routelog.vhosts.rules.length_limit import LengthLimit, LengthOptions, length_options
from routelog.vhosts.rules.retry_backoff import RETRY_TYPE, RetryBackoff, retry_options
from routelog.vhosts.rules.rule_services import RuledQueue, RuleServices
from routelog.vhosts.rules.unique_keys import DEDUPLICATION, UniqueKeys

RULE_ARGUMENTS = frozenset(
    (
        "x-dead-letter-exchange",
        DEDUPLICATION,
        RETRY_TYPE,
        "x-expires",
        "x-max-length",
        "x-max-length-bytes",
        "x-message-ttl",
    )
)


class QueueRules:
    """The rules of one queue.

    Attributes:
        dead_letters: publishes messages that leave the queue unconsumed.
        expiry: drops expired messages.
        delivery_limit: how often a message may be delivered again; None: no limit.
        length: the limit of length; None: there is none.
        lease: deletes the queue when it is unused (`x-expires`); None: never.
        backoff: holds returned messages before they are ready again.
        unique_keys: for deduplication; None: there is none.
    """

    def __init__(self, queue: RuledQueue, services: RuleServices) -> None:
        self._queue = queue
        self._rule_services = services
        self.dead_letters = DeadLetters(queue.name, services)
        self.expiry = Expiry(queue, services, partial(self._discard, reason=DeathReason.EXPIRED))
        self.delivery_limit: int | None = None
        self.length: LengthLimit | None = None
        self.lease: QueueLease | None = None
        self.backoff = RetryBackoff(services.monotonic, services.call_later, self._waited)
        self.unique_keys: UniqueKeys | None = None

    def apply(self, arguments: Mapping[str, object]) -> None:
        """Apply other arguments from here on."""
        self.dead_letters.address = letter_address(arguments)
        ttl = arguments.get("x-message-ttl")
        # A policy may say 2**63 - 1 ms, as in RabbitMQ; a batch is looked for by a time of 64 bits.
        self.expiry.ttl = min(ttl * MILLISECOND, AGE_MAX) if isinstance(ttl, int) else None
        length, is_unique = length_options(arguments), arguments.get(DEDUPLICATION) is True
        # Expired messages that are dead letters, take room or have keys must not wait for a consumer.
        has_letters = self.dead_letters.address is not None
        self.expiry.watchful = has_letters or length is not None or is_unique
        self.expiry.look_soon()
        self._limit(length)
        self.delivery_limit = delivery_limit(arguments)
        self.backoff.options = retry_options(arguments)
        self._deduplicate(arguments)
        if self.lease is not None:
            self.lease.stop()
        expires = arguments.get("x-expires")
        self.lease = (
            QueueLease(self._queue, self._rule_services, expires)
            if isinstance(expires, int)
            else None
        )

    def _deduplicate(self, arguments: Mapping[str, object]) -> None:
        if arguments.get(DEDUPLICATION) is not True:
            self.unique_keys = None
        elif self.unique_keys is None:
            self.unique_keys = UniqueKeys(self._queue, self._rule_services.now)
        if self.unique_keys is not None:
            self.unique_keys.ttl = self.expiry.ttl

    def _limit(self, options: LengthOptions | None) -> None:
        before = self.length
        if before is not None and before.options == options:
            return
        if before is not None:
            before.stop()
        self.length = None
        if options is not None:
            discard = partial(self._discard, reason=DeathReason.MAXLEN)
            scheduler = self._rule_services.scheduler
            self.length = LengthLimit(self._queue, options, scheduler, discard, self._kept_letters)

    def stop(self) -> None:
        """The queue was deleted."""
        self.expiry.stop()
        self.backoff.stop()
        if self.lease is not None:
            self.lease.stop()

    def _kept_letters(self) -> tuple[int, int]:
        # Not against what is kept elsewhere until it comes here: two queues that are each other's dead letter
        # queues would refuse each other for ever.
        return (0, 0) if self._rule_services.post.keeps_refused else self.dead_letters.kept

    @property
    def kept_letters(self) -> int:
        """Messages that left, and that `at-least-once` keeps until a queue takes their dead letters."""
        return self.dead_letters.kept[0]

    @property
    def idle(self) -> bool:
        """Whether no rule is in force, and nothing is under way."""
        asked = (
            self.dead_letters.address,
            self.expiry.ttl,
            self.delivery_limit,
            self.length,
            self.lease,
            self.backoff.options,
            self.unique_keys,
        )
        under_way = self.expiry.expected or self.dead_letters.waiting or self.backoff.count
        return not under_way and all(each is None for each in asked)

    def admit(self, records: Records, *, may_refuse: bool) -> tuple[Records | None, Sequence[int]]:
        """The records that may be appended, and the indexes of refused ones.

        These are dead-lettered if the queue is to, and who moves them here does not try them again.
        """
        self.expiry.publishing()
        length = self.length if may_refuse else None
        refused = () if length is None else length.refused(records)
        if length is None or not refused:
            return records, ()
        places = array("i", bytes(4 * records.count))
        for index in refused:
            places[index] = 1
        parts = dict(split_records(records, places, 2))
        if length.options.keeps_refused and not self._rule_services.post.keeps_refused:
            self._queue.counters.dropped(DeathReason.MAXLEN, len(refused))
            self.dead_letters.refuse(parts[1])
        return parts.get(0), refused

    def published(self) -> None:
        """The admitted records were appended, or what was appended before may be handed out."""
        self.expiry.look_soon()
        if self.length is not None:
            self.length.published()

    def serve_due(self) -> None:
        """Expire and drop at once what is due after this turn."""
        self.expiry.look_now()
        if self.length is not None:
            self.length.enforce_now()

    def takeable(self, partition: QueuePartition, count_max: int) -> int:
        """See `PartitionRules`."""
        return self.expiry.takeable(partition, count_max)

    def left(self, partition: QueuePartition, first: int, end: int) -> None:
        """See `PartitionRules`."""
        self.expiry.look_soon()
        if self.length is not None:
            self.length.left(partition, first, end)

    def returnable(
        self, partition: QueuePartition, first: int, end: int, reason: ReturnReason
    ) -> Iterable[tuple[int, int]]:
        """See `PartitionRules`."""
        kept = [(first, end)]
        if self.delivery_limit is not None and reason is not ReturnReason.EXCUSED:
            kept, over = within_limit(partition, first, end, self.delivery_limit)
            for each in over:
                self._discard(partition, *each, DeathReason.DELIVERY_LIMIT)
        if not self.backoff.holds(reason):
            return kept
        for each in kept:
            self.backoff.hold(partition, *each)
        return ()

    def returned(self, partition: QueuePartition, first: int, end: int) -> None:
        """See `PartitionRules`."""
        self.expiry.look_soon()
        if self.length is not None:
            self.length.returned(partition, first, end)

    @property
    def keeps_rejected(self) -> bool:
        """See `PartitionRules`."""
        return self.dead_letters.address is not None

    def settling(self, partition: QueuePartition, first: int, end: int, reason: Reason) -> bool:
        """See `PartitionRules`."""
        if reason is not Reason.REJECTED:
            return False
        self._discard(partition, first, end, DeathReason.REJECTED)
        return True

    def _discard(
        self, partition: QueuePartition, first: int, end: int, reason: DeathReason
    ) -> None:
        if self.unique_keys is not None:
            self.unique_keys.free(partition, first, end)
        self._queue.counters.dropped(reason, end - first)
        self.dead_letters.discard(partition, first, end, reason)

    def _waited(self, partition: QueuePartition, first: int, end: int) -> None:
        partition.make_ready(first, end)
        self.returned(partition, first, end)
        partition.on_ready()


def keys_of(source: DeliverySource, ranges: Sequence[tuple[int, int]]) -> UniqueKeys | None:
    """The keys of the queue that a transaction takes messages from, told of these; None: it has none."""
    partition = source.partition if isinstance(source, WithheldMessages) else source
    if not isinstance(partition, QueuePartition) or not isinstance(partition.rules, QueueRules):
        return None
    keys = partition.rules.unique_keys
    if keys is not None:
        keys.leaving(partition, ranges)
    return keys


def has_rules(arguments: Mapping[str, object]) -> bool:
    """Whether arguments ask for anything that `QueueRules` does."""
    return not RULE_ARGUMENTS.isdisjoint(arguments) or delivery_limit(arguments) is not None
