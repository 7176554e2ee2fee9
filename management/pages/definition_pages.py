"""Definitions: a document is uploaded, what it would do is shown, and then it is imported; or one is saved."""

from typing import Any

import msgspec

from routelog.management.calls.answer import Pieces
from routelog.management.calls.failures import Refused, bad_request
from routelog.management.pages.queue_pages import vhost_names
from routelog.management.pages.visit import Moved, Saved, Shown, Shows, Visit, value_of

DEFINITIONS = "/definitions"
OF_VHOST = "/definitions/{vhost}"
DOCUMENT_BYTES_MAX = 1024 * 1024  # it goes to the browser and back; larger ones by curl or command


async def show_definitions(visit: Visit) -> Shows:
    """The form for a document, and what can be saved."""
    if not visit.opens("GET", DEFINITIONS):
        raise Refused(403, "forbidden", "Definitions are for administrators")
    return Shown("definitions.html", {"vhosts": await vhost_names(visit)})


async def save_definitions(visit: Visit) -> Shows:
    """Everything, or what is in one vhost, as a file."""
    vhost = visit.asked("vhost")
    path, parts = (OF_VHOST, {"vhost": vhost}) if vhost else (DEFINITIONS, {})
    answer = await visit.ask("GET", path, parts)
    assert isinstance(answer, Pieces)
    return Saved(answer.pieces, "definitions.json")


async def plan_import(visit: Visit) -> Shows:
    """What an import would do."""
    document = _document(visit)
    plan: dict[str, Any] = {"counts": {}, "entries": [], "kept_without_effect": []}
    refusal = ""
    try:
        plan = await _posted(visit, document, dry_run="true")
    except Refused as error:
        if error.status != 400:
            raise
        refusal = error.reason
    return Shown(
        "import_plan.html",
        {
            "plan": plan,
            "refusal": refusal,
            "document": document,
            "vhost": visit.field("vhost"),
            "keeps": visit.field("keep") == "on",
        },
    )


async def import_definitions(visit: Visit) -> Shows:
    """Import a document whose plan was shown."""
    value = await _posted(visit, _document(visit)) or {}
    kept = value.get("kept_without_effect", [])
    visit.session.notice = "The definitions are imported."
    if kept:
        visit.session.notice += f" Kept without effect: {len(kept)}."
    return Moved(DEFINITIONS)


def _document(visit: Visit) -> str:
    document = visit.field("document")
    if not document.strip():
        raise bad_request("no document is chosen: choose a file first")
    return document


async def _posted(visit: Visit, document: str, **query: str) -> Any:
    vhost = visit.field("vhost")
    path, parts = (OF_VHOST, {"vhost": vhost}) if vhost else (DEFINITIONS, {})
    if visit.field("keep") == "on":
        query["unknown"] = "keep"
    body = msgspec.Raw(document.encode())
    return await value_of(await visit.ask("POST", path, parts, query, body))
