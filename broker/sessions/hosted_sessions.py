"""The sessions of all fronts, at the node that leads: who changes a definition is answered when all know it."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import msgspec

from routelog.broker.node.direct_reply import node_token, token_of
from routelog.broker.sessions.definition_feed import DefinitionFeed
from routelog.broker.sessions.session_seeker import Write
from routelog.broker.sessions.session_socket import STAMPS_PER_SECOND, SessionSocket
from routelog.log_backend import Records
from routelog.vhosts import (
    TELLING,
    AskedNode,
    CountedFront,
    DefinitionBarrier,
    HostedSession,
    LeaderCounts,
    NodeAnswer,
    SessionKind,
    SessionMessage,
    SharedCounts,
    session_message_pieces,
)

log = logging.getLogger(__name__)

LATE_BYTES_MAX = 4 * 1024 * 1024  # of direct replies to nodes that have no session yet

# Makes the leader's end: from the name of the front, what sends to it, and how much is unsent.
MakeEnd = Callable[[str, Write, Callable[[], int]], HostedSession]


@dataclass(frozen=True, slots=True)
class Leadership:
    """How a node leads.

    Attributes:
        lease_seconds: of the cluster.
        tell_committed: has followers hear at once of what is committed.
        feed: of definitions, for fronts that have no journal; None: they have one.
        age: seconds since it was sure that no other node leads.
        is_ending: whether all fronts end, too: their sessions are not lost then.
    """

    epoch: int
    lease_seconds: float
    tell_committed: Callable[[], None] = lambda: None
    feed: DefinitionFeed | None = None
    age: Callable[[], float] = lambda: 0.0
    is_ending: Callable[[], bool] = lambda: False


class HostedSessions:
    """Takes the sessions of fronts, one for each node, until it is closed.

    Args:
        make: see `MakeEnd`.
        counts: of clients of this node, and others.
        traced: names the vhosts whose messages are copied to the firehose.
    """

    def __init__(
        self,
        leadership: Leadership,
        make: MakeEnd,
        counts: SharedCounts,
        traced: Callable[[], list[str]],
    ) -> None:
        self._leadership = leadership
        self._make = make
        self._sockets: dict[HostedSession, SessionSocket] = {}
        self._ends: dict[str, HostedSession] = {}
        self._ending: dict[str, asyncio.Future[None]] = {}  # by front: of its last session
        self._closings = 0  # of all
        self._none_left = asyncio.Event()
        self._none_left.set()
        self._asked: dict[str, AskedNode] = {}  # by front
        self._counts = LeaderCounts(counts)
        self._counted: dict[str, CountedFront] = {}  # likewise
        self._traced = traced
        self._by_token: dict[bytes, HostedSession] = {}  # as addresses of direct replies name nodes
        self._late: dict[bytes, list[tuple[bytes, Records]]] = {}  # replies, by token
        self._pressure: Set[str] = frozenset()
        self.barrier = DefinitionBarrier[HostedSession](
            self._ask,
            lambda end: self._sockets[end].close("it does not apply definitions in time"),
            asyncio.get_running_loop().call_later,
            leadership.lease_seconds,
        )

    def _ask(self, end: HostedSession, position: int) -> None:
        end.ask_applied(position)
        self._leadership.tell_committed()

    def pressed(self, reasons: Set[str]) -> None:
        """Tell all fronts why publishers are to wait; no reason: they are not."""
        self._pressure = reasons
        for end in [*self._sockets]:  # one that does not read ends
            end.pressed(reasons)

    def take(self, front: str, transport: asyncio.Transport, unread: bytes) -> None:
        """Take a connection of a node; see `ClusterMember.take_sessions`.

        Its session begins when the one before is over, whose exclusive consumers would be in its way.
        """
        if front in self._ends:
            self._sockets[self._ends[front]].close("the node begins another session")
        ending = self._ending.get(front)
        if ending is not None and not ending.done():
            closings = self._closings
            ending.add_done_callback(lambda _: self._take_later(closings, front, transport, unread))
        else:
            self._take(front, transport, unread)

    def _take_later(
        self, closings: int, front: str, transport: asyncio.Transport, unread: bytes
    ) -> None:
        if closings != self._closings:
            transport.abort()
        elif not transport.is_closing():
            self.take(front, transport, unread)

    def _take(self, front: str, transport: asyncio.Transport, unread: bytes) -> None:
        call_later = asyncio.get_running_loop().call_later
        socket = SessionSocket(
            transport,
            front,
            self._leadership.lease_seconds,
            call_later,
            partial(self._over, front),
            lambda: end.drained(),
            age=lambda: int(self._leadership.age() * STAMPS_PER_SECOND),
        )

        def send(message: SessionMessage) -> None:
            socket.write(session_message_pieces(message))

        def outbox_bytes() -> int:
            return socket.outbox_bytes

        end = self._make(front, socket.write, outbox_bytes)
        self._sockets[end], self._ends[front], socket.end = socket, end, end
        self._none_left.clear()
        self._by_token[node_token(front)] = end
        feed = self._leadership.feed
        position = self.barrier.opened(end, front, 0 if feed is None else TELLING)
        end.on_applied = partial(self.barrier.applied, end)
        end.on_comes_back = partial(self.barrier.comes_back, end)
        end.on_failed = socket.close
        self._asked[front] = asked = AskedNode(send, outbox_bytes, call_later)
        self._counted[front] = counted = self._counts.opened(send, outbox_bytes)
        end.on_told, end.on_counts = asked.told, counted.told
        send(SessionMessage(SessionKind.OPENED, number=self._leadership.epoch, first=position))
        if self.barrier.are_away:
            end.ask_applied(position)
        if feed is not None:
            told = partial(self.barrier.told, end)
            feed.begin(end, socket.write, outbox_bytes, told, socket.close)
        send(self._traced_message())
        counted.tell()
        if self._pressure:
            end.pressed(self._pressure)
        for reply in self._late.pop(node_token(front), ()):
            end.send_reply(*reply)
        log.info("a session with node %s", front)
        socket.begin(unread)

    def has_session(self, front: str) -> bool:
        """Whether a front can serve clients by way of this node."""
        return front in self._ends

    async def ask(self, question: bytes) -> Mapping[str, NodeAnswer | None]:
        """Ask all fronts at the same time; the answers by node, None: silent, or between sessions."""
        answers = {front: asked.ask(question) for front, asked in self._asked.items()}
        silent: dict[str, NodeAnswer | None] = dict.fromkeys(self.barrier.expected)
        return silent | {front: await answer for front, answer in answers.items()}

    def tell_counts(self) -> None:
        """Tell all fronts how many clients other nodes have."""
        self._counts.tell()

    def tell_traced(self) -> None:
        """Tell all fronts which vhosts have a firehose."""
        pieces = session_message_pieces(self._traced_message())
        for socket in self._sockets.values():
            socket.write(pieces)

    def _traced_message(self) -> SessionMessage:
        content = msgspec.msgpack.encode(self._traced())
        return SessionMessage(SessionKind.TRACED, content=content)

    # -- direct replies: see `OtherNodes`

    def takes_replies(self, token: bytes) -> bool:
        """See `OtherNodes`."""
        return token in self._by_token or token in self._expected()

    def ask_whether_open(self, address: bytes) -> bool:
        """See `OtherNodes`."""
        token = token_of(address)
        return token is not None and self.takes_replies(token)

    def send_reply(self, token: bytes, address: bytes, records: Records) -> None:
        """See `OtherNodes`."""
        end = self._by_token.get(token)
        if end is not None:
            end.send_reply(address, records)
        elif token in (expected := self._expected()):
            # Another node has just begun to lead, which this one knows before.
            self._late = {each: late for each, late in self._late.items() if each in expected}
            late = sum(each.batch_bytes for kept in self._late.values() for _, each in kept)
            if late + records.batch_bytes <= LATE_BYTES_MAX:
                self._late.setdefault(token, []).append((address, records))

    def _expected(self) -> Set[bytes]:
        return {node_token(front) for front in self.barrier.expected}

    async def until_ended(self, seconds: float) -> None:
        """Wait until no front has a session, but not for longer than this."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._none_left.wait()

    def close_all(self, reason: str) -> None:
        """End all sessions."""
        self._closings += 1
        self.barrier.stop()
        for socket in [*self._sockets.values()]:
            socket.close(reason)

    def _over(self, front: str, reason: str) -> None:
        level = logging.INFO if self._leadership.is_ending() else logging.WARNING
        log.log(level, "the session with node %s has ended: %s", front, reason)
        end = self._ends.pop(front)
        if self._leadership.feed is not None:
            self._leadership.feed.end(end)
        del self._by_token[node_token(front)]
        socket = self._sockets.pop(end)
        if not self._sockets:
            self._none_left.set()
        self._asked.pop(front).closed()
        self._counts.closed(self._counted.pop(front))
        # Before they leave: who is to come back has not left.
        self.barrier.closed(end, is_silent=socket.is_silent, has_consumers=end.has_consumers)
        self._ending[front] = end.closed()
