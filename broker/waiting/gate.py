"""Back-pressure: publishing connections wait at a gate while the journal lags, or memory or disk is short."""

import asyncio
from collections.abc import Set
from typing import Protocol

# Shorter pauses send no connection.blocked: the journal often lags for some hundred milliseconds, and a
# client can do nothing about it.
TELL_SECONDS = 1.0

# In this order; "low on ..." are RabbitMQ's words, which clients may look for.
_REASONS = {
    "disk": "low on disk",
    "memory": "low on memory",
    "files": "low on file descriptors",
    "journal": "waiting for a slow disk",
}
_TOLD_AT_ONCE = {"disk"}
_ALARMING = {"disk", "files", "memory"}  # a lag of the journal is no alarm


class PublisherGate(Protocol):
    """The gate, as connections see it."""

    closed: bool
    reasons: Set[str]

    @property
    def alarms(self) -> Set[str]:
        """Why publishers wait, as far as somebody should know."""

    def hold(self, connection: "Held") -> None:
        """Call `connection.let_go` when the gate opens; before that maybe `tell_blocked`."""

    def forget(self, connection: "Held") -> None:
        """The connection was closed."""


class Held(Protocol):
    """A connection that waits at the gate."""

    def tell_blocked(self, reason: str) -> None:
        """Send connection.blocked; may be called several times."""

    def let_go(self) -> None:
        """Read on."""


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
        self._held_connections: dict[Held, None] = {}  # in the order in which they go on

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
