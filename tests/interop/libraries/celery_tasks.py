"""A Celery application, as its users write them: imported by the tests and by their workers."""

from __future__ import annotations

import os
import time
from pathlib import Path

from celery import Celery

app = Celery(
    "celery_tasks",
    broker=os.environ.get("CELERY_TEST_BROKER", "memory://"),
    backend=os.environ.get("CELERY_TEST_RESULTS", "rpc://"),
)
app.conf.update(
    task_default_queue=os.environ.get("CELERY_TEST_QUEUE", "celery"),
    task_queue_max_priority=10,
    task_acks_late=True,
    worker_prefetch_multiplier=1,
    worker_send_task_events=True,
    broker_heartbeat=2,
    broker_connection_retry_on_startup=True,
    result_expires=60,
)


@app.task
def add(left: int, right: int) -> int:
    """A result."""
    return left + right


@app.task
def double(number: int) -> int:
    """A link of a chain."""
    return 2 * number


@app.task
def total(numbers: list[int]) -> int:
    """The end of a chord."""
    return sum(numbers)


@app.task
def started_at() -> float:
    """When it was run, on the system's clock."""
    return time.time()


@app.task(bind=True, max_retries=3)
def third_time(self) -> int:
    """Fails twice; gives how often it was retried."""
    if self.request.retries < 2:
        raise self.retry(countdown=0.2, exc=RuntimeError("not yet"))
    return self.request.retries


@app.task
def note(name: str, text: str) -> None:
    """Write a line into a file."""
    with Path(name).open("a") as file:
        file.write(text + "\n")


@app.task(bind=True, reject_on_worker_lost=True)
def hangs_once(self, name: str) -> bool:
    """Hangs, until its worker is killed; the second worker learns that it came again."""
    redelivered = bool(self.request.delivery_info["redelivered"])
    if not redelivered:
        Path(name).write_text("hangs")
        time.sleep(600)
    return redelivered
