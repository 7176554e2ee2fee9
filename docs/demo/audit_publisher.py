"""A program that publishes every audit event of its own interpreter while it works.

    python audit_publisher.py URL SCRATCH_FOLDER REPORT_FILE

The events that publishing itself causes belong to the stream too. It ends all the same: no event is
gathered after the work is done, and what was gathered by then is published to the last one.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections import Counter
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import aio_pika
from aio_pika import DeliveryMode, Message
from audit_hook import AuditEvent, AuditHook
from audit_workload import run_workload
from publish_window import PublishWindow
from topology import AUDIT, expected_counts

_PAUSE_SECONDS = 0.005  # while there is nothing to publish


@dataclass(frozen=True)
class AuditReport:
    """What was published, counted on the publisher's side."""

    published: int
    confirmed: int
    returned: int
    failed: int
    events: dict[str, int]  # by name
    expected: dict[str, int]  # by queue

    @classmethod
    def load(cls, path: Path) -> AuditReport:
        """The report that `save` has written."""
        return cls(**json.loads(path.read_text()))

    def save(self, path: Path) -> None:
        """Write the report as JSON."""
        path.write_text(json.dumps(asdict(self), indent=2))


async def publish_audit_stream(url: str, scratch: Path, hook: AuditHook) -> AuditReport:
    """Work, and publish what the hook gathers until the work is done, to the last event."""
    events: Counter[str] = Counter()
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel(publisher_confirms=True)
        window = PublishWindow(await channel.get_exchange(AUDIT, ensure=False))
        work = asyncio.create_task(asyncio.to_thread(run_workload, scratch))
        work.add_done_callback(lambda _: hook.close())
        while hook.gathered or not work.done():
            if not hook.gathered:
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            event = hook.gathered.popleft()
            events[event.name] += 1
            await window.publish(_as_message(event, window.published), event.name)
        await work
        await window.drain()
    return _report(window, events)


def _as_message(event: AuditEvent, number: int) -> Message:
    return Message(
        json.dumps({"event": event.name, "args": event.arguments}).encode(),
        content_type="application/json",
        delivery_mode=DeliveryMode.PERSISTENT,
        app_id="audit-publisher",
        message_id=f"{os.getpid()}-{number}",
        timestamp=datetime.fromtimestamp(event.seconds, UTC),
        headers={"number": number, "pid": os.getpid(), "thread": event.thread},
    )


def _report(window: PublishWindow, events: Counter[str]) -> AuditReport:
    return AuditReport(
        published=window.published,
        confirmed=len(window.confirmed),
        returned=window.returned,
        failed=window.failed,
        events=dict(events.most_common()),
        expected=expected_counts(events),
    )


def main() -> None:
    """Install the hook, publish, save the report."""
    url, scratch, report = sys.argv[1:]
    hook = AuditHook()
    sys.addaudithook(hook)
    asyncio.run(publish_audit_stream(url, Path(scratch), hook)).save(Path(report))


if __name__ == "__main__":
    main()
