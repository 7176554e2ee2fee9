"""The read side of a vhost's topology: look-ups and lists."""

from routelog.exchanges.bindings.binding import Binding, DestinationKind
from routelog.exchanges.bindings.errors import ExchangeNotFound, QueueNotFound
from routelog.exchanges.bindings.exchange import Exchange
from routelog.exchanges.bindings.names import DEFAULT_EXCHANGE
from routelog.exchanges.indexes.delayed_index import routing_type
from routelog.exchanges.topology.binding_graph import BindingGraph
from routelog.exchanges.topology.graph_nodes import ExchangeNode, QueueNode


class TopologyListing:
    """Look-ups and lists of a topology. Lists are copies."""

    def __init__(self, vhost: str) -> None:
        self.vhost = vhost
        self._graph = BindingGraph()

    def has_queue(self, name: str) -> bool:
        """Tell whether a queue is known."""
        return name in self._graph.queues

    def exchange(self, name: str) -> Exchange:
        """Return an exchange by name.

        Raises:
            ExchangeNotFound: there is none.
        """
        return self._exchange_node(name).exchange

    def policy_of(self, exchange: str) -> str | None:
        """Return the name of an exchange's policy; None if it has none, or is gone."""
        node = self._graph.exchanges.get(exchange)
        return None if node is None else node.policy

    def has_exchange(self, name: str) -> bool:
        """Tell whether an exchange exists."""
        return name in self._graph.exchanges

    def routes_by_topic(self, exchange: str) -> bool:
        """Tell whether an exchange is of type topic, or a delayed exchange around this type."""
        node = self._graph.exchanges.get(exchange)
        return node is not None and routing_type(node.exchange) == "topic"

    def has_departed(self, kind: DestinationKind, name: str) -> bool:
        """Tell whether a deleted queue or exchange of this name still has bindings."""
        return (kind, name) in self._graph.departed

    def leads_on(self, exchange: str) -> bool:
        """Tell whether an exchange has a binding or an alternate, so that a message may leave it.

        Raises:
            ExchangeNotFound: there is none.
        """
        node = self._exchange_node(exchange)
        return bool(node.outgoing) or node.alternate is not None

    def exchanges(self) -> list[Exchange]:
        """Return all exchanges, the predeclared ones included."""
        return [node.exchange for node in self._graph.exchanges.values()]

    def has_binding(self, binding: Binding) -> bool:
        """Tell whether a binding is there."""
        node = self._graph.exchanges.get(binding.source)
        return node is not None and binding in node.outgoing

    def bindings(self) -> list[Binding]:
        """Return all bindings, the default exchange's implicit ones first."""
        return [binding for name in self._graph.exchanges for binding in self.bindings_from(name)]

    def bindings_from(self, exchange: str) -> list[Binding]:
        """Return the bindings that leave from an exchange, oldest first.

        Raises:
            ExchangeNotFound: there is none.
        """
        if exchange == DEFAULT_EXCHANGE:
            return [_implicit_binding(name, node) for name, node in self._graph.queues.items()]
        return list(self._graph.leading(self._exchange_node(exchange).outgoing))

    def bindings_to_queue(self, queue: str) -> list[Binding]:
        """Return the bindings that lead to a queue, its implicit one first.

        Raises:
            QueueNotFound: the queue is not known.
        """
        node = self._graph.queues.get(queue)
        if node is None:
            raise QueueNotFound(queue, self.vhost)
        return [_implicit_binding(queue, node), *self._graph.leading(node.bindings())]

    def bindings_to_exchange(self, exchange: str) -> list[Binding]:
        """Return the bindings that lead to an exchange, oldest first.

        Raises:
            ExchangeNotFound: there is none.
        """
        return list(self._graph.leading(self._exchange_node(exchange).incoming))

    def _exchange_node(self, name: str) -> ExchangeNode:
        node = self._graph.exchanges.get(name)
        if node is None:
            raise ExchangeNotFound(name, self.vhost)
        return node


def _implicit_binding(queue: str, node: QueueNode) -> Binding:
    return Binding(DEFAULT_EXCHANGE, queue, "queue", queue, durable=node.durable)
