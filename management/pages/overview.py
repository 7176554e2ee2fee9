"""The first page: whether anything is wrong, and how much there is of everything."""

from routelog.management.pages.visit import Shown, Shows, Visit


async def overview(visit: Visit) -> Shows:
    """Findings, then totals."""
    found = await visit.get("/findings")
    totals = await visit.get("/overview")
    return Shown(
        "overview.html",
        {"findings": found["findings"], "looked_at": found["queues"], "totals": totals},
    )
