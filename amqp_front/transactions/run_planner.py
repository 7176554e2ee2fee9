"""From runs of publishes to the plan of a commit: the queues that will get them, their returns and replies."""

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain

from routelog.amqp_front.node.direct_reply import ADDRESS_PREFIX, any_reply
from routelog.amqp_front.publishing.firehose import queue_names
from routelog.amqp_front.publishing.publishing_channel import PublishingChannel
from routelog.amqp_front.publishing.return_sender import ReturnSender
from routelog.amqp_front.publishing.route_search import TURN_KEYS_MAX, RouteSearch
from routelog.amqp_front.publishing.run_passage import RunPassage
from routelog.amqp_front.transactions.commit_plan import CommitPlan, Queues
from routelog.amqp_front.wire.command import CARBON_COPY, PublishRun
from routelog.amqp_front.wire.properties import Properties, copies
from routelog.amqp_front.wire.record_attributes import record_attributes
from routelog.amqp_front.wire.single_run import (
    LOOKED_AT_MAX,
    at_once,
    singles,
    without_blind_copies,
)
from routelog.exchanges import Route
from routelog.vhosts import Appending, by_route, disjoint


class RunPlanner:
    """Plans checked publishes of one transaction; nothing happens to them before that is carried out.

    Attributes:
        plan: what they are added to.

    Args:
        returns: of the channel.
    """

    def __init__(self, channel: PublishingChannel, returns: ReturnSender, plan: CommitPlan) -> None:
        self.plan = plan
        self._channel = channel
        self._returns = returns
        self._vhost = channel.vhost
        self._clock = channel.services.clock
        self._replies = channel.services.replies
        self._turn = Appending(self._clock)
        self._search = RouteSearch(self._vhost.routing, self._turn)

    def found(self, run: PublishRun) -> list[Queues] | None:
        """The queues of the first messages of a run: of as many as a turn is to bear, at least of 1.

        Returns:
            None: what becomes of them hangs on more than where their exchange leads; see `add`.

        Raises:
            ExchangeNotFound: its exchange is gone meanwhile.
        """
        exchange, routing = run.exchange.decode(), self._vhost.routing
        routes = routing.cached_routes(exchange)
        looked_at = self._vhost.firehose is not None or run.property_flags & CARBON_COPY
        if looked_at or (routes is None and routing.remembers(exchange)):
            return None
        self._turn.begin(False)
        if routes is None:
            found = self._search.by_headers(run, exchange)
        else:
            keys = run.keys()
            found = self._search.by_keys(routes, exchange, keys)
            if not exchange and not all(found) and any_reply(keys):
                return None
        routed = {id(route): route for route in found}
        queues = {at: self._vhost.targets.of(route) for at, route in routed.items()}
        return [queues[id(route)] for route in found]

    def share(self, run: PublishRun, parts: Sequence[tuple[Queues, list[int]]]) -> None:
        """Plan messages of a run, by index, for the queues that were found; with none, they are returned.

        Raises:
            SoftError: 406, see `CommitPlan.add`.
        """
        for queues, indexes in parts:
            if not queues:
                self._return(run, indexes)
        routed = [(queues, indexes) for queues, indexes in parts if queues]
        selections = [indexes for _, indexes in routed]
        self._encode(run, selections, (queues for queues, _ in routed))

    def add(self, run: PublishRun) -> int:
        """Route a run and plan it, or as much of it as one turn of the loop is to bear.

        Returns:
            How many of its messages, at least 1.

        Raises:
            SoftError: 406, see `CommitPlan.add`.
            ExchangeNotFound: its exchange is gone meanwhile.
        """
        self._turn.begin(False)
        if self._vhost.firehose is None:
            return self._add(run)
        run = at_once(run)
        for single in singles(run, run.keys()):
            self._add_traced(single)
        return run.count

    def _add_traced(self, single: PublishRun) -> None:
        planned = len(self.plan.batches)
        self._add(single)
        reached = chain.from_iterable(queues for _, queues, _ in self.plan.batches[planned:])
        bare = without_blind_copies(single).properties(0)
        told = self._channel, single, bare, queue_names(reached)
        self.plan.told.append(partial(self._vhost.firehose.published, *told))

    def _add(self, run: PublishRun) -> int:
        exchange, routing = run.exchange.decode(), self._vhost.routing
        routes = routing.cached_routes(exchange)
        if routes is None and routing.remembers(exchange):
            return self._add_remembered(at_once(run), exchange)
        if run.property_flags & CARBON_COPY:
            return self._add_copies(run, exchange)
        if routes is None:
            return self._add_routed(run, self._search.by_headers(run, exchange))
        key = run.routing_key
        if key is not None:
            route = routes.get(key)
            if not route and not exchange and key.startswith(ADDRESS_PREFIX):
                if not self._reply(run, key):
                    self._return(run, range(run.count))
            else:
                self._add_whole(run, route or routing.route(exchange, key))
            return run.count
        keys = run.keys()[:TURN_KEYS_MAX]
        found = self._search.by_keys(routes, exchange, keys)
        if exchange or all(found) or not any_reply(keys):
            return self._add_routed(run, found)
        run = at_once(run)
        for single in singles(run, keys[: run.count]):
            self._add(single)
        return run.count

    def _add_routed(self, run: PublishRun, found: list[Route]) -> int:
        chosen = by_route(found, len(found))
        unrouted = chosen.pop((), None)
        if unrouted is not None:
            self._return(run, unrouted)
        if chosen:
            chosen = disjoint(chosen)
            self._encode(run, list(chosen.values()), map(self._vhost.targets.of, chosen))
        return len(found)

    def _add_whole(self, run: PublishRun, route: Route) -> None:
        if route:
            records = run.records(record_attributes(run), self._clock.now())
            self.plan.add(records, self._vhost.targets.of(route))
        else:
            self._return(run, range(run.count))

    def _encode(
        self, run: PublishRun, selections: list[list[int]], queues: Iterable[Queues]
    ) -> None:
        parts = run.parts(selections, record_attributes(run), self._clock.now())
        for records, to in zip(parts, queues, strict=True):
            self.plan.add(records, to)

    def _add_copies(self, run: PublishRun, exchange: str) -> int:
        message = Properties(run.properties(0)).message()
        keys = (run.keys()[0], *copies(message.headers))
        route = self._vhost.routing.route_all(exchange, keys, message)
        replied: list[bool] = []
        if not exchange and any_reply(keys):
            bare = without_blind_copies(run)
            replied = [self._reply(bare, key) for key in dict.fromkeys(keys)]
        if route or not any(replied):
            self._add_whole(run, route)
        return run.count

    def _add_remembered(self, run: PublishRun, exchange: str) -> int:
        plan = self.plan
        through = RunPassage(self._vhost, run, self._clock.now(), plan.undecided)
        first = 0
        while first < run.count:
            # One that hangs on another of the transaction is a duplicate of it.
            first = through.route(exchange, first) + 1
        self._return(run, through.unrouted())
        stored: dict[int, bool] = {}
        for records, queues, indexes in through.batches():
            plan.add(records, queues)
            stored.update((at, run.persistent) for at in indexes)
        plan.passages.append(through.passage)
        plan.remembering.append(partial(through.remember, stored))
        plan.durable = max(plan.durable, through.passage.durable)
        return run.count

    def _reply(self, run: PublishRun, address: bytes) -> bool:
        # Looked for again when it is told: it may be gone.
        is_there = self._replies.find(address) is not None
        if is_there:
            self.plan.told.append(partial(self._replies.send, address, run, self._clock))
        return is_there

    def _return(self, run: PublishRun, indexes: Sequence[int]) -> None:
        if run.mandatory:
            for at in range(0, len(indexes), LOOKED_AT_MAX):
                some = indexes[at : at + LOOKED_AT_MAX]
                self.plan.told.append(partial(self._returns.send, run, some))
