"""The first page: whether anything is wrong, and how much there is of everything."""

from routelog.management.pages.charts import SAMPLED, length_chart, message_chart
from routelog.management.pages.visit import NOTHING, Shown, Shows, Visit


async def overview(visit: Visit) -> Shows:
    """Findings, then totals."""
    found = await visit.get("/findings")
    # Of the whole node: the samples of many vhosts would be added up in one turn.
    sees_all = visit.opens("GET", "/nodes")
    totals = await visit.get("/overview", query=SAMPLED if sees_all else NOTHING)
    charts = (length_chart(totals["queue_totals"]), message_chart(totals)) if sees_all else ()
    return Shown(
        "overview.html",
        {
            "findings": found["findings"],
            "looked_at": found["queues"],
            "totals": totals,
            "charts": charts,
        },
    )
