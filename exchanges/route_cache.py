"""Routes found before, by exchange and routing key, until the topology changes."""

from exchanges.route_walk import Route, WalkTraits

# An application uses a few thousand keys at most; more come from keys with an id inside, which
# do not repeat. Full of such, it costs one exchange about 15 MB, and starting over costs little.
ROUTE_CACHE_ENTRIES_MAX = 65_536

# All exchanges of a vhost together, an entry counting one and each queue in it one: a thousand
# exchanges, or routes to ten thousand queues, must not add up. At most about 100 MB.
ROUTE_CACHE_WEIGHT_MAX = 262_144

# A short string. Keys of CC and BCC headers may be longer, up to a frame, and are looked for each time.
ROUTE_CACHE_KEY_BYTES_MAX = 255


class RouteCache:
    """A dict of routes for each exchange asked for, and what the walks from it depend on."""

    def __init__(self) -> None:
        # None: the routing key alone does not decide.
        self.routes: dict[str, dict[bytes, Route] | None] = {}
        self.traits: dict[str, WalkTraits] = {}
        self._weight = 0

    def open(self, exchange: str, traits: WalkTraits) -> dict[bytes, Route] | None:
        """Begin to hold routes of an exchange, and return its dict if there can be one."""
        self.traits[exchange] = traits
        self.routes[exchange] = {} if traits.key_decides else None
        return self.routes[exchange]

    def keep(self, routes: dict[bytes, Route], routing_key: bytes, route: Route) -> None:
        """Add a route to an exchange's dict, which is emptied first when a limit is reached.

        A key that no publish can have on the wire is not kept.
        """
        if len(routing_key) > ROUTE_CACHE_KEY_BYTES_MAX:
            return
        if len(routes) >= ROUTE_CACHE_ENTRIES_MAX:
            self._empty(routes)
        if self._weight + 1 + len(route) > ROUTE_CACHE_WEIGHT_MAX:
            self._empty_all()
        routes[routing_key] = route
        self._weight += 1 + len(route)

    def drop(self) -> None:
        """Forget everything. Dicts handed out are emptied, so that a stale one is only slow."""
        if self.traits:
            self._empty_all()
            self.routes.clear()
            self.traits.clear()

    def _empty_all(self) -> None:
        for routes in self.routes.values():
            if routes:
                routes.clear()
        self._weight = 0

    def _empty(self, routes: dict[bytes, Route]) -> None:
        self._weight -= len(routes) + sum(map(len, routes.values()))
        routes.clear()
