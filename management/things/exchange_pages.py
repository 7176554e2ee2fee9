"""One exchange: its bindings, which queues a key would reach, and what a delayed exchange holds."""

from typing import Any

from routelog.management.calls.failures import Refused
from routelog.management.figures.binding_picture import binding_picture
from routelog.management.pages.change_table import CHANGES
from routelog.management.pages.visit import FIRST_ROWS, Shown, Shows, Visit
from routelog.management.views.bindings import DEFAULT_NAME

EXCHANGE = "/exchanges/{vhost}/{name}"
_OF_ANY = "/exchanges/{vhost}/{name:[^/]*}"  # also of the default one

DELAYED = "/exchanges/{vhost}/{name}/delayed"
COUNT = "50"


async def show_exchange(visit: Visit) -> Shows:
    """One exchange; with a key in the address, where it would go."""
    row = await visit.get(EXCHANGE, visit.parts, {"disable_stats": "true"})
    leaving = await visit.table(f"{_OF_ANY}/bindings/source", FIRST_ROWS, visit.parts)
    coming = await visit.table(f"{_OF_ANY}/bindings/destination", FIRST_ROWS, visit.parts)
    asked = {name: visit.asked(name) for name in ("routing_key", "headers")}
    tried: dict[str, Any] | None = None
    refusal = ""
    if "routing_key" in visit.query:
        try:
            tried = await visit.get(f"{_OF_ANY}/route", visit.parts, asked)
        except Refused as error:
            refusal = error.reason
    shown_name = row["name"] or "(the default exchange)"
    return Shown(
        "exchange/overview.html",
        {
            "exchange": row,
            "name_in_paths": row["name"] or DEFAULT_NAME,
            "leaving": leaving,
            "coming": coming,
            "picture": binding_picture(shown_name, coming.rows, leaving.rows),
            "shown_name": shown_name,
            "tried": tried,
            "refusal": refusal,
            "asked": asked,
            "changes": CHANGES,
        },
    )


async def show_delayed(visit: Visit) -> Shows:
    """A page of held messages, what is due next first."""
    query = {"count": COUNT}
    if begin := visit.asked("from"):
        query["from"] = begin
    return Shown(
        "exchange/delayed.html",
        {
            "parts": visit.parts,
            "held": await visit.get(DELAYED, visit.parts, query),
            "changes": CHANGES,
        },
    )
