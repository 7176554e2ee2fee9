"""A channel that publishes to a real vhost, and what became of that."""

from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pamqp import commands
from pamqp import frame as pamqp_frame
from support.loop_services import scheduler_on
from support.queue_samples import Node, bodies, running_node

from routelog.amqp_front.publishing.publisher import Publisher
from routelog.amqp_front.transactions.commit_plan import CommitPlan
from routelog.amqp_front.wire.command import PublishRun
from routelog.amqp_front.wire.frame_cutter import FrameCutter
from routelog.broker.node.direct_reply import DirectReplies
from routelog.log_backend import LogTransaction, Progress, SystemClock
from routelog.log_backend.loop.scheduler import SHARE_SECONDS, Lane
from routelog.vhosts import (
    FULL_PERMISSION,
    PermissionBook,
    PermissionCache,
    QueueProperties,
    Recipient,
    VirtualHost,
)


class Channel:
    """What a publisher needs of its channel."""

    number = 1
    user = "guest"
    impersonates = False
    body_frame_max = 4088
    reply_address: str | None = None
    returns_refused = False
    waits_for_consumers = False

    def __init__(self, vhost: VirtualHost, progress: Progress) -> None:
        self.vhost = vhost
        self.counters = vhost.counters.channel()
        scheduler = scheduler_on(None)
        scheduler.deadline = float("inf")  # a turn that does not end
        self.services: Any = SimpleNamespace(
            progress=progress, clock=SystemClock(), replies=DirectReplies(), scheduler=scheduler
        )
        self.book = PermissionBook()
        self.book.put(self.user, vhost.name, FULL_PERMISSION)
        self.permissions = PermissionCache(self.book, self.user, vhost.name)
        self.written = b""
        self.arrived: Awaitable[None] | None = None

    def wait_for(self, arrived: Awaitable[None]) -> None:
        """See `PublishingChannel`."""
        self.arrived = arrived

    def wait_for_consumers(self, queue: Recipient) -> None:
        """See `PublishingChannel`."""
        self.waits_for_consumers = queue.is_behind

    def write(self, frames: bytes) -> None:
        """See `PublishingChannel`."""
        self.written += frames

    def sent(self) -> list[Any]:
        """The method frames written, then forgotten."""
        methods = []
        while self.written:
            used, _, frame = pamqp_frame.unmarshal(self.written)
            if isinstance(frame, commands.Basic.Return | commands.Basic.Ack | commands.Basic.Nack):
                methods.append(frame)
            self.written = self.written[used:]
        return methods


class HastyClock(SystemClock):
    """Every look at it takes longer than a turn."""

    looks = 0

    def monotonic(self) -> float:
        """See `Clock`."""
        self.looks += 1
        return super().monotonic() + self.looks * 2 * SHARE_SECONDS[Lane.JOBS]


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    """A node whose vhost has two queues."""
    async with running_node(tmp_path) as running:
        for name in ("one", "two"):
            running.vhost.declare_queue(QueueProperties(name), object())
        yield running


@pytest.fixture
def channel(node: Node) -> Channel:
    """A channel of that vhost."""
    return Channel(node.vhost, Progress(node.turns.call_soon, float))


@pytest.fixture
def publisher(channel: Channel) -> Publisher:
    """What publishes for it."""
    return Publisher(cast(Any, channel))


def runs(stream: bytes) -> list[PublishRun]:
    """What a cutter makes of a read."""
    cutter = FrameCutter(131_072)
    cutter.receive_into(b"")[: len(stream)] = stream
    cutter.received(len(stream), 131_072)
    found = list(iter(lambda: cutter.next(False), None))
    assert all(isinstance(run, PublishRun) for run in found)
    return cast(list[PublishRun], found)


def held(node: Node, queue: str) -> list[str]:
    """What a queue holds, taken out."""
    taken = []
    while (delivery := node.vhost.queues[queue].get()) is not None:
        taken += bodies(delivery)
    return taken


def carry_out(transaction: LogTransaction, plan: CommitPlan | None = None) -> None:
    """Append a plan, if there is one, and end its transaction, as a commit does."""
    if plan is not None:
        transaction.append(lambda: plan.carry_out(scheduler_on(None)))
    transaction.end()
    while transaction.show_some():
        pass
    if plan is not None:
        while plan.tell_some():
            pass
        for tell in (*plan.remembered, *plan.told):
            tell()
