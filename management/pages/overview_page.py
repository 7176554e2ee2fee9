"""Pages of the node: the overview (is anything wrong, how much comes and goes, how near the limits are), the
cluster, and the log with what operators did.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from routelog.management.figures.charts import (
    RANGES,
    SPARKLINE_HEIGHT,
    SPARKLINE_WIDTH,
    Sparkline,
    length_chart,
    line_of,
    message_chart,
    range_of,
)
from routelog.management.pages.frame import PAGES_OF_TYPES
from routelog.management.pages.rendering import as_part
from routelog.management.pages.visit import NOTHING, Shown, Shows, Visit
from routelog.management.views.broker_log import LEVELS

ROWS_MAX = 5  # the others are a click away: who reads more than that
BUSY, FULL = 0.75, 0.9  # of a limit
_LISTS = {
    "queue": "/queues?" + urlencode({"sort": "messages_ready", "sort_reverse": "true"}),
    "group": "/readers",
    "connection": "/connections",
}
# By what is counted: how often it came, and went.
_CHURN = {
    "queues": ("queue_created", "queue_deleted"),
    "connections": ("connection_created", "connection_closed"),
    "channels": ("channel_created", "channel_closed"),
}


@dataclass(frozen=True, slots=True)
class FindingRow:
    """A finding as the page shows it.

    Attributes:
        lead: what it is about first of all; `link` leads to it, and `all` to all of them: empty where the user
            may not go there.
        line: of its messages; None: it has none.
    """

    finding: Mapping[str, Any]
    lead: Mapping[str, Any]
    link: str
    all: str
    line: Sparkline | None

    @property
    def since(self) -> float | None:
        """Seconds since 1970."""
        return self.finding.get("since")


@dataclass(frozen=True, slots=True)
class Limit:
    """How much of a limit is used.

    Attributes:
        unit: the filter that writes its numbers.
        hint: what counts.
        says_free: what is left is said, not what is used.
    """

    title: str
    used: float
    most: float
    unit: str
    hint: str
    says_free: bool = False

    @property
    def share(self) -> float:
        """From 0 to 1."""
        return min(1.0, self.used / self.most) if self.most else 0.0

    @property
    def state(self) -> str:
        """The kind of badge that it would be: empty, warn or bad."""
        return "bad" if self.share >= FULL else "warn" if self.share >= BUSY else ""


async def overview(visit: Visit) -> Shows:
    """The verdict and its findings, then figures, charts and limits."""
    found = await visit.findings()
    # Of the whole node: the samples of many vhosts would be added up in one turn.
    sees_all = visit.opens("GET", "/nodes")
    chosen = range_of(visit.asked("range"))
    totals = await visit.get("/overview", query=chosen.query if sees_all else NOTHING)
    nodes = await visit.get("/nodes") if sees_all else []
    rows = [_row(visit, finding) for finding in found["findings"]]
    return Shown(
        "overview.html",
        {
            "found": found,
            "rows": rows[:ROWS_MAX],
            "more_rows": rows[ROWS_MAX:],
            "spark_size": (SPARKLINE_WIDTH, SPARKLINE_HEIGHT),
            "totals": totals,
            "rates": {
                name: totals["message_stats"].get(f"{name}_details", {}).get("rate", 0)
                for name in ("publish", "deliver_get", "ack")
            },
            "charts": (message_chart(totals), length_chart(totals["queue_totals"]))
            if sees_all
            else (),
            "ranges": RANGES if sees_all else (),
            "chosen": chosen,
            "objects": [
                (name, count, [_churn(totals, each) for each in _CHURN.get(name, ())])
                for name, count in totals["object_totals"].items()
            ],
            "nodes": nodes,
            "limits": [limit for node in nodes for limit in _limits(node)],
        },
    )


def _churn(totals: Mapping[str, Any], name: str) -> float:
    rate: float = totals["churn_rates"][f"{name}_details"]["rate"]
    return rate


def _row(visit: Visit, finding: Mapping[str, Any]) -> FindingRow:
    lead = finding["named"][0]
    trend = lead.get("trend")
    return FindingRow(
        finding=finding,
        lead=lead,
        link=_link(visit, lead),
        all=_LISTS.get(lead["type"], "") if finding["count"] > 1 else "",
        line=None if trend is None else line_of(trend),
    )


def _link(visit: Visit, named: Mapping[str, Any]) -> str:
    name = as_part(named["name"])
    match named["type"]:
        case "queue":
            return f"/queues/{as_part(named['vhost'])}/{name}"
        case "group":
            return f"/readers/{as_part(named['vhost'])}/{as_part(named['queue'])}"
        case "connection":
            return f"/connections/{name}"
        case "user":
            return "/log?" + urlencode({"text": named["name"]})
        case other:
            page = PAGES_OF_TYPES.get(other, "/nodes")
            return page if visit.opens("GET", page) else ""


def _limits(node: Mapping[str, Any]) -> list[Limit]:
    if "sockets_used" not in node:
        return []  # another node
    limits = [
        Limit(
            "Disk",
            node["disk_total"] - node["disk_free"],
            node["disk_total"],
            "octets",
            "of the file system with the data directory",
            says_free=True,
        ),
        Limit(
            "Connections",
            node["sockets_used"],
            node["sockets_total"],
            "count",
            "of AMQP clients",
        ),
        Limit(
            "Intake",
            node["intake_bytes"],
            node["intake_bytes_limit"],
            "octets",
            "bodies on their way in, transactions, and what clients leave unread",
        ),
    ]
    if "mem_used" in node:
        memory = ("octets", "of the machine, or of what it lets this process have")
        limits.insert(0, Limit("Memory", node["mem_used"], node["mem_limit"], *memory))
        files = ("count", "sockets, files of logs")
        limits.insert(2, Limit("Open files", node["fd_used"], node["fd_total"], *files))
    return limits


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
