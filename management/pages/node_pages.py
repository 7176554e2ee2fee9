"""Pages of the node: the cluster, and the log with what operators did."""

from routelog.management.pages.visit import Shown, Shows, Visit
from routelog.management.views.broker_log import LEVELS

LINES = "200"
OPERATORS = "HTTP"  # the door that the page, the API and commands come through


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
