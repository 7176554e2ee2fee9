# cython: annotation_typing=False, wraparound=True
"""The publishing side of a channel: from a run of publishes to queues, returns and confirms."""

import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Protocol

import cython
from pamqp import commands

from amqp_front.command import CARBON_COPY, PublishRun
from amqp_front.commit_plan import CommitPlan
from amqp_front.confirms import Confirms
from amqp_front.content import single_run
from amqp_front.content_frames import content_frames
from amqp_front.direct_reply import ADDRESS_PREFIX, PSEUDO_QUEUE
from amqp_front.errors import (
    ACCESS_REFUSED,
    FRAME_ERROR,
    NO_ROUTE,
    NOT_IMPLEMENTED,
    PRECONDITION_FAILED,
    AmqpError,
    HardError,
    SoftError,
)
from amqp_front.journal_positions import NOTHING, JournalPositions
from amqp_front.properties import EXPIRATION, REPLY_TO, USER_ID, Properties, copies
from amqp_front.services import Services
from exchanges import Route, holding_exchange
from log_backend import EXPIRING, PERSISTENT, Durability, JournalFailed, Records
from vhosts import (
    AccessRefused,
    PermissionCache,
    PublishRefused,
    Recipient,
    ResourceKind,
    Verb,
    VirtualHost,
)

_INSPECTED = EXPIRATION | USER_ID | REPLY_TO | CARBON_COPY

_CONFIRM = struct.Struct(">BHIIQBB")  # a whole basic.ack or basic.nack frame
_ACK = 60 << 16 | 80
_NACK = 60 << 16 | 120


class PublishingChannel(Protocol):
    """What the publisher needs of its channel."""

    number: int
    services: Services
    vhost: VirtualHost
    user: str
    permissions: PermissionCache
    body_frame_max: int
    reply_address: str | None

    def write(self, frames: bytes) -> None:
        """Send frames to the client."""


class Publisher:
    """Publishes of one channel.

    Attributes:
        confirming: confirm.select was called.
        waited: the client waits until its publishes are as safe as their queues promise.
    """

    def __init__(self, channel: PublishingChannel) -> None:
        self._channel = channel
        self._vhost = channel.vhost
        self._board = channel.services.confirms
        self._clock = channel.services.clock
        self.confirming = False
        self.waited = False
        self._confirms = Confirms()
        self._planned: CommitPlan | None = None
        self._name = b""
        self._exchange = ""
        self._known_version = -1
        self._refused: set[int] = (
            set()
        )  # indexes of a run's messages that a full queue did not take

    # -- publishing

    def plan(self, runs: Iterable[PublishRun]) -> CommitPlan:
        """Route checked runs of a transaction; what no queue gets is returned here.

        Raises:
            SoftError: 406, see `CommitPlan.check`.
            ExchangeNotFound: the exchange of one is gone meanwhile.
        """
        self._planned = plan = CommitPlan()
        try:
            for run in runs:
                self._publish(run)
        finally:
            self._planned = None
        plan.check()
        return plan

    def carry_out(self, plan: CommitPlan) -> None:
        """Append what was planned just before."""
        if plan.batches:
            parts, targets, indexes = map(list, zip(*plan.batches, strict=True))
            self._append(parts, targets, indexes)

    def check(self, run: PublishRun) -> Iterator[PublishRun]:
        """Check what a run may do; gives the runs to carry out, nearly always just itself.

        Raises:
            SoftError: 403, 404, 406; what came before a message that is refused has been given.
            HardError: 540 for immediate.
        """
        self._check_exchange(run.exchange)
        if run.immediate:
            raise HardError(NOT_IMPLEMENTED, "immediate=true")
        if self._channel.permissions.topics:
            return self._within_topics(run)
        return self._inspected(run) if run.property_flags & _INSPECTED else iter((run,))

    def publish(self, run: PublishRun) -> JournalPositions:
        """Carry out a checked run.

        Returns:
            What its confirm waits for.
        """
        try:
            needed = self._publish(run)
        except JournalFailed:
            self._refused.clear()
            if not self.confirming:
                raise
            self._confirms.add(run.count, NOTHING)
            self.journal_failed()
            return NOTHING
        if self.confirming:
            if self._refused:
                self._count_refused(run.count, needed)
            else:
                self._confirms.add(run.count, needed)
            self._board.wait(self, needed)
        elif self._refused:
            self._refused.clear()  # nobody wants to know
        return needed

    def _count_refused(self, count: int, needed: JournalPositions) -> None:
        at = 0
        for refused in sorted(self._refused):
            if at < refused:
                self._confirms.add(refused - at, needed)
            self._confirms.add(1, None)
            at = refused + 1
        if at < count:
            self._confirms.add(count - at, needed)
        self._refused.clear()

    @cython.locals(routes=dict, keys=list, found=list)
    def _publish(self, run: PublishRun) -> JournalPositions:
        exchange = run.exchange.decode()
        routing = self._vhost.routing
        routes = routing.cached_routes(exchange)
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
                route = routing.route(exchange, key)
            return self._to_route(run, route)
        keys = run.keys()
        found = [
            route if (route := routes.get(key)) is not None else routing.route(exchange, key)
            for key in keys
        ]
        if not exchange and not all(found) and _any_reply(keys):
            return self._publish_singles(run, keys)
        return self._to_routes(run, found)

    def _publish_singles(self, run: PublishRun, keys: Sequence[bytes]) -> JournalPositions:
        needed = NOTHING
        refused: set[int] = set()
        for at, single in enumerate(_singles(run, keys)):
            needed = needed.joined(self._publish(single))
            if self._refused:
                refused.add(at)
                self._refused.clear()
        self._refused = refused
        return needed

    @cython.locals(chosen=dict, known=dict)
    def _to_routes(self, run: PublishRun, found: list[Route]) -> JournalPositions:
        # One batch for each queue, so that its order is the publisher's.
        chosen = _by_route(found)
        unrouted = chosen.pop((), None)
        if unrouted is not None:
            self._return(run, unrouted)
        if not chosen:
            return NOTHING
        chosen = _disjoint(chosen)
        selections = list(chosen.values())
        parts = run.parts(selections, self._attributes(run), self._clock.now())
        known = self._vhost.known_targets()
        queues = [known.get(route) or self._vhost.targets(route) for route in chosen]
        return self._append(parts, queues, selections)

    def _to_route(self, run: PublishRun, route: Route) -> JournalPositions:
        if not route:
            self._return(run, range(run.count))
            return NOTHING
        records = run.records(self._attributes(run), self._clock.now())
        return self._append([records], [self._vhost.targets(route)], [range(run.count)])

    def _attributes(self, run: PublishRun) -> int:
        attributes = PERSISTENT if run.persistent else 0
        return attributes | EXPIRING if run.property_flags & EXPIRATION else attributes

    @cython.locals(
        parts=list,
        targets=list,
        at=cython.Py_ssize_t,
        written=cython.longlong,
        durable=cython.longlong,
        position=cython.longlong,
    )
    def _append(
        self,
        parts: list[Records],
        targets: list[tuple[Recipient, ...]],
        indexes: Sequence[Sequence[int]],
    ) -> JournalPositions:
        # Each part to its queues; with the indexes of its records in their run.
        if self._planned is not None:
            self._planned.batches += zip(parts, targets, indexes, strict=True)
            return NOTHING
        written = durable = 0
        waited = self.waited
        for at in range(len(parts)):
            for queue in targets[at]:
                try:
                    position = queue.publish(parts[at], waited)
                except PublishRefused as refused:
                    position = refused.position
                    self._refused.update([indexes[at][each] for each in refused.refused])
                # What is durable is written, too.
                if position > durable:
                    if queue.durability is Durability.DISK:
                        durable = position
                    elif position > written:
                        written = position
        return JournalPositions(written, durable)

    def _publish_by_headers(self, run: PublishRun, exchange: str) -> JournalPositions:
        route = self._vhost.routing.route
        keys = run.keys()
        found = [
            route(exchange, keys[at], Properties(run.properties(at)).headers())
            for at in range(run.count)
        ]
        return self._to_routes(run, found)

    def _publish_copies(self, run: PublishRun, exchange: str) -> JournalPositions:
        properties = Properties(run.properties(0))
        headers = properties.headers()
        names: dict[str, None] = {}
        for key in (run.keys()[0], *copies(headers)):
            names.update(dict.fromkeys(self._vhost.routing.route(exchange, key, headers)))
        if "BCC" not in headers:
            return self._to_route(run, tuple(names))
        needed = NOTHING
        holding = [name for name in names if holding_exchange(name) is not None]
        if holding:  # what is held is routed later, and needs all its keys then
            needed = self._to_route(run, tuple(holding))
            if len(holding) == len(names):
                return needed
        bare = Properties(properties.without_blind_copies())
        flags = run.mandatory | run.immediate << 1
        body = run.body(0)
        run = single_run(run.channel, run.exchange, run.keys()[0], flags, bare, body)
        route = tuple(name for name in names if name not in holding)
        return needed.joined(self._to_route(run, route))

    def _reply(self, run: PublishRun, address: bytes) -> JournalPositions:
        consumer = self._channel.services.replies.find(address)
        if consumer is None:
            self._return(run, range(run.count))
        else:
            consumer.reply(run.records(0, self._clock.now()))
        return NOTHING

    def _return(self, run: PublishRun, indexes: Sequence[int]) -> None:
        if not run.mandatory:
            return
        keys = run.keys()
        for at in indexes:
            self._channel.write(
                content_frames(
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
            )

    # -- checks

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

    def _within_topics(self, run: PublishRun) -> Iterator[PublishRun]:
        exchange = self._vhost.routing.exchange(self._exchange)
        refused: Exception | None = None
        allowed = run.count
        if exchange.type == "topic":
            for at, key in enumerate(run.keys()):
                try:
                    self._check_topics(run, at, key)
                except (AccessRefused, AmqpError) as error:
                    refused, allowed = error, at
                    break
        if allowed:
            head = run if allowed == run.count else run.head(allowed)
            yield from self._inspected(head) if run.property_flags & _INSPECTED else (head,)
        if refused is not None:
            raise refused

    def _check_topics(self, run: PublishRun, at: int, key: bytes) -> None:
        keys = [key]
        if run.property_flags & CARBON_COPY:
            keys += copies(Properties(run.properties(at)).headers())
        for each in keys:
            text = each.decode(errors="surrogateescape")
            self._channel.permissions.authorize_topic(self._exchange, Verb.WRITE, text)

    def _inspected(self, run: PublishRun) -> Iterator[PublishRun]:
        if run.property_flags & (REPLY_TO | CARBON_COPY):
            yield from self._inspected_singles(run)
            return
        for at in range(run.count):
            try:
                Properties(run.properties(at)).check(self._channel.user)
            except SoftError:
                if at:
                    yield run.head(at)
                raise
        yield run

    def _inspected_singles(self, run: PublishRun) -> Iterator[PublishRun]:
        flags = run.mandatory | run.immediate << 1
        for at, key in enumerate(run.keys()):
            properties = Properties(run.properties(at))
            properties.check(self._channel.user)
            copies(properties.headers())
            parts = (run.channel, run.exchange, key, flags, self._readdressed(properties))
            yield single_run(*parts, run.body(at))

    def _readdressed(self, properties: Properties) -> Properties:
        if properties.value("reply_to") != PSEUDO_QUEUE.encode():
            return properties
        address = self._channel.reply_address
        if address is None:
            raise SoftError(PRECONDITION_FAILED, "fast reply consumer does not exist")
        return Properties(properties.with_reply_to(address))

    # -- confirms (Waiter)

    def journal_reached(self, reached: JournalPositions) -> bool:
        """See `Waiter`."""
        self._answer(self._confirms.take_covered(reached), _ACK)
        while (refused := self._confirms.take_refused()) is not None:
            self._answer(refused, _NACK)
            self._answer(self._confirms.take_covered(reached), _ACK)
        return self._confirms.waits()

    def journal_failed(self) -> None:
        """See `Waiter`."""
        self._answer(self._confirms.take_all(), _NACK)

    def _answer(self, taken: tuple[int, bool] | None, method: int) -> None:
        if taken is not None:
            self._channel.write(_CONFIRM.pack(1, self._channel.number, 13, method, *taken, 0xCE))

    def close(self) -> None:
        """The channel is gone: confirm nothing more."""
        self._board.forget(self)


@cython.cfunc
@cython.returns(dict)
@cython.locals(found=list, chosen=dict, at=cython.Py_ssize_t)
def _by_route(found: list[Route]) -> dict[Route, list[int]]:
    # Indexes of the messages that go each way.
    chosen: dict[Route, list[int]] = {}
    for at in range(len(found)):
        indexes = chosen.get(found[at])
        if indexes is None:
            chosen[found[at]] = [at]
        else:
            indexes.append(at)
    return chosen


def _disjoint(chosen: dict[Route, list[int]]) -> dict[Route, list[int]]:
    # The same messages for the same queues, but each queue in one route only.
    queues = sum(map(len, chosen))
    if queues == len(chosen) or queues == len(set(chain.from_iterable(chosen))):
        return chosen
    indexes: dict[str, list[int]] = {}
    for route, messages in chosen.items():
        for name in route:
            indexes.setdefault(name, []).extend(messages)
    shared: dict[tuple[int, ...], list[str]] = {}
    for name, messages in indexes.items():
        shared.setdefault(tuple(sorted(messages)), []).append(name)
    return {tuple(names): list(messages) for messages, names in shared.items()}


def _any_reply(keys: Sequence[bytes]) -> bool:
    return any(key.startswith(ADDRESS_PREFIX) for key in keys)


def _singles(run: PublishRun, keys: Sequence[bytes]) -> list[PublishRun]:
    flags = run.mandatory | run.immediate << 1
    return [
        single_run(
            run.channel, run.exchange, key, flags, Properties(run.properties(at)), run.body(at)
        )
        for at, key in enumerate(keys)
    ]


def _decoded(name: bytes) -> str:
    try:
        return name.decode()
    except UnicodeDecodeError:
        raise HardError(FRAME_ERROR, "a short string is not UTF-8") from None
