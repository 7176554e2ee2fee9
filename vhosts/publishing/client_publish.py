# cython: annotation_typing=False, wraparound=True
# mypy: allow-untyped-decorators, no-warn-return-any, disable-error-code="index,name-defined"
"""What a client publishes, whatever it speaks: from an exchange to the ends of its queues."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, Self

import cython

from routelog.exchanges import Route, RoutingTable
from routelog.log_backend import Clock, Receipt, Records, Scheduler
from routelog.vhosts.counters.totals import VhostCounters
from routelog.vhosts.messages.recipient import Recipient
from routelog.vhosts.publishing.appending import PAUSE, Appending, Batches
from routelog.vhosts.publishing.decision import Decision, Messages, Router
from routelog.vhosts.publishing.fan_out import disjoint, queues_of, shared_out
from routelog.vhosts.publishing.stateful_route import StatefulRoute

# Of one turn of the loop; what is left of a publish comes again in the next one.
SHARED_AT_ONCE = 4_096  # queues of all its routes: to share them out takes 0.2 to 0.5 ms


class ClientMessages(Messages, Protocol):
    """Messages of a client to one exchange.

    Attributes:
        persistent: the client wants them to survive a crash.
    """

    @property
    def persistent(self) -> bool:
        """See the class."""

    def parts(self, selections: list[list[int]], time: int) -> list[Records]:
        """Records of some messages, by index, for each selection; none is empty."""

    def kept(self, count: int) -> Self:
        """The first messages, to be asked for parts in other turns."""


class Targets(Protocol):
    """What takes the messages of routes; see `RouteTargets`."""

    newest: int

    def of(self, route: Route) -> tuple[Recipient, ...]:
        """See `RouteTargets`."""

    def known(self) -> Mapping[Route, tuple[Recipient, ...]]:
        """See `RouteTargets`."""

    def gradually(self, route: Route) -> Iterable[Recipient]:
        """See `RouteTargets`."""

    def still_there(self, route: Route, newest: int) -> Iterator[Recipient]:
        """See `RouteTargets`."""


class PublishingVhost(Protocol):
    """What a publish needs of its vhost."""

    counters: VhostCounters
    routing: RoutingTable

    @property
    def targets(self) -> Targets:
        """Where its routes lead."""

    @property
    def unrouted(self) -> Receipt:
        """What the confirm waits for of a message that no queue gets."""

    def passage(self) -> StatefulRoute:
        """Begin the way through exchanges that remember."""


@cython.final
@cython.cclass
class ClientPublish:
    """Routes what one client publishes, and appends it: to one exchange after the other.

    Attributes:
        name, exchange: the exchange, as bytes and as text.
        counters: of the exchange.
        appending: what is on its way to its queues; begin it before each publish.

    Args:
        scheduler: whose running step ends when much has been routed or appended.
        is_reply: whether somebody waits at a reply address; None: what is published is no reply.
    """

    def __init__(
        self,
        vhost: PublishingVhost,
        scheduler: Scheduler,
        clock: Clock,
        is_reply: Callable[[bytes], bool] | None = None,
    ) -> None:
        self._vhost = vhost
        self._targets = vhost.targets
        self._routing = vhost.routing
        self._clock = clock
        self.appending = Appending(scheduler)
        self._router = Router(vhost.routing, scheduler, vhost.passage, is_reply)
        # Of the last publish: clients send one after the other to the same place.
        self._key: bytes | None = None
        self._queues: tuple[Recipient, ...] = ()
        self._queues_version = -1
        self.turn_to(b"", "")

    @cython.ccall
    def turn_to(self, name: bytes, exchange: str) -> None:
        """What comes is for an exchange."""
        self.name, self.exchange = name, exchange
        self.counters = self._vhost.counters.exchange(exchange)
        self._key = None

    @cython.ccall
    @cython.locals(routes=dict)
    def queues_of(self, key: bytes) -> Iterable[Recipient] | None:
        """Where a routing key leads to, if that is known and hangs on nothing else."""
        version = self._routing.version
        if key == self._key and version == self._queues_version:
            return self._queues
        routes = self._routing.cached_routes(self.exchange)
        route = routes.get(key) if routes is not None else None
        if not route:
            return None
        queues = self._targets.gradually(route)
        if isinstance(queues, tuple):
            self._key, self._queues, self._queues_version = key, queues, version
        return queues

    @cython.ccall
    @cython.locals(first=cython.Py_ssize_t, end=cython.Py_ssize_t)
    def decide(self, messages: ClientMessages, first: int, end: int) -> Decision:
        """What becomes of messages; see `Router.decide`."""
        decision: Decision = self._router.decide(self.exchange, messages, first, end)
        return decision

    @cython.ccall
    def carry_out(self, messages: ClientMessages, decision: Decision) -> Receipt:
        """Append what was decided, or as much of it as one turn of the loop is to bear.

        Returns:
            What its confirm waits for.

        Raises:
            JournalFailed: the disk failed before.
        """
        if decision.passage is not None:
            return self._store(messages, decision.deliver, decision.passage)
        if decision.deliver:
            return self._deliver(messages, decision)
        unrouted: Receipt = self._vhost.unrouted
        return unrouted

    @cython.cfunc
    @cython.locals(chosen=dict, known=dict)
    def _deliver(self, messages: ClientMessages, decision: Decision) -> Receipt:
        # One batch for each queue, so that its order is the publisher's.
        chosen = decision.deliver
        if len(chosen) > 1 and queues_of(chosen) > SHARED_AT_ONCE:
            batches = self._shared_out(messages.kept(decision.end), chosen)
            return self.appending.append(batches, False)
        chosen = disjoint(chosen)
        selections = list(chosen.values())
        parts = messages.parts(selections, self._clock.now())
        targets = self._targets
        known = targets.known()
        queues = [known.get(route) or targets.gradually(route) for route in chosen]
        return self.appending.append(zip(parts, queues, selections, strict=True), False)

    def _shared_out(self, messages: ClientMessages, chosen: dict[Route, list[int]]) -> Batches:
        targets = self._targets
        known, newest = targets.known(), targets.newest
        now = self._clock.now()

        def batches() -> Batches:
            for each in shared_out(chosen):
                if each is None:
                    yield PAUSE
                    continue
                route, indexes = each
                part = messages.parts([indexes], now)[0]
                yield part, known.get(route) or targets.still_there(route, newest), indexes

        return batches()

    def _store(
        self, messages: ClientMessages, deliver: dict[Route, list[int]], passage: StatefulRoute
    ) -> Receipt:
        now = self._clock.now()
        batches = batches_of(messages, deliver, self._targets, now)

        def records(indexes: list[int]) -> Records:
            return messages.parts([indexes], now)[0]

        return passage.store(batches, self.appending, messages.persistent, records)


def batches_of(
    messages: ClientMessages, deliver: dict[Route, list[int]], targets: Targets, now: int
) -> list[tuple[Records, tuple[Recipient, ...], Sequence[int]]]:
    """Records, the queues that get them, and their indexes; no queue is in two of them.

    Args:
        deliver: see `Decision`.
        now: the time of the records.
    """
    chosen = disjoint(deliver)
    parts = messages.parts(list(chosen.values()), now)
    return list(zip(parts, map(targets.of, chosen), chosen.values(), strict=True))
