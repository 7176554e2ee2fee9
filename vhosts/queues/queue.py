# cython: annotation_typing=False, wraparound=True
# mypy: allow-untyped-decorators, no-warn-return-any, disable-error-code="index,name-defined"
"""A queue: records in, deliveries out."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain

import cython

from routelog.exchanges import QueueNotFound
from routelog.log_backend import EXPIRING, Durability, Lane, Scheduler
from routelog.log_backend.partitions.log_end import NOTHING_OPEN, LogEnd
from routelog.log_backend.records.record_batch import Records
from routelog.vhosts.arguments.policy import EffectiveArguments, Policy, effective_arguments
from routelog.vhosts.arguments.queue_arguments import (
    counts_deliveries,
    has_single_active_consumer,
    is_stream,
)
from routelog.vhosts.arguments.queue_properties import QueueProperties
from routelog.vhosts.counters.counters import ChangedCounters, MessageCounters
from routelog.vhosts.errors import (
    ConsumptionRefused,
    FilterRefused,
    GetRefused,
    NotReadable,
    PublishRefused,
    QueueLocked,
)
from routelog.vhosts.filters.reader_filter import ReaderFilter
from routelog.vhosts.messages.consumer import Consumer
from routelog.vhosts.messages.delivery import Delivery, DeliverySource
from routelog.vhosts.partitions.partitioned_reader import PartitionedReader
from routelog.vhosts.partitions.partitioner import partitioner
from routelog.vhosts.partitions.queue_partition import QueuePartition
from routelog.vhosts.partitions.stream_reader import StreamReader, stream_position
from routelog.vhosts.partitions.withheld_messages import WithheldMessages
from routelog.vhosts.queues.consumer_group import ConsumerGroup
from routelog.vhosts.queues.dispatcher import (
    DELIVERY_BYTES_MAX,
    DELIVERY_COUNT_MAX,
    DUE,
    SERVED,
    TURN_BYTES_MAX,
    Dispatcher,
    delivery_cost,
)
from routelog.vhosts.queues.queue_handle import (
    Answer,
    ConsumeOptions,
    ConsumerSource,
    QueueCounts,
    then,
)
from routelog.vhosts.queues.single_active import WaitingConsumers
from routelog.vhosts.rules.queue_rules import QueueRules, has_rules
from routelog.vhosts.rules.rule_services import RuleServices
from routelog.vhosts.rules.unique_keys import UniqueKeys

_EXPIRING = cython.declare(cython.uint, EXPIRING)
_NOTHING_OPEN = cython.declare(cython.longlong, NOTHING_OPEN)

# Attaches a consumer to a group of its queue, which is made when there is none.
JoinGroup = Callable[
    ["Queue", Consumer, ConsumeOptions, Callable[[ConsumerSource], None]], Answer[None]
]

# Of readers that lag, beside others that keep up, and wait for the end of their turn
CATCH_UP_SECONDS = 0.000_1


class Queue(Dispatcher):
    """One queue of a vhost: its own consumers, readers of its log, and consumer groups; a `QueueHandle`.

    Attributes:
        properties: as declared.
        is_stream: consumers read the log and settle nothing.
        effective: the arguments in force, policies included.
        owner: the connection that an exclusive queue belongs to.
        declaring: resolves to the queue when the declaration is durable; None afterwards.
        groups: by name; each has its own progress through the log.
        rules: expiry, limits, dead letters and so on; None: there are none.
        counters: what came to it and left it.

    Args:
        services: for rules; None: the queue has no rules, whatever its arguments are.
        counters: with the totals above them; None: of its own.
        join_group: see `JoinGroup`; None: it has no groups.
    """

    __slots__ = (
        "_join_group",
        "_loading",
        "_next_reader",
        "_others_are_due",
        "_partitioner",
        "_plain_log",
        "_readers",
        "_rule_services",
        "_standby",
        "counters",
        "declaring",
        "effective",
        "groups",
        "had_consumer",
        "is_stream",
        "owner",
        "progress",
        "properties",
        "rules",
    )

    def __init__(
        self,
        vhost: str,
        properties: QueueProperties,
        owner: object | None,
        scheduler: Scheduler,
        services: RuleServices | None = None,
        counters: MessageCounters | None = None,
        join_group: JoinGroup | None = None,
    ) -> None:
        super().__init__(vhost, properties.name, scheduler)
        self._join_group = join_group
        self.counters = counters or MessageCounters(ChangedCounters())
        self.counters.owner = self
        self.properties = properties
        self.is_stream = is_stream(properties.arguments)
        self.owner = owner
        self.had_consumer = False
        self.declaring: asyncio.Future[Queue] | None = None
        self.groups: dict[str, ConsumerGroup] = {}
        self._readers: list[StreamReader | PartitionedReader] = []
        self._next_reader = 0
        self._others_are_due = False  # readers that do not keep up, after those that do
        self._partitioner = partitioner(properties.arguments)
        # Appends go straight to this log; None: rules or partitions decide
        self._plain_log: LogEnd | None = None
        self._loading: list[asyncio.Future[None]] = []
        single = has_single_active_consumer(properties.arguments)
        self._standby = WaitingConsumers() if single else None
        self.rules: QueueRules | None = None
        self._rule_services = services
        self.effective = EffectiveArguments(properties.arguments)

    def open(self, partitions: list[QueuePartition]) -> None:
        """Open the queue on these partitions, in order."""
        self.partitions = partitions
        self.progress = partitions[0].log.progress
        for partition in partitions:
            partition.counters = self.counters
        self._choose_way()

    def _choose_way(self) -> None:
        is_plain = self.rules is None and self._partitioner is None
        self._plain_log = self.partitions[0].log if is_plain else None

    # -- what it goes by

    def follow(self, policy: Policy | None, operator: Policy | None) -> None:
        """Apply these policies from now on."""
        before = self.effective
        if policy == before.policy and operator == before.operator_policy:
            return
        self._go_by(policy, operator)

    def change(
        self, properties: QueueProperties, policy: Policy | None, operator: Policy | None
    ) -> None:
        """Apply other arguments, and these policies, from now on; its partitions are changed elsewhere."""
        self.properties = properties
        self._choose_consumers(has_single_active_consumer(properties.arguments))
        self._go_by(policy, operator)

    def _go_by(self, policy: Policy | None, operator: Policy | None) -> None:
        before = self.effective
        self.effective = effective_arguments(self.properties.arguments, policy, operator)
        if self.effective.values != before.values:
            self.apply(self.effective.values)

    def _choose_consumers(self, single: bool) -> None:
        # All of them are active, or the first one is.
        if single and self._standby is None:
            self._standby = WaitingConsumers()
            waiting = self.consumers[1:]
            super().detach(waiting)
            for consumer in waiting:
                self._standby.add(consumer)
        elif not single and self._standby is not None:
            waiting, self._standby = self._standby.take_all(), None
            for consumer in waiting:
                self._enter(consumer)

    @property
    def type(self) -> str:
        """Classic, quorum or stream."""
        return self.properties.type

    def apply(self, arguments: Mapping[str, object]) -> None:
        """Apply arguments from here on: its own, merged with those of policies."""
        rules = self.rules
        if self.is_stream or self._rule_services is None:
            return
        if rules is None and has_rules(arguments):
            rules = QueueRules(self, self._rule_services)
        if rules is not None:
            rules.apply(arguments)
        self._obey(None if rules is None or rules.idle else rules)

    def _obey(self, rules: QueueRules | None) -> None:
        self.rules = rules
        self._choose_way()
        is_expected = rules is not None and rules.expiry.expected
        for partition in self.partitions:
            partition.rules = rules
            partition.on_expiring = None if is_expected else self._expects_expiry

    def _expects_expiry(self) -> None:
        # A message has an expiration, perhaps the first one of this run.
        if self._rule_services is None or self.is_stream:
            return
        rules = self.rules or QueueRules(self, self._rule_services)
        if not rules.expiry.expected:
            rules.expiry.expected = True
            self._obey(rules)

    def _publish_by_rules(self, records: Records, waited: bool, *, may_refuse: bool = True) -> int:
        if records.attributes & EXPIRING:
            self._expects_expiry()
        rules = self.rules
        if rules is None:
            return self._append(records, waited)
        admitted, refused = rules.admit(records, may_refuse=may_refuse)
        position = 0
        if admitted is not None:
            if rules.unique_keys is None:
                position = self._append(admitted, waited)
            else:
                append = partial(self._append, waited=waited)
                position = rules.unique_keys.publish(admitted, append)
            rules.published()
        if refused:
            raise PublishRefused(refused, position)
        return position

    @property
    def unique_keys(self) -> UniqueKeys | None:
        """For deduplication; None: there is none."""
        return None if self.rules is None else self.rules.unique_keys

    def used(self) -> None:
        """The queue was used: `x-expires` begins anew."""
        if self.rules is not None and self.rules.lease is not None:
            self.rules.lease.renew()

    @property
    def has_turn(self) -> bool:
        """Whether the queue dispatches after this turn of the event loop."""
        return self._state == DUE

    # -- what it is

    @property
    def is_stored(self) -> bool:
        """Whether the queue survives a restart."""
        return self.properties.is_stored

    @property
    def is_unwanted(self) -> bool:
        """Whether the queue is auto-delete and its last consumer has left."""
        is_left = self.had_consumer and not self.consumer_count
        return self.properties.auto_delete and is_left and not self.deleted

    @property
    def is_read(self) -> bool:
        """Whether its log has readers, or groups, which may have no consumer."""
        return bool(self._readers or self.groups)

    @property
    def number(self) -> int:
        """The number of its first partition: a queue that is declared later has a higher one."""
        return self.partitions[0].log.number

    @property
    def partition_count(self) -> int:
        """See `QueueHandle`."""
        return len(self.partitions)

    def sources(self) -> Iterable[DeliverySource]:
        """See `QueueHandle`."""
        return chain(self.partitions, *(group.partitions for group in self.groups.values()))

    def partition_index(self, source: DeliverySource) -> int:
        """See `QueueHandle`."""
        return [partition.log.number for partition in self.partitions].index(source.number)

    @property
    def durability(self) -> Durability:
        """What a confirm of a persistent message waits for."""
        return self.partitions[0].log.durability

    @property
    def counts_deliveries(self) -> bool:
        """Whether redeliveries have the header `x-delivery-count`."""
        rules = self.rules
        if rules is not None and (rules.delivery_limit is not None or rules.backoff.options):
            return True
        return counts_deliveries(self.properties.arguments)

    @property
    def delayed(self) -> int:
        """Returned messages that wait before they are ready again."""
        return 0 if self.rules is None else self.rules.backoff.count

    @property
    def ready(self) -> int:
        """Messages that wait for a consumer; of a stream, all its messages."""
        if self.is_stream:
            return sum(p.log.visible_end - p.log.first_offset for p in self.partitions)
        return super().ready

    @property
    def coming(self) -> int:
        """Messages that may not be handed out yet: see `LogEnd.ready_end`."""
        return sum(each.log.next_offset - each.log.ready_end for each in self.partitions)

    @property
    def consumer_count(self) -> int:
        """All consumers, with and without credit, those of groups included."""
        in_groups = sum(len(group.consumers) for group in self.groups.values())
        waiting = len(self._standby.consumers) if self._standby is not None else 0
        return len(self.consumers) + waiting + len(self._readers) + in_groups

    @property
    def group(self) -> str:
        """See `ConsumerSource`."""
        return ""

    def activity(self, consumer: Consumer) -> str:
        """See `QueueHandle`."""
        if self._standby is None:
            return "up"
        if consumer in self._standby.consumers:
            return "waiting"
        return "single_active" if consumer in self.consumers else "up"

    def __str__(self) -> str:
        return f"queue '{self.name}' in vhost '{self.vhost}'"

    def check_access(self, connection: object) -> None:
        """Refuse an exclusive queue to all but its owner.

        Raises:
            QueueLocked: it belongs to another connection.
        """
        if self.properties.exclusive and self.owner is not connection:
            raise QueueLocked(self.name, self.vhost)

    @cython.locals(
        log=LogEnd,
        records=Records,
        waited=cython.bint,
        position=cython.longlong,
        counters=MessageCounters,
    )
    def publish(self, records: Records, waited: bool) -> int:
        """Append records; they reach consumers after this turn.

        Returns:
            The journal position that they wait for, or 0: see `PartitionLog.append`.

        Raises:
            PublishRefused: the queue is full; it did not take all of them.
        """
        log = self._plain_log
        if log is None or records.attributes & _EXPIRING:
            return self._publish_by_rules(records, waited)
        position = log.take(records, waited)
        counters = self.counters
        counters.published_to(records.exchange, records.count)
        if log.open_from == _NOTHING_OPEN and (self.consumers or self._readers or self.groups):
            self._wake_all()
        return position

    def publish_all(self, records: Records, waited: bool) -> int:
        """As `publish`, of records that were sent before their node knew that the queue refuses any."""
        if self.may_refuse:
            return self._publish_by_rules(records, waited, may_refuse=False)
        return self.publish(records, waited)

    def takes(self, count: int, size: int) -> bool:
        """Whether all of so many messages, of so many bytes of bodies, would be accepted at once."""
        length = None if self.rules is None else self.rules.length
        return length is None or length.takes(count, size)

    @property
    def may_refuse(self) -> bool:
        """See `Recipient`."""
        rules = self.rules
        if rules is None:
            return False
        refuses = rules.length is not None and rules.length.options.refuses
        return refuses or rules.unique_keys is not None

    def transaction_ended(self, *, failed: bool) -> None:
        """See `Recipient`."""
        if self.deleted:
            return
        if failed:
            for partition in chain(self.partitions, *(g.partitions for g in self.groups.values())):
                partition.settled_ahead()
        if self.rules is not None:
            self.rules.published()
        self._wake_all()

    def _append(self, records: Records, waited: bool) -> int:
        if self._partitioner is None:
            position: int = self.partitions[0].log.append(records, waited)
        else:
            position = self._partitioner.publish(self.partitions, records, waited=waited)
        self.counters.published_to(records.exchange, records.count)
        self._wake_all()
        return position

    def _wake_all(self) -> None:
        if self.consumers or self._readers:
            self.on_ready()
        for group in self.groups.values():
            if group.consumers:
                group.on_ready()

    # -- consuming

    def attach(
        self,
        consumer: Consumer,
        options: ConsumeOptions,
        begin: Callable[[ConsumerSource], None],
    ) -> Answer[None]:
        """See `QueueHandle`."""
        if self.deleted:
            raise QueueNotFound(self.name, self.vhost)
        if self.declaring is not None:
            return then(self.declaring, lambda _: self.attach(consumer, options, begin))
        if not options.comes_back and self._rule_services is not None:
            back = self._rule_services.awaited.until_back()
            if back is not None:  # consumers of other nodes have their places before it
                return then(back, lambda _: self.attach(consumer, options, begin))
        if options.group is not None and self._join_group is not None:
            return self._join_group(self, consumer, options, begin)
        if options.place is not None:
            self.add_reader(consumer, options.place, options.now, options.wanted, options.places)
        elif options.wanted is not None:
            raise FilterRefused(self.name, self.vhost)
        else:
            self.add_consumer(consumer)
        begin(self)
        return None

    def add_consumer(self, consumer: Consumer) -> None:
        """See `Dispatcher`; with a single active consumer, the others wait.

        Raises:
            ConsumptionRefused: also when it is exclusive and would be the single active one, or that one is.
        """
        if self._standby is None or not (self.consumers or consumer.exclusive):
            super().add_consumer(consumer)
        elif consumer.exclusive or self.consumers[0].exclusive:
            raise ConsumptionRefused(self.name, self.vhost)
        else:
            self._standby.add(consumer)
            self.wake()
        self.had_consumer = True

    def add_reader(
        self,
        consumer: Consumer,
        place: object,
        now: int,
        wanted: ReaderFilter | None = None,
        places: Sequence[int] = (),
    ) -> None:
        """Begin to deliver from a place in the log, without effect on other consumers.

        Args:
            place: see `stream_position`.
            now: microseconds since 1970.
            wanted: which messages it is given; None: all.
            places: see `ConsumeOptions`.

        Raises:
            NotReadable: the queue keeps no log.
            InvalidStreamOffset: there is no such place.
            QueueQuarantined: it is at or behind a damage.
        """
        readers: list[StreamReader] = []
        for index, partition in enumerate(self.partitions):
            if partition.log.retention is None:
                raise NotReadable(self.name, self.vhost)
            begin = places[index] if places else place
            position = stream_position(partition.log, begin, now)
            log, scheduler = partition.log, self._scheduler
            readers.append(
                StreamReader(
                    log, consumer, position, self.on_ready, self.counters, scheduler, wanted
                )
            )
        whole = readers[0] if len(readers) == 1 else PartitionedReader(readers)
        self._read_again()
        if whole.stopped:
            raise self._why_stopped()
        self._readers.append(whole)
        self.had_consumer = True
        self.wake()

    def places(self, consumer: Consumer) -> list[int]:
        """Where a reader of its log is: the next offset of each partition; empty: it is no reader."""
        return next((each.places for each in self._readers if each.consumer is consumer), [])

    def join_group(self, group: ConsumerGroup, consumer: Consumer) -> None:
        """Begin to deliver the messages that a group has not settled.

        Raises:
            ConsumptionRefused: the consumer is exclusive in the group, or another one is.
        """
        group.add_consumer(consumer)
        self.had_consumer = True

    def detach(self, gone: Collection[Consumer]) -> None:
        """See `QueueHandle`."""
        super().detach(gone)
        self._readers = [reader for reader in self._readers if reader.consumer not in gone]
        for group in self.groups.values():
            group.detach(gone)
        if self._standby is not None:
            self._standby.remove(gone)
            if not self.consumers and (following := self._standby.take()) is not None:
                self.consumers.append(following)
            self.wake()  # the active one may have stood back for one that is gone
        self.used()

    def cancel(self, consumer: Consumer) -> None:
        """See `QueueHandle`."""
        self.serve_due()
        self.detach((consumer,))

    def stand_aside(self, consumer: Consumer) -> None:
        """Make a waiting consumer the single active one: this one does not acknowledge in time."""
        if self._standby is not None and consumer in self.consumers:
            following = self._standby.take()
            if following is not None:
                self._activate(following)
                self.wake()

    def _activate(self, following: Consumer) -> None:
        assert self._standby is not None
        (active,) = self.consumers
        self.consumers[0] = following
        self._standby.add(active)

    def pause(self) -> None:
        """See `Dispatcher`; groups and readers are given nothing, either."""
        super().pause()
        for group in self.groups.values():
            group.pause()

    def resume(self) -> None:
        """See `Dispatcher`."""
        super().resume()
        for group in self.groups.values():
            group.resume()

    def get(self, *, while_paused: bool = False) -> Answer[Delivery | None]:
        """See `QueueHandle`."""
        if self.deleted:
            raise QueueNotFound(self.name, self.vhost)
        if self._standby is not None:
            raise GetRefused(self.name, self.vhost)
        self.used()
        self.serve_due()
        if self.paused and not while_paused:
            return None
        delivery = self._take(1)
        if delivery is None and self._is_blocked():
            raise self._why_stopped()
        if self.rules is not None:
            self.rules.expiry.look_now()  # `get-ok` has the number of messages left
        if delivery is None and any(
            each.ready and each.prepare(self._loaded) for each in self.partitions
        ):
            loaded = asyncio.get_running_loop().create_future()
            self._loading.append(loaded)
            return then(loaded, lambda _: self.get(while_paused=while_paused))
        return delivery

    def _loaded(self) -> None:
        waiting, self._loading = self._loading, []
        for loaded in waiting:
            if not loaded.done():  # who waited may have gone
                loaded.set_result(None)

    def _stop_at_damage(self) -> None:
        if self._standby is not None:
            self.consumers += self._standby.take_all()
        super()._stop_at_damage()

    def _dispatch(self) -> None:
        if self._readers:
            self._feed_readers()
        if self.consumers and not self._stands_back():
            self._serve()
            if self.rules is not None and not self.has_turn:
                self.rules.expiry.look_now()  # what comes next may stand before an expired head

    def _stands_back(self) -> bool:
        # The active consumer is given nothing more when one of a higher priority waits, which follows once that
        # one has nothing left to settle: so nobody has messages beside the active one.
        standby = self._standby
        if standby is None or self.type != "quorum":
            return False
        following = standby.above(self.consumers[0])
        if following is None:
            return False
        if self.consumers[0].unacked:
            self._release_publishers()
            return True
        standby.remove((following,))
        self._activate(following)
        return False

    def serve_due(self) -> None:
        """Dispatch, expire and drop at once what is due after this turn; a caller counts the rest."""
        if self._state == DUE:
            self._state = SERVED
            if not self.paused:
                self._scheduler.begin(Lane.BACKLOG)
                self._dispatch()
        if self.rules is not None:
            self.rules.serve_due()

    def _feed_readers(self) -> None:
        # Those at the end of the log first: they wait for little. If it takes all time, the others are next.
        sent = 0
        deadline = self._scheduler.deadline
        if not self._others_are_due:
            live = [reader for reader in self._readers if reader.keeps_up]
            for reader in live:
                sent = self._feed(reader, sent)
            if sent > TURN_BYTES_MAX or self._scheduler.is_over():
                self._others_are_due = sent > 0
                self._go_on_later()
                return
            if live:
                self._scheduler.shorten(CATCH_UP_SECONDS)
        self._others_are_due = False
        if self._readers:  # those at damage have left
            self._feed_in_turn(sent)
        self._scheduler.deadline = deadline

    def _feed_in_turn(self, sent: int) -> None:
        # Round robin, so that the first readers do not keep the others waiting.
        readers = self._readers
        first = self._next_reader % len(readers)
        for at in chain(range(first, len(readers)), range(first)):
            sent = self._feed(readers[at], sent)
            if self._scheduler.is_over() or sent > TURN_BYTES_MAX:
                self._next_reader = at + 1
                self._go_on_later()
                return

    def _feed(self, reader: StreamReader | PartitionedReader, sent: int) -> int:
        # Returns the bytes sent in this turn.
        while not self.deleted and sent <= TURN_BYTES_MAX and not self._scheduler.is_over():
            credit = reader.consumer.credit()
            if credit <= 0:
                break
            delivery = reader.take(min(credit, DELIVERY_COUNT_MAX), DELIVERY_BYTES_MAX)
            if delivery is None:
                if reader.stopped:
                    reader.consumer.queue_stopped(self._why_stopped())
                reader.wait()
                break
            sent += delivery_cost(delivery)
            reader.consumer.deliver(delivery)
        reader.keeps_up = reader.ready <= 0
        return sent

    # -- emptying

    def withheld(self, partition: int) -> WithheldMessages:
        """What takes messages out of the order of a partition, to move them elsewhere."""
        return WithheldMessages(self.partitions[partition])

    def counts(self) -> QueueCounts:
        """Count what is left when all that is due is done."""
        self.serve_due()
        return QueueCounts(self.ready, self.consumer_count)

    def purge(self) -> int:
        """See `QueueHandle`."""
        self.serve_due()
        self.counters.note()
        return sum(partition.purge() for partition in self.partitions)

    def delete(self) -> None:
        """Delete the queue: tell its consumers, and who waits for a message."""
        self.counters.leave()
        readers, self._readers = self._readers, []
        groups, self.groups = self.groups, {}
        if self._standby is not None:
            self.consumers += self._standby.take_all()
        self._loaded()
        super().delete()
        if self.rules is not None:
            self.rules.stop()
        for consumer in dict.fromkeys(reader.consumer for reader in readers):
            consumer.queue_deleted()
        for group in groups.values():
            group.delete()
