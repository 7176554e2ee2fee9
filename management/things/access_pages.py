"""One user, and whether he may do something; one virtual host."""

from typing import Any

from routelog.management.calls.failures import Refused
from routelog.management.figures.charts import RANGES, length_chart, message_chart, range_of
from routelog.management.pages.change_table import CHANGES
from routelog.management.pages.queue_pages import vhost_names
from routelog.management.pages.visit import FIRST_ROWS, Shown, Shows, Visit

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


async def show_user(visit: Visit) -> Shows:
    """One user; with an action in the address, whether he may do it."""
    row = await visit.get(USER, visit.parts)
    name = {"name": row["name"]}
    verdict, refusal = await _verdict(visit)
    return Shown(
        "user.html",
        {
            "user": row,
            "permissions": await visit.table(f"{USER}/permissions", FIRST_ROWS, visit.parts),
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
        return None, error.reason


async def show_vhost(visit: Visit) -> Shows:
    """One virtual host."""
    chosen = range_of(visit.asked("range"))
    row = await visit.get(VHOST, visit.parts, chosen.query)
    permissions = f"{VHOST}/permissions"
    limits = await visit.get("/vhost-limits/{vhost}", visit.parts)
    return Shown(
        "vhost.html",
        {
            "vhost": row,
            "charts": (message_chart(row), length_chart(row)),
            "ranges": RANGES,
            "chosen": chosen,
            "permissions": await visit.table(permissions, FIRST_ROWS, visit.parts),
            "limits": limits[0]["value"] if limits else {},
            "changes": CHANGES,
        },
    )
