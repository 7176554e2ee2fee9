"""Heartbeats: frames to clients that were sent nothing else, and detection of silent clients.

A connection is checked twice in each interval. The client is gone after five silent checks: between two and
three intervals after its last byte, as the specification wants (section 4.2.7). One timer serves all
connections: a timer each took half a kilobyte of memory for each of 10,000 connections.
"""

import asyncio
from functools import partial
from typing import Protocol

from routelog.log_backend import Lane, Scheduler

SILENT_TICKS_MAX = 5
BEAT_SECONDS = 0.5  # seconds: half the shortest interval


class HeartbeatOwner(Protocol):
    """The connection."""

    def send_heartbeat(self) -> None:
        """Send a heartbeat frame."""

    def missed_heartbeats(self) -> None:
        """The peer has been silent for too long."""


class Heartbeat:
    """The heartbeat of one connection.

    Attributes:
        interval: seconds; also the ticks of the wheel between two checks.
        received: set by the owner when bytes were received.
        sent: set by the owner when bytes were sent.
    """

    __slots__ = ("_owner", "_silent", "interval", "received", "sent")

    def __init__(self, interval: int, owner: HeartbeatOwner) -> None:
        self._owner: HeartbeatOwner | None = owner
        self.interval = interval
        self._silent = 0
        self.received = False
        self.sent = False

    def stop(self) -> None:
        """End the checks."""
        self._owner = None

    def beat(self) -> bool:
        """Check the connection, twice an interval; returns whether checks go on."""
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
    """The heartbeats of all connections, by the tick at which each is due."""

    def __init__(self, loop: asyncio.AbstractEventLoop, scheduler: Scheduler) -> None:
        self._loop = loop
        self._scheduler = scheduler
        self._now = 0
        self._due_heartbeats: dict[int, list[Heartbeat]] = {}
        self._timer: asyncio.TimerHandle | None = None  # None: there are no heartbeats

    def add(self, heartbeat: Heartbeat) -> None:
        """Check a connection until its heartbeat is stopped, first within half an interval."""
        self._due_heartbeats.setdefault(self._now + heartbeat.interval, []).append(heartbeat)
        if self._timer is None:
            self._timer = self._loop.call_later(BEAT_SECONDS, self._beat)

    def _beat(self) -> None:
        self._timer = None
        if self._due_heartbeats:
            self._timer = self._loop.call_later(BEAT_SECONDS, self._beat)
        self._now += 1
        for heartbeat in self._due_heartbeats.pop(self._now, ()):
            self._scheduler.call(Lane.UPKEEP, partial(self._check, heartbeat))

    def _check(self, heartbeat: Heartbeat) -> None:
        if heartbeat.beat():
            self.add(heartbeat)
