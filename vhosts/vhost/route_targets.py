"""The recipients of routes, cached until the topology changes."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from routelog.exchanges import Route, RoutingTable
from routelog.vhosts.messages.recipient import Recipient

AT_ONCE_MAX = 256  # names that are looked up at once: 0.1 ms

# A route counts one and each queue in it one, as in the cache of routes: headers give very many routes.
KNOWN_WEIGHT_MAX = 131_072


class NumberedQueue(Recipient, Protocol):
    """A queue, here or at the node that leads."""

    @property
    def number(self) -> int:
        """The number of its first partition: a queue that is declared later has a higher one."""


class Holders(Protocol):
    """What takes messages under the names of exchanges: see `DelayBook`."""

    def recipient(self, name: str) -> Recipient | None:
        """The recipient that a name in a route stands for; None: the name is a queue's."""


class RouteTargets:
    """The recipients of the routes of one vhost.

    Attributes:
        newest: the highest partition number of all queues so far.
    """

    def __init__(
        self, routing: RoutingTable, queues: Mapping[str, NumberedQueue], holders: Holders
    ) -> None:
        self._routing = routing
        self._queues = queues
        self._holders = holders
        self._targets: dict[Route, tuple[Recipient, ...]] = {}
        self._weight = 0
        self._version = -1
        self.newest = 0

    def turn_to(self, queues: Mapping[str, NumberedQueue], holders: Holders) -> None:
        """From now on these are the queues, and what takes messages under the names of exchanges."""
        self._queues, self._holders = queues, holders
        self._routing.renew()

    def named(self, name: str) -> Recipient:
        """The recipient of a name in a route: a queue, or what takes messages for an exchange."""
        return self._holders.recipient(name) or self._queues[name]

    def find(self, name: str) -> Recipient | None:
        """As `named`; None: it is gone."""
        return self._holders.recipient(name) or self._queues.get(name)

    def of(self, route: Route) -> tuple[Recipient, ...]:
        """The recipients of a route."""
        known = self.known()
        queues = known.get(route)
        if queues is None:
            queues = self._keep(route, tuple(map(self.named, route)))
        return queues

    def gradually(self, route: Route) -> Iterable[Recipient]:
        """As `of`, for one iteration that may take several turns of the event loop.

        Queues deleted meanwhile are left out, and so are new queues of their names: the message was not for
        them.
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
        """The recipients of an earlier route, without queues deleted or declared since.

        Args:
            newest: the value of `newest` when the route was found.
        """
        for name in route:
            recipient = self._holders.recipient(name)
            if recipient is not None:
                yield recipient
                continue
            queue = self._queues.get(name)
            if queue is not None and queue.number <= newest:
                yield queue

    def _keep(self, route: Route, queues: tuple[Recipient, ...]) -> tuple[Recipient, ...]:
        weight = 1 + len(queues)
        if self._weight + weight > KNOWN_WEIGHT_MAX:
            self._start_over()
        self.known()[route] = queues
        self._weight += weight
        return queues

    def _start_over(self) -> None:
        self._targets = {}
        self._weight = 0

    def known(self) -> dict[Route, tuple[Recipient, ...]]:
        """The recipients by route, as far as cached: read it in this turn, never write.

        `of` adds what is missing. A change of the topology replaces the dict, and so does a limit.
        """
        if self._version != self._routing.version:
            self._start_over()
            self._version = self._routing.version
        return self._targets
