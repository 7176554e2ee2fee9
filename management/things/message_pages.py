"""The messages of a queue: found by a filter, marked, moved, copied, deleted, published again."""

from typing import Any
from urllib.parse import urlencode

import msgspec

from routelog.management.calls.answer import Row
from routelog.management.calls.failures import Refused, bad_request
from routelog.management.calls.message_wanted import number_of
from routelog.management.calls.path_template import filled
from routelog.management.figures.message_text import described_message
from routelog.management.pages.change_table import moved_text
from routelog.management.pages.changes import check_confirmed, counted, in_words
from routelog.management.pages.visit import Moved, Shows, Visit, value_of
from routelog.management.things.queue_page import QUEUE, of_queue, one_queue

MOVE = f"{QUEUE}/move"
TAKEN_MAX = 50  # messages of one page
BODY_BYTES_MAX = 50_000  # shown of each body
BROWSED = 20  # messages of one page
BROWSED_BYTES = 2_000  # shown of each body; a link leads to one message with more of it
BROWSED_BYTES_MAX = 1_000_000
FOUND_MAX = "10000"  # moved at once of what a filter finds; the page says when there is more

# The fields of the filter; `offset` is also where the next page begins. A header has two fields.
FILTERS = {
    "key": "Routing key",
    "id": "Message id",
    "correlation_id": "Correlation id",
    "header_name": "Header",
    "header_value": "has the value",
    "text": "Body contains",
    "filter": "Condition (SQL)",
    "time": "Since",
    "until": "Before",
}
MORE_FILTERS = {"offset": "From offset", "partition": "Partition"}
STATES = {"": "not settled", "ready": "ready", "unacked": "unacknowledged", "all": "all in the log"}
DONE = {"move": "Moved", "copy": "Copied", "delete": "Deleted"}
MODES = {"move": "Move", "copy": "Copy", "delete": "Delete"}


async def browse_messages(visit: Visit) -> Shows:
    """Messages as they lie in a queue; looking changes nothing."""
    one = await one_queue(visit, "messages")
    asked = {
        name: value
        for name in (*FILTERS, *MORE_FILTERS, "state")
        if (value := visit.asked(name).strip())
    }
    whole, refusal = visit.asked("whole"), ""
    query = {
        "count": "1" if whole else str(BROWSED),
        "truncate": str(BROWSED_BYTES_MAX if whole else BROWSED_BYTES),
    }
    wanted = _filter(asked)
    found: Row = {"items": [], "next": None, "looked_at": 0, "unreadable": []}
    try:
        found = await visit.get(f"{QUEUE}/messages", visit.parts, wanted | query)
    except Refused as error:
        refusal = in_words(error.reason)
    return of_queue(
        one,
        "messages",
        messages=[described_message(row) for row in found["items"]],
        found=found,
        refusal=refusal,
        next="" if whole else found["next"],
        filters=FILTERS,
        more_filters=MORE_FILTERS,
        states=STATES,
        modes={mode: label for mode, label in MODES.items() if _can(one.row, mode)},
        asked=asked,
        wanted=wanted,
        query=urlencode(wanted),
    )


def _can(row: Row, mode: str) -> bool:
    return ("move" if mode == "delete" else mode) in row["actions"]


def _filter(asked: dict[str, str]) -> dict[str, str]:
    """The parameters of the API that the fields of the filter mean."""
    said = {name: value for name, value in asked.items() if not name.startswith("header_")}
    if "header_name" in asked:
        said["header"] = f"{asked['header_name']}={asked.get('header_value', '')}"
    return said


async def take_messages(visit: Visit) -> Shows:
    """Messages that are taken from a queue, and put back if that was asked for."""
    body = {
        "count": number_of({"count": visit.field("count")}, "count", 0, TAKEN_MAX, least=1),
        "ackmode": visit.field("ackmode"),
        "encoding": "auto",
        "truncate": BODY_BYTES_MAX,
    }
    rows = await value_of(await visit.ask("POST", f"{QUEUE}/get", visit.parts, body=body))
    one = await one_queue(visit, "messages")
    return of_queue(one, "taken", messages=[described_message(row) for row in rows])


# -- several at once


async def choose_messages(visit: Visit) -> Shows:
    """Say what would become of messages, those marked or those found, and ask whether it is meant."""
    one = await one_queue(visit, "messages")
    body = _move(visit)
    tried = await value_of(
        await visit.ask("POST", MOVE, visit.parts, body=body | {"dry_run": True})
    )
    return of_queue(
        one,
        "chosen",
        form={name: values for name, values in visit.form.items() if name in _MEANT},
        mode=visit.field("mode"),
        to=_named(visit),
        tried=tried,
        wanted=counted(tried["count"], "message"),
        body=body,
    )


async def move_messages(visit: Visit) -> Shows:
    """Move, copy or delete messages."""
    if visit.field("mode") == "delete":
        check_confirmed(visit, visit.field("wanted"))
    body = _move(visit)
    value = await value_of(await visit.ask("POST", MOVE, visit.parts, body=body))
    visit.session.notice = moved_text(value, DONE[body["mode"]])
    return Moved(filled(f"{QUEUE}/messages", visit.parts))


# The fields of a form that say which messages, and what is meant to become of them.
_MEANT = {"which", "message", "filter", "mode", "to_kind", "to", "routing_key"}


def _move(visit: Visit) -> dict[str, Any]:
    body: dict[str, Any] = {"mode": visit.field("mode")}
    if visit.field("which") == "found":
        body |= {"filter": msgspec.json.decode(visit.field("filter")), "limit": int(FOUND_MAX)}
    else:
        body["messages"] = visit.form.get("message", [])
        if not body["messages"]:
            raise bad_request("no message is marked: mark some first, or choose all that are found")
    if body["mode"] == "delete":
        return body
    if not visit.field("to") and visit.field("to_kind") != "exchange":
        raise bad_request("where to? Name a queue or an exchange")
    body["to"] = {visit.field("to_kind") or "queue": visit.field("to")}
    if visit.field("to_kind") == "exchange" and visit.field("routing_key"):
        body["to"]["routing_key"] = visit.field("routing_key")
    return body


def _named(visit: Visit) -> str:
    kind, name = visit.field("to_kind") or "queue", visit.field("to")
    return f"{kind} “{name or '(the default exchange)'}”"


# -- one


async def show_publish(visit: Visit) -> Shows:
    """A form to publish to the queue; with a message in the address, it begins with that one."""
    one = await one_queue(visit, "publish")
    first: dict[str, str] = {}
    if place := visit.asked("message"):
        query = {"offset": place, "state": "all", "count": "1"}
        query["truncate"] = str(BROWSED_BYTES_MAX)
        found = await visit.get(f"{QUEUE}/messages", visit.parts, query)
        if found["items"]:
            first = _as_fields(found["items"][0])
    return of_queue(one, "publish", first=first, place=place)


def _as_fields(row: Row) -> dict[str, str]:
    properties = row["properties"]
    first = {"payload": row["payload"], "payload_encoding": row["payload_encoding"]}
    first["properties.content_type"] = properties.get("content_type", "")
    first["properties.delivery_mode"] = str(properties.get("delivery_mode", 1))
    if headers := properties.get("headers"):
        first["properties.headers"] = msgspec.json.format(msgspec.json.encode(headers)).decode()
    return first
