"""Queues: the list, one queue, messages that are taken from it, and readers of its log."""

from typing import Any
from urllib.parse import unquote

from routelog.management.calls.failures import Refused, bad_request, not_found
from routelog.management.calls.listing import list_query
from routelog.management.calls.message_wanted import number_of
from routelog.management.calls.path_template import filled
from routelog.management.figures.charts import (
    SAMPLED,
    SPARKLINE_HEIGHT,
    SPARKLINE_SAMPLED,
    SPARKLINE_WIDTH,
    length_chart,
    message_chart,
    sparkline,
)
from routelog.management.figures.message_text import described_message
from routelog.management.pages.change_table import CHANGES, moved_text
from routelog.management.pages.changes import check_confirmed, counted
from routelog.management.pages.visit import (
    FIRST_ROWS,
    NOTHING,
    Moved,
    Shown,
    Shows,
    Visit,
    value_of,
)

QUEUES, OF_VHOST, QUEUE = "/queues", "/queues/{vhost}", "/queues/{vhost}/{name}"
MOVE = f"{QUEUE}/move"
PAGE_ITEMS = "50"
TAKEN_MAX = 50  # messages of one page
BODY_BYTES_MAX = 50_000  # shown of each body
BROWSED = 20  # messages of one page
BROWSED_BYTES = 2_000  # shown of each body; a link leads to one message with more of it
BROWSED_BYTES_MAX = 1_000_000

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

READERS = "/logs/{vhost}/{queue}/readers"


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


async def show_queue(visit: Visit) -> Shows:
    """One queue."""
    row = await visit.get(QUEUE, visit.parts, SAMPLED)
    bindings = await visit.table(f"{QUEUE}/bindings", FIRST_ROWS, visit.parts)
    charts = length_chart(row), message_chart(row)
    return Shown(
        "queue/overview.html",
        {"queue": row, "charts": charts, "bindings": bindings, "changes": CHANGES},
    )


async def take_messages(visit: Visit) -> Shows:
    """Messages that are taken from a queue, and put back if that was asked for."""
    body = {
        "count": number_of({"count": visit.field("count")}, "count", 0, TAKEN_MAX, least=1),
        "ackmode": visit.field("ackmode"),
        "encoding": "auto",
        "truncate": BODY_BYTES_MAX,
    }
    rows = await value_of(await visit.ask("POST", f"{QUEUE}/get", visit.parts, body=body))
    return Shown(
        "queue/taken.html",
        {"parts": visit.parts, "messages": [described_message(row) for row in rows]},
    )


# What the form asks of the API, in this order; `offset` is also where the next page begins.
_FILTERS = {
    "offset": ("From offset", "a number, first or last"),
    "time": ("Since", "a time, or an age such as 1h"),
    "until": ("Before", "likewise"),
    "key": ("Routing key", ""),
    "header": ("Header", "name=value"),
    "text": ("Body has", ""),
}
STATES = {"": "not settled", "ready": "ready", "unacked": "unacknowledged", "all": "all in the log"}


async def browse_messages(visit: Visit) -> Shows:
    """Messages as they lie in a queue, found by place, time, key, header or text; nothing becomes of them."""
    names = (*_FILTERS, "state", "partition")
    asked = {name: value for name in names if (value := visit.asked(name).strip())}
    whole = visit.asked("whole")
    query = {
        "count": "1" if whole else str(BROWSED),
        "truncate": str(BROWSED_BYTES_MAX if whole else BROWSED_BYTES),
    }
    found = await visit.get(f"{QUEUE}/messages", visit.parts, asked | query)
    return Shown(
        "queue/messages.html",
        {
            "parts": visit.parts,
            "messages": [described_message(row) for row in found["items"]],
            "found": found,
            "next": "" if whole else found["next"],
            "filters": _FILTERS,
            "states": STATES,
            "asked": asked,
        },
    )


# -- messages that are marked


async def choose_messages(visit: Visit) -> Shows:
    """Say what would become of the marked messages, and ask whether it is meant."""
    chosen, mode, to = visit.form.get("message", []), visit.field("mode"), visit.field("to")
    if not chosen:
        raise bad_request("no message is chosen: mark some first")
    body = _move(chosen, mode, to)
    tried = await value_of(
        await visit.ask("POST", MOVE, visit.parts, body=body | {"dry_run": True})
    )
    return Shown(
        "queue/chosen.html",
        {
            "parts": visit.parts,
            "chosen": chosen,
            "mode": mode,
            "to": to,
            "told": moved_text(tried),
            "wanted": counted(len(chosen), "message"),
            "body": body,
        },
    )


async def move_messages(visit: Visit) -> Shows:
    """Move, copy or delete the marked messages."""
    chosen = visit.form.get("message", [])
    check_confirmed(visit, counted(len(chosen), "message"))
    body = _move(chosen, visit.field("mode"), visit.field("to"))
    value = await value_of(await visit.ask("POST", MOVE, visit.parts, body=body))
    visit.session.notice = moved_text(value)
    return Moved(filled(f"{QUEUE}/messages", visit.parts))


def _move(chosen: list[str], mode: str, to: str) -> dict[str, Any]:
    target = {} if mode == "delete" else {"to": {"queue": to}}
    return {"mode": mode, "messages": chosen, **target}


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


async def show_readers(visit: Visit) -> Shows:
    """The groups and readers of a queue: where each is, and how much waits."""
    readers: list[dict[str, Any]] = await visit.get(READERS, visit.parts)
    return Shown(
        "queue/groups.html", {"parts": visit.parts, "readers": readers, "changes": CHANGES}
    )
