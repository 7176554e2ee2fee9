"""The intake budget: memory for what clients have begun and not ended, and for what they leave unread.

    node            all users
      user          all connections of one
        connection  kept:    bodies under construction, transactions
                    unread:  what is sent to a client that does not read

What comes in whole is charged to nobody: it is published in the turn that reads it. New content is a body that
comes in several frames, or a publish of a transaction. It is taken while node, user and connection are below
their limits, whatever its size, so each of them exceeds its limit by one body at most.

At a limit, a connection that keeps nothing waits until others have ended theirs, and reads nothing meanwhile.
One that keeps something is refused, and its channel closed: it could not end what it keeps while it waits, and
two such connections would wait for each other for ever. What was taken is never stopped here.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from weakref import WeakValueDictionary

from routelog.amqp_front.node.gate import Gate
from routelog.amqp_front.wire.errors import PRECONDITION_FAILED, SoftError

log = logging.getLogger(__name__)

WARN_SECONDS = 10.0  # between two lines in the log about one user, or the node

_CLOSED = frozenset({"memory"})
_OPEN: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class IntakeLimits:
    """Bytes of a connection, of all connections of a user, and of all users."""

    connection: int
    user: int
    node: int


class IntakeLevel:
    """A user, or the node: the bytes of its connections, and those that wait until there are fewer.

    Attributes:
        bytes: kept for it, or unread.
        gate: where connections that have nothing wait while it is full.
    """

    __slots__ = ("__weakref__", "_budget", "_bytes_max", "_name", "_warned", "bytes", "gate")

    def __init__(self, budget: "IntakeBudget", name: str, bytes_max: int) -> None:
        self._budget = budget
        self._name = name
        self._bytes_max = bytes_max
        self._warned = -WARN_SECONDS
        self.bytes = 0
        self.gate = Gate(budget.loop)

    @property
    def is_full(self) -> bool:
        """Whether nothing new is taken."""
        return self.gate.closed

    def change(self, size: int) -> None:
        """So many bytes have come, or gone."""
        self.bytes += size
        is_full = self.bytes >= self._bytes_max
        if is_full is self.gate.closed:
            return
        self._budget.full += 1 if is_full else -1
        self.gate.close_for(_CLOSED if is_full else _OPEN)
        if is_full:
            self._warn()

    def refusal(self) -> str:
        """Why nothing more is taken of a connection that keeps something."""
        return f"{self._name} has {self.bytes} bytes incomplete or unread, of {self._bytes_max}"

    def _warn(self) -> None:
        now = self._budget.loop.time()
        if now - self._warned >= WARN_SECONDS:
            self._warned = now
            log.warning("%s: new large messages and transactions wait", self.refusal())


class IntakeBudget:
    """One of a node.

    Attributes:
        full: how many connections, users and nodes are at their limits; 0: everything is taken.
        node: of all users.

    Args:
        on_change: called with the change of the node's bytes.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        limits: IntakeLimits,
        on_change: Callable[[int], None],
    ) -> None:
        self.loop = loop
        self.limits = limits
        self.on_change = on_change
        self.full = 0
        self.node = IntakeLevel(self, "the node", limits.node)
        self._users: WeakValueDictionary[str, IntakeLevel] = WeakValueDictionary()

    def share(self, user: str) -> "IntakeShare":
        """The share of a connection of this user."""
        level = self._users.get(user)
        if level is None:
            level = self._users[user] = IntakeLevel(self, f"user '{user}'", self.limits.user)
        return IntakeShare(self, level)


class IntakeShare:
    """The share of one connection.

    Attributes:
        kept: bytes of bodies under construction and transactions.
        unread: bytes sent to a client that does not read.
    """

    __slots__ = ("_budget", "_is_full", "_user", "kept", "unread")

    def __init__(self, budget: IntakeBudget, user: IntakeLevel) -> None:
        self._budget = budget
        self._user = user
        self._is_full = False
        self.kept = 0
        self.unread = 0

    def charge(self, size: int) -> "Charge":
        """Take new content of so many bytes.

        Raises:
            SoftError: 406, a limit is reached, and waiting could not help.
        """
        reason = self._refusal()
        if reason:
            raise SoftError(PRECONDITION_FAILED, reason)
        return Charge(self, size)

    def closed_gate(self) -> Gate | None:
        """Where the connection is to wait before it brings new content; None: it need not, or is refused."""
        if self.kept:
            return None
        for level in (self._user, self._budget.node):
            if level.is_full:
                return level.gate
        return None

    @property
    def level_is_full(self) -> bool:
        """Whether the user or the node is at its limit: who does not read is told nothing more."""
        return self._user.is_full or self._budget.node.is_full

    def keep(self, size: int) -> None:
        """The connection keeps so many bytes more, or fewer."""
        self.kept += size
        is_full = self.kept >= self._budget.limits.connection
        if is_full is not self._is_full:
            self._is_full = is_full
            self._budget.full += 1 if is_full else -1
        self._change(size)

    def leave_unread(self, size: int) -> None:
        """So much is sent to a client that does not read, in all."""
        change, self.unread = size - self.unread, size
        if change:
            self._change(change)

    def _change(self, size: int) -> None:
        self._user.change(size)
        self._budget.node.change(size)
        self._budget.on_change(size)

    def _refusal(self) -> str:
        if not self._budget.full or not self.kept:
            return ""
        if self._is_full:
            limit = self._budget.limits.connection
            return f"the connection has {self.kept} bytes incomplete, of {limit}"
        for level in (self._user, self._budget.node):
            if level.is_full:
                return level.refusal()
        return ""


class Charge:
    """What one body or transaction costs: it is given back when nobody holds the charge any more.

    That is when the memory is free, however the body or transaction has ended.
    """

    __slots__ = ("_share", "bytes")

    def __init__(self, share: IntakeShare, size: int) -> None:
        self._share = share
        self.bytes = size
        share.keep(size)

    def grow(self, size: int) -> None:
        """It has become larger.

        Raises:
            SoftError: as for `IntakeShare.charge`.
        """
        self.bytes += size
        self._share.keep(size)
        reason = self._share._refusal()
        if reason:
            raise SoftError(PRECONDITION_FAILED, reason)

    def __del__(self) -> None:
        self._share.keep(-self.bytes)
