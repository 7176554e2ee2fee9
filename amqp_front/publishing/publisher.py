# cython: annotation_typing=False, wraparound=True
"""The publishing side of a channel: from a run of publishes to queues, returns and confirms."""

from collections.abc import Iterable, Iterator, Sequence

import cython

from routelog.amqp_front.node.direct_reply import ADDRESS_PREFIX, any_reply
from routelog.amqp_front.publishing.confirm_sender import ConfirmSender
from routelog.amqp_front.publishing.firehose import queue_names
from routelog.amqp_front.publishing.publish_checks import checked, is_checked
from routelog.amqp_front.publishing.publishing_channel import PublishingChannel
from routelog.amqp_front.publishing.return_sender import ReturnSender
from routelog.amqp_front.publishing.route_search import TURN_KEYS_MAX, RouteSearch
from routelog.amqp_front.publishing.run_passage import RunPassage
from routelog.amqp_front.sockets.piecework import Piecework
from routelog.amqp_front.wire.command import CARBON_COPY, PublishRun
from routelog.amqp_front.wire.errors import (
    ACCESS_REFUSED,
    FRAME_ERROR,
    NOT_IMPLEMENTED,
    HardError,
    SoftError,
)
from routelog.amqp_front.wire.properties import Properties, copies
from routelog.amqp_front.wire.record_attributes import record_attributes
from routelog.amqp_front.wire.single_run import (
    LOOKED_AT_MAX,
    at_once,
    singles,
    without_blind_copies,
)
from routelog.exchanges import Route
from routelog.log_backend import NOTHING, JournalFailed, JournalPositions
from routelog.vhosts import Recipient, ResourceKind, Verb
from routelog.vhosts.posting.appending import PAUSE, Appending, Batches
from routelog.vhosts.posting.sharing_out import by_route, disjoint, queues_of, shared_out

# Of one turn of the loop; what is left of a run comes again in the next one.
TURN_SECONDS = 0.001  # to look at single messages
TURN_ROUTES_MAX = 1_024  # ways of its messages: 1 to 2 us each
SHARED_AT_ONCE = 4_096  # queues of all routes of a run: to share them out takes 0.2 to 0.5 ms


@cython.final
@cython.cclass
class Publisher:
    """Publishes of one channel.

    Attributes:
        confirming: confirm.select was called.
        carried: how many messages of the last run were published; the others come again in another turn.
        returns: what its mandatory messages come back by.
        fan_out: what was published and is on its way to its queues; publish nothing before it has arrived.
    """

    def __init__(self, channel: PublishingChannel) -> None:
        self._channel = channel
        self._vhost = channel.vhost
        self._clock = channel.services.clock
        self.confirming = False
        self.carried = 0
        self.fan_out: Piecework | None = None
        self._confirms = ConfirmSender(channel)
        self.returns = ReturnSender(channel)
        self._is_closed = False
        self._name = b""
        self._exchange = ""
        self._known_version = -1
        self._appending = Appending(channel.services.clock)
        self._search = RouteSearch(self._vhost.routing, self._appending)
        self._needed = NOTHING  # for what is under way
        self._reached: list[str] | None = None  # queues of a message that is traced

    # -- publishing

    def begin(self, exchange: bytes, immediate: bool) -> None:
        """Check what a publish may do whose content is still to come: none of it is kept otherwise.

        Raises:
            SoftError: 403, 404.
            HardError: 540 for immediate.
        """
        self._check_exchange(exchange)
        if immediate:
            raise HardError(NOT_IMPLEMENTED, "immediate=true")

    def check(self, run: PublishRun) -> Iterator[PublishRun]:
        """Check what a run may do; gives the runs to carry out, nearly always just itself.

        Raises:
            SoftError: 403, 404, 406; what came before a message that is refused has been given.
            HardError: 540 for immediate.
        """
        self._check_flags(run)
        return checked(run, self._exchange, self._channel)

    def carry(self, run: PublishRun) -> int:
        """Check a run and carry it out, as far as one turn of the loop goes; see `check` and `publish`.

        Returns:
            How many of its messages were carried out, at least 1.
        """
        self._check_flags(run)
        if is_checked(run, self._channel):
            return self._carry_checked(run)
        self.publish(run)
        return self.carried

    def _carry_checked(self, run: PublishRun) -> int:
        until = self._clock.monotonic() + TURN_SECONDS
        done = 0
        while True:
            part = run
            if run.count > LOOKED_AT_MAX:
                part = run.part(done, min(LOOKED_AT_MAX, run.count - done))
            for allowed in checked(part, self._exchange, self._channel):
                self.publish(allowed)
                done += self.carried
                if self.carried < allowed.count or self.fan_out is not None:
                    return done
            if done == run.count or self._clock.monotonic() >= until:
                return done

    @cython.ccall
    def publish(self, run: PublishRun) -> JournalPositions:
        """Carry out a checked run, or as much of it as one turn of the loop is to bear: see `carried`.

        Returns:
            What its confirm waits for.
        """
        self.carried = run.count
        self._appending.begin(self.confirming)
        try:
            is_traced = self._vhost.firehose is not None
            needed = self._publish_traced(run) if is_traced else self._publish(run)
        except JournalFailed as error:
            self._lose(error)
            return NOTHING
        if self._appending.is_under_way:
            self._needed = needed
            self.fan_out = Piecework(self, self._channel.services)
            self._channel.reached(self._appending.weight, self.fan_out.done)
        else:
            if self._appending.queues > 1:
                self._channel.reached(self._appending.weight, None)
            self._arrived(needed)
        return needed

    def go_on(self, whole: bool) -> bool:
        """See `Work`."""
        try:
            self._needed = self._needed.joined(self._appending.go_on(whole))
        except JournalFailed as error:
            self.fan_out = None
            self._lose(error)
            return True
        if self._appending.is_under_way:
            return False
        self.fan_out = None
        self._arrived(self._needed)
        return True

    def _lose(self, error: JournalFailed) -> None:
        self._appending.refused.clear()
        if not self.confirming:
            raise error
        if not self._is_closed:
            self._confirms.lost(self.carried)

    @cython.cfunc
    def _arrived(self, needed: JournalPositions) -> None:
        refused = self._appending.refused
        if self.confirming and not self._is_closed:
            self._confirms.published(self.carried, refused, needed)
        if refused:
            refused.clear()  # without confirms nobody wants to know

    @cython.cfunc
    @cython.locals(routes=dict, keys=list, found=list)
    def _publish(self, run: PublishRun) -> JournalPositions:
        exchange = run.exchange.decode()
        routing = self._vhost.routing
        routes = routing.cached_routes(exchange)
        if routes is None and routing.remembers(exchange):
            return self._publish_remembered(run, exchange)
        if run.property_flags & CARBON_COPY:
            return self._publish_copies(run, exchange)
        if routes is None:
            return self._publish_by_headers(run, exchange)
        key = run.routing_key
        if key is not None:
            route = routes.get(key)
            if not route:
                if not exchange and key.startswith(ADDRESS_PREFIX):
                    return self._reply(run, key)
                if route is None:
                    self._appending.is_over()  # the turn's time begins
                route = routing.route(exchange, key)
            return self._to_route(run, route)
        keys = run.keys()
        if run.count > TURN_KEYS_MAX:
            del keys[TURN_KEYS_MAX:]
        found = self._search.by_keys(routes, exchange, keys)
        if not exchange and not all(found) and any_reply(keys):
            run = at_once(run)
            return self._publish_singles(run, keys[: run.count])
        self.carried = len(found)
        return self._to_routes(run, found)

    def _publish_traced(self, run: PublishRun) -> JournalPositions:
        needed = NOTHING
        refused: set[int] = set()
        run = at_once(run)
        for at, single in enumerate(singles(run, run.keys())):
            self._reached = []
            try:
                needed = needed.joined(self._publish(single))
                bare = without_blind_copies(single).properties(0)
                self._vhost.firehose.published(self._channel, single, bare, self._reached)
            finally:
                self._reached = None
            if self._is_last(at, refused):
                break
        self._appending.refused = refused
        self.carried = at + 1  # each single one has set it to 1
        return needed

    def _publish_singles(self, run: PublishRun, keys: Sequence[bytes]) -> JournalPositions:
        needed = NOTHING
        refused: set[int] = set()
        for at, single in enumerate(singles(run, keys)):
            needed = needed.joined(self._publish(single))
            if self._is_last(at, refused):
                break
        self._appending.refused = refused
        self.carried = at + 1
        return needed

    def _is_last(self, at: int, refused: set[int]) -> bool:
        # Whether a message of a run is under way: those behind it come again. Notes whether it was refused.
        if self._appending.refused:
            refused.add(at)
            self._appending.refused.clear()
        if self._appending.is_under_way:
            self._appending.indexes = (at,)
            return True
        return False

    @cython.cfunc
    @cython.locals(chosen=dict, known=dict)
    def _to_routes(self, run: PublishRun, found: list[Route]) -> JournalPositions:
        # One batch for each queue, so that its order is the publisher's.
        chosen = by_route(found, TURN_ROUTES_MAX)
        self.carried = len(found)
        unrouted = chosen.pop((), None)
        if unrouted is not None:
            self._return(run, unrouted)
        if not chosen:
            return NOTHING
        if len(chosen) > 1 and queues_of(chosen) > SHARED_AT_ONCE:
            return self._append(self._shared_out(run.kept(len(found)), chosen))
        chosen = disjoint(chosen)
        selections = list(chosen.values())
        parts = run.parts(selections, record_attributes(run), self._clock.now())
        known = self._vhost.targets.known()
        queues = [known.get(route) or self._targets(route) for route in chosen]
        return self._append(zip(parts, queues, selections, strict=True))

    def _shared_out(self, run: PublishRun, chosen: dict[Route, list[int]]) -> Batches:
        targets = self._vhost.targets
        known, newest = targets.known(), targets.newest
        attributes, now = record_attributes(run), self._clock.now()

        def batches() -> Batches:
            for each in shared_out(chosen):
                if each is None:
                    yield PAUSE
                    continue
                route, messages = each
                part = run.parts([messages], attributes, now)[0]
                yield part, known.get(route) or targets.still_there(route, newest), messages

        return batches()

    @cython.cfunc
    def _to_route(self, run: PublishRun, route: Route) -> JournalPositions:
        if not route:
            self._return(run, range(run.count))
            return NOTHING
        records = run.records(record_attributes(run), self._clock.now())
        return self._append(((records, self._targets(route), range(run.count)),))

    def _targets(self, route: Route) -> Iterable[Recipient]:
        targets = self._vhost.targets
        return targets.gradually(route) if self._reached is None else targets.of(route)

    @cython.cfunc
    @cython.locals(whole=cython.bint)
    def _append(self, batches: Batches, whole: bool = False) -> JournalPositions:
        if self._reached is not None:
            batches = list(batches)
            for _, queues, _ in batches:
                self._reached += queue_names(queues)
        return self._appending.append(batches, whole)

    def _publish_by_headers(self, run: PublishRun, exchange: str) -> JournalPositions:
        found = self._search.by_headers(run, exchange)
        self.carried = len(found)
        return self._to_routes(run, found)

    def _publish_remembered(self, run: PublishRun, exchange: str) -> JournalPositions:
        # Cut where what becomes of a message hangs on one before it.
        run = at_once(run)
        self.carried = run.count
        needed, begin = NOTHING, 0
        while begin < run.count:
            through = RunPassage(self._vhost, run, self._clock.now())
            begin = through.route(exchange, begin)
            self._return(run, through.unrouted())
            passage = through.passage
            needed = needed.joined(JournalPositions(passage.written, passage.durable))
            needed = needed.joined(self._append_remembered(through))
        return needed

    def _append_remembered(self, through: RunPassage) -> JournalPositions:
        needed = NOTHING
        stored: dict[int, bool] = {}
        batches = through.batches()
        size = sum(records.batch_bytes * len(queues) for records, queues, _ in batches)
        with through.passage.together(size):
            for batch in batches:
                positions = self._append((batch,), True)
                needed = needed.joined(positions)
                for at in batch[2]:
                    stored[at] = stored.get(at, False) or positions != NOTHING
            for at in self._appending.refused:
                stored.pop(at, None)
            remembered = through.remember(stored, needed)
        for remember in remembered:
            remember()
        return needed

    def _publish_copies(self, run: PublishRun, exchange: str) -> JournalPositions:
        message = Properties(run.properties(0)).message()
        keys = (run.keys()[0], *copies(message.headers))
        route = self._vhost.routing.route_all(exchange, keys, message)
        if exchange or not any_reply(keys):
            return self._to_route(run, route)
        bare, send = without_blind_copies(run), self._channel.services.replies.send
        replied = [send(key, bare, self._clock) for key in dict.fromkeys(keys)]
        return self._to_route(run, route) if route or not any(replied) else NOTHING

    def _reply(self, run: PublishRun, address: bytes) -> JournalPositions:
        if not self._channel.services.replies.send(address, run, self._clock):
            self._return(run, range(run.count))
        return NOTHING

    def _return(self, run: PublishRun, indexes: Sequence[int]) -> None:
        if run.mandatory and indexes:
            if self.confirming and not self._is_closed:
                self._confirms.catch_up()  # of what came before
            self.returns.send(run, indexes)

    # -- checks

    @cython.cfunc
    def _check_flags(self, run: PublishRun) -> None:
        self.begin(run.exchange, run.immediate)

    @cython.cfunc
    def _check_exchange(self, name: bytes) -> None:
        version = self._vhost.routing.version
        if name == self._name and version == self._known_version:
            exchange = self._exchange
        else:
            exchange = _decoded(name)
            if self._vhost.routing.exchange(exchange).internal:
                where = f"'{exchange}' in vhost '{self._vhost.name}'"
                raise SoftError(ACCESS_REFUSED, f"cannot publish to internal exchange {where}")
            self._name, self._exchange, self._known_version = name, exchange, version
        self._channel.permissions.authorize(ResourceKind.EXCHANGE, exchange, Verb.WRITE)

    def close(self) -> None:
        """The channel is gone: confirm and return nothing more."""
        self._is_closed = True
        self._confirms.close()
        self.returns.close()


def _decoded(name: bytes) -> str:
    try:
        return name.decode()
    except UnicodeDecodeError:
        raise HardError(FRAME_ERROR, "a short string is not UTF-8") from None
