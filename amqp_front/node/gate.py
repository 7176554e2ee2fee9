"""The gate that publishers wait at while the disk is behind, memory short, or the disk nearly full."""

import asyncio
from collections.abc import Set
from typing import Protocol

# Clients are not told of a pause that is shorter: the journal is behind for some hundred milliseconds,
# and there is nothing that a client should do about it.
TELL_SECONDS = 1.0

# In this order; "low on ..." are RabbitMQ's words, which clients may look for.
_REASONS = {
    "disk": "low on disk",
    "memory": "low on memory",
    "journal": "waiting for a slow disk",
}
_TOLD_AT_ONCE = {"disk"}
_ALARMING = {"disk", "memory"}  # that the journal is behind for a moment is no alarm


class PublisherGate(Protocol):
    """Closed while publishers should wait, for some reasons."""

    closed: bool
    reasons: Set[str]

    @property
    def alarms(self) -> Set[str]:
        """Why publishers wait, as far as somebody should know."""

    def hold(self, connection: "Held") -> None:
        """Call `connection.let_go` when the gate opens; before, perhaps, `tell_blocked`."""

    def forget(self, connection: "Held") -> None:
        """The connection is gone."""


class Held(Protocol):
    """What waits at the gate for a connection."""

    def tell_blocked(self, reason: str) -> None:
        """The wait is one that the client should know of; it may be told several times."""

    def let_go(self) -> None:
        """Go on reading."""


class Gate:
    """Held connections read nothing until the gate opens.

    Attributes:
        closed: publishers should wait.
        reasons: why.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.closed = False
        self.reasons: Set[str] = frozenset()
        self._tells = False
        self._timer: asyncio.TimerHandle | None = None
        self._held_connections: dict[Held, None] = {}  # who has waited longest goes on first

    @property
    def alarms(self) -> Set[str]:
        """Why publishers wait, as far as somebody should know."""
        return self.reasons if self._tells else self.reasons & _ALARMING

    def hold(self, connection: Held) -> None:
        """See `PublisherGate`."""
        self._held_connections[connection] = None
        if self._tells:
            connection.tell_blocked(self._text())

    def forget(self, connection: Held) -> None:
        """See `PublisherGate`."""
        self._held_connections.pop(connection, None)

    def close_for(self, reasons: Set[str]) -> None:
        """Close the gate for these reasons, or open it when there is none."""
        self.reasons = reasons
        if not reasons:
            self._open()
            return
        self.closed = True
        if not reasons.isdisjoint(_TOLD_AT_ONCE):
            self._tell()
        elif not self._tells and self._timer is None:
            self._timer = self._loop.call_later(TELL_SECONDS, self._tell)

    def _tell(self) -> None:
        self._stop_timer()
        if not self._tells:
            self._tells = True
            for connection in list(self._held_connections):
                connection.tell_blocked(self._text())

    def _open(self) -> None:
        self.closed = self._tells = False
        self._stop_timer()
        held, self._held_connections = self._held_connections, {}
        for connection in held:
            connection.let_go()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _text(self) -> str:
        return " & ".join(text for reason, text in _REASONS.items() if reason in self.reasons)
