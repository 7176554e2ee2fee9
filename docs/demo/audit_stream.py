"""The live audit stream: topology, publisher, monitor, and the counts afterwards."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import aio_pika
from aio_pika import Message
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage
from aiormq.abc import DeliveredMessage
from audit_publisher import AuditReport
from child_process import ChildFailed, ChildProcess
from topology import (
    DIRECT,
    MONITOR_QUEUE,
    RESTING_QUEUES,
    declare_audit_topology,
    ready_count,
    ready_counts,
)
from work_folder import WorkFolder

PREFETCH = 500
UNROUTABLE_KEY = "nobody.listens"
_PUBLISH_SECONDS_MAX = 120.0
_MONITOR_SECONDS_MAX = 30.0
_PAUSE_SECONDS = 0.05
_PUBLISHER = Path(__file__).with_name("audit_publisher.py")


@dataclass(frozen=True)
class AuditOutcome:
    """What the publisher says it sent, and what the broker says it has."""

    report: AuditReport
    counts: dict[str, int]  # by queue
    returned: tuple[int, str]  # reply code and text of the unroutable message; 0 if it was not


class Monitor:
    """A live consumer that counts and acknowledges."""

    def __init__(self) -> None:
        self.consumed = 0
        self._progress = asyncio.Condition()

    async def __call__(self, message: AbstractIncomingMessage) -> None:
        """Take one delivery."""
        await message.ack()
        async with self._progress:
            self.consumed += 1
            self._progress.notify_all()

    async def wait(self, expected: int) -> None:
        """Wait for the last deliveries; what is missing in the end shows in the count."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_MONITOR_SECONDS_MAX), self._progress:
                await self._progress.wait_for(lambda: self.consumed >= expected)


async def run_audit_stream(
    url: str, folder: WorkFolder, show: Callable[[str], None]
) -> AuditOutcome:
    """Publish the audit stream through the broker and count what arrived.

    Args:
        show: takes a line of progress, often.

    Raises:
        ChildFailed: the publisher failed or took too long.
    """
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        await declare_audit_topology(channel)
        returned = await publish_unroutable(channel)
        monitor = Monitor()
        await channel.set_qos(prefetch_count=PREFETCH)
        tag = await (await channel.get_queue(MONITOR_QUEUE)).consume(monitor)
        report = await _run_publisher(url, folder, lambda: show(_progress(monitor)))
        await monitor.wait(report.expected[MONITOR_QUEUE])
        await (await channel.get_queue(MONITOR_QUEUE)).cancel(tag)
        counts = await ready_counts(channel, RESTING_QUEUES)
        # Messages nobody expected would be left behind: they count too.
        counts[MONITOR_QUEUE] = monitor.consumed + await ready_count(channel, MONITOR_QUEUE)
    return AuditOutcome(report, counts, returned)


async def count_after_restart(url: str) -> dict[str, int]:
    """What waits in the audit queues that nobody consumes."""
    async with await aio_pika.connect(url) as connection:
        return await ready_counts(await connection.channel(), RESTING_QUEUES)


async def publish_unroutable(channel: AbstractChannel) -> tuple[int, str]:
    """Publish a mandatory message that no queue is bound for.

    Returns:
        Reply code and text of its basic.return; 0 and the answer's name if it did not come back.
    """
    exchange = await channel.get_exchange(DIRECT, ensure=False)
    answer = await exchange.publish(Message(b"is anybody there?"), UNROUTABLE_KEY, mandatory=True)
    if not isinstance(answer, DeliveredMessage):
        return 0, type(answer).__name__
    reply = answer.delivery
    return getattr(reply, "reply_code", 0) or 0, getattr(reply, "reply_text", "") or ""


async def _run_publisher(url: str, folder: WorkFolder, tick: Callable[[], None]) -> AuditReport:
    report = folder.reports / "published.json"
    command = [sys.executable, str(_PUBLISHER), url, str(folder.scratch), str(report)]
    with ChildProcess(command, folder.logs / "audit-publisher.log") as publisher:
        try:
            async with asyncio.timeout(_PUBLISH_SECONDS_MAX):
                while not publisher.check():
                    tick()
                    await asyncio.sleep(_PAUSE_SECONDS)
        except TimeoutError:
            raise ChildFailed(f"the publisher takes too long\n{publisher.log_tail()}") from None
    return AuditReport.load(report)


def _progress(monitor: Monitor) -> str:
    return f"live audit stream: the monitor has seen {monitor.consumed:,} events"
