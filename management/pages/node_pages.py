"""Pages of the node: the overview, the cluster, and the log with what operators did."""

from routelog.management.figures.charts import SAMPLED, length_chart, message_chart
from routelog.management.pages.visit import NOTHING, Shown, Shows, Visit
from routelog.management.views.broker_log import LEVELS

LINES = "200"
OPERATORS = "HTTP"  # the door that the page, the API and commands come through


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


async def show_cluster(visit: Visit) -> Shows:
    """Nodes, standbys and the timeline."""
    return Shown("cluster.html", {"state": await visit.get("/cluster")})


async def show_log(visit: Visit) -> Shows:
    """The newest lines first; the filter is in the address."""
    names = ("level", "user", "event", "via", "text")
    asked = {name: value for name in names if (value := visit.asked(name).strip())}
    found = await visit.get("/log", query=asked | {"count": LINES})
    return Shown(
        "log.html",
        {
            "lines": found["items"][::-1],
            "asked": asked,
            "levels": LEVELS,
            "operators": OPERATORS,
            "is_still": bool(visit.asked("still")),
        },
    )
