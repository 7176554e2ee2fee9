"""Routes found before, by exchange and routing key, until the topology changes."""

from routelog.exchanges.bindings.destinations import Route
from routelog.exchanges.routes.route_walk import WalkTraits

# Of one exchange. An application uses a few thousand keys at most, unless keys contain an id, and then they do
# not repeat. A full cache takes about 15 MB, and starting over costs little.
ROUTE_CACHE_ENTRIES_MAX = 65_536
# Of all exchanges of a vhost; the weight of a route is one, and one more for each of its queues. About 50 MB at
# most. They are freed at once: 65,536 routes of one queue take 2 to 5 ms.
ROUTE_CACHE_WEIGHT_MAX = 131_072
# Of a short string. Keys of CC and BCC headers may be longer; their routes are not cached.
ROUTE_CACHE_KEY_BYTES_MAX = 255


class RouteCache:
    """For each exchange that was used, a dict of routes by key, and the traits of walks from it."""

    def __init__(self) -> None:
        # None: routes do not depend on the routing key alone, so none is cached.
        self.routes: dict[str, dict[bytes, Route] | None] = {}
        self.traits: dict[str, WalkTraits] = {}
        self._weights: dict[str, int] = {}  # of the routes of each exchange
        self._weight = 0

    def open(self, exchange: str, traits: WalkTraits) -> dict[bytes, Route] | None:
        """Begin to cache routes of an exchange; returns its dict, or None if routes cannot be cached."""
        self.traits[exchange] = traits
        self.routes[exchange] = {} if traits.key_decides else None
        return self.routes[exchange]

    def keep(self, exchange: str, routing_key: bytes, route: Route) -> None:
        """Add a route to an exchange's dict, if it has one. A dict at a limit is replaced by an empty one."""
        if len(routing_key) > ROUTE_CACHE_KEY_BYTES_MAX:
            return
        weight = 1 + len(route)
        if self._weight + weight > ROUTE_CACHE_WEIGHT_MAX:
            for each in self.routes:
                self._start_over(each)
        elif len(self.routes[exchange] or ()) >= ROUTE_CACHE_ENTRIES_MAX:
            self._start_over(exchange)
        routes = self.routes[exchange]
        if routes is not None:
            routes[routing_key] = route
            self._weights[exchange] = self._weights.get(exchange, 0) + weight
            self._weight += weight

    def drop(self) -> None:
        """Forget all routes and traits; dicts that were handed out are not updated any more."""
        if self.traits:
            for each in self.routes:
                self._start_over(each)
            self.routes.clear()
            self.traits.clear()

    def _start_over(self, exchange: str) -> None:
        routes = self.routes[exchange]
        if routes:
            self._weight -= self._weights.pop(exchange)
            self.routes[exchange] = {}
