"""Rules over others: limits of virtual hosts and users."""

from dataclasses import dataclass

from routelog.management.pages.change_table import CHANGES
from routelog.management.pages.queue_pages import vhost_names
from routelog.management.pages.visit import FIRST_ROWS, ONE_ROW, Shown, Shows, Visit

# What a limit counts, where a list of the API has it.
_COUNTED = {
    ("vhost", "max-connections"): "/vhosts/{vhost}/connections",
    ("vhost", "max-queues"): "/queues/{vhost}",
    ("user", "max-connections"): "/connections/username/{name}",
}


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit that is set.

    Attributes:
        kind: "vhost" or "user", whose `owner` is the name.
        used: of `value`; None: nothing counts it.
    """

    kind: str
    owner: str
    name: str
    value: int
    used: int | None


async def limits_of(visit: Visit, kind: str, owner: str, values: dict[str, int]) -> list[Limit]:
    """The limits of a vhost or a user, with what is used of each."""
    limits: list[Limit] = []
    for name, value in values.items():
        path = _COUNTED.get((kind, name))
        parts = {kind: owner, "name": owner}
        used = None if path is None else (await visit.table(path, ONE_ROW, parts)).total
        limits.append(Limit(kind, owner, name, value, used))
    return limits


async def show_limits(visit: Visit) -> Shows:
    """All limits of virtual hosts and users."""
    limits: list[Limit] = []
    for kind in ("vhost", "user"):
        for row in (await visit.table(f"/{kind}-limits", FIRST_ROWS)).rows:
            limits += await limits_of(visit, kind, row[kind], row["value"])
    return Shown(
        "limits.html", {"limits": limits, "vhosts": await vhost_names(visit), "changes": CHANGES}
    )
