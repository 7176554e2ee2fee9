"""Carries out the stored definitions of a virtual host: what a start finds, and what a leader commits.

A start carries out all records that the metadata store has, in the order of `KINDS`. A node that follows goes
on with each change that its leader has committed, in that order. Nothing is opened here that lies in a log: a
node that is to lead, or on its own, does that with `queues` and `partitions`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec

from routelog.exchanges import (
    Binding,
    ExchangeNotFound,
    QueueNotFound,
    RoutingError,
    RoutingTable,
)
from routelog.log_backend import Change, MetadataCorrupt, MetadataStore
from routelog.vhosts.arguments.queue_properties import QueueProperties
from routelog.vhosts.errors import QueueLocked
from routelog.vhosts.queues.group_book import GroupBook
from routelog.vhosts.stored.kept_definitions import KeptDefinitions
from routelog.vhosts.stored.policy_book import PolicyBook
from routelog.vhosts.stored.stored_definitions import key_names
from routelog.vhosts.stored.topology_record import (
    BindingRecord,
    DelayRecord,
    ExchangeRecord,
    QueueRecord,
    TransientQueueRecord,
    prefix,
)
from routelog.vhosts.vhost.definitions_budget import DefinitionsBudget
from routelog.vhosts.vhost.topology_keeper import TopologyKeeper

# What a record of a later version, or a damaged one, may raise
UNREADABLE = msgspec.MsgspecError, RoutingError, ValueError

KINDS = (
    "exchanges",
    "transient-exchanges",
    "delays",
    "groups",
    "next-cursors",
    "queues",
    "transient-queues",
    "bindings",
    "transient-bindings",
    "policies",
    "operator-policies",
    "kept-definitions",
)


@dataclass(frozen=True, slots=True)
class StoredQueue:
    """A queue, with the numbers of its partitions, that is not open: a durable one, or another leader's.

    Attributes:
        owner: see `TransientQueueRecord`.
    """

    properties: QueueProperties
    partitions: Sequence[int]
    paused: bool
    owner: str = ""

    def check_access(self, vhost: str, owner: str) -> None:
        """Refuse an exclusive queue to all connections of other nodes but its owner.

        Raises:
            QueueLocked: it belongs to another connection.
        """
        if self.properties.exclusive and not (owner and owner == self.owner):
            raise QueueLocked(self.properties.name, vhost)


class StoredTopology:
    """Keeps the definitions of one vhost in memory as the records say.

    Attributes:
        queues: those that are not open, by name; who opens one takes it out.
        partitions: numbers of the logs of exchanges that have some, by name.
        on_queue: told of the name of each queue whose record is new, another one, or gone.
        on_exchange_gone: told of the name of each exchange whose record is gone.
        on_policies: told of each change of policies.

    Args:
        keeper: of `routing`.
        budget: counts the queues; what the keeper carries out is counted there.
    """

    def __init__(
        self,
        routing: RoutingTable,
        keeper: TopologyKeeper,
        budget: DefinitionsBudget,
        groups: GroupBook,
        policies: PolicyBook,
        kept: KeptDefinitions,
    ) -> None:
        self.queues: dict[str, StoredQueue] = {}
        self.partitions: dict[str, Sequence[int]] = {}
        self.on_queue: Callable[[str], None] = lambda name: None
        self.on_exchange_gone: Callable[[str], None] = lambda name: None
        self.on_policies: Callable[[], None] = lambda: None
        self._policies = policies
        self._routing = routing
        self._keeper = keeper
        self._budget = budget
        self._appliers: dict[bytes, Callable[[Change], None]] = {
            b"exchanges": partial(self._apply_exchange, durable=True),
            b"transient-exchanges": partial(self._apply_exchange, durable=False),
            b"delays": self._apply_delay,
            b"groups": groups.apply,
            b"next-cursors": groups.apply,
            b"queues": partial(self._apply_queue, kind=QueueRecord),
            b"transient-queues": partial(self._apply_queue, kind=TransientQueueRecord),
            b"policies": self._apply_policy,
            b"operator-policies": self._apply_policy,
            b"kept-definitions": kept.apply,
        }

    def loading(self, store: MetadataStore) -> Iterator[None]:
        """Carry out all that a store has, one record a step; nothing was carried out before."""
        for kind in KINDS:
            for key, entry in store.scan(prefix(kind, self._routing.vhost)):
                yield
                self.apply(Change(key, entry.value), None)

    def apply(self, change: Change, before: bytes | None) -> None:
        """Carry out a change.

        Args:
            before: the value that the key had; only of a binding that is deleted.

        Raises:
            MetadataCorrupt: it cannot be read, or carried out.
        """
        kind = change.key.partition(b"/")[0]
        try:
            if kind in (b"bindings", b"transient-bindings"):
                self._apply_binding(change.value, before, durable=kind == b"bindings")
            else:
                self._appliers[kind](change)
        except UNREADABLE as error:
            raise MetadataCorrupt(f"{change.key!r}: {error}") from error

    def _apply_exchange(self, change: Change, *, durable: bool) -> None:
        if change.value is None:
            _, name = key_names(change.key)
            self.partitions.pop(name, None)
            self._keeper.apply(self._routing.forget_exchange(name))
            self.on_exchange_gone(name)
            return
        record = msgspec.json.decode(change.value, type=ExchangeRecord)
        if record.partition:
            self.partitions[record.name] = [record.partition]
        self._keeper.apply(self._routing.restore_exchange(record.exchange(durable=durable)))

    def _apply_delay(self, change: Change) -> None:
        if change.value is not None:
            record = msgspec.json.decode(change.value, type=DelayRecord)
            self.partitions[record.exchange] = record.partitions

    def _apply_queue(self, change: Change, *, kind: type[QueueRecord]) -> None:
        if change.value is None:
            _, name = key_names(change.key)
            if (known := self.queues.pop(name, None)) is not None:
                self._budget.changed([], [known.properties])
            self._routing.forget_queue(name)
            self.on_queue(name)
            return
        record = msgspec.json.decode(change.value, type=kind)
        known = self.queues.get(record.name)
        owner = record.owner if isinstance(record, TransientQueueRecord) else ""
        stored = StoredQueue(record.properties(), record.partitions, record.paused, owner)
        self.queues[record.name] = stored
        gone = [] if known is None else [known.properties]
        self._budget.changed([stored.properties], gone)
        self._routing.add_queue(record.name, durable=stored.properties.is_stored)
        self.on_queue(record.name)

    def _apply_policy(self, change: Change) -> None:
        self._policies.apply(change)
        self.on_policies()

    def _apply_binding(self, value: bytes | None, before: bytes | None, *, durable: bool) -> None:
        if value is not None:
            binding = _binding(value, durable=durable)
            try:
                change = self._routing.bind(binding)
            except (ExchangeNotFound, QueueNotFound):
                change = self._routing.restore_departed(binding)
            self._keeper.apply(change)
        elif before is not None:
            self._keeper.apply(self._routing.forget_binding(_binding(before, durable=durable)))


def _binding(value: bytes, *, durable: bool) -> Binding:
    return msgspec.json.decode(value, type=BindingRecord).binding(durable=durable)
