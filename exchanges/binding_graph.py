"""Exchanges and queues of a vhost as a graph whose edges are the bindings.

It keeps the structure whole (no binding without both of its ends, no auto-delete exchange after
its last binding) and leaves the rules of who may do what to the routing table.
"""

from collections import deque
from collections.abc import Iterable
from itertools import chain, islice

from exchanges.binding import Binding
from exchanges.binding_index import BindingIndex
from exchanges.exchange import Exchange
from exchanges.graph_nodes import ExchangeNode, QueueNode
from exchanges.held_bindings import count_of, each, with_binding, without_binding
from exchanges.name_table import NameTable
from exchanges.topology_change import NO_CHANGE, TopologyChange


class BindingGraph:
    """The nodes by name. Every change costs what it touches, never the size of the vhost."""

    def __init__(self) -> None:
        self.exchanges: dict[str, ExchangeNode] = {}
        self.queues = NameTable[QueueNode]()

    def destination(self, binding: Binding) -> ExchangeNode | QueueNode | None:
        """Return the node that a binding leads to."""
        if binding.destination_kind == "queue":
            return self.queues.get(binding.destination)
        return self.exchanges.get(binding.destination)

    def degree_of_exchange(self, name: str) -> int:
        """How many bindings leave from an exchange or lead to it; 0 when there is none of this name."""
        node = self.exchanges.get(name)
        return 0 if node is None else len(node.outgoing) + count_of(node.incoming)

    def degree_of_queue(self, name: str) -> int:
        """How many bindings lead to a queue; 0 when there is none of this name."""
        node = self.queues.get(name)
        return 0 if node is None else count_of(node.incoming)

    def add_exchange(self, exchange: Exchange, index: BindingIndex) -> TopologyChange:
        """Add an exchange without bindings."""
        self.exchanges[exchange.name] = ExchangeNode(exchange, index)
        return TopologyChange(exchanges_declared=(exchange,))

    def add_binding(self, binding: Binding) -> TopologyChange:
        """Add a binding between nodes that exist; one that is there already changes nothing."""
        source, destination = self.exchanges[binding.source], self.destination(binding)
        if binding in source.outgoing or destination is None:
            return NO_CHANGE
        source.add(binding)
        destination.incoming = with_binding(destination.incoming, binding)
        return TopologyChange(bindings_added=(binding,))

    def remove_binding(self, binding: Binding) -> TopologyChange:
        """Remove a binding; a missing one changes nothing."""
        source = self.exchanges.get(binding.source)
        known = source.outgoing.get(binding) if source else None
        return self._take_down([known], []) if known else NO_CHANGE

    def remove_exchange(self, name: str) -> TopologyChange:
        """Remove an exchange with the bindings that leave from it or lead to it."""
        node = self.exchanges.pop(name)
        return self._take_down([*node.outgoing, *each(node.incoming)], [node.exchange])

    def remove_queue(self, name: str) -> TopologyChange:
        """Remove a queue with the bindings that lead to it."""
        node = self.queues.pop(name)
        return self._take_down(each(node.incoming), [])

    def remove_some_of_exchange(self, name: str, count: int) -> TopologyChange:
        """Remove some of the bindings that leave from an exchange or lead to it."""
        node = self.exchanges[name]
        return self._take_down(list(islice(chain(node.outgoing, each(node.incoming)), count)), [])

    def remove_some_of_queue(self, name: str, count: int) -> TopologyChange:
        """Remove some of the bindings that lead to a queue."""
        return self._take_down(list(islice(each(self.queues[name].incoming), count)), [])

    def _take_down(self, bindings: Iterable[Binding], deleted: list[Exchange]) -> TopologyChange:
        """Remove bindings, then auto-delete exchanges they were the last of, and so on.

        A list of what is left to do, not recursion: a chain of exchanges may be long.
        """
        removed: dict[Binding, None] = {}
        pending = deque(bindings)
        while pending:
            binding = pending.popleft()
            removed[binding] = None
            self.drop_binding(binding)
            source = self.exchanges.get(binding.source)
            if source and source.exchange.auto_delete and not source.outgoing:
                del self.exchanges[binding.source]
                deleted.append(source.exchange)
                pending.extend(each(source.incoming))
        return TopologyChange(exchanges_deleted=tuple(deleted), bindings_removed=tuple(removed))

    def drop_binding(self, binding: Binding) -> None:
        """Remove a binding and nothing else."""
        source, destination = self.exchanges.get(binding.source), self.destination(binding)
        if source:
            source.remove(binding)
        if destination:
            destination.incoming = without_binding(destination.incoming, binding)
