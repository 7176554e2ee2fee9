"""Readers of logs: the groups of one queue, by partition, and moving them."""

from typing import Any

from routelog.management.pages.change_table import CHANGES
from routelog.management.pages.visit import Shown, Shows, Visit

READERS = "/logs/{vhost}/{queue}/readers"


async def show_readers(visit: Visit) -> Shows:
    """The groups and readers of a queue: where each is, and how much waits."""
    readers: list[dict[str, Any]] = await visit.get(READERS, visit.parts)
    return Shown("readers.html", {"parts": visit.parts, "readers": readers, "changes": CHANGES})
