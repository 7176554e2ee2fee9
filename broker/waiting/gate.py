"""Back-pressure: publishers wait at a gate, and it says why.

| Gate | Who waits | While |
|---|---|---|
| of the node | all publishers | the journal lags, disk, memory or descriptors are short, or no node leads |
| of a user, of the node's intake (`intake_budget.py`) | large content | others have much incomplete or unread |
| of a connection (`publish_rates.py`) | itself | its user or vhost publishes faster than allowed |
| of a queue (`consumer_gates.py`) | those that add to it | its consumers catch up |
"""

import asyncio
from collections.abc import Callable, Set
from math import inf
from typing import Protocol

# Shorter pauses send no connection.blocked: the journal often lags for some hundred milliseconds, and a
# client can do nothing about it.
TELL_SECONDS = 1.0

UNLED = "leader"  # the reason of a node that does not know all that has been answered
# In this order; "low on ..." are RabbitMQ's words, which clients may look for.
_REASONS = {
    "disk": "low on disk",
    "memory": "low on memory",
    "files": "low on file descriptors",
    "journal": "waiting for a slow disk",
    UNLED: "waiting for the node that leads",
    "consumers": "waiting for consumers",
}
_TOLD_AT_ONCE = {"disk"}
_ALARMING = {"disk", "files", "memory"}  # a lag of the journal is no alarm


class PublishersWait(Exception):
    """Publishers wait, and this one cannot, as it comes by a request; the text says why.

    Attributes:
        seconds: after which it may try again.
    """

    def __init__(self, reason: str, seconds: float = TELL_SECONDS) -> None:
        super().__init__(reason)
        self.seconds = seconds


class Held(Protocol):
    """A connection that waits at the gate, or the confirms of a channel."""

    def tell_blocked(self, reason: str) -> None:
        """Send connection.blocked; may be called several times."""

    def let_go(self) -> None:
        """The gate is open: read on."""


class Gate:
    """Those who are held wait until it opens.

    Attributes:
        closed: publishers should wait.
        reasons: why.
        lapses_at: by the monotonic clock, in seconds: from then on a `look` calls `lapse`.
        lapse: closes the gate, as what this node knows is too old to route by.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.closed = False
        self.reasons: Set[str] = frozenset()
        self.lapses_at = inf
        self.lapse: Callable[[], None] = lambda: None
        self._tells = False
        self._timer: asyncio.TimerHandle | None = None
        self._led: asyncio.Future[None] | None = None
        self._held: dict[Held, None] = {}  # in the order in which they go on

    @property
    def alarms(self) -> Set[str]:
        """Why publishers wait, as far as somebody should know."""
        return self.reasons if self._tells else self.reasons & _ALARMING

    def look(self, now: float) -> None:
        """Somebody is about to publish: what this node knows may be too old."""
        if now >= self.lapses_at:
            self.lapse()

    def led(self) -> "asyncio.Future[None] | None":
        """What somebody waits for who asks for what others may have been told; None: this node knows it."""
        if UNLED not in self.reasons:
            return None
        if self._led is None:
            self._led = self._loop.create_future()
        return asyncio.shield(self._led)

    def hold(self, held: Held) -> None:
        """Call `held.let_go` when the gate opens; before that maybe `tell_blocked`."""
        self._held[held] = None
        if self._tells:
            held.tell_blocked(self._text())

    def forget(self, held: Held) -> None:
        """Do not call it: it was closed."""
        self._held.pop(held, None)

    def close_for(self, reasons: Set[str]) -> None:
        """Close the gate for these reasons, or open it when there is none."""
        self.reasons = reasons
        if self._led is not None and UNLED not in reasons:
            self._led.set_result(None)
            self._led = None
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
            for each in list(self._held):
                each.tell_blocked(self._text())

    def _open(self) -> None:
        self.closed = self._tells = False
        self._stop_timer()
        held, self._held = self._held, {}
        for each in held:
            each.let_go()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _text(self) -> str:
        return " & ".join(text for reason, text in _REASONS.items() if reason in self.reasons)
