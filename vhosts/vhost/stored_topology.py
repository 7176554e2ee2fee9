"""Carries out the stored definitions of a virtual host: what a start finds, and what a leader commits.

A start carries out all records that the metadata store has, in the order of `KINDS`. A node that follows goes
on with each change that its leader has committed, in that order. Nothing is opened here that lies in a log: a
node that is to lead, or on its own, does that with `queues` and `partitions`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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
from routelog.vhosts.queues.group_book import GroupBook
from routelog.vhosts.stored.kept_definitions import KeptDefinitions
from routelog.vhosts.stored.policy_book import PolicyBook
from routelog.vhosts.stored.stored_definitions import key_names
from routelog.vhosts.stored.topology_record import (
    BindingRecord,
    DelayRecord,
    ExchangeRecord,
    QueueRecord,
    prefix,
)
from routelog.vhosts.vhost.definitions_budget import DefinitionsBudget
from routelog.vhosts.vhost.topology_keeper import TopologyKeeper

# What a record of a later version, or a damaged one, may raise
UNREADABLE = msgspec.MsgspecError, RoutingError, ValueError

KINDS = (
    "exchanges",
    "delays",
    "groups",
    "next-cursors",
    "queues",
    "bindings",
    "policies",
    "operator-policies",
    "kept-definitions",
)


@dataclass(frozen=True, slots=True)
class StoredQueue:
    """A durable queue, with the numbers of its partitions, that is not open."""

    properties: QueueProperties
    partitions: Sequence[int]
    paused: bool


class StoredTopology:
    """Keeps the definitions of one vhost in memory as the records say.

    Attributes:
        queues: those that are not open, by name; who opens one takes it out.
        partitions: numbers of the logs of exchanges that have some, by name.

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
        self._routing = routing
        self._keeper = keeper
        self._budget = budget
        self._appliers = {
            b"exchanges": self._apply_exchange,
            b"delays": self._apply_delay,
            b"groups": groups.apply,
            b"next-cursors": groups.apply,
            b"queues": self._apply_queue,
            b"policies": policies.apply,
            b"operator-policies": policies.apply,
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
            if kind == b"bindings":
                self._apply_binding(change.value, before)
            else:
                self._appliers[kind](change)
        except UNREADABLE as error:
            raise MetadataCorrupt(f"{change.key!r}: {error}") from error

    def _apply_exchange(self, change: Change) -> None:
        if change.value is None:
            _, name = key_names(change.key)
            self.partitions.pop(name, None)
            self._keeper.apply(self._routing.forget_exchange(name))
            return
        record = msgspec.json.decode(change.value, type=ExchangeRecord)
        if record.partition:
            self.partitions[record.name] = [record.partition]
        self._keeper.apply(self._routing.restore_exchange(record.exchange()))

    def _apply_delay(self, change: Change) -> None:
        if change.value is not None:
            record = msgspec.json.decode(change.value, type=DelayRecord)
            self.partitions[record.exchange] = record.partitions

    def _apply_queue(self, change: Change) -> None:
        if change.value is None:
            _, name = key_names(change.key)
            if (known := self.queues.pop(name, None)) is not None:
                self._budget.changed([], [known.properties])
            self._routing.forget_queue(name)
            return
        record = msgspec.json.decode(change.value, type=QueueRecord)
        known = self.queues.get(record.name)
        stored = StoredQueue(record.properties(), record.partitions, record.paused)
        self.queues[record.name] = stored
        gone = [] if known is None else [known.properties]
        self._budget.changed([stored.properties], gone)
        self._routing.add_queue(record.name, durable=True)

    def _apply_binding(self, value: bytes | None, before: bytes | None) -> None:
        if value is not None:
            binding = _binding(value)
            try:
                change = self._routing.restore_binding(binding)
            except (ExchangeNotFound, QueueNotFound):
                change = self._routing.restore_departed(binding)
            self._keeper.apply(change)
        elif before is not None:
            self._keeper.apply(self._routing.forget_binding(_binding(before)))


def _binding(value: bytes) -> Binding:
    return msgspec.json.decode(value, type=BindingRecord).binding()
