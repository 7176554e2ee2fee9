"""Queues: the list, and changes of several at once."""

from urllib.parse import unquote

from routelog.management.calls.failures import Refused, bad_request, not_found
from routelog.management.calls.listing import list_query
from routelog.management.figures.charts import (
    SPARKLINE_HEIGHT,
    SPARKLINE_SAMPLED,
    SPARKLINE_WIDTH,
    sparkline,
)
from routelog.management.pages.change_table import CHANGES
from routelog.management.pages.changes import check_confirmed, counted
from routelog.management.pages.visit import (
    NOTHING,
    Moved,
    Shown,
    Shows,
    Visit,
)

QUEUES, OF_VHOST = "/queues", "/queues/{vhost}"
PAGE_ITEMS = "50"
TREND = "trend"  # a sparkline of all messages; no key of the API, and nothing to sort by

# What the list can show: the key of the API's row, and the heading. Numbers stand on the right.
COLUMNS = {
    "vhost": "Virtual host",
    "type": "Type",
    "durable": "Durable",
    "messages_ready": "Ready",
    "messages_unacknowledged": "Unacknowledged",
    "messages_delayed": "Delayed",
    "messages": "Messages",
    TREND: "Ten minutes",
    "consumers": "Consumers",
    "policy": "Policy",
    "partitions": "Partitions",
    "durability": "Durability",
}
SHOWN_COLUMNS = (
    "vhost",
    "type",
    "messages_ready",
    "messages_unacknowledged",
    TREND,
    "consumers",
    "policy",
)
NUMBERS = {name for name in COLUMNS if name.startswith("messages")} | {"consumers", "partitions"}

_CHOSEN_CHANGES = ("purge-queue", "delete-queue")


async def list_queues(visit: Visit) -> Shows:
    """A page of the queues; filter, order and columns are in its address."""
    asked = {name: visit.asked(name) for name in ("page", "name", "sort", "sort_reverse")}
    query = {name: value for name, value in asked.items() if value} | {"page_size": PAGE_ITEMS}
    query.setdefault("page", "1")
    vhost = visit.asked("vhost")
    path, parts = (OF_VHOST, {"vhost": vhost}) if vhost else (QUEUES, {})
    columns = [each for each in visit.query.get("column", SHOWN_COLUMNS) if each in COLUMNS]
    has_trend = TREND in columns
    more = SPARKLINE_SAMPLED if has_trend else NOTHING
    table = await visit.table(path, list_query(query), parts, more)
    trends = [sparkline(row["messages_details"]) for row in table.rows] if has_trend else []
    return Shown(
        "queues.html",
        {
            "table": table,
            "trends": trends,
            "spark_size": (SPARKLINE_WIDTH, SPARKLINE_HEIGHT),
            "columns": columns,
            "all_columns": COLUMNS,
            "numbers": NUMBERS,
            "asked": asked,
            "vhost": vhost,
            "vhosts": await vhost_names(visit),
            "changes": CHANGES,
        },
    )


async def vhost_names(visit: Visit) -> list[str]:
    """The vhosts whose contents the caller may see."""
    return [row["name"] for row in await visit.get("/vhosts") if visit.caller.sees(row["name"])]


# -- several queues at once


async def choose_queues(visit: Visit) -> Shows:
    """Ask whether it is meant, before several queues are changed."""
    change = CHANGES.get(visit.field("change"))
    if change is None or change.name not in _CHOSEN_CHANGES:
        raise not_found("change", visit.field("change"))
    chosen = visit.form.get("queue", [])
    if not chosen:
        raise bad_request("no queue is chosen: mark some first")
    return Shown(
        "chosen_queues.html",
        {
            "change": change,
            "chosen": chosen,
            "names": [_chosen(each) for each in chosen],
            "wanted": counted(len(chosen), "queue"),
        },
    )


async def change_queues(visit: Visit) -> Shows:
    """Change several queues, one after the other; the next page says how many, and which were refused."""
    change = CHANGES.get(visit.parts["change"])
    if change is None or change.name not in _CHOSEN_CHANGES:
        raise not_found("change", visit.parts["change"])
    chosen = visit.form.get("queue", [])
    wanted = counted(len(chosen), "queue")
    check_confirmed(visit, wanted)
    refused: list[str] = []
    for each in chosen:
        vhost, name = _chosen(each)
        try:
            await visit.ask(change.method, change.path, {"vhost": vhost, "name": name})
        except Refused as error:
            refused.append(f"{name}: {error.reason}")
    done = f"{change.title}: done for {len(chosen) - len(refused)} of {wanted}."
    visit.session.notice = " ".join([done, *refused])
    return Moved(QUEUES)


def _chosen(text: str) -> tuple[str, str]:
    vhost, _, name = text.partition("/")
    return unquote(vhost), unquote(name)
