"""Heartbeats: send to a client when silent, notice when it is.

A client's heart beats at half the interval. The client is gone after five silent half intervals: between two
and three intervals after its last byte, as the specification wants (section 4.2.7). One timer beats for all:
one for each of 10,000 connections took half a kilobyte of each.
"""

import asyncio
from collections import deque
from typing import Protocol

SILENT_TICKS_MAX = 5
BEAT_SECONDS = 0.5  # half the shortest interval
BEATS_MAX = 128  # hearts in a turn, each perhaps with a frame to send: about 1 ms


class HeartbeatOwner(Protocol):
    """The connection."""

    def send_heartbeat(self) -> None:
        """Send a heartbeat frame."""

    def missed_heartbeats(self) -> None:
        """The peer has been silent for too long."""


class Heartbeat:
    """The heart of a connection.

    Attributes:
        interval: seconds; of the hearts that beat at a time, it is also how many beats of the wheel lie
            between two of theirs.
        received: set by the owner when bytes came.
        sent: set by the owner when bytes went.
    """

    __slots__ = ("_owner", "_silent", "interval", "received", "sent")

    def __init__(self, interval: int, owner: HeartbeatOwner) -> None:
        self._owner: HeartbeatOwner | None = owner
        self.interval = interval
        self._silent = 0
        self.received = False
        self.sent = False

    def stop(self) -> None:
        """Beat no more."""
        self._owner = None

    def beat(self) -> bool:
        """Half an interval is over; returns whether the heart goes on."""
        owner = self._owner
        if owner is None:
            return False
        if not self.sent:
            owner.send_heartbeat()
        self._silent = 0 if self.received else self._silent + 1
        self.sent = self.received = False
        if self._silent >= SILENT_TICKS_MAX:
            owner.missed_heartbeats()
        return self._owner is not None


class HeartbeatWheel:
    """The hearts of all connections, by the beat at which each is due."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._now = 0
        self._due_heartbeats: dict[int, list[Heartbeat]] = {}
        self._overdue_heartbeats: deque[Heartbeat] = deque()  # due, and more than a turn takes
        self._timer: asyncio.TimerHandle | None = None  # None: no heart beats

    def add(self, heartbeat: Heartbeat) -> None:
        """Let a heart beat until it is stopped; for the first time within half an interval."""
        self._due_heartbeats.setdefault(self._now + heartbeat.interval, []).append(heartbeat)
        if self._timer is None:
            self._timer = self._loop.call_later(BEAT_SECONDS, self._beat)

    def _beat(self) -> None:
        self._timer = None
        if self._due_heartbeats:
            self._timer = self._loop.call_later(BEAT_SECONDS, self._beat)
        self._now += 1
        was_late = bool(self._overdue_heartbeats)
        self._overdue_heartbeats.extend(self._due_heartbeats.pop(self._now, ()))
        if not was_late:
            self._go_on()

    def _go_on(self) -> None:
        for _ in range(min(len(self._overdue_heartbeats), BEATS_MAX)):
            heartbeat = self._overdue_heartbeats.popleft()
            if heartbeat.beat():
                self.add(heartbeat)
        if self._overdue_heartbeats:
            self._loop.call_soon(self._go_on)
