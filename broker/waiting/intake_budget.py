"""The intake budget: memory for unfinished messages and transactions, and for unread deliveries.

    node            all users
      user          all connections of one
        connection  kept:    bodies under construction, transactions
                    unread:  bytes sent to a client that does not read

A message that comes in one read is not charged: it is published in the turn that reads it. Charged content is a
body in several frames, or a publish of a transaction. It is accepted while node, user and connection are below
their limits, whatever its size, so each of them exceeds its limit by one body at most.

At a limit, a connection without charged content waits, and reads nothing, until others have finished theirs. A
connection with charged content is refused, and its channel closed: it could not finish its content while it
waits, and two such connections would wait for each other for ever. Accepted content is never stopped.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from weakref import WeakValueDictionary

from routelog.broker.waiting.gate import Gate

log = logging.getLogger(__name__)

WARN_SECONDS = 10.0  # seconds between two log lines about one user, or the node

_CLOSED = frozenset({"memory"})
_OPEN: frozenset[str] = frozenset()


class IntakeFull(Exception):
    """New content is refused: the connection, its user or the node is at its limit."""


@dataclass(frozen=True, slots=True)
class IntakeLimits:
    """The limits in bytes of a connection, a user, and the node."""

    connection: int
    user: int
    node: int


class IntakeLevel(Gate):
    """The level of a user, or of the node: while it is full, connections without charged content wait.

    Attributes:
        bytes: kept and unread.
    """

    def __init__(self, budget: "IntakeBudget", name: str, bytes_max: int) -> None:
        super().__init__(budget.loop)
        self._budget = budget
        self._name = name
        self._bytes_max = bytes_max
        self._warned = -WARN_SECONDS
        self.bytes = 0

    def change(self, size: int) -> None:
        """Add bytes, or subtract them."""
        self.bytes += size
        is_full = self.bytes >= self._bytes_max
        if is_full is self.closed:
            return
        self._budget.full += 1 if is_full else -1
        self.close_for(_CLOSED if is_full else _OPEN)
        if is_full:
            self._warn()

    def refusal(self) -> str:
        """The error for a connection with charged content, while the level is full."""
        return f"{self._name} has {self.bytes} bytes incomplete or unread, of {self._bytes_max}"

    def _warn(self) -> None:
        now = self._budget.loop.time()
        if now - self._warned >= WARN_SECONDS:
            self._warned = now
            log.warning("%s: new large messages and transactions wait", self.refusal())


class IntakeBudget:
    """One of a node.

    Attributes:
        full: how many connections, users and nodes are at their limits; 0: all content is accepted.
        node: the level of all users.

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
            IntakeFull: a limit is reached, and waiting could not help.
        """
        reason = self._refusal()
        if reason:
            raise IntakeFull(reason)
        return Charge(self, size)

    def closed_gate(self) -> Gate | None:
        """The gate where the connection must wait before new content; None: it need not, or is refused."""
        if self.kept:
            return None
        for level in (self._user, self._budget.node):
            if level.closed:
                return level
        return None

    @property
    def level_is_full(self) -> bool:
        """Whether the user or the node is at its limit: then clients that do not read get no more frames."""
        return self._user.closed or self._budget.node.closed

    def keep(self, size: int) -> None:
        """Add kept bytes of the connection, or subtract them."""
        self.kept += size
        is_full = self.kept >= self._budget.limits.connection
        if is_full is not self._is_full:
            self._is_full = is_full
            self._budget.full += 1 if is_full else -1
        self._change(size)

    def leave_unread(self, size: int) -> None:
        """Set the bytes sent to a client that does not read."""
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
            if level.closed:
                return level.refusal()
        return ""


class Charge:
    """The charge for one body or transaction; it is given back when the object is freed.

    That is when the memory is free, however the body or transaction ended.
    """

    __slots__ = ("_share", "bytes")

    def __init__(self, share: IntakeShare, size: int) -> None:
        self._share = share
        self.bytes = size
        share.keep(size)

    def grow(self, size: int) -> None:
        """Add bytes to the charge.

        Raises:
            IntakeFull: as for `IntakeShare.charge`.
        """
        self.bytes += size
        self._share.keep(size)
        reason = self._share._refusal()
        if reason:
            raise IntakeFull(reason)

    def __del__(self) -> None:
        self._share.keep(-self.bytes)
