"""What stands around every page: the menu, with counts, and a mark where something is wrong."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from routelog.management.calls.broker_side import BrokerSide
from routelog.management.calls.caller import Caller
from routelog.management.pages.visit import Visit
from routelog.management.views.node_views import CLIENT_TOTALS

KEPT_SECONDS = 4.0  # live parts of a page come every 5 s: they count anew


@dataclass(frozen=True, slots=True)
class MenuEntry:
    """A page in the menu.

    Attributes:
        api: the GET of the API whose tag opens the page.
        beside: the beginnings of paths that belong to it, too.
    """

    title: str
    path: str
    api: str
    beside: tuple[str, ...] = ()

    def is_here(self, path: str) -> bool:
        """Whether a path is of this page, or of one below it."""
        if self.path == "/":
            return path == "/"
        begins = (self.path, *self.beside)
        return any(path == each or path.startswith(f"{each}/") for each in begins)


def _entry(title: str, path: str, *beside: str) -> MenuEntry:
    return MenuEntry(title, path, path, beside)


MENU: Mapping[str, tuple[MenuEntry, ...]] = {
    "": (MenuEntry("Overview", "/", "/overview"),),
    "Messages": (
        _entry("Queues", "/queues", "/queues-chosen"),
        _entry("Streams and groups", "/readers"),
        _entry("Exchanges", "/exchanges"),
        MenuEntry("Delayed", "/delayed", "/exchanges"),
    ),
    "Clients": (
        _entry("Connections", "/connections"),
        _entry("Channels", "/channels"),
        _entry("Consumers", "/consumers"),
    ),
    "Access": (
        _entry("Users", "/users"),
        _entry("Permissions", "/permissions"),
        _entry("Virtual hosts", "/vhosts"),
        _entry("Policies", "/policies", "/operator-policies", "/limits"),
    ),
    "Node": (
        _entry("Nodes", "/nodes"),
        _entry("Cluster", "/cluster"),
        _entry("Log", "/log"),
        _entry("Definitions", "/definitions"),
    ),
}

# Where a finding is looked into, by the type of what it is about; of any other type: at the nodes.
PAGES_OF_TYPES = {
    "queue": "/queues",
    "group": "/readers",
    "connection": "/connections",
    "user": "/log",
    "replica": "/cluster",
    "standby": "/cluster",
}


@dataclass(frozen=True, slots=True)
class MenuState:
    """What the menu says beside its entries, by their paths.

    Attributes:
        time: in monotonic seconds.
        vhost: whose things are counted; empty: of all that the user sees.
        marks: the worst severity of what was found, and in words how much that is.
    """

    time: float
    vhost: str
    counts: Mapping[str, int] = field(default_factory=dict)
    marks: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def is_fresh(self, vhost: str, now: float) -> bool:
        """Whether it still says how things are."""
        return self.vhost == vhost and now - self.time < KEPT_SECONDS


def opened_menu(visit: Visit) -> dict[str, list[MenuEntry]]:
    """The groups of the menu with what the user's tags open; none is empty."""
    found = {
        group: [entry for entry in entries if visit.opens("GET", entry.api)]
        for group, entries in MENU.items()
    }
    return {group: entries for group, entries in found.items() if entries}


def names_of_vhosts(broker: BrokerSide, caller: Caller) -> list[str]:
    """The vhosts whose contents a user may see."""
    return [each.name for each in broker.vhosts.all() if caller.sees(each.name)]


async def menu_state(broker: BrokerSide, visit: Visit) -> MenuState:
    """The state of the menu, which is kept for the session for some seconds."""
    session, now = visit.session, broker.clock.monotonic()
    known = session.menu
    if isinstance(known, MenuState) and known.is_fresh(session.vhost, now):
        return known
    counts = await _counts(broker, visit)
    state = MenuState(now, session.vhost, counts, await _marks(visit))
    session.menu = state
    return state


async def _counts(broker: BrokerSide, visit: Visit) -> Mapping[str, int]:
    caller, vhost = visit.caller, visit.session.vhost
    counts: Counter[str] = Counter()
    for each in broker.vhosts.all():
        if caller.sees(each.name) and vhost in ("", each.name):
            counts["/queues"] += len(each.queues)
            counts["/readers"] += len(each.hosted.groups.queues)
            counts["/exchanges"] += len(each.routing.exchanges())
            counts["/delayed"] += each.hosted.delays.count
    totals = await visit.get(CLIENT_TOTALS, query={"vhost": vhost})
    for of in ("connections", "channels", "consumers"):
        counts[f"/{of}"] = totals[of]
    nodes = len(broker.cluster.replicas())
    if nodes > 1:
        counts["/cluster"] = nodes
    return counts


async def _marks(visit: Visit) -> Mapping[str, tuple[str, str]]:
    found: dict[str, list[str]] = {}
    for finding in (await visit.findings())["findings"]:
        page = PAGES_OF_TYPES.get(finding["named"][0]["type"], "/nodes")
        found.setdefault(page, []).append(finding["severity"])
    return {page: (each[0], _told(len(each))) for page, each in found.items()}  # the worst first


def _told(count: int) -> str:
    return "1 finding" if count == 1 else f"{count} findings"
