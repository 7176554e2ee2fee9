"""Heartbeats of one connection: send when silent, notice when the peer is.

The timer runs at half the interval. The peer is gone after five silent half intervals: between two and
three intervals after its last byte, as the specification wants (section 4.2.7).
"""

import asyncio
from typing import Protocol

SILENT_TICKS_MAX = 5


class HeartbeatOwner(Protocol):
    """The connection."""

    def send_heartbeat(self) -> None:
        """Send a heartbeat frame."""

    def missed_heartbeats(self) -> None:
        """The peer has been silent for too long."""


class Heartbeat:
    """Timer of a connection.

    Attributes:
        received: set by the owner when bytes came.
        sent: set by the owner when bytes went.
    """

    __slots__ = ("_handle", "_loop", "_owner", "_seconds", "_silent", "received", "sent")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, interval: int, owner: HeartbeatOwner
    ) -> None:
        self._loop = loop
        self._owner = owner
        self._seconds = interval / 2
        self._silent = 0
        self.received = False
        self.sent = False
        self._handle = loop.call_later(self._seconds, self._tick)

    def stop(self) -> None:
        """End the timer."""
        self._handle.cancel()

    def _tick(self) -> None:
        self._handle = self._loop.call_later(self._seconds, self._tick)
        if not self.sent:
            self._owner.send_heartbeat()
        self._silent = 0 if self.received else self._silent + 1
        self.sent = self.received = False
        if self._silent >= SILENT_TICKS_MAX:
            self._owner.missed_heartbeats()
