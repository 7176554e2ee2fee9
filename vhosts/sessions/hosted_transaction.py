"""A transaction of a front, at the leader's end: its parts are gathered, and carried out together."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from routelog.log_backend import Reason, Records
from routelog.vhosts.counters.counters import MessageCounters
from routelog.vhosts.messages.delivery import DeliverySource
from routelog.vhosts.queues.queue import Queue
from routelog.vhosts.sessions.bound_queue import BoundQueue
from routelog.vhosts.sessions.hosted_consumer import HostedConsumer
from routelog.vhosts.sessions.session_message import (
    HEAD_BYTES,
    BadSessionMessage,
    SessionMessage,
    records_of,
)
from routelog.vhosts.vhost.vhost import VirtualHost

# Of one transaction: a front sends 256 MiB of batches at most, each of 64 bytes or more, and the heads of these
PARTS_BYTES_MAX = 512 * 1024 * 1024

Holder = HostedConsumer | BoundQueue


@dataclass(frozen=True, slots=True)
class SettledRange:
    """Messages [first, end) of a source that a transaction settles; nobody else can any more.

    Attributes:
        consumer: it has room again when they are settled; None: `get` gave them.
    """

    source: DeliverySource
    first: int
    end: int
    consumer: HostedConsumer | None


@dataclass(slots=True)
class TransactionParts:
    """What a transaction does.

    Attributes:
        vhost: of its queues.
        batches: in order, with their queues.
        settled: by reason.
    """

    vhost: VirtualHost
    batches: list[tuple[Records, Queue]]
    settled: dict[Reason, list[SettledRange]] = field(default_factory=dict)


class CommitParts(Protocol):
    """Carries out transactions: by `amqp_front`, as those of the node's own clients."""

    def __call__(
        self, parts: TransactionParts, counters: MessageCounters
    ) -> "asyncio.Future[None]":
        """Begin to carry out all of one, as one block of the journal.

        Args:
            counters: of who settles.

        Returns:
            Done when it is durable, and settled. With an error nothing is done, or nobody knows, and what it
            would have settled is back in its queues; TransactionRefused: a queue is full.
        """


class HostedTransaction:
    """The parts of a transaction that have come."""

    def __init__(self) -> None:
        self._vhost: VirtualHost | None = None
        self._batches: list[tuple[Records, Queue]] = []
        self._settled: list[tuple[Holder, SessionMessage, Reason]] = []
        self._bytes = 0

    def publish(self, bound: BoundQueue | None, message: SessionMessage, time: int) -> None:
        """A batch that comes in at a time (us since 1970); what a deleted queue gets is gone.

        Raises:
            BadSessionMessage: the content is none, or it is too much.
        """
        self._grow(message)
        records = records_of(message.content, time)
        if bound is not None and bound.queue is not None:
            self._vhost = bound.vhost
            self._batches.append((records, bound.queue))

    def settle(self, holder: Holder, message: SessionMessage, reason: Reason) -> None:
        """Messages are to be settled.

        Raises:
            BadSessionMessage: it is too much.
        """
        self._grow(message)
        self._vhost = holder.vhost or self._vhost
        self._settled.append((holder, message, reason))

    def _grow(self, message: SessionMessage) -> None:
        self._bytes += HEAD_BYTES + len(message.content)
        if self._bytes > PARTS_BYTES_MAX:
            raise BadSessionMessage(f"a transaction of more than {PARTS_BYTES_MAX:,} bytes")

    def holders(self) -> Iterator[Holder]:
        """Who has what it settles."""
        return iter({holder: None for holder, *_ in self._settled})

    def take(self) -> TransactionParts | None:
        """All of it: what it settles is not unsettled any more. None: there is nothing to do.

        Raises:
            BadSessionMessage: some of that was not unsettled; all of it is as before.
        """
        if self._vhost is None:
            return None
        parts = TransactionParts(self._vhost, self._batches)
        taken: list[tuple[Holder, SessionMessage, DeliverySource]] = []
        try:
            for holder, message, reason in self._settled:
                first, end = message.first, message.first + message.count
                source = holder.unsettled.take(message.partition, first, end)
                taken.append((holder, message, source))
                consumer = holder if isinstance(holder, HostedConsumer) else None
                settled = SettledRange(source, first, end, consumer)
                parts.settled.setdefault(reason, []).append(settled)
        except BadSessionMessage:
            for holder, message, source in taken:
                first, end = message.first, message.first + message.count
                holder.unsettled.add(message.partition, source, first, end)
            raise
        return parts
