"""All virtual hosts of a node, and the numbers of their partitions."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
from typing import Any
from urllib.parse import unquote

import msgspec

from routelog.exchanges import check_name
from routelog.log_backend import (
    CallLater,
    Change,
    Durability,
    Lane,
    LogStore,
    MetadataCorrupt,
    MetadataStore,
    MetadataWriter,
    Scheduler,
    in_turns,
    unawaited,
)
from routelog.vhosts.arguments.argument_checks import QUEUE_TYPES
from routelog.vhosts.arguments.limits import VHOST_LIMITS, Limits, checked_limits
from routelog.vhosts.counters.totals import NodeCounters
from routelog.vhosts.errors import InvalidVhost, VhostNotFound
from routelog.vhosts.publishing.exchange_memory_limit import (
    HISTORIES_BYTES_MAX,
    ExchangeMemoryLimit,
)
from routelog.vhosts.queues.event_feed import EventFeed
from routelog.vhosts.rules.awaited_consumers import AwaitedConsumers
from routelog.vhosts.stored.stored_definitions import key_names
from routelog.vhosts.stored.topology_record import (
    NEXT_PARTITION_KEY,
    VHOSTS_PREFIX,
    VhostRecord,
    vhost_change,
)
from routelog.vhosts.vhost.definitions_budget import BYTES_MAX, DefinitionsBudget
from routelog.vhosts.vhost.hosted_queues import QueueStore
from routelog.vhosts.vhost.stored_topology import KINDS, UNREADABLE
from routelog.vhosts.vhost.vhost import QUEUES_MAX, VirtualHost

DESCRIPTION_CHARACTERS_MAX = 1_024  # characters; listings show it
TAGS_MAX = 32  # as for users
TAG_CHARACTERS_MAX = 255
PREFIXES = tuple(f"{kind}/".encode() for kind in KINDS)  # of what a vhost has
VHOST_PREFIXES = (
    NEXT_PARTITION_KEY,
    VHOSTS_PREFIX,
    *PREFIXES,
)  # of all that is kept here, as it is loaded


def no_listeners(vhost: str) -> Iterable[Any]:
    """Nobody is told of messages."""
    return ()


class VhostDirectory:
    """The vhosts by name.

    Attributes:
        queues_max: limit of queues for vhosts without a limit of their own.
        disabled_types: of queues that are not made any more.
        has_remote: the node has remote storage for logs.
        default_vhost: name of the vhost in which the node publishes logs and events.
        default_durability: of queues whose arguments name none.
        events: emits the events of the node.
        counters: of the node.
        on_deleted, on_added: called with the name of each vhost that is deleted, and each that comes.
        on_limits: called with the name of each vhost whose limits change, and these.
        budget: of all definitions.
        write_deletion: called with the name of a vhost and the changes that delete it; writes them in one
            step with the deletion of what others keep of it.

    Args:
        listeners_of: who is told of every message of a vhost, from its name.
        relaxed_redeclaration: see `VirtualHost`.
        has_fronts: see `QueueStore`.
        is_ending: see `AwaitedConsumers`.
    """

    def __init__(
        self,
        logs: LogStore,
        writer: MetadataWriter,
        scheduler: Scheduler,
        call_later: CallLater,
        *,
        default_durability: Durability = Durability.DISK,
        queues_max: int = QUEUES_MAX,
        disabled_types: Collection[str] = (),
        default_vhost: str = "/",
        histories_bytes_max: int = HISTORIES_BYTES_MAX,
        definitions_bytes_max: int = BYTES_MAX,
        listeners_of: Callable[[str], Iterable[Any]] = no_listeners,
        relaxed_redeclaration: bool = False,
        has_fronts: bool = False,
        is_ending: Callable[[], bool] = lambda: False,
    ) -> None:
        self._store = QueueStore(
            logs,
            writer,
            self.take_numbers,
            scheduler,
            call_later,
            default_durability,
            ExchangeMemoryLimit(histories_bytes_max, logs.memory.hold),
            disabled_types,
            AwaitedConsumers(is_ending),
            has_fronts,
        )
        self._listeners_of = listeners_of
        self._relaxed_redeclaration = relaxed_redeclaration
        self.budget = DefinitionsBudget(definitions_bytes_max, logs.memory.hold)
        self.queues_max = queues_max
        self.disabled_types = disabled_types
        self.has_remote = logs.has_remote
        self.default_vhost = default_vhost
        self.default_durability = default_durability
        self._next_partition = 1
        self.counters = NodeCounters()
        self.events = EventFeed(lambda: self._vhosts.get(default_vhost), logs.now)
        self._vhosts: dict[str, VirtualHost] = {}
        # Vhosts being deleted; a new vhost of the name would take over their remaining records
        self._clearing: set[str] = set()
        self.on_deleted: Callable[[str], None] = lambda name: None
        self.on_added: Callable[[VirtualHost], None] = lambda vhost: None
        self.on_limits: Callable[[str, Limits], None] = lambda name, limits: None
        self.write_deletion: Callable[..., Awaitable[object]] = lambda _, *changes: writer.submit(
            changes
        )

    def keep_queues(self) -> None:
        """This node closes its clients: no auto-delete queue goes because these consumers leave.

        They stay as after a crash, until others have consumed and left. Those that a crash deletes are judged
        by `consumers_back`, if the node goes on.
        """
        is_judged = self._store.awaited.are_away
        for vhost in self._vhosts.values():
            for queue in vhost.queues.values():
                if queue.is_stored or not is_judged:
                    queue.had_consumer = False

    def await_consumers(self) -> None:
        """Others' consumers are not known: judge no queue by who consumes until `consumers_back`."""
        self._store.awaited.begin()

    def consumers_back(self) -> None:
        """All nodes have brought their consumers back, or are gone: judge all queues, in turns."""
        self._store.awaited.end()
        unawaited(self._store.scheduler.run(self._judging(), Lane.JOBS))

    def _judging(self) -> Iterator[None]:
        for vhost in self.all():
            for queue in [*vhost.queues.values()]:
                vhost.judge(queue)
                yield

    async def load(self, store: MetadataStore) -> None:
        """Read all that is stored, in turns."""
        async for _ in in_turns(self._loading(store), Lane.STARTS):
            pass

    def _loading(self, store: MetadataStore) -> Iterator[None]:
        for stored in (NEXT_PARTITION_KEY, VHOSTS_PREFIX):
            for key, entry in store.scan(stored):
                self.apply(Change(key, entry.value), None)
        for vhost in self._vhosts.values():
            yield from vhost.stored.loading(store)

    def apply(self, change: Change, before: bytes | None) -> None:
        """Carry out a change that is stored, or that another node has committed; others are passed over.

        Args:
            before: see `StoredTopology.apply`, which says what else it raises.

        Raises:
            MetadataCorrupt: it cannot be read.
        """
        key, value = change.key, change.value
        try:
            if key == NEXT_PARTITION_KEY:
                self._next_partition = int(value or 1)
            elif key.startswith(PREFIXES):
                vhost = self._vhosts.get(unquote(key.split(b"/", 2)[1].decode()))
                if vhost is not None:  # else it was deleted: a start passes over what is left of it
                    vhost.stored.apply(change, before)
            elif key.startswith(VHOSTS_PREFIX):
                if value is None:
                    (name,) = key_names(key)
                    if self._vhosts.pop(name, None) is not None:
                        self.on_deleted(name)
                        self.on_limits(name, {})
                else:
                    self._put(msgspec.json.decode(value, type=VhostRecord))
        except UNREADABLE as error:
            raise MetadataCorrupt(f"{key!r}: {error}") from error

    async def open_logs(self) -> None:
        """The definitions are there: open the logs of queues and exchanges, in turns.

        Call it before the log store recovers. A node that has followed has them open.
        """
        async for _ in in_turns(self._opening(), Lane.STARTS):
            pass

    def _opening(self) -> Iterator[None]:
        for vhost in self._vhosts.values():
            yield from vhost.opening()

    async def recovered(self) -> None:
        """The log store has recovered: look at all queues, in turns."""
        async for _ in in_turns(self._recovering(), Lane.STARTS):
            pass

    def _recovering(self) -> Iterator[None]:
        held = [
            number for vhost in self._vhosts.values() for number in vhost.hosted.delays.schedules
        ]
        self._store.logs.schedules.keep_only(held)
        for vhost in self._vhosts.values():
            yield from vhost.recovering()

    async def load_memories(self) -> None:
        """The journal accepts entries: load what exchanges remember, then go on with what moves."""
        for vhost in self._vhosts.values():
            await vhost.hosted.memories.load()
            for queue in vhost.queues.values():
                if queue.unique_keys is not None:
                    await queue.unique_keys.load()
            vhost.go_on()

    def get(self, name: str) -> VirtualHost:
        """A vhost.

        Raises:
            VhostNotFound: there is none of this name.
        """
        vhost = self._vhosts.get(name)
        if vhost is None:
            raise VhostNotFound(name)
        return vhost

    def all(self) -> list[VirtualHost]:
        """All vhosts there are."""
        return list(self._vhosts.values())

    async def add(self, name: str) -> VirtualHost:
        """Return the vhost of this name, created when there is none; durable when this returns.

        Raises:
            InvalidName: the name breaks the rules of names.
        """
        if name not in self._vhosts:
            await self.put(VhostRecord(name))
        return self._vhosts[name]

    async def put(self, record: VhostRecord) -> None:
        """Create a vhost, or change what a record says of an existing one; durable when this returns.

        Raises:
            InvalidName: the name breaks the rules of names.
            InvalidLimit: a limit is not known, or its value cannot be.
            InvalidVhost: the description, a tag or the default queue type is not valid.
        """
        check_vhost(record)
        if record.name in self._clearing:
            raise InvalidVhost(record.name, "it is being deleted")
        durable = self._store.writer.submit([vhost_change(record)])
        is_new = record.name not in self._vhosts
        vhost = self._put(record)
        if is_new:
            vhost.hosted.begin()
            self.events.tell("vhost.created", name=record.name)
        await durable

    async def set_limits(self, name: str, limits: Limits) -> None:
        """Replace the limits of a vhost; durable when this returns.

        Raises:
            VhostNotFound: there is none of this name; none is made.
            InvalidLimit: a limit is not known, or its value cannot be.
        """
        await self.put(msgspec.structs.replace(self.get(name).record, limits=dict(limits)))

    async def delete(self, name: str) -> None:
        """Delete a vhost with its queues, exchanges and permissions.

        `get` finds it no more at once. `on_deleted` closes its connections.

        Raises:
            VhostNotFound: there is none of this name.
            MetadataUnavailable: nothing more can be written.
        """
        vhost = self.get(name)
        del self._vhosts[name]
        self._clearing.add(name)
        self.on_deleted(name)
        self.on_limits(name, {})
        self.events.tell("vhost.deleted", name=name)
        try:
            await self._clear(vhost)
        finally:
            self._clearing.discard(name)

    async def _clear(self, vhost: VirtualHost) -> None:
        await vhost.clear()
        await self.write_deletion(
            vhost.name,
            *vhost.policies.book.deletions(),
            *vhost.kept.deletions(),
            vhost_change(vhost.record, deleted=True),
        )

    @property
    def next_partition(self) -> int:
        """The number that the next partition gets."""
        return self._next_partition

    def take_numbers(self, count: int) -> tuple[list[int], Change]:
        """Return partition numbers, and the change that keeps them from being given again."""
        first = self._next_partition
        self._next_partition += count
        numbers = list(range(first, self._next_partition))
        return numbers, Change(NEXT_PARTITION_KEY, b"%d" % self._next_partition)

    def _put(self, record: VhostRecord) -> VirtualHost:
        self.on_limits(record.name, record.limits)
        vhost = self._vhosts.get(record.name)
        if vhost is not None:
            vhost.record = record
            return vhost
        vhost = VirtualHost(
            record,
            self._store,
            budget=self.budget,
            counters=self.counters,
            queues_max=self.queues_max,
            node_tells=record.name == self.default_vhost,
            tell=self.events.tell,
            listeners=self._listeners_of(record.name),
            relaxed_redeclaration=self._relaxed_redeclaration,
        )
        self._vhosts[record.name] = vhost
        self.on_added(vhost)
        return vhost


def check_vhost(record: VhostRecord) -> None:
    """Refuse a record of a vhost that is not valid.

    Raises:
        InvalidName: the name breaks the rules of names.
        InvalidLimit: a limit is not known, or its value cannot be.
        InvalidVhost: the description, a tag or the default queue type cannot be.
    """
    check_name("vhost", record.name)
    checked_limits(VHOST_LIMITS, record.limits)
    if len(record.description) > DESCRIPTION_CHARACTERS_MAX:
        raise InvalidVhost(
            record.name, f"description: above {DESCRIPTION_CHARACTERS_MAX} characters"
        )
    if len(record.tags) > TAGS_MAX or any(len(tag) > TAG_CHARACTERS_MAX for tag in record.tags):
        raise InvalidVhost(record.name, f"tags: above {TAGS_MAX}, or one is too long")
    if record.default_queue_type not in (None, *QUEUE_TYPES):
        raise InvalidVhost(
            record.name, f"default_queue_type: expected one of {', '.join(QUEUE_TYPES)}"
        )
