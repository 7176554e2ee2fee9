"""Rules over others: policies, and limits of virtual hosts and users."""

from dataclasses import dataclass

from routelog.management.calls.listing import list_query
from routelog.management.calls.path_template import filled
from routelog.management.pages.change_table import CHANGES
from routelog.management.pages.queue_pages import vhost_names
from routelog.management.pages.visit import FIRST_ROWS, ONE_ROW, Shown, Shows, Visit
from routelog.management.things.settings import Setting, described, policy_fields
from routelog.management.things.tabs import Tab, Thing, tabs_of

# What a limit counts, where a list of the API has it.
_COUNTED = {
    ("vhost", "max-connections"): "/vhosts/{vhost}/connections",
    ("vhost", "max-queues"): "/queues/{vhost}",
    ("user", "max-connections"): "/connections/username/{name}",
}

FOLLOWERS_ROWS = list_query({"page_size": "500"})  # queues and exchanges looked at for a policy
_PLAIN = {"disable_stats": "true"}


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


# -- policies

POLICY, OPERATOR_POLICY = "/policies/{vhost}/{name}", "/operator-policies/{vhost}/{name}"


async def show_policy(visit: Visit, tab: str = "", kind: str = "policy") -> Shows:
    """One policy: what it sets, and for whom it is in force.

    Args:
        kind: "policy" or "operator-policy".
    """
    path = POLICY if kind == "policy" else OPERATOR_POLICY
    row = await visit.get(path, visit.parts)
    may_set = visit.opens("PUT", path)
    tabs = [Tab("", "Overview")]
    if may_set:
        tabs += [Tab("settings", "Change"), Tab("danger", "Delete", is_grave=True)]
    key = kind.replace("-", "_")
    followers: list[tuple[str, str]] = []
    is_cut = False
    for each in ("queues", "exchanges"):
        found = await visit.table(f"/{each}/{{vhost}}", FOLLOWERS_ROWS, visit.parts, _PLAIN)
        is_cut |= found.total > len(found.rows)
        followers += [
            (filled(f"/{each}/{{vhost}}/{{name}}", other), other["name"])
            for other in found.rows
            if other.get(key) == row["name"]
        ]
    noun = kind.replace("-", " ")
    listed = path[: path.index("/{")], f"{noun[:1].upper()}{noun[1:-1]}ies"
    return Shown(
        "things/policy.html",
        {
            "thing": Thing(noun, row["name"], *listed, f"virtual host {row['vhost']}"),
            "tabs": tabs_of(path, visit.parts, tabs, tab),
            "policy": row,
            "kind": kind,
            "settings": [
                Setting(name, *described(f"x-{name}", value), kind, row["name"], name)
                for name, value in row["definition"].items()
            ],
            "first": policy_fields(row),
            "followers": followers,
            "is_cut": is_cut,
            "may_set": may_set,
            "changes": CHANGES,
        },
    )
