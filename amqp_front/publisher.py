# cython: annotation_typing=False, wraparound=True
"""The publishing side of a channel: from a run of publishes to queues, returns and confirms."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain

import cython
from pamqp import commands

from amqp_front.command import CARBON_COPY, PublishRun
from amqp_front.commit_plan import CommitPlan, Queues
from amqp_front.confirm_sender import ConfirmSender
from amqp_front.content_frames import content_frames
from amqp_front.direct_reply import ADDRESS_PREFIX, any_reply
from amqp_front.errors import (
    ACCESS_REFUSED,
    FRAME_ERROR,
    NO_ROUTE,
    NOT_IMPLEMENTED,
    HardError,
    SoftError,
)
from amqp_front.piecework import Piecework
from amqp_front.properties import EXPIRATION, Properties, copies
from amqp_front.publish_checks import checked, is_checked
from amqp_front.publishing_channel import PublishingChannel
from amqp_front.single_run import has_blind_copies, singles, without_blind_copies
from exchanges import BARE_MESSAGE, Message, Route, holding_exchange
from log_backend import BLIND_COPIES, EXPIRING, NOTHING, PERSISTENT, JournalFailed, JournalPositions
from vhosts import Passage, Recipient, ResourceKind, Verb
from vhosts.appending import PAUSE, Appending, Batches
from vhosts.sharing_out import by_route, disjoint, queues_of, shared_out

# Of one turn of the loop; what is left of a run comes again in the next one.
TURN_SECONDS = 0.001  # to find routes that are not known, or to look at single messages
TURN_KEYS_MAX = 2_048  # with several keys
TURN_ROUTES_MAX = 1_024  # different ones: 1 to 2 us each
LOOKED_AT_MAX = 64  # looked at one by one: some 30 us each
LONG_KEY = 64  # bytes: a longer one may take 2 ms, by 10,000 patterns made for that
LONG_ROUTE = 256  # queues: 0.03 ms; of 20,000, 2 ms
SHARED_AT_ONCE = 4_096  # queues of all routes of a run: to share them out takes 0.2 to 0.5 ms
# Whole numbers of C.
NEW_KEYS_BETWEEN_LOOKS = cython.declare(cython.Py_ssize_t, 4)  # at the clock
KEYS_BETWEEN_LOOKS = cython.declare(cython.Py_ssize_t, 16)  # where each is looked at, however known


@cython.final
@cython.cclass
class Publisher:
    """Publishes of one channel.

    Attributes:
        confirming: confirm.select was called.
        waited: the client waits until its publishes are as safe as their queues promise.
        carried: how many messages of the last run were published; the others come again in another turn.
        fan_out: what was published and is on its way to its queues; publish nothing before it has arrived.
    """

    def __init__(self, channel: PublishingChannel) -> None:
        self._channel = channel
        self._vhost = channel.vhost
        self._clock = channel.services.clock
        self.confirming = False
        self.waited = False
        self.carried = 0
        self.fan_out: Piecework | None = None
        self._confirms = ConfirmSender(channel)
        self._planned: CommitPlan | None = None  # then what is published goes there
        self._is_closed = False
        self._name = b""
        self._exchange = ""
        self._known_version = -1
        self._appending = Appending(channel.services.clock)
        self._needed = NOTHING  # for what is under way
        self._reached: list[str] | None = None  # queues of a message that is traced

    # -- publishing

    def plan(self, run: PublishRun, plan: CommitPlan) -> int:
        """Route a checked run of a transaction, or as much of it as one turn of the loop is to bear.

        Returns:
            How many of its messages, at least 1.

        Raises:
            SoftError: 406, see `CommitPlan.add`.
            ExchangeNotFound: its exchange is gone meanwhile.
        """
        self._planned = plan
        self.carried = run.count
        self._appending.begin(self.waited)
        try:
            if self._vhost.firehose is None:
                self._publish(run)
            else:
                self._publish_traced(run)
        finally:
            self._planned = None
        return self.carried

    def found(self, run: PublishRun) -> list[Queues] | None:
        """The queues of the first messages of a checked run: of as many as a turn is to bear, at least of 1.

        Returns:
            None: what becomes of them hangs on more than where their exchange leads; see `plan`.

        Raises:
            ExchangeNotFound: its exchange is gone meanwhile.
        """
        exchange, routing = run.exchange.decode(), self._vhost.routing
        routes = routing.cached_routes(exchange)
        looked_at = self._vhost.firehose is not None or run.property_flags & CARBON_COPY
        if looked_at or (routes is None and routing.remembers(exchange)):
            return None
        self._appending.begin(self.waited)
        if routes is None:
            found = self._found_by_headers(run, exchange)
        else:
            keys = run.keys()
            found = self._found(routes, exchange, keys)
            if not exchange and not all(found) and any_reply(keys):
                return None
        routed = {id(route): route for route in found}
        queues = {at: self._vhost.targets.of(route) for at, route in routed.items()}
        return [queues[id(route)] for route in found]

    def share(
        self, run: PublishRun, parts: Sequence[tuple[Queues, list[int]]], plan: CommitPlan
    ) -> None:
        """Encode messages of a run, by index, for the queues that were found; with none, they are returned.

        Raises:
            SoftError: 406, see `CommitPlan.add`.
        """
        self._planned = plan
        for queues, indexes in parts:
            if not queues:
                self._return(run, indexes)
        self._planned = None
        routed = [(queues, indexes) for queues, indexes in parts if queues]
        selections = [indexes for _, indexes in routed]
        encoded = run.parts(selections, self._attributes(run), self._clock.now())
        for records, (queues, _) in zip(encoded, routed, strict=True):
            plan.add(records, queues)

    def carry_out(self, plan: CommitPlan) -> None:
        """Append what is planned, in the turn that found it current."""
        self._appending.begin(self.waited)
        positions = self._append(plan.batches, True)
        for remember in plan.remembering:
            remember(positions)

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
        self._appending.begin(self.waited)
        try:
            is_traced = self._vhost.firehose is not None
            needed = self._publish_traced(run) if is_traced else self._publish(run)
        except JournalFailed as error:
            self._lose(error)
            return NOTHING
        if self._appending.is_under_way:
            self._needed = needed
            services = self._channel.services
            self.fan_out = Piecework(self, services.piecework, services.loop)
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
        found = self._found(routes, exchange, keys)
        if not exchange and not all(found) and any_reply(keys):
            run = self._shortened(run)
            return self._publish_singles(run, keys[: run.count])
        self.carried = len(found)
        return self._to_routes(run, found)

    @cython.cfunc
    @cython.locals(routes=dict, keys=list, found=list, new=cython.Py_ssize_t, is_long=cython.bint)
    def _found(self, routes: dict[bytes, Route], exchange: str, keys: list[bytes]) -> list[Route]:
        # Of as many as there is time for, when they are new.
        found: list[Route] = []
        new, is_long = 0, False
        for key in keys:
            route = routes.get(key)
            if route is None:
                to_look = new % NEW_KEYS_BETWEEN_LOOKS == 0 or is_long or len(key) > LONG_KEY
                if to_look and self._appending.is_over() and new:
                    break
                new += 1
                route = self._vhost.routing.route(exchange, key)
                is_long = len(route) > LONG_ROUTE
            found.append(route)
        return found

    def _shortened(self, run: PublishRun) -> PublishRun:
        # To what may be looked at one by one in a turn.
        if run.count <= LOOKED_AT_MAX:
            return run
        self.carried = LOOKED_AT_MAX
        return run.part(0, LOOKED_AT_MAX)

    def _publish_traced(self, run: PublishRun) -> JournalPositions:
        needed = NOTHING
        refused: set[int] = set()
        run = self._shortened(run)
        for at, single in enumerate(singles(run, run.keys())):
            self._reached = []
            try:
                needed = needed.joined(self._publish(single))
                bare = without_blind_copies(single).properties(0)
                published = self._vhost.firehose.published
                self._tell(partial(published, self._channel, single, bare, self._reached))
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
        chosen = by_route(found, TURN_ROUTES_MAX if self._planned is None else len(found))
        self.carried = len(found)
        unrouted = chosen.pop((), None)
        if unrouted is not None:
            self._return(run, unrouted)
        if not chosen:
            return NOTHING
        if len(chosen) > 1 and self._planned is None and queues_of(chosen) > SHARED_AT_ONCE:
            return self._append(self._shared_out(run.kept(len(found)), chosen))
        chosen = disjoint(chosen)
        selections = list(chosen.values())
        parts = run.parts(selections, self._attributes(run), self._clock.now())
        known = self._vhost.targets.known()
        queues = [known.get(route) or self._targets(route) for route in chosen]
        return self._append(zip(parts, queues, selections, strict=True))

    def _shared_out(self, run: PublishRun, chosen: dict[Route, list[int]]) -> Batches:
        targets = self._vhost.targets
        known, newest = targets.known(), targets.newest
        attributes, now = self._attributes(run), self._clock.now()

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
        records = run.records(self._attributes(run), self._clock.now())
        return self._append(((records, self._targets(route), range(run.count)),))

    def _targets(self, route: Route) -> Iterable[Recipient]:
        targets = self._vhost.targets
        is_once = self._planned is None and self._reached is None
        return targets.gradually(route) if is_once else targets.of(route)

    @cython.cfunc
    @cython.returns(cython.int)
    @cython.exceptval(-1)
    @cython.locals(attributes=cython.int)
    def _attributes(self, run: PublishRun) -> int:
        attributes = PERSISTENT if run.persistent else 0
        if run.property_flags & CARBON_COPY and has_blind_copies(run):
            attributes |= BLIND_COPIES
        return attributes | EXPIRING if run.property_flags & EXPIRATION else attributes

    @cython.cfunc
    @cython.locals(whole=cython.bint)
    def _append(self, batches: Batches, whole: bool = False) -> JournalPositions:
        if self._reached is not None:
            batches = list(batches)
            for _, queues, _ in batches:
                self._reached += _queue_names(queues)
        if self._planned is None:
            return self._appending.append(batches, whole)
        for records, queues, _ in batches:
            self._planned.add(records, tuple(queues))
        return NOTHING

    def _publish_by_headers(self, run: PublishRun, exchange: str) -> JournalPositions:
        found = self._found_by_headers(run, exchange)
        self.carried = len(found)
        return self._to_routes(run, found)

    def _found_by_headers(self, run: PublishRun, exchange: str) -> list[Route]:
        route = self._vhost.routing.route
        looks = self._vhost.routing.needs_headers(exchange)
        found: list[Route] = []
        message, is_long = BARE_MESSAGE, False
        for at, key in enumerate(run.keys()):
            to_look = at % KEYS_BETWEEN_LOOKS == 0 or is_long or len(key) > LONG_KEY
            if to_look and self._appending.is_over() and at:
                break
            if looks:
                message = _message(Properties(run.properties(at)))
            found.append(route(exchange, key, message))
            is_long = len(found[at]) > LONG_ROUTE
        return found

    def _publish_remembered(self, run: PublishRun, exchange: str) -> JournalPositions:
        # Cut where what becomes of a message hangs on one before it.
        run = self._shortened(run)
        needed, begin = NOTHING, 0
        while begin < run.count:
            plan = self._planned
            passage = self._vhost.passage(None if plan is None else plan.undecided)
            chosen, begin = self._through(passage, run, exchange, begin)
            unrouted = chosen.pop((), None)
            if unrouted is not None:
                self._return(run, [at for at in unrouted if at not in passage.duplicates])
            needed = needed.joined(JournalPositions(passage.written, passage.durable))
            needed = needed.joined(self._append_remembered(passage, run, chosen))
        return needed

    def _through(
        self, passage: Passage, run: PublishRun, exchange: str, begin: int
    ) -> tuple[dict[Route, list[int]], int]:
        chosen: dict[Route, list[int]] = {}
        keys = run.keys()
        for at in range(begin, run.count):
            message = _message(Properties(run.properties(at)))
            more = copies(message.headers) if run.property_flags & CARBON_COPY else ()
            route = passage.route(at, exchange, (keys[at], *more), message)
            if route is not None:
                chosen.setdefault(route, []).append(at)
            elif self._planned is None:
                return chosen, at
        return chosen, run.count

    def _append_remembered(
        self, passage: Passage, run: PublishRun, chosen: dict[Route, list[int]]
    ) -> JournalPositions:
        attributes, now = self._attributes(run), self._clock.now()
        chosen = disjoint(chosen)
        parts = run.parts(list(chosen.values()), attributes, now) if chosen else []
        queues = list(map(self._vhost.targets.of, chosen))
        needed = NOTHING
        stored: dict[int, bool] = {}

        def remember(positions: JournalPositions) -> None:
            written, durable = positions
            passage.remember(
                stored,
                run.persistent,
                lambda places: run.parts([places], attributes, now)[0],
                written=written,
                durable=durable,
            )

        plan = self._planned
        if plan is not None:
            self._append(zip(parts, queues, chosen.values(), strict=True))
            stored.update((at, run.persistent) for at in chain.from_iterable(chosen.values()))
            plan.passages.append(passage)
            plan.remembering.append(remember)
            plan.durable = max(plan.durable, passage.durable)
            return NOTHING
        size = sum(part.batch_bytes * len(to) for part, to in zip(parts, queues, strict=True))
        with passage.together(size):
            for part, to, indexes in zip(parts, queues, chosen.values(), strict=True):
                positions = self._append(((part, to, indexes),), True)
                needed = needed.joined(positions)
                for at in indexes:
                    stored[at] = stored.get(at, False) or positions != NOTHING
            for at in self._appending.refused:
                stored.pop(at, None)
            remember(needed)
        return needed

    def _publish_copies(self, run: PublishRun, exchange: str) -> JournalPositions:
        message = _message(Properties(run.properties(0)))
        keys = (run.keys()[0], *copies(message.headers))
        route = self._vhost.routing.route_all(exchange, keys, message)
        if exchange or not any_reply(keys):
            return self._to_route(run, route)
        replied = [self._replied(without_blind_copies(run), key) for key in dict.fromkeys(keys)]
        return self._to_route(run, route) if route or not any(replied) else NOTHING

    def _tell(self, told: Callable[[], object]) -> None:
        # Of what a transaction publishes, when that has happened.
        if self._planned is None:
            told()
        else:
            self._planned.told.append(told)

    def _reply(self, run: PublishRun, address: bytes) -> JournalPositions:
        if not self._replied(run, address):
            self._return(run, range(run.count))
        return NOTHING

    def _replied(self, run: PublishRun, address: bytes) -> bool:
        consumer = self._channel.services.replies.find(address)
        if consumer is not None and self._planned is None:
            consumer.reply(run.records(0, self._clock.now()))
        elif consumer is not None:  # looked for again then: it may be gone
            self._tell(partial(self._replied, run, address))
        return consumer is not None

    def _return(self, run: PublishRun, indexes: Sequence[int]) -> None:
        if not run.mandatory or self._is_closed:
            return
        if self._planned is not None:
            for at in range(0, len(indexes), LOOKED_AT_MAX):
                self._tell(partial(self._return, run, indexes[at : at + LOOKED_AT_MAX]))
            return
        if self.confirming:
            self._confirms.catch_up()  # of what came before
        run = without_blind_copies(run)
        keys = run.keys()
        for at in indexes:
            parts = content_frames(
                self._channel.number,
                self._channel.body_frame_max,
                run.properties(at),
                run.body(at),
                commands.Basic.Return,
                reply_code=NO_ROUTE,
                reply_text="NO_ROUTE",
                exchange=run.exchange,
                routing_key=keys[at],
            )
            self._channel.write(b"".join(parts))

    # -- checks

    @cython.cfunc
    def _check_flags(self, run: PublishRun) -> None:
        self._check_exchange(run.exchange)
        if run.immediate:
            raise HardError(NOT_IMPLEMENTED, "immediate=true")

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


def _queue_names(recipients: Iterable[Recipient]) -> list[str]:
    return [each.name for each in recipients if holding_exchange(each.name) is None]


def _message(properties: Properties) -> Message:
    return Message(properties.headers(), properties.value)


def _decoded(name: bytes) -> str:
    try:
        return name.decode()
    except UnicodeDecodeError:
        raise HardError(FRAME_ERROR, "a short string is not UTF-8") from None
