"""Routes found before, by exchange and routing key, until the topology changes."""

from routelog.exchanges.bindings.route import Route
from routelog.exchanges.routes.route_walk import WalkTraits
from routelog.exchanges.routes.stale_routes import StaleRoutes

# An application uses a few thousand keys at most; more come from keys with an id inside, which
# do not repeat. Full of such, it costs one exchange about 15 MB, and starting over costs little.
ROUTE_CACHE_ENTRIES_MAX = 65_536

# All exchanges of a vhost together, an entry counting one and each queue in it one: a thousand
# exchanges, or routes to ten thousand queues, must not add up. At most about 100 MB, with the
# stale routes that are not freed yet.
ROUTE_CACHE_WEIGHT_MAX = 262_144

# A short string. Keys of CC and BCC headers may be longer, up to a frame, and are looked for each time.
ROUTE_CACHE_KEY_BYTES_MAX = 255


class RouteCache:
    """A dict of routes for each exchange asked for, and what the walks from it depend on."""

    def __init__(self) -> None:
        # None: the routing key alone does not decide.
        self.routes: dict[str, dict[bytes, Route] | None] = {}
        self.traits: dict[str, WalkTraits] = {}
        self._weights: dict[str, int] = {}  # of the routes of each exchange
        self._weight = 0
        self._stale_routes = StaleRoutes()

    def open(self, exchange: str, traits: WalkTraits) -> dict[bytes, Route] | None:
        """Begin to hold routes of an exchange, and return its dict if there can be one."""
        self.traits[exchange] = traits
        self.routes[exchange] = {} if traits.key_decides else None
        return self.routes[exchange]

    def keep(self, exchange: str, routing_key: bytes, route: Route) -> None:
        """Add a route to an exchange's dict, if it has one; a new one takes the place of one at a limit.

        A key that no publish can have on the wire is not kept.
        """
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
            if self._stale_routes.tables:
                self._stale_routes.free(weight)

    def drop(self) -> None:
        """Forget everything; a dict that was handed out is not looked after any more."""
        if self.traits:
            for each in self.routes:
                self._start_over(each)
            self.routes.clear()
            self.traits.clear()

    def _start_over(self, exchange: str) -> None:
        routes = self.routes[exchange]
        if routes:
            self._weight -= self._weights.pop(exchange)
            self._stale_routes.add(routes)
            self.routes[exchange] = {}
