"""From the names of a route to what takes its messages, remembered until the topology changes."""

from collections.abc import Iterable, Iterator, Mapping

from routelog.exchanges import Route, RoutingTable, StaleRoutes
from routelog.vhosts.delays.delay_book import DelayBook
from routelog.vhosts.messages.recipient import Recipient
from routelog.vhosts.queues.queue import Queue

AT_ONCE_MAX = 256  # names that are looked for in one go: 0.1 ms

# A route counting one and each queue in it one, as in the cache of routes: headers decide on very many ways.
KNOWN_WEIGHT_MAX = 262_144


class RouteTargets:
    """The recipients of the routes of one vhost.

    Attributes:
        newest: the highest number of a partition that a queue has begun with.
    """

    def __init__(
        self, routing: RoutingTable, queues: Mapping[str, Queue], delays: DelayBook
    ) -> None:
        self._routing = routing
        self._queues = queues
        self._delays = delays
        self._known: dict[Route, tuple[Recipient, ...]] = {}
        self._weight = 0
        self._stale = StaleRoutes()
        self._version = -1
        self.newest = 0

    def named(self, name: str) -> Recipient:
        """The queue of a name, or what holds its messages first."""
        return self._delays.recipient(name) or self._queues[name]

    def of(self, route: Route) -> tuple[Recipient, ...]:
        """The queues of a route, and what holds its messages first."""
        known = self.known()
        queues = known.get(route)
        if queues is None:
            queues = self._keep(route, tuple(map(self.named, route)))
        return queues

    def gradually(self, route: Route) -> Iterable[Recipient]:
        """As `of`, to be walked over once, in several turns of the loop if there are many, or in later ones.

        What has gone meanwhile is left out, and so is what has come meanwhile under its name: the message was
        not for it.
        """
        known = self.known().get(route)
        if known is None and len(route) > AT_ONCE_MAX:
            return self._found(route, self._routing.version, self.newest)
        return self.of(route) if known is None else known

    def _found(self, route: Route, version: int, newest: int) -> Iterator[Recipient]:
        found: list[Recipient] = []
        for recipient in self.still_there(route, newest):
            found.append(recipient)
            yield recipient
        if version == self._routing.version:
            self._keep(route, tuple(found))

    def still_there(self, route: Route, newest: int) -> Iterator[Recipient]:
        """The recipients of a route that was found before, but for what has gone or come meanwhile.

        Args:
            newest: what `newest` was when it was found.
        """
        for name in route:
            recipient = self._delays.recipient(name)
            if recipient is not None:
                yield recipient
                continue
            queue = self._queues.get(name)
            if queue is not None and queue.partitions[0].log.number <= newest:
                yield queue

    def _keep(self, route: Route, queues: tuple[Recipient, ...]) -> tuple[Recipient, ...]:
        weight = 1 + len(queues)
        if self._weight + weight > KNOWN_WEIGHT_MAX:
            self._start_over()
        self.known()[route] = queues
        self._weight += weight
        if self._stale.tables:
            self._stale.let_go(weight)
        return queues

    def _start_over(self) -> None:
        self._stale.add(self._known)
        self._known = {}
        self._weight = 0

    def known(self) -> dict[Route, tuple[Recipient, ...]]:
        """The queues of the routes that were asked for so far: read it in this turn, never write.

        `of` adds what is missing. A change of the topology replaces the dict, and so does a limit.
        """
        if self._version != self._routing.version:
            self._start_over()
            self._version = self._routing.version
        return self._known
