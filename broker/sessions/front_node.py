"""A node that does not lead, for its own clients: a session with the leader, and handles of its queues."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence, Set
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Protocol

from routelog.broker.loop.cork import Cork
from routelog.broker.sessions.definition_feed import FedDefinitions
from routelog.broker.sessions.session_seeker import Leaders, SessionSeeker, Write
from routelog.broker.sessions.session_socket import SILENCE_SHARE, STAMPS_PER_SECOND, SessionEnd
from routelog.broker.waiting.confirm_deadline import ConfirmDeadline
from routelog.broker.waiting.gate import UNLED, Gate
from routelog.log_backend import Clock, Histogram, Records, Timer
from routelog.vhosts import (
    SESSION_OUTBOX_BYTES_MAX,
    Answer,
    AnswerPieces,
    FrontConnections,
    FrontCounts,
    FrontSession,
    FrontVhosts,
    LeaderLink,
    SessionMessage,
    SharedCounts,
    TellingNode,
    VhostDirectory,
    session_message_pieces,
)

DEFINITIONS_LATE = "its definitions are late"

SEEKING_SECONDS_MAX = 5.0  # what clients do waits so long for a leader; then it fails


class KnownPositions(Protocol):
    """Says up to where definitions are applied here: see `JournalStorage`, `FedDefinitions`."""

    def when_applied(self, position: int, done: Callable[[], None]) -> None:
        """Call a function when they are applied up to a position."""


class ClusterOfFront(Leaders, Protocol):
    """What a front needs of its cluster: see `ClusterMember`."""

    @property
    def storage(self) -> KnownPositions:
        """What says what is applied here."""


@dataclass(frozen=True, slots=True)
class FrontHost:
    """What a front needs of its process.

    Attributes:
        name: of this node.
        process: a number that no other process of it has.
        lease_seconds: see `SessionSeeker`.
        confirm_seconds: see `ConfirmDeadline`.
        gate: where publishers wait.
        close: closes connections, for a reason in words.
        serve: called with True when a session is open: users and vhosts are those of the leader; with False
            when there was none for SEEKING_SECONDS_MAX.
        deliver_reply: delivers a direct reply to an address of this node.
        answer: answers what the leader asks about clients of this node.
        counts: of clients of this node, and others.
        trace: has messages copied to the firehose in these vhosts, and in no other one.
        latencies: takes the times of confirms.
    """

    name: str
    process: int
    lease_seconds: float
    confirm_seconds: float
    vhosts: VhostDirectory
    clock: Clock
    cork: Cork
    gate: Gate
    close: Callable[[Set[object], str], None]
    serve: Callable[[bool], None]
    deliver_reply: Callable[[bytes, Records], None]
    answer: AnswerPieces
    counts: SharedCounts
    trace: Callable[[Sequence[str]], None]
    latencies: Histogram


class FrontNode:
    """Serves the clients of a node by way of the leader, until the node leads itself.

    Args:
        fed: takes definitions from the leader; None: a journal has them.
    """

    def __init__(
        self, host: FrontHost, cluster: ClusterOfFront, fed: FedDefinitions | None = None
    ) -> None:
        self._host = host
        self._cluster = cluster
        self._fed = fed
        self._gate = gate = host.gate
        self._loop = asyncio.get_running_loop()
        self._told: FrontCounts | None = None  # of the session that a leader has taken
        self._telling: TellingNode | None = None  # likewise
        self._traced: Sequence[str] | None = None  # as it has said
        self._deadline: ConfirmDeadline | None = None
        self._is_over = False
        self._pressure: Set[str] = frozenset()
        self._is_full = False
        # A leader answers changes without a node that has not said for a lease that it knows them. So this one
        # routes for less than that behind the last beat that the leader has answered; of a change that it was
        # asked for and does not know, behind the last one before. So long a leader, too, is one behind the last
        # word of other nodes, whose age its answers tell.
        self._is_fresh = False
        self._beaten_at = -inf
        self._unknown: dict[object, float] = {}
        gate.lapse = self._lapse
        self._link = LeaderLink(self._session)
        connections = FrontConnections(host.name, host.process)
        self._vhosts = FrontVhosts(host.vhosts, self._link, connections, host.close)
        self._apply_seconds = SILENCE_SHARE * host.lease_seconds
        self._seeker = SessionSeeker(
            cluster,
            host.lease_seconds,
            self._opened,
            self._left,
            lambda: int(host.clock.monotonic() * STAMPS_PER_SECOND),
            self._answered,
        )

    def begin(self) -> None:
        """Seek the leader; clients may come."""
        self._vhosts.begin()
        self._close_gate()
        self._seeker.begin()

    @property
    def session(self) -> FrontSession:
        """The session that is open, or the next one."""
        return self._link.session

    async def end(self) -> None:
        """This node is to lead: open its queues, `route_here`, then `hand_over`."""
        self._vhosts.freeze()
        await self._seeker.aclose("this node leads")

    def route_here(self) -> None:
        """See `FrontVhosts`."""
        self._vhosts.route_here()

    def let_go(self, reason: str) -> None:
        """End the session: clients are closed, and another one is sought."""
        self._seeker.close(reason)

    def hand_over(self, pressure: Set[str]) -> None:
        """All is loaded here: clients go on with the queues of this node.

        Args:
            pressure: why publishers are to wait at this node.
        """
        self._end()
        self._vhosts.lead()
        self._gate.lapses_at = inf
        self._gate.close_for(pressure)

    def in_time(self, done: Awaitable[object]) -> Awaitable[object]:
        """See `ConfirmDeadline`."""
        return done if self._deadline is None else self._deadline.in_time(done)

    async def aclose(self, reason: str) -> None:
        """The node stops."""
        await self._seeker.aclose(reason)
        self._end()
        self._link.end(reason)

    def _end(self) -> None:
        self._is_over = True
        if self._deadline is not None:
            self._deadline.stop()

    def tell_counts(self) -> None:
        """Tell the leader how many clients this node has."""
        if self._told is not None and self._seeker.outbox_bytes <= SESSION_OUTBOX_BYTES_MAX:
            self._told.tell()

    # -- direct replies: see `OtherNodes`

    def takes_replies(self, token: bytes) -> bool:
        """See `OtherNodes`: the leader knows."""
        return True

    def ask_whether_open(self, address: bytes) -> Answer[bool]:
        """See `OtherNodes`."""
        return self._link.session.call("is_reply_open", address)

    def send_reply(self, token: bytes, address: bytes, records: Records) -> None:
        """See `OtherNodes`: by way of the leader."""
        self._link.session.send_reply(address, records)

    # -- one session after another

    def _session(self, replace: Callable[[], None]) -> FrontSession:
        session = FrontSession(
            self._loop.call_soon, self._host.clock.monotonic, partial(self._lost, replace)
        )
        session.on_traced = self._trace_in
        session.progress.around = self._host.cork.run
        session.progress.latencies = self._host.latencies
        session.on_pressure = self._pressed
        session.on_reply = self._host.deliver_reply
        session.outbox_bytes = lambda: self._seeker.outbox_bytes
        session.on_window = self._filled
        session.on_apply = self._apply
        self._hear(session)
        if self._fed is not None:
            session.on_definitions = self._fed.received
        if self._deadline is not None:
            self._deadline.stop()
        self._deadline = ConfirmDeadline(
            session.progress,
            lambda: session.last_batch,
            self._host.confirm_seconds,
            lambda seconds, look: self._loop.call_later(seconds, self._host.cork.run, look),
        )
        self._deadline.start()
        self._loop.call_later(SEEKING_SECONDS_MAX, self._look, session)
        return session

    def _opened(self, write: Write, epoch: int, position: int) -> SessionEnd:
        self._told, self._traced = FrontCounts(self._host.counts), None
        self._telling = TellingNode(
            lambda message: write(session_message_pieces(message)), self._host.answer
        )
        self._hear(self._link.session)
        # However long it takes: nothing is routed before.
        self._when_applied(position, partial(self._open, write, epoch))
        return self

    def _hear(self, session: FrontSession) -> None:
        if self._told is not None and self._telling is not None:
            session.on_counts, session.on_asked = self._told.told, self._telling.asked

    def received(self, message: SessionMessage) -> None:
        """See `SessionEnd`: a session that is about to open is given up, and another one opens in its place."""
        self._link.session.received(message)

    def _open(self, write: Write, epoch: int) -> None:
        leader = self._cluster.leader
        self._link.session.leader = "" if leader is None else leader.node
        self._link.open(write, epoch)
        if self._told is not None:
            self._told.begin(lambda message: write(session_message_pieces(message)))
        if self._traced is not None:
            self._host.trace(self._traced)
        self._close_gate()
        self._host.serve(True)

    def _trace_in(self, vhosts: Sequence[str]) -> None:
        self._traced = vhosts
        if self._link.session.is_open:  # else there may be fewer vhosts than the leader has
            self._host.trace(vhosts)

    def _look(self, session: FrontSession) -> None:
        if session is self._link.session and not (session.is_open or self._is_over):
            self._link.give_up("nobody leads")
            self._host.serve(False)

    def _left(self, reason: str) -> None:
        if self._telling is not None:
            self._telling.closed()
        self._told = self._telling = None
        if self._fed is not None:
            self._fed.session_lost()
        self._unknown.clear()
        self._beaten_at = -inf
        self._is_fresh = False
        if not self._is_over:
            self._pressed(frozenset())
        if self._link.session.is_open:
            self._link.session.lost(reason)
        # Else nothing was sent: what waits is for the next leader.

    def _lost(self, replace: Callable[[], None]) -> None:
        replace()
        self._vhosts.session_lost()

    def _apply(self, position: int) -> None:
        change = object()
        self._unknown[change] = self._beaten_at
        # A node that is late must not route any longer: the leader answers changes without it soon. One that
        # does not route yet takes its time.
        too_late: Timer | None = None
        if self._link.session.is_open:
            too_late = self._loop.call_later(self._apply_seconds, self._too_late, self._told)

        def applied() -> None:
            if too_late is not None:
                too_late.cancel()
            self._link.session.applied(position)
            self._unknown.pop(change, None)
            self._freshen()

        self._when_applied(position, applied)

    def _when_applied(self, position: int, then: Callable[[], object]) -> None:
        told = self._told

        def applied() -> None:
            if told is self._told:
                then()

        self._cluster.storage.when_applied(position, applied)

    def _too_late(self, told: FrontCounts | None) -> None:
        if told is self._told:  # what one leader has asked says nothing of the next one
            self._seeker.close(DEFINITIONS_LATE)

    # -- publishers wait

    def _answered(self, number: int, age: int) -> None:
        self._beaten_at = max(self._beaten_at, (number - age) / STAMPS_PER_SECOND)
        self._freshen()

    def _freshen(self) -> None:
        behind = next(iter(self._unknown.values()), self._beaten_at)
        lapses_at = behind + self._apply_seconds
        self._is_fresh = self._host.clock.monotonic() < lapses_at
        self._gate.lapses_at = lapses_at if self._is_fresh else inf
        self._close_gate()

    def _lapse(self) -> None:
        self._is_fresh = False
        self._gate.lapses_at = inf
        self._close_gate()

    def _pressed(self, reasons: Set[str]) -> None:
        self._pressure = reasons
        self._close_gate()

    def _filled(self, is_full: bool) -> None:
        self._is_full = is_full
        self._close_gate()

    def _close_gate(self) -> None:
        # Without a session, others are answered what is not known here.
        full = {"journal"} if self._is_full else frozenset()
        is_led = self._link.session.is_open and self._is_fresh
        unled = frozenset() if is_led else {UNLED}
        self._gate.close_for(self._pressure | full | unled)
