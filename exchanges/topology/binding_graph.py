"""Exchanges and queues of a vhost as a graph whose edges are the bindings.

It keeps the graph consistent: no binding without both of its ends, no auto-delete exchange after its last
binding. The rules of what is allowed are in the topology.

A deleted queue or exchange is gone at once, and its bindings lead nowhere. Its bindings are removed a few at a
time: until the last one is removed, the queue or exchange is `departed`, and its name cannot be declared.
"""

from collections.abc import Iterable, Iterator
from itertools import islice

import msgspec

from routelog.exchanges.bindings.binding import Binding, DestinationKind
from routelog.exchanges.bindings.exchange import Exchange
from routelog.exchanges.bindings.name_table import NameTable
from routelog.exchanges.indexes.binding_index import BindingIndex
from routelog.exchanges.topology.graph_nodes import ExchangeNode, QueueNode

# Bindings that are removed at once: by a deletion, 0.5 ms, as a turn may have several deletions; and by a later
# turn, up to 2 ms with their metadata.
AT_ONCE_MAX = 32
DEPARTED_BINDINGS_MAX = 128
ARGUMENTS_OF_ONE = 8  # removing so many arguments takes as long as removing a binding
End = tuple[DestinationKind, str]  # what a binding leads to, or an exchange that it leaves from


class TopologyChange(msgspec.Struct, frozen=True):
    """Exchanges and bindings that one call added and removed, cascades included.

    True when there are any. The caller that persists the topology writes those with `durable` set.

    Attributes:
        unfinished: more bindings of deleted nodes than one call removes: see `Topology.remove_departed`.
    """

    exchanges_declared: tuple[Exchange, ...] = ()
    exchanges_deleted: tuple[Exchange, ...] = ()
    bindings_added: tuple[Binding, ...] = ()
    bindings_removed: tuple[Binding, ...] = ()
    unfinished: bool = False

    def __bool__(self) -> bool:
        return bool(
            self.exchanges_declared
            or self.exchanges_deleted
            or self.bindings_added
            or self.bindings_removed
        )


NO_CHANGE = TopologyChange()


class BindingGraph:
    """The nodes by name. The cost of a change does not depend on the size of the vhost.

    Attributes:
        departed: deleted queues and exchanges that still have bindings, the latest last.
    """

    def __init__(self) -> None:
        self.exchanges: dict[str, ExchangeNode] = {}
        self.queues = NameTable[QueueNode]()
        self.departed: dict[End, ExchangeNode | QueueNode] = {}

    def destination(self, binding: Binding) -> ExchangeNode | QueueNode | None:
        """Return the node that a binding leads to, if it is there."""
        if binding.destination_kind == "queue":
            return self.queues.get(binding.destination)
        return self.exchanges.get(binding.destination)

    def leading(self, bindings: Iterable[Binding]) -> Iterator[Binding]:
        """Return the bindings whose source and destination both exist."""
        gone = self.departed
        if not gone:
            return iter(bindings)
        return (
            b
            for b in bindings
            if (b.destination_kind, b.destination) not in gone
            and ("exchange", b.source) not in gone
        )

    def add_exchange(self, exchange: Exchange, index: BindingIndex) -> TopologyChange:
        """Add an exchange without bindings."""
        self.exchanges[exchange.name] = ExchangeNode(exchange, index)
        return TopologyChange(exchanges_declared=(exchange,))

    def add_binding(self, binding: Binding) -> TopologyChange:
        """Add a binding between existing or departed nodes; an existing binding changes nothing."""
        source, destination = self._ends(binding)
        if source is None or binding in source.outgoing or destination is None:
            return NO_CHANGE
        source.add(binding)
        destination.incoming[binding] = None
        return TopologyChange(bindings_added=(binding,))

    def remove_binding(self, binding: Binding) -> TopologyChange:
        """Remove a binding; a missing one changes nothing."""
        source = self.exchanges.get(binding.source)
        known = source.outgoing.get(binding) if source else None
        if known is None:
            return NO_CHANGE
        departed, deleted = len(self.departed), list[Exchange]()
        self._take_off(known, deleted)
        return self._remove_departed(AT_ONCE_MAX, departed, deleted, [known])

    def remove_exchange(self, name: str, bindings_max: int = AT_ONCE_MAX) -> TopologyChange:
        """Remove an exchange, and the first of the bindings that leave from it or lead to it."""
        departed, deleted = len(self.departed), list[Exchange]()
        self._depart(self.exchanges[name], deleted)
        return self._remove_departed(bindings_max, departed, deleted, [])

    def remove_queue(self, name: str, bindings_max: int = AT_ONCE_MAX) -> TopologyChange:
        """Remove a queue, and the first of the bindings that lead to it."""
        departed = len(self.departed)
        self.departed["queue", name] = self.queues.pop(name)
        return self._remove_departed(bindings_max, departed, [], [])

    def forget_binding(self, binding: Binding) -> TopologyChange:
        """Remove a binding, and what has departed and has no other one; a missing one changes nothing."""
        source, _ = self._ends(binding)
        known = source.outgoing.get(binding) if source else None
        if known is None:
            return NO_CHANGE
        self.drop_binding(known)
        for end in (("exchange", known.source), (known.destination_kind, known.destination)):
            node = self.departed.get(end)
            if node is not None and not node.is_bound:
                del self.departed[end]
        return TopologyChange(bindings_removed=(known,))

    def restore_departed(self, end: End, node: ExchangeNode | QueueNode) -> None:
        """Add a deleted queue or exchange whose remaining bindings are to be removed."""
        self.departed.setdefault(end, node)

    def restore_exchange(self, exchange: Exchange, index: BindingIndex) -> None:
        """Undo the deletion of an exchange, but not the removal of its bindings."""
        node = self.departed.pop(("exchange", exchange.name), None)
        self.exchanges[exchange.name] = (
            node if isinstance(node, ExchangeNode) else ExchangeNode(exchange, index)
        )

    def remove_departed(self) -> TopologyChange:
        """Remove some more bindings of departed queues and exchanges, if there are any."""
        return (
            self._remove_departed(DEPARTED_BINDINGS_MAX, 0, [], []) if self.departed else NO_CHANGE
        )

    def _remove_departed(
        self, count: int, departed: int, deleted: list[Exchange], removed: list[Binding]
    ) -> TopologyChange:
        """Remove up to `count` bindings of departed nodes, and auto-delete exchanges that lose their last one.

        The first `departed` nodes are left alone. It does not recurse, because a chain of exchanges may be
        long. A binding with many arguments counts as several.
        """
        left = count - len(removed)
        while len(self.departed) > departed:
            end, node = next(reversed(self.departed.items()))
            for binding in list(islice(node.bindings(), max(left, 0))):
                if left <= 0:
                    break
                self._take_off(binding, deleted)
                removed.append(binding)
                left -= 1 + len(binding.arguments) // ARGUMENTS_OF_ONE
            if next(node.bindings(), None) is not None:
                break
            del self.departed[end]
        return TopologyChange(
            exchanges_deleted=tuple(deleted),
            bindings_removed=tuple(removed),
            unfinished=len(self.departed) > departed,
        )

    def _take_off(self, binding: Binding, deleted: list[Exchange]) -> None:
        """Remove a binding, and its source if that is an auto-delete exchange and has no other binding."""
        self.drop_binding(binding)
        source = self.exchanges.get(binding.source)
        if source and source.exchange.auto_delete and not source.outgoing:
            self._depart(source, deleted)

    def _depart(self, node: ExchangeNode, deleted: list[Exchange]) -> None:
        name = node.exchange.name
        self.departed["exchange", name] = self.exchanges.pop(name)
        deleted.append(node.exchange)

    def drop_binding(self, binding: Binding) -> None:
        """Remove a binding and nothing else."""
        source, destination = self._ends(binding)
        if source:
            source.remove(binding)
        if destination:
            destination.incoming.pop(binding, None)

    def _ends(
        self, binding: Binding
    ) -> tuple[ExchangeNode | None, ExchangeNode | QueueNode | None]:
        source: ExchangeNode | QueueNode | None = self.exchanges.get(binding.source)
        source = source or self.departed.get(("exchange", binding.source))
        destination = self.destination(binding)
        if destination is None:
            destination = self.departed.get((binding.destination_kind, binding.destination))
        return source if isinstance(source, ExchangeNode) else None, destination
