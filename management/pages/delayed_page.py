"""What a delayed message exchange holds, and cancelling it."""

from routelog.management.pages.change_table import CHANGES
from routelog.management.pages.visit import Shown, Shows, Visit

DELAYED = "/exchanges/{vhost}/{name}/delayed"
COUNT = "50"


async def show_delayed(visit: Visit) -> Shows:
    """A page of held messages, what is due next first."""
    query = {"count": COUNT}
    if begin := visit.asked("from"):
        query["from"] = begin
    return Shown(
        "delayed.html",
        {
            "parts": visit.parts,
            "held": await visit.get(DELAYED, visit.parts, query),
            "changes": CHANGES,
        },
    )
