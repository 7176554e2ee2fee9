"""Queues: the list, and changes of several at once."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from routelog.management.calls.failures import Refused, bad_request, not_found
from routelog.management.calls.listing import list_query
from routelog.management.figures.charts import (
    SPARKLINE_HEIGHT,
    SPARKLINE_SAMPLED,
    SPARKLINE_WIDTH,
    at_age,
    sparkline,
)
from routelog.management.pages.change_table import CHANGES
from routelog.management.pages.changes import check_confirmed, counted
from routelog.management.pages.columns import value_at
from routelog.management.pages.visit import (
    NOTHING,
    Moved,
    Shown,
    Shows,
    Visit,
)
from routelog.management.sampling.history import GROWING_MINUTES, MINUTE, grows

QUEUES, OF_VHOST = "/queues", "/queues/{vhost}"
PAGE_ITEMS = "50"
TREND = "trend"  # a sparkline of all messages; no key of the API, and nothing to sort by

# What the list can show: the key of the API's row, and the heading.
COLUMNS = {
    "state": "State",
    "messages_ready": "Ready",
    "messages_unacknowledged": "Unacked",
    "messages_delayed": "Delayed",
    TREND: "10 min",
    "message_stats.publish_details.rate": "In",
    "message_stats.deliver_get_details.rate": "Out",
    "message_stats.ack_details.rate": "Acked",
    "consumers": "Consumers",
    "message_bytes": "Size",
    "policy": "Policy",
    "durability": "Durability",
}
SHOWN_COLUMNS = (
    "state",
    "messages_ready",
    "messages_unacknowledged",
    TREND,
    "message_stats.publish_details.rate",
    "message_stats.deliver_get_details.rate",
    "message_stats.ack_details.rate",
    "consumers",
)
# How a number is written; all else is text.
NUMBERS = {
    name: "rate" if name.endswith("rate") else "octets" if name.endswith("bytes") else "count"
    for name in COLUMNS
    if name.startswith("message") or name == "consumers"
}
# Which queues: of the API's `only`.
ONLY = {
    "": "All",
    "used": "In use",
    "unconsumed": "No consumer",
    "streams": "Streams",
}
_FLOWS = ("publish", "deliver_get", "ack")
_CHOSEN_CHANGES = ("purge-queue", "delete-queue")


async def list_queues(visit: Visit) -> Shows:
    """A page of the queues; filter, order and columns are in its address."""
    asked = {name: visit.asked(name) for name in ("page", "name", "sort", "sort_reverse", "only")}
    if asked["only"] not in ONLY:
        asked["only"] = ""
    if not asked["sort"]:  # those that hold most: of many queues most hold nothing
        asked |= {"sort": "messages_ready", "sort_reverse": "true"}
    query = {name: value for name, value in asked.items() if value} | {"page_size": PAGE_ITEMS}
    query.setdefault("page", "1")
    path, parts = visit.within(QUEUES, OF_VHOST)
    columns = [each for each in visit.query.get("column", SHOWN_COLUMNS) if each in COLUMNS]
    wanted = {"only": asked["only"]} if asked["only"] else NOTHING
    table = await visit.table(path, list_query(query), parts, SPARKLINE_SAMPLED, wanted)
    return Shown(
        "queues.html",
        {
            "table": table,
            "trends": [sparkline(row["messages_details"]) for row in table.rows],
            "states": [state_of(row, visit.limits.messages) for row in table.rows],
            "spark_size": (SPARKLINE_WIDTH, SPARKLINE_HEIGHT),
            "columns": columns,
            "all_columns": COLUMNS,
            "numbers": NUMBERS,
            "only": ONLY,
            "value_at": value_at,
            "asked": asked,
            "vhosts": await vhost_names(visit),
            "changes": CHANGES,
        },
    )


def state_of(row: Mapping[str, Any], least: int) -> tuple[str, str]:
    """What a queue is doing, and the kind of badge that says so.

    Args:
        row: of the API, with samples of ten minutes.
        least: fewer messages are no finding.
    """
    if row["state"] == "paused":
        return "paused", "warn"
    ready, is_stream = row["messages_ready"], row["type"] == "stream"
    if ready and not is_stream and not row["consumers"]:
        return "no consumer", "warn" if ready >= least else ""
    length = at_age(row["messages_details"])
    if not is_stream and ready and grows(length, least):
        return "growing", "warn"
    rates = (row.get("message_stats", {}).get(f"{each}_details") for each in _FLOWS)
    if any(each and each["rate"] for each in rates):
        return "running", "good"
    is_still = len({length(at * MINUTE) for at in range(GROWING_MINUTES + 1)}) == 1
    if is_still and not is_stream and ready >= least:
        return "stuck", "warn"
    return "idle", ""


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
