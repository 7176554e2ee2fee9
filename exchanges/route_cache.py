"""Routes found before, by exchange and routing key, until the topology changes.

Nothing is let go of all at once: 65,536 routes would hold the event loop for some 5 ms.
"""

from exchanges.route import Route
from exchanges.route_walk import WalkTraits

# An application uses a few thousand keys at most; more come from keys with an id inside, which
# do not repeat. Full of such, it costs one exchange about 15 MB, and starting over costs little.
ROUTE_CACHE_ENTRIES_MAX = 65_536

# All exchanges of a vhost together, an entry counting one and each queue in it one: a thousand
# exchanges, or routes to ten thousand queues, must not add up. At most about 100 MB, and as much again
# that is being let go of.
ROUTE_CACHE_WEIGHT_MAX = 262_144

# A short string. Keys of CC and BCC headers may be longer, up to a frame, and are looked for each time.
ROUTE_CACHE_KEY_BYTES_MAX = 255

# Each so many routes that are kept, twice as many are let go of: 0.1 ms. One by one they cost more, as each
# lies elsewhere in memory.
LET_GO_EVERY = 256


class RouteCache:
    """A dict of routes for each exchange asked for, and what the walks from it depend on."""

    def __init__(self) -> None:
        # None: the routing key alone does not decide.
        self.routes: dict[str, dict[bytes, Route] | None] = {}
        self.traits: dict[str, WalkTraits] = {}
        self._weight = 0
        self._stale: list[dict[bytes, Route]] = []
        self._kept = 0  # since the last time that some were let go of

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
            self._weight += weight
            self._kept += 1
            if self._kept >= LET_GO_EVERY:
                self._kept = 0
                self._let_go(2 * LET_GO_EVERY)

    def drop(self) -> None:
        """Forget everything; a dict that was handed out is not looked after any more."""
        if self.traits:
            self._stale += filter(None, self.routes.values())
            self._weight = 0
            self.routes.clear()
            self.traits.clear()

    def _start_over(self, exchange: str) -> None:
        routes = self.routes[exchange]
        if routes:
            self._weight -= len(routes) + sum(map(len, routes.values()))
            self._stale.append(routes)
            self.routes[exchange] = {}

    def _let_go(self, count: int) -> None:
        while self._stale and count > 0:
            routes = self._stale[-1]
            for _ in range(min(count, len(routes))):
                routes.popitem()
                count -= 1
            if not routes:
                self._stale.pop()
