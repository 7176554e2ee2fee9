"""Routes of messages through a vhost's topology, cached until the topology changes."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from routelog.exchanges.bindings.destinations import Route
from routelog.exchanges.bindings.exchange import Exchange
from routelog.exchanges.bindings.names import DEFAULT_EXCHANGE
from routelog.exchanges.indexes.binding_index import BARE_MESSAGE, Message
from routelog.exchanges.indexes.exchange_types import EXCHANGE_TYPES, IndexFactory
from routelog.exchanges.routes.route_cache import RouteCache
from routelog.exchanges.routes.route_walk import Visit, walk, walk_traits
from routelog.exchanges.topology.topology import PREDECLARED, Topology


class RoutingTable(Topology):
    """A vhost's topology, with a cache of routes."""

    def __init__(
        self,
        vhost: str = "/",
        types: Mapping[str, IndexFactory] = EXCHANGE_TYPES,
        predeclared: Sequence[Exchange] = PREDECLARED,
    ) -> None:
        super().__init__(vhost, types, predeclared)
        self._cache = RouteCache()

    def route(
        self,
        exchange: str,
        routing_key: bytes,
        message: Message = BARE_MESSAGE,
        visit: Visit | None = None,
    ) -> Route:
        """Return the queues that a message goes to, each once: see `ordered_route`.

        Args:
            message: only used if `needs_headers`.
            visit: see `walk`; only called if `remembers`.

        Returns:
            Empty if the message is unroutable, also by alternate exchanges.

        Raises:
            ExchangeNotFound: the exchange does not exist.

        Cost:
            A dict look-up for a key seen before, unless headers matter.
        """
        routes = self.cached_routes(exchange)
        if routes is None:
            return self._walk(exchange, (routing_key,), message, visit)
        route = routes.get(routing_key)
        if route is None:
            route = self._walk(exchange, (routing_key,), BARE_MESSAGE)
            self._cache.keep(exchange, routing_key, route)
        return route

    def route_all(
        self,
        exchange: str,
        routing_keys: Sequence[bytes],
        message: Message = BARE_MESSAGE,
        visit: Visit | None = None,
    ) -> Route:
        """As `route`, for a message with several keys, which all count at every exchange."""
        if len(routing_keys) == 1:
            return self.route(exchange, routing_keys[0], message, visit)
        return self._walk(exchange, routing_keys, message, visit)

    def cached_routes(self, exchange: str) -> dict[bytes, Route] | None:
        """Return the cached routes of an exchange by key, for reading only.

        `route` adds missing ones. With each `version`, and at a limit, there is a new dict.

        Returns:
            None if routes do not depend on the key alone: call `route` for each message.

        Raises:
            ExchangeNotFound: the exchange does not exist.
        """
        try:
            return self._cache.routes[exchange]
        except KeyError:
            traits = walk_traits(self._graph.exchanges, self._exchange_node(exchange))
            return self._cache.open(exchange, traits)

    def needs_headers(self, exchange: str) -> bool:
        """Tell whether this exchange, or one that its messages may reach, reads headers.

        Raises:
            ExchangeNotFound: the exchange does not exist.
        """
        self.cached_routes(exchange)
        return self._cache.traits[exchange].reads_headers

    def remembers(self, exchange: str) -> bool:
        """Tell whether this exchange, or one that its messages may reach, keeps state of earlier messages.

        Raises:
            ExchangeNotFound: the exchange does not exist.
        """
        self.cached_routes(exchange)
        return self._cache.traits[exchange].remembers

    def _walk(
        self,
        exchange: str,
        routing_keys: Sequence[bytes],
        message: Message,
        visit: Visit | None = None,
    ) -> Route:
        if exchange == DEFAULT_EXCHANGE:
            return tuple(sorted(set(self._default_route(routing_keys))))
        start = self._exchange_node(exchange)
        return walk(
            self._graph.exchanges, start, routing_keys, message, visit, self._graph.departed
        )

    def _default_route(self, routing_keys: Sequence[bytes]) -> Iterator[str]:
        for key in routing_keys:
            with suppress(UnicodeDecodeError):
                if self.has_queue(queue := key.decode()):
                    yield queue

    def _topology_changed(self) -> None:
        super()._topology_changed()
        self._cache.drop()
