"""Things of every kind by a part of their name: below the search field of the frame, and as a page."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from routelog.management.calls.listing import list_query
from routelog.management.pages.frame import opened_menu
from routelog.management.pages.list_pages import path_of
from routelog.management.pages.visit import Shown, Shows, Visit

SEARCH = "/search"
FOUND_MAX = "6"  # of each kind; the list of the kind has all of them


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of things.

    Attributes:
        link: the path of one, with keys of its row in it.
        told: the key of the row that stands beside the name.
        page: the list that has all that is found; empty: it does not filter by name.
    """

    title: str
    api: str
    link: str
    told: str = "vhost"
    page: str = ""


_KINDS = (
    _Kind("Queues and streams", "/queues", "/queues/{vhost}/{name}", page="/queues"),
    _Kind("Groups and readers", "/readers", "/readers/{vhost}/{queue}/{name}", "queue", "/readers"),
    _Kind("Exchanges", "/exchanges", "/exchanges/{vhost}/{name}", page="/exchanges"),
    _Kind("Connections", "/connections", "/connections/{name}", "user_provided_name"),
    _Kind("Users", "/users", "/users/{name}", "tags", "/users"),
    _Kind("Virtual hosts", "/vhosts", "/vhosts/{name}", "description", "/vhosts"),
    _Kind("Policies", "/policies", "/policies", page="/policies"),
)


@dataclass(frozen=True, slots=True)
class _Found:
    """What was found of a kind.

    Attributes:
        links: path, name, and what stands beside it.
        more: how many more there are.
    """

    kind: _Kind
    links: list[tuple[str, str, str]]
    more: int


async def search(visit: Visit) -> Shows:
    """What has a text in its name."""
    text = visit.asked("for").strip()
    found: list[_Found] = []
    pages = []
    if text:
        entries = [entry for group in opened_menu(visit).values() for entry in group]
        pages = [each for each in entries if text.casefold() in each.title.casefold()]
        query = list_query({"page": "1", "page_size": FOUND_MAX, "name": text})
        for kind in _KINDS:
            if visit.opens("GET", kind.api):
                table = await visit.table(kind.api, query)
                if table.rows:
                    links = [_link(kind, row) for row in table.rows]
                    found.append(_Found(kind, links, table.found - len(links)))
    return Shown("search.html", {"text": text, "found": found, "pages": pages})


def _link(kind: _Kind, row: Mapping[str, Any]) -> tuple[str, str, str]:
    told = row.get(kind.told) or ""
    beside = ", ".join(told) if isinstance(told, list) else str(told)
    return path_of(kind.link, row), row["name"] or "(the default exchange)", beside
