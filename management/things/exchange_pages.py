"""One exchange, in tabs: its picture with a message that is tried out, its bindings, and what it holds back."""

from dataclasses import dataclass
from typing import Any

from routelog.management.calls.answer import Row
from routelog.management.calls.failures import Refused
from routelog.management.figures.binding_picture import BindingPicture, binding_picture
from routelog.management.pages.change_table import CHANGES
from routelog.management.pages.changes import in_words
from routelog.management.pages.visit import FIRST_ROWS, ONE_ROW, Shown, Shows, Table, Visit
from routelog.management.things.tabs import Tab, Tabs, tabs_of
from routelog.management.views.bindings import DEFAULT_NAME

EXCHANGE = "/exchanges/{vhost}/{name}"
_OF_ANY = "/exchanges/{vhost}/{name:[^/]*}"  # also of the default one
_FROM, _TO = f"{_OF_ANY}/bindings/source", f"{_OF_ANY}/bindings/destination"

DELAYED = "/exchanges/{vhost}/{name}/delayed"
COUNT = "50"
BEHIND_MAX = 10  # exchanges whose own bindings are in the picture


@dataclass(frozen=True, slots=True)
class OneExchange:
    """What every tab of an exchange has.

    Attributes:
        row: of the API.
        name: as it is shown.
        name_in_paths: of the default exchange, too.
    """

    row: Row
    name: str
    name_in_paths: str
    tabs: Tabs

    @property
    def is_own(self) -> bool:
        """Whether somebody has declared it, who may delete it."""
        return bool(self.row["name"]) and not self.row["name"].startswith("amq.")


async def one_exchange(visit: Visit, shown: str) -> OneExchange:
    """An exchange with its tabs.

    Raises:
        Refused: it is not there.
    """
    row = await visit.get(EXCHANGE, visit.parts)
    leaving = await visit.table(_FROM, ONE_ROW, visit.parts)
    coming = await visit.table(_TO, ONE_ROW, visit.parts)
    tabs = [Tab("", "Overview"), Tab("bindings", "Bindings", leaving.total + coming.total)]
    if "messages_delayed" in row:
        tabs.append(Tab("delayed", "Delayed", row["messages_delayed"]))
    if visit.may_change and not row["internal"]:
        tabs.append(Tab("publish", "Publish"))
    name = row["name"] or "the default exchange"
    one = OneExchange(
        row, name, row["name"] or DEFAULT_NAME, tabs_of(EXCHANGE, visit.parts, tabs, shown)
    )
    if visit.may_change and one.is_own:
        tabs.append(Tab("danger", "Delete", is_grave=True))
    return one


def of_exchange(one: OneExchange, template: str, **values: Any) -> Shown:
    """A tab of an exchange."""
    shown = {"exchange": one.row, "one": one, "tabs": one.tabs, "changes": CHANGES, **values}
    return Shown(f"exchange/{template}.html", shown)


async def show_exchange(visit: Visit) -> Shows:
    """Its picture and properties; with a key in the address, where such a message would go."""
    one = await one_exchange(visit, "")
    leaving = await visit.table(_FROM, FIRST_ROWS, visit.parts)
    coming = await visit.table(_TO, FIRST_ROWS, visit.parts)
    asked = {name: visit.asked(name) for name in ("routing_key", "headers")}
    tried: Row | None = None
    refusal = ""
    if "routing_key" in visit.query:
        try:
            tried = await visit.get(f"{_OF_ANY}/route", visit.parts, asked)
        except Refused as error:
            refusal = in_words(error.reason)
    return of_exchange(
        one,
        "overview",
        total=leaving.total + coming.total,
        picture=await _picture(visit, one, coming, leaving, tried),
        tried=tried,
        refusal=refusal,
        asked=asked,
    )


async def _picture(
    visit: Visit, one: OneExchange, coming: Table, leaving: Table, tried: Row | None
) -> BindingPicture:
    behind: dict[str, list[Row]] = {}
    for row in leaving.rows:
        name = row["destination"]
        if (
            row["destination_type"] == "exchange"
            and name not in behind
            and len(behind) < BEHIND_MAX
        ):
            parts = {"vhost": row["vhost"], "name": name}
            behind[name] = (await visit.table(_FROM, FIRST_ROWS, parts)).rows
    way = None
    if tried is not None:
        way = [(b["source"], b["destination"], b["routing_key"]) for b in tried["bindings"]]
    return binding_picture(one.name, coming.rows, leaving.rows, behind, way)


async def show_exchange_bindings(visit: Visit) -> Shows:
    """Where it leads, and what leads to it."""
    one = await one_exchange(visit, "bindings")
    return of_exchange(
        one,
        "bindings",
        leaving=await visit.table(_FROM, FIRST_ROWS, visit.parts),
        coming=await visit.table(_TO, FIRST_ROWS, visit.parts),
    )


async def show_exchange_publish(visit: Visit) -> Shows:
    """A form to publish to it."""
    return of_exchange(await one_exchange(visit, "publish"), "publish")


async def show_exchange_danger(visit: Visit) -> Shows:
    """Delete it, and what is lost by it."""
    one = await one_exchange(visit, "danger")
    leaving = await visit.table(_FROM, ONE_ROW, visit.parts)
    coming = await visit.table(_TO, ONE_ROW, visit.parts)
    return of_exchange(one, "danger", leaving=leaving.total, coming=coming.total)


async def show_delayed(visit: Visit) -> Shows:
    """A page of held messages, what is due next first."""
    query = {"count": COUNT}
    if begin := visit.asked("from"):
        query["from"] = begin
    held = await visit.get(DELAYED, visit.parts, query)
    return of_exchange(await one_exchange(visit, "delayed"), "delayed", held=held)
