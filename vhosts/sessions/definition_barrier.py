"""Which definitions other nodes have applied: whoever changes one is answered when all that route have it.

A leader asks with each group of changes that is committed. A node that does not apply it in time has its
session closed. It must not route any longer then: a node holds its publishers and declarations when it was
asked for a position, or has heard nothing, for so long that its session may be closed.

A node whose session ends otherwise may not know that yet. So it is waited for, until its next session begins,
its process has ended, or it would have been silent for a lease.

The consumers of a node come back with its session, before the node first says what it has applied. So a leader
that begins knows all of them when all nodes that it expects have said that, or are gone. Those of a node whose
session has ended are away until then, too. It has a lease for that, and more while it is told the definitions
or brings consumers: there may be many.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from routelog.log_backend import CallLater, Timer

LEASE_SECONDS = 2.0  # a node without a word for so long is given up, as the cluster does
TELLING = 1 << 64  # the position of a session whose node routes by nothing yet: see `told`

Session = TypeVar("Session", bound=Hashable)


@dataclass(frozen=True, slots=True)
class _Wait:
    position: int
    gate: asyncio.Future[int]
    timer: Timer


class DefinitionBarrier(Generic[Session]):
    """The leader's side: open sessions, the positions that they have applied, and who waits for them.

    Args:
        ask: has a session say when its node has applied a position: called once for both, if it has not yet.
        too_late: called once for a session that has not said so in time; its owner closes it.

    Attributes:
        on_away: called when consumers come back that were there; `on_all_back` follows, unless it is stopped.
        on_all_back: called when no more consumers come back: for `expect`, and behind `on_away`.
        is_complete: it has been, for `expect`.
    """

    def __init__(
        self,
        ask: Callable[[Session, int], None],
        too_late: Callable[[Session], None],
        call_later: CallLater,
        lease_seconds: float = LEASE_SECONDS,
    ) -> None:
        self._ask = ask
        self._too_late = too_late
        self._call_later = call_later
        self._lease_seconds = lease_seconds
        self._applied: dict[Session, int] = {}
        self._given_up: set[Session] = set()  # and not closed yet
        self._waits = deque[_Wait]()  # by position
        self._newest = 0
        self._nodes: dict[Session, str] = {}
        # Nodes that may route by what they know, and have no session; each until a lease is over
        self._expected: dict[str, Timer] = {}
        self.on_away: Callable[[], None] = lambda: None
        self.on_all_back: Callable[[], None] = lambda: None
        self.is_complete = True
        self._leads = self.are_away = False
        # Nodes whose consumers come back; behind a lost session, until this
        self._away: dict[str, Timer | None] = {}
        self._bringing: set[str] = set()  # of these: some have come since the time began
        self._unheard: set[Session] = set()  # opened, and what comes back may be on its way

    def expect(self, nodes: Collection[str], position: int) -> None:
        """A leader begins: no change is answered before these nodes have a session, or a lease is over.

        Until then they may route by what the leader before had not told them, or take themselves for it.

        Args:
            position: of the journal's end: all that was answered before lies there.
        """
        self._newest = max(self._newest, position)
        self.is_complete, self._leads, self.are_away = False, True, True
        for node in {*nodes, *self._expected}:  # of some, the time was stopped
            self._expect(node)
            self._back(node)
            self._away[node] = None
        self._release()

    def _expect(self, node: str) -> None:
        self._forget(node)
        self._expected[node] = self._call_later(self._lease_seconds, partial(self.gone, node))

    def _forget(self, node: str) -> None:
        timer = self._expected.pop(node, None)
        if timer is not None:
            timer.cancel()

    def _await(self, node: str) -> None:
        self._begin_time(node)
        self.are_away = True
        self.on_away()

    def _begin_time(self, node: str) -> None:
        # A session that begins, and ends unheard, does not make it longer.
        self._bringing.discard(node)
        end = partial(self._end_time, node)
        self._away[node] = self._call_later(self._lease_seconds, end)

    def _end_time(self, node: str) -> None:
        unheard = [session for session in self._unheard if self._nodes[session] == node]
        is_told = all(self._applied[session] < TELLING for session in unheard)
        if unheard and (node in self._bringing or not is_told):
            self._begin_time(node)
        else:
            self._back(node)
            self._release()

    def _back(self, node: str) -> None:
        self._bringing.discard(node)
        timer = self._away.pop(node, None)
        if timer is not None:
            timer.cancel()

    @property
    def expected(self) -> Collection[str]:
        """Nodes that have no session, and may have one soon."""
        return self._expected.keys()

    def gone(self, node: str) -> None:
        """A node does not route: its process has ended, or it was silent for a lease."""
        self._forget(node)
        self._back(node)
        self._release()

    def opened(self, session: Session, node: str, position: int) -> int:
        """A node has a session, and has applied a position.

        Args:
            position: TELLING, if changes are to be waited for when it was `told` of all before them.

        Returns:
            The position that it has to apply before it routes: nobody waits until it has.
        """
        self._applied[session] = max(position, self._newest)
        self._nodes[session] = node
        if node in self._away:
            self._unheard.add(session)
        self._forget(node)
        self._release()
        return self._newest

    def told(self, session: Session) -> None:
        """A session was told of all that there is, changes included; it routes when it has applied that."""
        if session in self._applied:
            self._applied[session] = self._newest
            self.comes_back(session)  # what it has is next

    def comes_back(self, session: Session) -> None:
        """A session has brought a consumer back."""
        if session in self._unheard:
            self._bringing.add(self._nodes[session])

    def applied(self, session: Session, position: int) -> None:
        """A session's node has applied a position; a session that is closed says nothing any more."""
        if session in self._applied:
            if session in self._unheard:
                self._unheard.remove(session)
                self._back(self._nodes[session])
            self._applied[session] = max(position, self._applied[session])
            self._release()

    def closed(
        self, session: Session, *, is_silent: bool = False, has_consumers: bool = True
    ) -> None:
        """A session is closed.

        Args:
            is_silent: its node has said nothing for a lease, so that it does not route.
            has_consumers: some may come back.
        """
        node = self._nodes.pop(session, None)
        self._applied.pop(session, None)
        was_heard = session not in self._unheard
        self._unheard.discard(session)
        is_late = session in self._given_up  # so it does not route, and begins another one
        self._given_up.discard(session)
        if node is not None:
            if not (is_silent or is_late):
                self._expect(node)
            if is_silent:
                self._back(node)
            elif self._leads and (
                has_consumers if was_heard else is_late and self._is_timeless(node)
            ):
                self._await(node)
        self._release()

    def _is_timeless(self, node: str) -> bool:
        # Its consumers are those that the leader before had: the time for them was that of `expect`.
        return node in self._away and self._away[node] is None

    def gate(self, position: int) -> asyncio.Future[int] | None:
        """What the answer to a change waits for.

        Args:
            position: of the change, committed; no lower than that of a call before.

        Returns:
            Resolves to it when all nodes have applied it; None: they have.
        """
        self._newest = max(self._newest, position)
        behind = [session for session, applied in self._applied.items() if applied < position]
        if not (behind or self._expected):
            return None
        if self._waits and self._waits[-1].position == position:
            return self._waits[-1].gate
        gate = asyncio.get_running_loop().create_future()
        give_up = partial(self._give_up, position)
        self._waits.append(_Wait(position, gate, self._call_later(self._lease_seconds, give_up)))
        for session in behind:
            self._ask(session, position)
        return gate

    def known(self) -> asyncio.Future[int] | None:
        """What an answer waits for that tells of what was there before this leader.

        Returns:
            Resolves when all nodes know that, or are gone; None: they do.
        """
        gate = None if self.is_complete else self.gate(self._newest)
        return None if gate is None else asyncio.shield(gate)

    def stop(self) -> None:
        """Time does not count any more: the node does not lead, or ends."""
        self.is_complete = True  # `on_all_back` is for the next `expect`
        self._leads = self.are_away = False
        self._unheard.clear()
        for node in [*self._away]:
            self._back(node)
        for timer in (*self._expected.values(), *(wait.timer for wait in self._waits)):
            timer.cancel()

    def _give_up(self, position: int) -> None:
        for session, applied in [*self._applied.items()]:
            if applied < position and session not in self._given_up:
                self._given_up.add(session)
                self._too_late(session)

    def _release(self) -> None:
        if self.are_away and not self._away:
            self.are_away, self.is_complete = False, True
            self.on_all_back()
        if self._expected:
            return
        lowest = min(self._applied.values(), default=self._newest)
        while self._waits and self._waits[0].position <= lowest:
            wait = self._waits.popleft()
            wait.timer.cancel()
            if not wait.gate.done():
                wait.gate.set_result(wait.position)
