"""One user, and whether he may do something; one virtual host."""

from typing import Any

from routelog.management.calls.failures import Refused
from routelog.management.figures.charts import RANGES, length_chart, message_chart, range_of
from routelog.management.pages.change_table import CHANGES
from routelog.management.pages.changes import in_words
from routelog.management.pages.queue_pages import vhost_names
from routelog.management.pages.visit import FIRST_ROWS, ONE_ROW, Shown, Shows, Visit
from routelog.management.things.rule_pages import limits_of
from routelog.management.things.tabs import Tab, Thing, tabs_of

USER = "/users/{user}"
VHOST = "/vhosts/{vhost}"

# What may be asked of a user: the question, the verb, what it is done to, and whether a key matters.
ACTIONS = {
    "publish": ("publish to exchange", "write", "exchange", True),
    "bind": ("bind something to exchange", "read", "exchange", True),
    "declare-exchange": ("declare or delete exchange", "configure", "exchange", False),
    "consume": ("consume, get or purge queue", "read", "queue", False),
    "bind-queue": ("bind or unbind queue", "write", "queue", False),
    "declare-queue": ("declare or delete queue", "configure", "queue", False),
}


async def show_user(visit: Visit, tab: str = "") -> Shows:
    """One user; with an action in the address, whether he may do it."""
    row = await visit.get(USER, visit.parts)
    name = {"name": row["name"]}
    verdict, refusal = await _verdict(visit)
    permissions = await visit.table(f"{USER}/permissions", FIRST_ROWS, visit.parts)
    tabs = [
        Tab("", "Overview"),
        Tab("permissions", "Permissions", permissions.total),
        Tab("limits", "Limits", len(row["limits"])),
        Tab("settings", "Tags and password"),
        Tab("danger", "Delete", is_grave=True),
    ]
    badges = [(each, "brand") for each in row["tags"]]
    if not row["password_hash"]:
        badges.append(("no password", "warn"))
    return Shown(
        "things/user.html",
        {
            "thing": Thing("user", row["name"], "/users", "Users", badges=tuple(badges)),
            "tabs": tabs_of(USER, visit.parts, tabs, tab),
            "user": row,
            "permissions": permissions,
            "topics": await visit.table(f"{USER}/topic-permissions", FIRST_ROWS, visit.parts),
            "connections": await visit.table("/connections/username/{name}", FIRST_ROWS, name),
            "actions": {action: said[0] for action, said in ACTIONS.items()},
            "asked": {each: visit.asked(each) for each in ("vhost", "action", "name", "key")},
            "verdict": verdict,
            "refusal": refusal,
            "vhosts": await vhost_names(visit),
            "changes": CHANGES,
        },
    )


async def _verdict(visit: Visit) -> tuple[Any, str]:
    """What the API says of the action, or why it says nothing."""
    action = ACTIONS.get(visit.asked("action"))
    if action is None:
        return None, ""
    _, verb, kind, has_key = action
    query = {"verb": verb, kind: visit.asked("name")}
    if has_key:
        query["routing_key"] = visit.asked("key")
    parts = {"vhost": visit.asked("vhost"), "user": visit.parts["user"]}
    try:
        return await visit.get("/permissions/{vhost}/{user}/may", parts, query), ""
    except Refused as error:
        return None, in_words(error.reason)


async def show_vhost(visit: Visit, tab: str = "") -> Shows:
    """One virtual host."""
    chosen = range_of(visit.asked("range"))
    row = await visit.get(VHOST, visit.parts, chosen.query)
    permissions = await visit.table(f"{VHOST}/permissions", FIRST_ROWS, visit.parts)
    limits = await visit.get("/vhost-limits/{vhost}", visit.parts)
    may_set = visit.opens("PUT", "/vhosts/{name}")
    tabs = [
        Tab("", "Overview"),
        Tab("permissions", "Who may enter", permissions.total),
        Tab("limits", "Limits", len(limits[0]["value"]) if limits else 0),
    ]
    if may_set:
        tabs += [Tab("settings", "Settings"), Tab("danger", "Delete", is_grave=True)]
    counts = {
        name: (await visit.table(path, ONE_ROW, visit.parts)).total
        for name, path in (
            ("queues", "/queues/{vhost}"),
            ("exchanges", "/exchanges/{vhost}"),
            ("connections", f"{VHOST}/connections"),
        )
    }
    badges = [(each, "") for each in row["tags"]]
    if row["tracing"]:
        badges.append(("firehose", "warn"))
    return Shown(
        "things/vhost.html",
        {
            "thing": Thing(
                "virtual host", row["name"], "/vhosts", "Virtual hosts", badges=tuple(badges)
            ),
            "tabs": tabs_of(VHOST, visit.parts, tabs, tab),
            "vhost": row,
            "charts": (message_chart(row), length_chart(row)),
            "ranges": RANGES,
            "chosen": chosen,
            "permissions": permissions,
            "limits": await limits_of(
                visit, "vhost", row["name"], limits[0]["value"] if limits else {}
            ),
            "may_set": may_set,
            "changes": CHANGES,
            **counts,
        },
    )
