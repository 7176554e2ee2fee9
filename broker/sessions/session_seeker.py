"""A front's way to the leader: it keeps a session with the node that leads, one after the other.

seeking ──► connecting ──► open ──► lost, and seeking again
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

from routelog.broker.sessions.session_socket import SILENCE_SHARE, SessionEnd, SessionSocket
from routelog.log_backend import Octets
from routelog.mirror_cluster import LeadingNode
from routelog.vhosts import BadSessionMessage, SessionKind, SessionMessage

log = logging.getLogger(__name__)

# Until a leader is tried again, twice as long each time, until a session has lasted for the longest of them
PAUSE_SECONDS_MIN = 0.05
PAUSE_SECONDS_MAX = 1.0
OPEN_SECONDS_MAX = 2.0  # for a node that was reached to take the session


class Leaders(Protocol):
    """Who leads: see `ClusterMember`."""

    @property
    def leader(self) -> LeadingNode | None:
        """The other node that takes clients; None: nobody is known to lead, or this node does."""

    def watch(self, changed: Callable[[], None]) -> None:
        """Call a function whenever the leader has changed."""

    async def connect_session(
        self, leader: LeadingNode, take: Callable[[asyncio.Transport, bytes], None]
    ) -> None:
        """Connect with a leader for a session."""


Write = Callable[[Sequence[Octets]], None]


class SessionSeeker:
    """Keeps a session open, until it is closed.

    Args:
        lease_seconds: of the cluster.
        opened: makes the front's end of a session that the leader has taken: from what sends, the leader's
            epoch, and the position that definitions must be known of before it is used.
        lost: told when and why the leader has it no more.
        stamp, answered: see `SessionSocket`.
    """

    def __init__(
        self,
        leaders: Leaders,
        lease_seconds: float,
        opened: Callable[[Write, int, int], SessionEnd],
        lost: Callable[[str], None],
        stamp: Callable[[], int] = lambda: 0,
        answered: Callable[[int, int], None] = lambda number, age: None,
    ) -> None:
        self._leaders = leaders
        self._silence_seconds = SILENCE_SHARE * lease_seconds
        self._opened = opened
        self.lost = lost
        self._stamp = stamp
        self._answered = answered
        self._news = asyncio.Event()
        self._with: LeadingNode | None = None
        self._session: _Session | None = None  # the last one
        self._socket: SessionSocket | None = None
        self._task: asyncio.Task[None] | None = None
        leaders.watch(self._changed)

    def begin(self) -> None:
        """Seek the leader."""
        self._task = asyncio.create_task(self._keep_open())

    async def aclose(self, reason: str) -> None:
        """End the session, and seek no more."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None
        self.close(reason)

    def _changed(self) -> None:
        self._news.set()
        if self._leaders.leader != self._with:
            self.close("another node leads")

    async def _keep_open(self) -> None:
        pause = PAUSE_SECONDS_MIN
        while True:
            self._news.clear()
            leader = self._leaders.leader
            if leader is not None:
                lasted = await self._have_session(leader)
                if lasted >= PAUSE_SECONDS_MAX:
                    pause = PAUSE_SECONDS_MIN
            with suppress(TimeoutError):
                async with asyncio.timeout(pause if leader is not None else None):
                    await self._news.wait()
            pause = min(2 * pause, PAUSE_SECONDS_MAX)

    async def _have_session(self, leader: LeadingNode) -> float:
        """Have a session with a leader, to its end; returns how many seconds it lasted: 0: it was not taken."""
        self._session = session = _Session(self, leader.node)
        self._with = leader
        try:
            await self._leaders.connect_session(leader, session.take)
            async with asyncio.timeout(OPEN_SECONDS_MAX):
                await session.decided
        except (OSError, TimeoutError) as error:
            log.debug("no session with node %s: %s", leader.node, error or "it does not answer")
            session.close("it was not taken")
            return 0.0
        except Exception:  # a fault of ours: the next session may have none
            log.exception("no session with node %s", leader.node)
            session.close("it was not taken")
            return 0.0
        if session.end is None:
            return 0.0
        loop = asyncio.get_running_loop()
        opened_at = loop.time()
        await session.ended
        return loop.time() - opened_at

    def connected(self, socket: SessionSocket | None) -> None:
        """There is a connection with a leader, or none any more."""
        self._socket = socket

    def made(self, transport: asyncio.Transport, session: "_Session") -> SessionSocket:
        """The socket of a connection."""
        return SessionSocket(
            transport,
            session.leader,
            self._silence_seconds,
            asyncio.get_running_loop().call_later,
            session.over,
            stamp=self._stamp,
            answered=self._answered,
        )

    def open(self, write: Write, epoch: int, position: int) -> SessionEnd:
        """The leader has taken a session."""
        return self._opened(write, epoch, position)

    @property
    def is_seeking(self) -> bool:
        """Whether another session follows one that is lost."""
        return self._task is not None

    @property
    def outbox_bytes(self) -> int:
        """Bytes that the system has not taken."""
        return 0 if self._socket is None else self._socket.outbox_bytes

    def close(self, reason: str) -> None:
        """End the session that there is, or is about to be, and begin another one."""
        if self._session is not None:
            self._session.close(reason)


class _Session:
    # One connection with a leader, from the first byte to the last.
    def __init__(self, seeker: SessionSeeker, leader: str) -> None:
        loop = asyncio.get_running_loop()
        self.leader = leader
        self.decided: asyncio.Future[None] = loop.create_future()
        self.ended: asyncio.Future[None] = loop.create_future()
        self.end: SessionEnd | None = None
        self._seeker = seeker
        self._socket: SessionSocket | None = None

    def take(self, transport: asyncio.Transport, unread: bytes) -> None:
        if self.ended.done():  # closed while it was connecting
            return transport.abort()
        self._socket = self._seeker.made(transport, self)
        self._socket.end = self
        self._seeker.connected(self._socket)
        self._socket.begin(unread)

    def received(self, message: SessionMessage) -> None:
        # See `SessionEnd`: the first message.
        if message.kind is not SessionKind.OPENED or self._socket is None:
            raise BadSessionMessage(f"it begins with {message.kind.name}")
        self.end = self._seeker.open(self._socket.write, message.number, message.first)
        self._socket.end = self.end
        log.info("a session with node %s, which leads in epoch %d", self.leader, message.number)
        self.decided.set_result(None)

    def over(self, reason: str) -> None:
        self._seeker.connected(None)
        if self.end is not None:
            level = logging.WARNING if self._seeker.is_seeking else logging.INFO
            log.log(level, "the session with node %s is lost: %s", self.leader, reason)
            self._seeker.lost(reason)
        self._set_ended()

    def _set_ended(self) -> None:
        for future in (self.decided, self.ended):
            if not future.done():
                future.set_result(None)

    def close(self, reason: str) -> None:
        if self._socket is not None:
            self._socket.close(reason)
        self._set_ended()
