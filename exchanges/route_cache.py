"""Routes found before, by exchange and routing key, until the topology changes.

Nothing is let go of all at once: 65,536 routes would hold the event loop for some 5 ms.
"""

from itertools import islice

from exchanges.route_walk import Route, WalkTraits

# An application uses a few thousand keys at most; more come from keys with an id inside, which
# do not repeat. Full of such, it costs one exchange about 15 MB.
ROUTE_CACHE_ENTRIES_MAX = 65_536

# All exchanges of a vhost together, an entry counting one and each queue in it one: a thousand
# exchanges, or routes to ten thousand queues, must not add up. At most about 100 MB.
ROUTE_CACHE_WEIGHT_MAX = 262_144

# A short string. Keys of CC and BCC headers may be longer, up to a frame, and are looked for each time.
ROUTE_CACHE_KEY_BYTES_MAX = 255

ROOM_SHARE = 64  # of a limit is made room for at a time: 1,024 routes, 0.2 ms


class RouteCache:
    """A dict of routes for each exchange asked for, and what the walks from it depend on."""

    def __init__(self) -> None:
        # None: the routing key alone does not decide.
        self.routes: dict[str, dict[bytes, Route] | None] = {}
        self.traits: dict[str, WalkTraits] = {}
        self._weight = 0
        self._stale: list[dict[bytes, Route]] = []  # each route that is kept takes two of them away

    def open(self, exchange: str, traits: WalkTraits) -> dict[bytes, Route] | None:
        """Begin to hold routes of an exchange, and return its dict if there can be one."""
        self.traits[exchange] = traits
        self.routes[exchange] = {} if traits.key_decides else None
        return self.routes[exchange]

    def keep(self, routes: dict[bytes, Route], routing_key: bytes, route: Route) -> None:
        """Add a route to an exchange's dict, and forget the oldest when a limit is reached.

        A key that no publish can have on the wire is not kept.
        """
        if len(routing_key) > ROUTE_CACHE_KEY_BYTES_MAX:
            return
        if self._stale:
            self._let_go()
            self._let_go()
        if len(routes) >= ROUTE_CACHE_ENTRIES_MAX:
            self._forget_oldest(routes)
        weight = 1 + len(route)
        if self._weight + weight > ROUTE_CACHE_WEIGHT_MAX:
            self._make_room(weight)
        routes[routing_key] = route
        self._weight += weight

    def drop(self) -> None:
        """Forget everything; a dict that was handed out is not looked after any more."""
        if self.traits:
            self._stale += filter(None, self.routes.values())
            self._weight = 0
            self.routes.clear()
            self.traits.clear()

    def _let_go(self) -> None:
        if self._stale:
            self._stale[-1].popitem()
            if not self._stale[-1]:
                self._stale.pop()

    def _forget_oldest(self, routes: dict[bytes, Route]) -> None:
        for key in list(islice(routes, 1 + len(routes) // ROOM_SHARE)):
            self._weight -= 1 + len(routes.pop(key))

    def _make_room(self, weight: int) -> None:
        limit = ROUTE_CACHE_WEIGHT_MAX - ROUTE_CACHE_WEIGHT_MAX // ROOM_SHARE - weight
        for routes in self.routes.values():
            while routes and self._weight > limit:
                self._forget_oldest(routes)
