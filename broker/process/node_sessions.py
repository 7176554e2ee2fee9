"""The sessions of a node with others, or of a process with those of its node: it leads, or follows one."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from routelog.broker.process.front import Front
from routelog.broker.process.services import NodeServices
from routelog.broker.sessions.definition_feed import FedDefinitions
from routelog.broker.sessions.front_node import ClusterOfFront, FrontHost, FrontNode
from routelog.broker.sessions.hosted_sessions import HostedSessions, Leadership
from routelog.broker.sessions.session_seeker import Write
from routelog.broker.waiting.confirm_deadline import ConfirmDeadline
from routelog.broker.waiting.gate import UNLED
from routelog.log_backend import random_below
from routelog.vhosts import (
    TELL_SECONDS,
    AnswerPieces,
    HostedSession,
    NodeAnswer,
    SessionHost,
    SharedCounts,
    VirtualHost,
    unanswered,
)


class NodeSessions:
    """The sessions of a node; one on its own has none.

    Attributes:
        front_node: what serves its clients by way of a leader; None: it leads, or is on its own.
        hosted: those of other nodes, as soon as it leads.
        deadline: of what it confirms, when it leads; None: it waits for its disk.
        answer: answers what a leader asks about clients of this node; its owner sets it.

    Args:
        counts: of clients of this node, and others.
        serves: set while there is a leader for its clients, or was lately.
    """

    def __init__(
        self,
        services: NodeServices,
        counts: SharedCounts,
        front: Front,
        serves: asyncio.Event,
    ) -> None:
        self.front_node: FrontNode | None = None
        self.hosted: HostedSessions | None = None
        self.deadline: ConfirmDeadline | None = None
        self.answer: AnswerPieces = unanswered
        self._services = services
        self._counts = counts
        self._front = front
        self._serves = serves
        self._timer: asyncio.TimerHandle | None = None

    def follow(
        self,
        leaders: ClusterOfFront,
        name: str,
        lease_seconds: float,
        confirm_seconds: float,
        fed: FedDefinitions | None = None,
    ) -> None:
        """Serve clients by way of a leader; see `FrontNode`.

        Args:
            name: of this node, or process.
        """
        services = self._services
        host = FrontHost(
            name=name,
            process=random_below(1 << 40),
            lease_seconds=lease_seconds,
            confirm_seconds=confirm_seconds,
            vhosts=services.vhosts,
            clock=services.clock,
            cork=services.cork,
            gate=services.gate,
            close=self._front.close_some,
            serve=lambda served: (self._serves.set if served else self._serves.clear)(),
            deliver_reply=services.replies.deliver,
            answer=lambda question: self.answer(question),
            counts=self._counts,
            trace=self._trace_in,
            latencies=services.progress.latencies,
        )
        self.front_node = services.replies.others = FrontNode(host, leaders, fed)
        self.front_node.begin()
        self.tell_counts()

    def lead(self, leadership: Leadership) -> HostedSessions:
        """Let others serve their clients by way of this node."""
        services = self._services
        host = SessionHost(
            services.vhosts,
            services.progress,
            services.scheduler,
            services.replies.pass_on,
            services.replies.is_open,
            self._front.commit,
            services.clock.now,
            services.in_time,
        )

        def make(front: str, write: Write, outbox_bytes: Callable[[], int]) -> HostedSession:
            session = HostedSession(host, write, front)
            session.outbox_bytes = outbox_bytes
            return session

        self.front_node = None
        self.hosted = services.replies.others = HostedSessions(
            leadership, make, self._counts, self._traced
        )
        # Why publishers wait already; of changes the owner tells.
        self.hosted.pressed(services.gate.reasons - {UNLED})
        return self.hosted

    def tell_counts(self) -> None:
        """Tell the others how many clients this node has, from now on."""
        self._services.publish_rates.share()
        teller = self.front_node or self.hosted
        if teller is not None:
            teller.tell_counts()
        self._timer = self._services.loop.call_later(TELL_SECONDS, self.tell_counts)

    def in_time(self, done: Awaitable[object]) -> Awaitable[object]:
        """What is done, or fails when that takes too long."""
        if self.front_node is not None:
            return self.front_node.in_time(done)
        return done if self.deadline is None else self.deadline.in_time(done)

    def _traced(self) -> list[str]:
        return [v.name for v in self._services.vhosts.all() if v.firehose is not None]

    def _trace_in(self, names: Sequence[str]) -> None:
        for vhost in self._services.vhosts.all():
            self._front.trace(vhost, vhost.name in names)

    def trace(self, vhost: VirtualHost, wanted: bool) -> None:
        """Switch the firehose of a vhost on or off, for clients of all nodes."""
        self._front.trace(vhost, wanted)
        if self.hosted is not None:
            self.hosted.tell_traced()

    async def ask(self, question: bytes) -> Mapping[str, NodeAnswer | None]:
        """Ask the other nodes about their clients; see `HostedSessions.ask`. Nobody, unless this one leads."""
        return {} if self.hosted is None else await self.hosted.ask(question)

    def stop_timers(self) -> None:
        """Tell no more counts, and wait for what is late: the node ends."""
        if self.deadline is not None:
            self.deadline.stop()
        if self._timer is not None:
            self._timer.cancel()

    async def aclose(self, reason: str) -> None:
        """End all sessions."""
        if self.hosted is not None:
            self.hosted.close_all(reason)
        if self.front_node is not None:
            await self.front_node.aclose(reason)
