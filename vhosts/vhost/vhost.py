"""A virtual host: its routing table and queues, kept in step with the metadata store."""

import asyncio
import logging
from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from sys import intern
from typing import Any

import msgspec

from routelog.exchanges import (
    NODE_EXCHANGES,
    PREDECLARED,
    Binding,
    DestinationKind,
    Exchange,
    NameTable,
    QueueNotFound,
    RoutingTable,
    SortedNameTable,
    check_name,
    check_not_reserved,
    type_table,
)
from routelog.log_backend import (
    Lane,
    MetadataUnavailable,
    PartitionLog,
    Receipt,
    pause,
    random_below,
    unawaited,
)
from routelog.vhosts.actor import EXPIRY, acts, current_actor
from routelog.vhosts.arguments.json_arguments import checked_arguments
from routelog.vhosts.arguments.limits import MAX_QUEUES, Limits, reached
from routelog.vhosts.arguments.queue_arguments import difference
from routelog.vhosts.arguments.queue_properties import QueueProperties
from routelog.vhosts.counters.totals import NodeCounters, VhostCounters
from routelog.vhosts.errors import QueueInUse, QueueLimitReached, QueueNotEmpty
from routelog.vhosts.partitions.partitioner import partition_count
from routelog.vhosts.publishing.internal_publish import PublishRoutes
from routelog.vhosts.publishing.internal_publisher import InternalPublisher
from routelog.vhosts.publishing.recent_history import RecentHistory, hand_over
from routelog.vhosts.publishing.stateful_route import StatefulRoute
from routelog.vhosts.queues.event_feed import TellEvent, tell_nobody, tell_of_queue
from routelog.vhosts.queues.queue import Queue
from routelog.vhosts.queues.queue_declaration import (
    changed_declaration,
    check_declaration,
    check_enabled,
    check_redeclared,
    with_type,
)
from routelog.vhosts.queues.queue_handle import Answer, QueueCounts, after, decided, pending, then
from routelog.vhosts.stored.kept_definitions import KeptDefinitions
from routelog.vhosts.stored.topology_record import VhostRecord, queue_change
from routelog.vhosts.vhost.definitions_budget import DefinitionsBudget, definition_bytes
from routelog.vhosts.vhost.hosted_queues import HostedQueues, QueueStore
from routelog.vhosts.vhost.route_targets import RouteTargets
from routelog.vhosts.vhost.stored_topology import StoredQueue, StoredTopology
from routelog.vhosts.vhost.topology_keeper import Durable, TopologyKeeper
from routelog.vhosts.vhost.vhost_definitions import BindCheck, Check, VhostDefinitions
from routelog.vhosts.vhost.vhost_policies import VhostPolicies

log = logging.getLogger(__name__)

QUEUES_MAX = 200_000  # where no limit is set: each costs some 10 KB of memory, so about 2 GB
DELETIONS_MAX = 4  # partitions or exchanges of one turn, but one queue whole: less than 1 ms


class VirtualHost:
    """One isolated namespace of exchanges and queues.

    Methods that change topology return a future when the change must become durable first, or None;
    memory has changed when they return.

    Attributes:
        record: its name, and what an operator said of it.
        definitions: where its clients declare and delete: here, where this node leads.
        stateful_route: makes the way through exchanges that remember: here, where this node leads.
        counters: of what clients do here.
        stored: carries out what is stored of it, or another node commits.
        hosted: what the store has of it.
        targets: what takes the messages of a route.
        listeners: who is told of every message, the firehose among them.

    Args:
        node_tells: the node tells of itself in this vhost.
        tell: of what happens here.
        budget: of definitions, with other vhosts.
        counters: of the node.
        listeners: beside the firehose.
        relaxed_redeclaration: a queue may be declared again with other arguments, which it does not get.
    """

    def __init__(
        self,
        record: VhostRecord,
        store: QueueStore,
        *,
        budget: DefinitionsBudget,
        counters: NodeCounters,
        queues_max: int = QUEUES_MAX,
        node_tells: bool = False,
        tell: TellEvent = tell_nobody,
        listeners: Iterable[Any] = (),
        relaxed_redeclaration: bool = False,
    ) -> None:
        self.record = record
        self.definitions: VhostDefinitions = self
        self.stateful_route = StatefulRoute
        self.counters = VhostCounters(counters)
        self._firehose: Any = None
        self.listeners = self._lasting_listeners = tuple(listeners)
        self._tell = tell
        self._relaxed_redeclaration = relaxed_redeclaration
        self.name = name = record.name
        self.routing = RoutingTable(
            name, type_table(random_below), PREDECLARED + NODE_EXCHANGES * node_tells
        )
        self.queues = SortedNameTable[Queue]()
        self._owned: dict[object, NameTable[Queue]] = {}  # exclusive queues by connection
        # Queues and their logs, from `opening` to `recovering`
        self._opened: list[tuple[StoredQueue, list[PartitionLog]]] = []
        self._store = store
        self._writer = store.writer
        self._queues_max = queues_max
        self._budget = budget
        self.kept = KeptDefinitions(name, store.writer)
        self.policies = VhostPolicies(
            name, store.writer, self.routing, self.queues, store.default_durability, tell
        )
        ways = PublishRoutes(
            self.routing,
            self.passage,
            lambda route: self.targets.gradually(route),
            store.logs,
            store.scheduler,
            store.logs.clock,
        )
        self.post = InternalPublisher(ways)
        self.hosted = HostedQueues(name, store, counters, self.post, self._expire)
        self.targets = RouteTargets(self.routing, self.queues, self.hosted.delays)
        self._keeper = TopologyKeeper(
            self.routing,
            store,
            self.hosted,
            self.policies.follow_exchange,
            tell,
            self.counters,
            budget,
            lambda: self.limits,
        )
        self.stored = StoredTopology(
            self.routing, self._keeper, budget, self.hosted.groups, self.policies.book, self.kept
        )

    def opening(self) -> Iterator[None]:
        """The definitions are there: open the logs of what is stored, one object a step."""
        stored = self.stored
        for exchange in self.routing.exchanges():
            if exchange.durable and exchange not in self.routing.predeclared:
                yield
                self.hosted.open_exchange(exchange, stored.partitions.pop(exchange.name, ()))
        for queue in stored.queues.values():
            yield
            logs = self.hosted.open_logs(queue.properties, queue.partitions)
            self._opened.append((queue, logs))
        stored.queues.clear()

    def recovering(self) -> Iterator[None]:
        """The journal has been replayed into the logs: open the queues on them, one a step."""
        for stored, logs in self._opened:
            yield
            queue = self._add_queue(stored.properties, None, logs)
            if stored.paused:
                queue.pause()
        self._opened.clear()
        self.policies.recovered()
        for queue in [*self.queues.values()]:  # rules may act at once, on other queues too
            yield
            self.policies.follow_queue(queue)
            queue.apply(queue.effective.values)
            self.hosted.groups.recovered(queue)
        self.hosted.delays.recovered()

    @property
    def limits(self) -> Limits:
        """What an operator allows here, by name."""
        return self.record.limits

    @property
    def binding_count(self) -> int:
        """How many bindings it has, but those of the default exchange."""
        return self._keeper.bindings

    @property
    def firehose(self) -> Any:
        """Who copies every message; None: nobody. The owner of the channels sets it."""
        return self._firehose

    @firehose.setter
    def firehose(self, firehose: Any) -> None:
        self._firehose, lasting = firehose, self._lasting_listeners
        self.listeners = lasting if firehose is None else (firehose, *lasting)

    # -- routing

    def passage(self, undecided: set[tuple[str, bytes]] | None = None) -> StatefulRoute:
        """The way of one publish through exchanges that remember; see `StatefulRoute`."""
        return self.stateful_route(
            self.routing, self.hosted.memories.by_name, self._store.logs, undecided
        )

    # -- exchanges and bindings

    def provided(self, check: Check) -> "VirtualHost":
        """See `VhostDefinitions`: there is no leader to wait for."""
        check()
        return self

    def declare_exchange(self, exchange: Exchange) -> Durable:
        """Declare an exchange; see `RoutingTable.declare` for what it refuses.

        Raises:
            InvalidArguments: they are too large.
            DefinitionsLimitReached: there are too many.
        """
        checked_arguments(exchange.arguments)
        owned = msgspec.structs.replace(exchange, user=_user())
        return self._keeper.applied(self.routing.declare(owned))

    def exchange_declared(self, name: str) -> Durable:
        """See that there is an exchange, and await that a crash cannot forget it.

        Raises:
            ExchangeNotFound: there is none of this name.
        """
        self.routing.exchange(name)
        return self.undecided()

    def restore_exchange(self, exchange: Exchange) -> Durable:
        """Declare an exchange from its value, also one whose name is reserved."""
        owned = msgspec.structs.replace(exchange, user=_user())
        return self._keeper.applied(self.routing.restore_exchange(owned))

    def bind(self, binding: Binding, check: BindCheck = lambda _: None) -> Durable:
        """Bind a queue or an exchange to an exchange; see `RoutingTable.bind` for what it refuses.

        Raises:
            InvalidArguments: they are too large.
            BindingLimitReached, UserBindingLimitReached, DefinitionsLimitReached: there are too many.
        """
        check(binding)
        checked_arguments(binding.arguments)
        return self.restore_binding(binding)

    def restore_binding(self, binding: Binding) -> Durable:
        """Bind as a value says."""
        change = self.routing.bind(msgspec.structs.replace(binding, user=_user()))
        durable = self._keeper.applied(change)
        for added in change.bindings_added:
            memory = self.hosted.memories.by_name.get(added.source)
            if isinstance(memory, RecentHistory):
                hand_over(memory, added, self.post, self.queues, self._store.logs.now())
        return durable

    def unbind(self, binding: Binding, check: BindCheck = lambda _: None) -> Durable:
        """Remove a binding, if it is there; see `bind`."""
        check(binding)
        return self._keeper.applied(self.routing.unbind(binding))

    def delete_exchange(self, name: str, *, if_unused: bool) -> Durable:
        """Delete an exchange with its bindings, very many in several turns; see `RoutingTable.delete`."""
        return self._keeper.applied(self.routing.delete(name, if_unused=if_unused))

    def wait_for_free(self, kind: DestinationKind, name: str) -> Awaitable[None] | None:
        """See `until_free`; None: a queue or exchange of the name may be declared."""
        return self.until_free(kind, name) if self.routing.has_departed(kind, name) else None

    async def until_free(self, kind: DestinationKind, name: str) -> None:
        """Return when a queue or exchange may be declared: one of its name was deleted, and has bindings."""
        while self.routing.has_departed(kind, name):
            await self._keeper.all_removed()

    def go_on(self) -> None:
        """The journal accepts entries, and memories are loaded: see to what an earlier run had begun."""
        self.hosted.begin()
        self._keeper.go_on()

    # -- queues

    def until_consumers_back(self) -> "asyncio.Future[None] | None":
        """See `AwaitedConsumers`."""
        return self._store.awaited.until_back()

    def until_led(self) -> None:
        """See `VhostDefinitions`: this node leads."""

    def remote_transaction(self) -> None:
        """See `VhostDefinitions`: this node leads."""

    def queue(self, name: str, connection: object) -> Queue:
        """A queue that a connection may use.

        Raises:
            QueueNotFound: there is none of this name.
            QueueLocked: it is exclusive to another connection.
        """
        queue = self.queues.get(name)
        if queue is None:
            raise QueueNotFound(name, self.name)
        queue.check_access(connection)
        return queue

    def check_access(self, name: str, connection: object) -> None:
        """Refuse a queue that is exclusive to another connection, if it is there; see `queue`."""
        if name in self.queues:
            self.queue(name, connection)

    def queue_declared(self, name: str, connection: object) -> Answer[QueueCounts]:
        """Count what a queue has that a connection may use, when its declaration is durable.

        Raises: see `queue`.
        """
        queue = self.queue(name, connection)
        queue.used()
        return after(self.declared(queue), Queue.counts)

    def declared(self, queue: Queue) -> Answer[Queue]:
        """A queue, when its declaration is durable, and known to all nodes."""
        if queue.declaring is not None:
            return queue.declaring
        known = self._writer.known()
        return queue if known is None else then(known, lambda _: queue)

    def declare_queue(
        self, properties: QueueProperties, connection: object, *, server_named: bool = False
    ) -> Answer[Queue]:
        """Declare a queue; it is in `queues` when this returns.

        A queue that is stored, or known to other nodes, takes part in routing once its declaration is durable,
        which is the answer then: a message must not be confirmed for a queue that a crash takes back.

        Args:
            server_named: a broker gave the name, this one or another: it may be reserved.

        Raises:
            InvalidName, ReservedName, InvalidQueueArgument, InvalidQueueProperty,
            QueueInequivalent, QueueLocked, QueueLimitReached, DefinitionsLimitReached, VhostNotFound.
            InvalidArguments: they are too large.
            ValueError: see `until_free`.
        """
        if not server_named:
            check_not_reserved("queue", properties.name)
        checked_arguments(properties.arguments)
        self._keeper.check_open()
        churn = self.counters.node.churn
        churn.queue_declared += 1
        properties = with_type(properties, self.record.default_queue_type)
        existing = self.queues.get(properties.name)
        if existing is not None:
            relaxed = self._relaxed_redeclaration
            check_redeclared(self.name, existing, properties, connection, relaxed=relaxed)
            existing.used()
            if existing.is_unwanted:  # and not deleted yet: for this client it is as good as new
                existing.had_consumer = False
            return self.declared(existing)
        self.routing.check_free("queue", properties.name)
        check_name("queue", properties.name)
        check_declaration(self.name, properties, self._store.logs.has_remote)
        check_enabled(self.name, properties, self._store.disabled_types)
        self._check_queue_limit(properties.name)
        properties = replace(properties, user=_user())
        self._budget.check(properties.user, definition_bytes(properties))
        numbers, number_change = self._store.take_numbers(partition_count(properties.arguments))
        owner = connection if properties.exclusive else None
        durable: asyncio.Future[int] | None = None
        if properties.is_stored or self._store.keeps_all:
            stored = queue_change(self.name, properties, numbers, owner=_name_of(owner))
            durable = self._writer.submit([number_change, stored])
        queue = self._add_queue(properties, owner, self.hosted.open_logs(properties, numbers))
        self._budget.changed([properties])
        self.policies.follow_queue(queue)
        queue.apply(queue.effective.values)
        churn.queue_created += 1
        if durable is None:
            self.routing.add_queue(queue.name, durable=False)
        else:
            queue.declaring = unawaited(asyncio.ensure_future(self._admit(queue, durable)))
            log.debug("queue '%s' in '%s': durability %s", queue.name, self.name, queue.durability)
        tell_of_queue(self._tell, "queue.created", queue)
        return queue.declaring or queue

    def declare_queue_of(
        self, properties: QueueProperties, connection: object, *, server_named: bool = False
    ) -> Answer[QueueCounts]:
        """Declare a queue for a client, and count what it has; see `declare_queue`."""
        declared = self.declare_queue(properties, connection, server_named=server_named)
        return after(declared, Queue.counts)

    async def change_queue(self, queue: Queue, changes: Mapping[str, object]) -> None:
        """Change arguments of a queue; None removes one. Consumers and messages stay.

        When this returns it is durable, and the queue goes by it.

        Raises:
            QueueInequivalent: the queue has one of them for its life.
            InvalidQueueArgument, InvalidQueueProperty: names the fault.
            InvalidArguments, DefinitionsLimitReached: they are too large.
            MetadataUnavailable: nothing more can be written; nothing has happened.
        """
        before, keys_before = queue.properties, queue.unique_keys
        after = changed_declaration(self.name, queue, changes, self._store.logs.has_remote)
        if after.type != before.type:
            check_enabled(self.name, after, self._store.disabled_types)
        more = definition_bytes(after) - definition_bytes(before)
        if more > 0:
            self._budget.check(after.user, more)
        durable = self._store_queue(queue, after, paused=queue.paused)
        self._budget.changed([after], [before])
        queue.change(after, *self.policies.book.of_queue(after.name, after.type))
        self.hosted.changed(queue)
        log.info("%s: %s", queue, difference(before.arguments, after.arguments))
        if durable is not None:
            await durable
        keys = queue.unique_keys
        if keys is not None and keys is not keys_before:
            await keys.load()

    async def pause_queue(self, queue: Queue, *, paused: bool) -> None:
        """Let a queue hand out nothing until it is resumed, restarts included; or let it go on.

        When this returns it is durable.

        Raises:
            MetadataUnavailable: nothing more can be written; nothing has happened.
        """
        if paused == queue.paused:
            return
        durable = self._store_queue(queue, queue.properties, paused=paused)
        if paused:
            queue.pause()
        else:
            queue.resume()
        if durable is not None:
            await durable

    def _store_queue(self, queue: Queue, properties: QueueProperties, *, paused: bool) -> Durable:
        if not (queue.is_stored or self._store.keeps_all):
            return None
        numbers = [partition.log.number for partition in queue.partitions]
        owner = _name_of(queue.owner)
        change = queue_change(self.name, properties, numbers, paused=paused, owner=owner)
        return self._writer.submit([change])

    def _check_queue_limit(self, name: str) -> None:
        limits = {MAX_QUEUES: self._queues_max, **self.limits}
        if (limit := reached(limits, MAX_QUEUES, len(self.queues))) is not None:
            raise QueueLimitReached(name, self.name, limit)

    async def _admit(self, queue: Queue, durable: Awaitable[int]) -> Queue:
        try:
            await durable
        except Exception:
            if self.queues.pop(queue.name, None) is not None:
                self._budget.changed([], [queue.properties])
            raise
        queue.declaring = None
        if not queue.deleted:
            self.routing.add_queue(queue.name, durable=queue.is_stored)
        return queue

    def delete_queue(
        self, queue: Queue, *, if_unused: bool = False, if_empty: bool = False
    ) -> Answer[int]:
        """Delete a queue with its bindings and messages; it is gone when this returns.

        Whether it is unused is judged when consumers are back that are awaited.

        Returns:
            How many messages were ready.

        Raises:
            QueueInUse, QueueNotEmpty: by the conditions asked for.
            MetadataUnavailable: nothing more can be written; nothing has happened.
        """
        if if_unused and (back := self.until_consumers_back()) is not None:
            return then(back, lambda _: self._delete_judged(queue, if_empty=if_empty))
        count, consumers = queue.counts()
        if if_unused and consumers:
            raise QueueInUse(queue.name, self.name)
        kept_letters = 0 if queue.rules is None else queue.rules.kept_letters
        if if_empty and (count or queue.delayed or queue.coming or kept_letters):
            raise QueueNotEmpty(queue.name, self.name)
        if queue.is_stored or self._store.keeps_all:
            self._writer.check()
        del self.queues[queue.name]
        self._budget.changed([], [queue.properties])
        self._owned.get(queue.owner, NameTable[Queue]()).pop(queue.name, None)
        change = self.routing.remove_queue(queue.name)
        gone, removals = self.hosted.close(queue)
        self.counters.node.churn.queue_deleted += 1
        tell_of_queue(self._tell, "queue.deleted", queue)
        durable: Durable = None
        try:
            durable = self._keeper.store(change, gone, removals)
        except MetadataUnavailable as error:  # it is not stored, but exchanges that go with it are
            log.error("what ended with %s may come back with a restart: %s", queue, error)
        whole = self._keeper.whole(change, durable)
        return count if whole is None else unawaited(then(whole, lambda _: count))

    def _delete_judged(self, queue: Queue, *, if_empty: bool) -> Answer[int]:
        if queue.deleted:
            return self._nothing_deleted()
        return self.delete_queue(queue, if_unused=True, if_empty=if_empty)

    def _nothing_deleted(self) -> Answer[int]:
        undecided = self.undecided()
        return 0 if undecided is None else then(undecided, lambda _: 0)

    def delete_queue_of(
        self,
        name: str,
        connection: object,
        *,
        if_unused: bool,
        if_empty: bool,
        number: int | None = None,
    ) -> Answer[int]:
        """Delete a queue that a connection may use; one that is not there is as good as deleted.

        Args:
            number: of the queue that is meant: one that was declared later stays. None: whichever there is.

        Returns, Raises: see `queue` and `delete_queue`.
        """
        queue = self.queues.get(name)
        if queue is not None and number in (None, queue.number):
            queue.check_access(connection)
            return self.delete_queue(queue, if_unused=if_unused, if_empty=if_empty)
        return self._nothing_deleted()

    def delete_left(self, name: str) -> Durable:
        """Delete a queue if it is auto-delete and its last consumer has left.

        Raises:
            MetadataUnavailable: nothing more can be written; it stays.
        """
        queue = self.queues.get(name)
        return None if queue is None or self._is_kept(queue) else pending(self.delete_queue(queue))

    def consumers_left(self, name: str) -> Durable:
        """Consumers went with their channel, which may delete an auto-delete queue."""
        queue = self.queues.get(name)
        return None if queue is None or self._is_kept(queue) else self._delete_unasked(queue)

    def _is_kept(self, queue: Queue) -> bool:
        return not queue.is_unwanted or self._store.awaited.are_away

    def judge(self, queue: Queue) -> None:
        """All consumers are known: a queue that none has may end."""
        if not queue.deleted:
            if queue.rules is not None and queue.rules.lease is not None:
                queue.rules.lease.consumers_back()
            self.consumers_left(queue.name)

    def carried_out(self) -> None:
        """When what clients here have settled or returned is so at the node that leads: this is it."""

    def connection_closed(self, connection: object) -> "asyncio.Future[None] | None":
        """Delete the exclusive queues of a connection, many in several turns; it may be told twice.

        Returns:
            Done when all nodes know that they are gone; it does not fail.
        """
        queues = self._owned.pop(connection, NameTable[Queue]())
        last = self._delete_owned(queues)
        if not queues:
            return None if last is None else decided(last)
        gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._store.scheduler.call(Lane.JOBS, lambda: self._delete_more(queues, gone))
        return gone

    def _delete_more(self, queues: NameTable[Queue], gone: "asyncio.Future[None]") -> bool:
        # Some of them; returns whether there are more.
        last = self._delete_owned(queues)
        if queues:
            return True

        def resolve(_: object) -> None:
            if not gone.done():
                gone.set_result(None)

        if last is None:
            resolve(None)
        else:
            last.add_done_callback(resolve)
        return False

    def _delete_owned(self, queues: NameTable[Queue]) -> Durable:
        # Some of them.
        deleted, last = 0, None
        while queues and deleted < DELETIONS_MAX:
            _, queue = queues.popitem()
            if not queue.deleted:
                deleted += len(queue.partitions)
                last = self._delete_unasked(queue)
        return last

    def _expire(self, name: str) -> None:
        queue = self.queues.get(name)
        if queue is not None:  # its declaration may have failed
            with acts(EXPIRY):
                self._delete_unasked(queue)

    async def clear(self) -> None:
        """Delete all queues and exchanges, in several turns; the vhost itself is being deleted.

        Raises:
            MetadataUnavailable: nothing more can be written.
        """
        self._keeper.closed = self.policies.closed = True
        durable: Durable = None
        deleted = 0
        for queue in self.queues.values():
            if not queue.deleted:
                durable = pending(self.delete_queue(queue)) or durable
                deleted += len(queue.partitions)
            if deleted >= DELETIONS_MAX:
                deleted = 0
                await pause(Lane.OPERATORS)
        for at, exchange in enumerate(self.routing.exchanges(), 1):
            if exchange not in self.routing.predeclared:
                durable = self.delete_exchange(exchange.name, if_unused=False) or durable
            if at % DELETIONS_MAX == 0:
                await pause(Lane.OPERATORS)
        if durable is not None:
            await durable
        await self._keeper.all_removed()

    def _delete_unasked(self, queue: Queue) -> Durable:
        # Nobody is there to be told, and whatever else ends with the connection must go on.
        try:
            return pending(self.delete_queue(queue))
        except MetadataUnavailable as error:
            log.error("%s has lost its last consumer, and stays: %s", queue, error)
            return None

    def _add_queue(
        self, properties: QueueProperties, owner: object | None, logs: Sequence[PartitionLog]
    ) -> Queue:
        queue = self.hosted.open(properties, owner, logs)
        self.targets.newest = max(self.targets.newest, logs[0].number)
        self.queues[properties.name] = queue
        if owner is not None:
            self._owned.setdefault(owner, NameTable())[properties.name] = queue
        return queue

    @property
    def unrouted(self) -> Receipt:
        """What the confirm waits for of a message that no queue gets: perhaps one has just been removed."""
        return self._writer.receipt

    def undecided(self) -> Durable:
        """What an answer must wait for: a crash could undo what somebody else just made or deleted."""
        return self._keeper.undecided()


def _name_of(owner: object | None) -> str:
    # Of a connection that another node has; connections here are known by themselves.
    name: str = getattr(owner, "owner_name", "")
    return name


def _user() -> str:
    # Who makes what is being made.
    actor = current_actor()
    return "" if actor is None else intern(actor.user)
