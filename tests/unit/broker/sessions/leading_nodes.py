"""Nodes that lead one after the other, as fronts meet them; connections with them are pairs of sockets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable
from typing import Any

from routelog.broker.sessions.hosted_sessions import HostedSessions, Leadership
from routelog.broker.sessions.session_seeker import Write
from routelog.log_backend import Octets, Records
from routelog.mirror_cluster import LeadingNode
from routelog.vhosts import SharedCounts
from routelog.vhosts.sessions.session_message import (
    Kind,
    SessionMessage,
    message_pieces,
    reply_pieces,
)

LEASE_SECONDS = 60.0  # nothing here is silent


def octets(kind: Kind, number: int = 0) -> list[Octets]:
    """The bytes of a message without content."""
    return message_pieces(SessionMessage(kind, number=number))


class Hosted:
    """The leader's end of a session."""

    def __init__(self, front: str, write: Write, outbox_bytes: Callable[[], int]) -> None:
        self.front = front
        self.write = write
        self.outbox_bytes = outbox_bytes
        self.messages: list[SessionMessage] = []
        self.is_closed = False
        self.on_applied: Callable[[int], None] = lambda position: None
        self.on_failed: Callable[[str], None] = lambda reason: None
        self.on_comes_back: Callable[[], None] = lambda: None
        self.on_told: Callable[[SessionMessage], None] = lambda message: None
        self.on_counts: Callable[[SessionMessage], None] = lambda message: None
        self.has_drained = False
        self.has_consumers = True
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.ends_at_once = True

    def received(self, message: SessionMessage) -> None:
        if message.kind is Kind.TOLD:
            self.on_told(message)
        elif message.kind is Kind.COUNTS:
            self.on_counts(message)
        else:
            self.messages.append(message)

    def send_reply(self, address: bytes, records: Records) -> None:
        self.write(reply_pieces(address, records))

    def drained(self) -> None:
        self.has_drained = True

    def pressed(self, reasons: Iterable[str]) -> None:
        self.reasons = [*reasons]

    def ask_applied(self, position: int) -> None:
        self.write(octets(Kind.APPLY, position))

    def closed(self) -> asyncio.Future[None]:
        self.is_closed = True
        if self.ends_at_once and not self.ended.done():
            self.ended.set_result(None)
        return self.ended


class Cluster:
    """Nodes that lead one after the other; connections between them are pairs of sockets."""

    def __init__(self) -> None:
        self.leader: LeadingNode | None = None
        self.hosts: dict[LeadingNode, HostedSessions] = {}
        self.hosted: list[Hosted] = []
        self.changed: Callable[[], None] = lambda: None
        self.attempts = self.refusals = 0
        self.faults: list[Exception] = []
        self.counts = SharedCounts()  # of the leader
        self.traced: list[str] = []  # vhosts
        self.holds: asyncio.Event | None = None  # connections that are made wait for it
        self.on_reached: Callable[[], None] = lambda: None
        self.age = 0.0  # seconds since the leader was sure

    def watch(self, changed: Callable[[], None]) -> None:
        self.changed = changed

    def host(self, epoch: int, feed: Any = None) -> LeadingNode:
        node = LeadingNode(f"n{epoch}", epoch)
        self.hosts[node] = HostedSessions(
            Leadership(epoch, LEASE_SECONDS, feed=feed, age=lambda: self.age),
            self._make,
            self.counts,
            lambda: self.traced,
        )
        return node

    def _make(self, front: str, write: Write, outbox_bytes: Callable[[], int]) -> Hosted:
        self.hosted.append(Hosted(front, write, outbox_bytes))
        return self.hosted[-1]

    def lead(self, node: LeadingNode | None) -> None:
        self.leader = node
        self.changed()

    async def connect_session(
        self,
        leader: LeadingNode,
        take: Callable[[asyncio.Transport, bytes], None],
        node: str = "front",
    ) -> None:
        self.attempts += 1
        if self.faults:
            raise self.faults.pop()
        host = self.hosts.get(leader)
        if host is None:
            self.refusals += 1
            raise ConnectionRefusedError
        self.on_reached()
        if self.holds is not None:
            await self.holds.wait()
        near, far = socket.socketpair()
        loop = asyncio.get_running_loop()
        for handle, taken in ((far, lambda t, u: host.take(node, t, u)), (near, take)):
            transport, _ = await loop.create_connection(asyncio.Protocol, sock=handle)
            transport.pause_reading()
            taken(transport, b"")
