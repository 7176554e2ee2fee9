"""Pages that are one list of the API: its columns, what can be done with a row, and what can be added."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from routelog.management.calls.listing import list_query
from routelog.management.calls.path_template import filled, part_names
from routelog.management.pages.change_table import CHANGES
from routelog.management.pages.queue_pages import vhost_names
from routelog.management.pages.visit import Shown, Shows, Visit
from routelog.management.views.bindings import DEFAULT_NAME

PAGE_ITEMS = "50"


@dataclass(frozen=True, slots=True)
class ListPage:
    """A list.

    Attributes:
        columns: keys of the API's rows with their headings; `a.b` is b in a.
        numbers: columns on the right.
        row_changes: with the fields of each that the row has, as keys of it.
        changes: whose forms stand below.
        link: the path of a row's own page, with columns of the row in it; empty: it has none.
        link_api: the GET whose tag opens that page, where the list's own tag does not.
    """

    title: str
    api: str
    columns: Mapping[str, str]
    numbers: tuple[str, ...] = ()
    row_changes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    changes: tuple[str, ...] = ()
    link: str = ""
    link_api: str = ""

    async def show(self, visit: Visit) -> Shows:
        """One page of the list."""
        asked = {name: visit.asked(name) for name in ("page", "name", "sort", "sort_reverse")}
        query = {name: value for name, value in asked.items() if value}
        query = {"page": "1", **query, "page_size": PAGE_ITEMS}
        return Shown(
            "list.html",
            {
                "list": self,
                "links": self.link and (not self.link_api or visit.opens("GET", self.link_api)),
                "table": await visit.table(self.api, list_query(query)),
                "asked": asked,
                "value_at": value_at,
                "path_of": path_of,
                "known_of": known_of,
                "vhosts": await vhost_names(visit),
                "all_changes": CHANGES,
            },
        )


def value_at(row: Mapping[str, Any], column: str) -> Any:
    """What a row says in a column, as text or a number; None: nothing."""
    value: Any = row
    for name in column.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return value


CONNECTIONS = ListPage(
    "Connections",
    "/connections",
    {
        "name": "Name",
        "user_provided_name": "Called",
        "user": "User",
        "vhost": "Virtual host",
        "state": "State",
        "blocked_by": "Waits for",
        "ssl": "TLS",
        "channels": "Channels",
        "recv_oct_details.rate": "Received, bytes a second",
        "send_oct_details.rate": "Sent",
    },
    ("channels", "recv_oct_details.rate", "send_oct_details.rate"),
    row_changes={"close-connection": {"name": "name"}},
    link="/connections/{name}",
)
CHANNELS = ListPage(
    "Channels",
    "/channels",
    {
        "name": "Name",
        "user": "User",
        "vhost": "Virtual host",
        "state": "State",
        "confirm": "Confirms",
        "transactional": "Transactional",
        "consumer_count": "Consumers",
        "prefetch_count": "Prefetch",
        "messages_unacknowledged": "Unacknowledged",
        "messages_unconfirmed": "Unconfirmed",
        "message_stats.publish_details.rate": "Published a second",
        "message_stats.deliver_get_details.rate": "Delivered",
    },
    (
        "consumer_count",
        "prefetch_count",
        "messages_unacknowledged",
        "messages_unconfirmed",
        "message_stats.publish_details.rate",
        "message_stats.deliver_get_details.rate",
    ),
    link="/channels/{name}",
)
CONSUMERS = ListPage(
    "Consumers",
    "/consumers",
    {
        "consumer_tag": "Tag",
        "queue.name": "Queue",
        "queue.vhost": "Virtual host",
        "channel_details.name": "Channel",
        "channel_details.user": "User",
        "activity_status": "State",
        "ack_required": "Acknowledges",
        "prefetch_count": "Prefetch",
        "messages_unacknowledged": "Unacknowledged",
    },
    ("prefetch_count", "messages_unacknowledged"),
    link="/channels/{channel_details.name}",
)
USERS = ListPage(
    "Users",
    "/users",
    {"name": "Name", "tags": "Tags", "limits": "Limits"},
    row_changes={"delete-user": {"user": "name"}},
    changes=("put-user", "put-permission"),
    link="/users/{name}",
)
PERMISSIONS = ListPage(
    "Permissions",
    "/permissions",
    {
        "user": "User",
        "vhost": "Virtual host",
        "configure": "Configure",
        "write": "Write",
        "read": "Read",
    },
    row_changes={"clear-permission": {"user": "user", "vhost": "vhost"}},
    changes=("put-permission",),
)
POLICIES = ListPage(
    "Policies",
    "/policies",
    {
        "name": "Name",
        "vhost": "Virtual host",
        "pattern": "Pattern",
        "apply-to": "Applies to",
        "definition": "Definition",
        "priority": "Priority",
    },
    ("priority",),
    row_changes={"delete-policy": {"vhost": "vhost", "name": "name"}},
    changes=("put-policy",),
)
OPERATOR_POLICIES = replace(
    POLICIES,
    title="Operator policies",
    api="/operator-policies",
    row_changes={"delete-operator-policy": {"vhost": "vhost", "name": "name"}},
    changes=("put-operator-policy",),
)
VHOSTS = ListPage(
    "Virtual hosts",
    "/vhosts",
    {
        "name": "Name",
        "description": "Description",
        "default_queue_type": "Default type of queues",
        "tracing": "Firehose",
    },
    row_changes={"delete-vhost": {"name": "name"}},
    changes=("put-vhost",),
    link="/vhosts/{name}",
    link_api="/vhosts/{vhost}",
)
NODES = ListPage(
    "Nodes",
    "/nodes",
    {
        "name": "Name",
        "running": "Runs",
        "in_sync": "In sync",
        "blocks_behind": "Blocks behind",
        "uptime": "Milliseconds up",
        "mem_used": "Memory, bytes",
        "disk_free": "Free on disk, bytes",
        "fd_used": "Open files",
        "sockets_used": "Connections",
    },
    ("blocks_behind", "uptime", "mem_used", "disk_free", "fd_used", "sockets_used"),
)
EXCHANGES = ListPage(
    "Exchanges",
    "/exchanges",
    {
        "name": "Name",
        "vhost": "Virtual host",
        "type": "Type",
        "durable": "Durable",
        "internal": "Internal",
        "policy": "Policy",
        "messages_delayed": "Delayed",
    },
    ("messages_delayed",),
    changes=("declare-exchange",),
    link="/exchanges/{vhost}/{name}",
)

READERS = ListPage(
    "Readers",
    "/readers",
    {
        "name": "Name",
        "vhost": "Virtual host",
        "queue": "Queue",
        "consumers": "Consumers",
        "messages_ready": "Behind",
        "messages_unacknowledged": "Unacknowledged",
        "lapsed": "Has lost messages",
    },
    ("consumers", "messages_ready", "messages_unacknowledged"),
    link="/readers/{vhost}/{queue}/{name}",
)

LISTS = (
    EXCHANGES,
    READERS,
    CONNECTIONS,
    CHANNELS,
    CONSUMERS,
    USERS,
    PERMISSIONS,
    POLICIES,
    OPERATOR_POLICIES,
    VHOSTS,
    NODES,
)


DELAYED = "/delayed"
_DELAYED_TYPE = "x-delayed-message"
_DUE_SHOWN = 20  # exchanges of which the page says when the next message is due: one request each


async def list_delayed(visit: Visit) -> Shows:
    """The exchanges that hold messages back: how many, and when the next one is due."""
    rows = [
        row
        for row in await visit.get(*visit.within("/exchanges", "/exchanges/{vhost}"))
        if row["type"] == _DELAYED_TYPE
    ]
    rows.sort(key=lambda row: -row["messages_delayed"])
    for row in [each for each in rows if each["messages_delayed"]][:_DUE_SHOWN]:
        path = "/exchanges/{vhost}/{name}/delayed"
        held = await visit.get(path, {"vhost": row["vhost"], "name": row["name"]}, {"count": "1"})
        if held["items"]:
            row["due"] = held["items"][0]["due_at"] / 1_000
    return Shown("delayed_list.html", {"exchanges": rows})


def path_of(template: str, row: Mapping[str, Any]) -> str:
    """The path of a row's own page; an exchange without a name has one in paths."""
    return filled(
        template, {name: value_at(row, name) or DEFAULT_NAME for name in part_names(template)}
    )


def known_of(fields: Mapping[str, str], row: Mapping[str, Any]) -> dict[str, str]:
    """The fields of a change that a row has."""
    return {name: row[key] for name, key in fields.items()}
