"""One queue or stream, in tabs; and its groups."""

from dataclasses import dataclass
from typing import Any

from routelog.management.calls.answer import Row
from routelog.management.calls.failures import Refused, not_found
from routelog.management.calls.path_template import filled
from routelog.management.figures.charts import (
    RANGES,
    SAMPLED,
    TEN_MINUTES,
    length_chart,
    message_chart,
    range_of,
)
from routelog.management.figures.message_text import described_message
from routelog.management.pages.change_table import CHANGES
from routelog.management.pages.changes import WHOLE_BODY
from routelog.management.pages.rendering import as_json
from routelog.management.pages.visit import FIRST_ROWS, NOTHING, ONE_ROW, Parts, Shown, Shows, Visit
from routelog.management.things.queue_state import queue_state, rate_of
from routelog.management.things.settings import policy_for, settings_of
from routelog.management.things.tabs import Tab, Tabs, tabs_of
from routelog.vhosts import FOR_LIFE

QUEUE = "/queues/{vhost}/{name}"
READERS = "/logs/{vhost}/{queue}/readers"
GROUP = "/readers/{vhost}/{queue}/{name}"
OLDEST = 5  # messages on the first tab
OLDEST_BYTES = 300  # of each body


@dataclass(frozen=True, slots=True)
class OneQueue:
    """What every tab of a queue has.

    Attributes:
        row: of the API.
        groups: of its log; empty also for who may not read the queue.
    """

    row: Row
    groups: list[Row]
    tabs: Tabs

    def offers(self, visit: Visit, action: str) -> bool:
        """Whether the page offers an action: the queue can do it, and the user may change something."""
        return visit.may_change and action in self.row["actions"]


async def one_queue(visit: Visit, shown: str, query: Parts = NOTHING) -> OneQueue:
    """A queue with its tabs.

    Raises:
        Refused: it is not there.
    """
    row = await visit.get(QUEUE, visit.parts, query)
    try:
        groups = await visit.get(READERS, {**visit.parts, "queue": row["name"]})
    except Refused:
        groups = []
    bindings = await visit.table(f"{QUEUE}/bindings", ONE_ROW, visit.parts)
    ends = "Purge, delete" if "purge" in row["actions"] else "Delete"
    tabs = [
        Tab("", "Overview"),
        Tab("messages", "Messages", row["messages"]),
        Tab("bindings", "Bindings", bindings.total),
        Tab("consumers", "Consumers and groups" if groups else "Consumers", row["consumers"]),
        Tab("settings", "Settings"),
    ]
    if visit.may_change and "publish" in row["actions"]:
        tabs.append(Tab("publish", "Publish"))
    if visit.may_change and "delete" in row["actions"]:
        tabs.append(Tab("danger", ends, is_grave=True))
    return OneQueue(row, groups, tabs_of(QUEUE, visit.parts, tabs, shown))


def of_queue(one: OneQueue, template: str, **values: Any) -> Shown:
    """A tab of a queue."""
    shown = {"queue": one.row, "one": one, "tabs": one.tabs, "changes": CHANGES, **values}
    return Shown(f"queue/{template}.html", shown)


async def show_queue(visit: Visit) -> Shows:
    """Whether it keeps up, how much is in it, charts, and its oldest messages."""
    one = await one_queue(visit, "", SAMPLED)
    row = charted = one.row
    chosen = range_of(visit.asked("range"))
    if chosen != TEN_MINUTES:
        charted = await visit.get(QUEUE, visit.parts, chosen.query)
    oldest: list[Row] = []
    if row["messages_ready"]:
        query = {"count": str(OLDEST), "truncate": str(OLDEST_BYTES)}
        query["state"] = "all" if row["type"] == "stream" else "ready"
        try:
            found = await visit.get(f"{QUEUE}/messages", visit.parts, query)
            oldest = [described_message(each) for each in found["items"]]
        except Refused:
            pass  # who may not read the queue sees its numbers alone
    return of_queue(
        one,
        "overview",
        state=queue_state(row, row["consumer_details"], visit.limits.messages),
        rates={name: rate_of(row, name) for name in ("publish", "deliver_get", "ack")},
        charts=(length_chart(charted), message_chart(charted)),
        ranges=RANGES,
        chosen=chosen,
        oldest=oldest,
    )


async def show_bindings(visit: Visit) -> Shows:
    """The bindings that lead to it, and a form for another one."""
    one = await one_queue(visit, "bindings")
    bindings = await visit.table(f"{QUEUE}/bindings", FIRST_ROWS, visit.parts)
    return of_queue(one, "bindings", bindings=bindings)


async def show_consumers(visit: Visit) -> Shows:
    """Its consumers with what each takes, and the groups that read its log."""
    one = await one_queue(visit, "consumers")
    rates = {
        each["channel_details"]["name"]: each["stats"] for each in one.row.get("deliveries", [])
    }
    return of_queue(one, "consumers", rates=rates, behind=behind)


async def show_settings(visit: Visit) -> Shows:
    """What holds, where it comes from, and forms for other arguments and a policy of this queue."""
    one = await one_queue(visit, "settings")
    policy = None
    if name := one.row["policy"]:
        parts = {"vhost": one.row["vhost"], "name": name}
        policy = await visit.get("/policies/{vhost}/{name}", parts)
    return of_queue(
        one,
        "settings",
        settings=settings_of(one.row),
        for_life=FOR_LIFE,
        first=policy_for(one.row, policy),
        arguments={WHOLE_BODY: as_json(one.row["arguments"])},
    )


async def show_danger(visit: Visit) -> Shows:
    """Purge and delete, each with what is lost by it."""
    one = await one_queue(visit, "danger")
    bindings = await visit.table(f"{QUEUE}/bindings", FIRST_ROWS, visit.parts)
    own = [each for each in bindings.rows if each["source"]]  # the default exchange's is no loss
    return of_queue(one, "danger", bindings=len(own) + bindings.total - len(bindings.rows))


def behind(group: Row) -> int:
    """How many messages a group has not got yet."""
    return sum(each["messages_ready"] for each in group["partitions"])


async def show_group(visit: Visit) -> Shows:
    """A group, or a reader: where it is in each partition; it is moved and deleted here."""
    groups: list[Row] = await visit.get(READERS, visit.parts)
    found = [each for each in groups if each["name"] == visit.parts["name"]]
    if not found:
        raise not_found("group", visit.parts["name"], visit.parts["vhost"])
    (group,) = found
    queue = {"vhost": visit.parts["vhost"], "name": visit.parts["queue"]}
    return Shown(
        "queue/group.html",
        {
            "parts": visit.parts,
            "group": group,
            "behind": behind(group),
            "queue_path": filled(QUEUE, queue),
            "changes": CHANGES,
        },
    )
