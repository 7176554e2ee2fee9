"""The topology of one vhost and its rules: who may be declared, bound and deleted, and how."""

from collections.abc import Mapping, Sequence

import msgspec

from routelog.exchanges.bindings.binding import Binding, DestinationKind
from routelog.exchanges.bindings.errors import (
    DefaultExchangeProtected,
    ExchangeInUse,
    ExchangeNotFound,
    InvalidBindingArguments,
    QueueNotFound,
    SystemExchangeProtected,
    UnknownExchangeType,
)
from routelog.exchanges.bindings.exchange import (
    NO_ARGUMENTS,
    Exchange,
    check_alternate,
    check_equivalent,
)
from routelog.exchanges.bindings.field_values import Incomparable, comparable
from routelog.exchanges.bindings.names import (
    DEFAULT_EXCHANGE,
    RESERVED_PREFIX,
    check_name,
    check_not_reserved,
    key_bytes,
)
from routelog.exchanges.indexes.exchange_types import EXCHANGE_TYPES, IndexFactory
from routelog.exchanges.topology.binding_graph import NO_CHANGE, TopologyChange
from routelog.exchanges.topology.graph_nodes import ExchangeNode, QueueNode
from routelog.exchanges.topology.topology_listing import TopologyListing

PREDECLARED = (
    Exchange(DEFAULT_EXCHANGE, "direct", durable=True),
    Exchange("amq.direct", "direct", durable=True),
    Exchange("amq.fanout", "fanout", durable=True),
    Exchange("amq.topic", "topic", durable=True),
    Exchange("amq.headers", "headers", durable=True),
    Exchange("amq.match", "headers", durable=True),
    Exchange("amq.rabbitmq.trace", "topic", durable=True, internal=True),
)

# Of the default vhost: the exchanges to which the node publishes logs and events.
NODE_EXCHANGES = (
    Exchange("amq.rabbitmq.event", "topic", durable=True, internal=True),
    Exchange("amq.rabbitmq.log", "topic", durable=True, internal=True),
)


class Topology(TopologyListing):
    """Exchanges, bindings and queue names of a vhost.

    Every call that changes something says what, cascades included, and raises `version`; a call
    that raises has changed nothing. Mappings of arguments are kept, not copied.

    A deleted queue or exchange is gone at once. When it has very many bindings, some stay behind, lead nowhere
    and are not listed: `remove_departed` removes them, and until then nothing of that name can be declared.
    """

    def __init__(
        self,
        vhost: str = "/",
        types: Mapping[str, IndexFactory] = EXCHANGE_TYPES,
        predeclared: Sequence[Exchange] = PREDECLARED,
    ) -> None:
        super().__init__(vhost)
        self.predeclared = predeclared
        self.version = 0
        self._types = types
        for exchange in predeclared:
            self._graph.add_exchange(exchange, types[exchange.type](exchange))

    # Exchanges

    def declare(self, wanted: Exchange) -> TopologyChange:
        """Declare an exchange, or check that an equivalent one exists.

        Raises:
            DefaultExchangeProtected, UnknownExchangeType, ExchangeInequivalent, InvalidName, ReservedName,
            InvalidExchangeArgument.
            ValueError: see `check_free`.
        """
        self._check_not_default(wanted.name)
        self._known_type(wanted.type)
        if wanted.name not in self._graph.exchanges:
            check_not_reserved("exchange", wanted.name)
        return self.restore_exchange(wanted)

    def restore_exchange(self, exchange: Exchange) -> TopologyChange:
        """Declare an exchange from its value, at recovery or for the broker's own `amq.` ones.

        Raises:
            As `declare`, except ReservedName.
        """
        factory = self._known_type(exchange.type)
        node = self._graph.exchanges.get(exchange.name)
        if node is not None:
            check_equivalent(node.exchange, exchange, self.vhost)
            return NO_CHANGE
        self.check_free("exchange", exchange.name)
        check_name("exchange", exchange.name)
        check_alternate(exchange, self.vhost)
        return self._applied(self._graph.add_exchange(exchange, factory(exchange)))

    def delete(self, name: str, *, if_unused: bool = False) -> TopologyChange:
        """Delete an exchange, with its bindings or the first of them; a missing one is no error.

        Args:
            if_unused: only if no binding leaves from it.

        Raises:
            DefaultExchangeProtected, SystemExchangeProtected, ExchangeInUse.
        """
        self._check_not_default(name)
        if name.startswith(RESERVED_PREFIX):
            raise SystemExchangeProtected(name, self.vhost)
        node = self._graph.exchanges.get(name)
        if node is None:
            return NO_CHANGE
        if if_unused and next(self._graph.leading(node.outgoing), None):
            raise ExchangeInUse(name, self.vhost)
        return self._applied(self._graph.remove_exchange(name))

    def set_policy(self, name: str, policy: str | None, alternate: str | None) -> None:
        """Give an exchange a policy, and the alternate exchange of it, if its argument has none.

        Raises:
            ExchangeNotFound: there is no such exchange.
        """
        node = self._exchange_node(name)
        node.policy = policy
        if node.policy_alternate != alternate:
            node.policy_alternate = alternate
            self._topology_changed()

    # Queues

    def add_queue(self, name: str, *, durable: bool) -> TopologyChange:
        """Make a queue known: the default exchange routes to it, and it can be bound.

        Raises:
            InvalidName: the name breaks the rules of names.
            ValueError: the queue is known with the other durability; or see `check_free`.
        """
        known = self._graph.queues.get(name)
        if known is not None and known.durable != durable:
            raise ValueError(f"queue {name!r} is known with durable={known.durable}")
        if known is None:
            self.check_free("queue", name)
            check_name("queue", name)
            self._graph.queues[name] = QueueNode(durable)
            self._topology_changed()
        return NO_CHANGE

    def remove_queue(self, name: str) -> TopologyChange:
        """Forget a queue, with all bindings to it or the first of them; a missing one is no error."""
        if name not in self._graph.queues:
            return NO_CHANGE
        change = self._graph.remove_queue(name)
        self._topology_changed()
        return change

    # Bindings

    def bind(self, wanted: Binding) -> TopologyChange:
        """Bind a queue or an exchange to an exchange; the same binding again changes nothing.

        An exchange may be bound to itself. Whether the binding is durable follows from its ends.

        Raises:
            DefaultExchangeProtected, ExchangeNotFound, QueueNotFound, InvalidName (of the key),
            InvalidBindingArguments.
        """
        self._check_ends_not_default(wanted)
        source = self._exchange_node(wanted.source)
        destination = self._graph.destination(wanted)
        if destination is None:
            missing = QueueNotFound if wanted.destination_kind == "queue" else ExchangeNotFound
            raise missing(wanted.destination, self.vhost)
        key_bytes(wanted.routing_key)
        _check_comparable(wanted)
        source.index.check(wanted)
        durable = source.durable and destination.durable
        arguments = wanted.arguments or NO_ARGUMENTS
        return self._applied(
            self._graph.add_binding(
                msgspec.structs.replace(wanted, durable=durable, arguments=arguments)
            )
        )

    def unbind(self, wanted: Binding) -> TopologyChange:
        """Remove a binding; a missing binding, queue or exchange is no error.

        Raises:
            DefaultExchangeProtected: one end is the default exchange, which keeps its bindings.
            InvalidBindingArguments: no binding can have such arguments.
        """
        self._check_ends_not_default(wanted)
        _check_comparable(wanted)
        return self._applied(self._graph.remove_binding(wanted))

    def restore_departed(self, binding: Binding) -> TopologyChange:
        """At recovery, let `remove_departed` remove a binding of a deleted exchange or queue."""
        source = Exchange(binding.source, "fanout")
        if not self.has_exchange(source.name):
            node = ExchangeNode(source, self._types["fanout"](source))
            self._graph.restore_departed(("exchange", source.name), node)
        if self._graph.destination(binding) is None:
            end = binding.destination_kind, binding.destination
            self._graph.restore_departed(end, QueueNode(durable=True))
        return self._applied(self._graph.add_binding(binding))

    # What a stored change deletes is one exchange, queue or binding: what goes with it has changes of its own

    def forget_exchange(self, name: str) -> TopologyChange:
        """Delete an exchange alone; its bindings lead nowhere until each is forgotten."""
        if not self.has_exchange(name):
            return NO_CHANGE
        return self._applied(self._graph.remove_exchange(name, bindings_max=0))

    def forget_queue(self, name: str) -> None:
        """Delete a queue alone; its bindings lead nowhere until each is forgotten."""
        if self.has_queue(name):
            self._graph.remove_queue(name, bindings_max=0)
            self._topology_changed()

    def forget_binding(self, binding: Binding) -> TopologyChange:
        """Delete a binding alone, also of what was deleted; a missing one changes nothing."""
        return self._applied(self._graph.forget_binding(binding))

    def remove_departed(self) -> TopologyChange:
        """Remove some more bindings of deleted queues and exchanges; no change: none are left."""
        return self._applied(self._graph.remove_departed())

    def check_free(self, kind: DestinationKind, name: str) -> None:
        """Check that no deleted queue or exchange of this name still has bindings.

        Raises:
            ValueError: one has; call `remove_departed` first.
        """
        if self.has_departed(kind, name):
            raise ValueError(f"{kind} {name!r} has bindings left from before it was deleted")

    def undo(self, change: TopologyChange) -> None:
        """Undo a change that could not be stored, except for queues."""
        graph = self._graph
        for binding in change.bindings_added:
            graph.drop_binding(binding)
        for exchange in change.exchanges_declared:
            del graph.exchanges[exchange.name]
        for exchange in change.exchanges_deleted:
            graph.restore_exchange(exchange, self._known_type(exchange.type)(exchange))
        for binding in change.bindings_removed:
            graph.add_binding(binding)
        self._applied(change)

    # Rules

    def _check_ends_not_default(self, binding: Binding) -> None:
        if binding.destination_kind == "exchange":
            self._check_not_default(binding.destination)
        self._check_not_default(binding.source)

    def _check_not_default(self, exchange: str) -> None:
        if exchange == DEFAULT_EXCHANGE:
            raise DefaultExchangeProtected(self.vhost)

    def _known_type(self, type_name: str) -> IndexFactory:
        factory = self._types.get(type_name)
        if factory is None:
            raise UnknownExchangeType(type_name)
        return factory

    def _applied(self, change: TopologyChange) -> TopologyChange:
        if change:
            self._topology_changed()
        return change

    def renew(self) -> None:
        """Raise `version`, as if something had changed: what was found by the last one is found anew."""
        self._topology_changed()

    def _topology_changed(self) -> None:
        self.version += 1


def _check_comparable(binding: Binding) -> None:
    # Arguments are part of a binding's identity: they must compare and hash.
    try:
        hash(binding)
    except Incomparable:
        for name, value in binding.arguments.items():
            _check_argument(name, value)


def _check_argument(name: str, value: object) -> None:
    try:
        comparable(value)
    except Incomparable as reason:
        raise InvalidBindingArguments(
            name, f"invalid binding argument '{name}': {reason}"
        ) from None
