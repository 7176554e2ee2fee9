"""Pages that are one list of the API: its columns, what can be done with a row, and what can be added."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from routelog.management.calls.listing import list_query
from routelog.management.calls.path_template import filled, part_names
from routelog.management.pages.change_table import CHANGES
from routelog.management.pages.columns import Column, value_at
from routelog.management.pages.queue_pages import vhost_names
from routelog.management.pages.visit import Shown, Shows, Visit
from routelog.management.views.bindings import DEFAULT_NAME

PAGE_ITEMS = "50"
POLICY_TABS = {
    "/policies": "Policies",
    "/operator-policies": "Operator policies",
    "/limits": "Limits",
}


NAME = Column("name", "Name")


@dataclass(frozen=True, slots=True)
class ListPage:
    """A list.

    Attributes:
        of_vhost: the list of one vhost's things; empty: they are in none.
        main: the key of what a row is called; what is missing is called by `below`.
        below: the key of what stands below that.
        link: the path of a row's own page, with keys of the row in it; empty: it has none.
        link_api: the GET whose tag opens that page, where the list's own tag does not.
        row_changes: with the fields of each that the row has, as keys of it.
        changes: what can be added; each in a dialog.
        tabs: of pages that belong together, by their paths.
    """

    title: str
    api: str
    columns: tuple[Column, ...]
    of_vhost: str = ""
    main: Column = NAME
    below: str = ""
    link: str = ""
    link_api: str = ""
    row_changes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    changes: tuple[str, ...] = ()
    tabs: Mapping[str, str] = field(default_factory=dict)

    async def show(self, visit: Visit) -> Shows:
        """One page of the list."""
        asked = {name: visit.asked(name) for name in ("page", "name", "sort", "sort_reverse")}
        query = {name: value for name, value in asked.items() if value}
        query = {"page": "1", **query, "page_size": PAGE_ITEMS}
        path, parts = visit.within(self.api, self.of_vhost or self.api)
        return Shown(
            "list.html",
            {
                "list": self,
                "links": self.link and (not self.link_api or visit.opens("GET", self.link_api)),
                "table": await visit.table(path, list_query(query), parts),
                "asked": asked,
                "value_at": value_at,
                "path_of": path_of,
                "known_of": known_of,
                "vhosts": await vhost_names(visit),
                "all_changes": CHANGES,
            },
        )


def _published(rate: str, label: str) -> Column:
    return Column(f"message_stats.{rate}_details.rate", label, "rate")


CONNECTIONS = ListPage(
    "Connections",
    "/connections",
    (
        Column("user", "User", "name"),
        Column("vhost", "Virtual host", "name"),
        Column("node", "Node", "name"),
        Column("state", "State", "state", "blocked_by"),
        Column("channels", "Channels", "count"),
        Column("recv_oct_details.rate", "From client", "octet rate"),
        Column("send_oct_details.rate", "To client", "octet rate"),
        Column("ssl", "TLS", "yes"),
        Column("connected_at", "Since", "ago"),
    ),
    of_vhost="/vhosts/{vhost}/connections",
    main=Column("user_provided_name", "Client"),
    below="name",
    link="/connections/{name}",
)
CHANNELS = ListPage(
    "Channels",
    "/channels",
    (
        Column("user", "User", "name"),
        Column("state", "State", "state"),
        Column("confirm", "Confirms", "yes"),
        Column("transactional", "Transactions", "yes"),
        Column("consumer_count", "Consumers", "count"),
        Column("prefetch_count", "Prefetch", "count"),
        Column("messages_unacknowledged", "Unacked", "count"),
        Column("messages_unconfirmed", "Unconfirmed", "count"),
        _published("publish", "In"),
        _published("deliver_get", "Out"),
        _published("ack", "Acked"),
    ),
    of_vhost="/vhosts/{vhost}/channels",
    below="vhost",
    link="/channels/{name}",
)
CONSUMERS = ListPage(
    "Consumers",
    "/consumers",
    (
        Column("queue.name", "Queue", "link", "/queues/{queue.vhost}/{queue.name}"),
        Column("arguments.x-group", "Group", "name"),
        Column("channel_details.user", "User", "name"),
        Column("channel_details.node", "Node", "name"),
        Column("activity_status", "State", "state"),
        Column("ack_required", "Acknowledges", "yes"),
        Column("prefetch_count", "Prefetch", "count"),
        Column("messages_unacknowledged", "Unacked", "count"),
    ),
    of_vhost="/consumers/{vhost}",
    main=Column("consumer_tag", "Tag"),
    below="channel_details.name",
    link="/channels/{channel_details.name}",
)
USERS = ListPage(
    "Users",
    "/users",
    (Column("tags", "Tags", "badges"), Column("limits", "Limits", "pairs")),
    changes=("put-user", "put-permission"),
    link="/users/{name}",
)
PERMISSIONS = ListPage(
    "Permissions",
    "/permissions",
    (
        Column("vhost", "Virtual host", "name"),
        Column("configure", "Configure", "mono"),
        Column("write", "Write", "mono"),
        Column("read", "Read", "mono"),
    ),
    of_vhost="/vhosts/{vhost}/permissions",
    main=Column("user", "User"),
    link="/users/{user}",
    row_changes={"clear-permission": {"user": "user", "vhost": "vhost"}},
    changes=("put-permission",),
)
POLICIES = ListPage(
    "Policies",
    "/policies",
    (
        Column("pattern", "Pattern", "mono"),
        Column("apply-to", "Applies to"),
        Column("definition", "Definition", "pairs"),
        Column("priority", "Priority", "count"),
    ),
    of_vhost="/policies/{vhost}",
    below="vhost",
    row_changes={"delete-policy": {"vhost": "vhost", "name": "name"}},
    changes=("put-policy",),
    link="/policies/{vhost}/{name}",
    tabs=POLICY_TABS,
)
OPERATOR_POLICIES = replace(
    POLICIES,
    title="Operator policies",
    api="/operator-policies",
    of_vhost="/operator-policies/{vhost}",
    row_changes={"delete-operator-policy": {"vhost": "vhost", "name": "name"}},
    changes=("put-operator-policy",),
    link="/operator-policies/{vhost}/{name}",
)
VHOSTS = ListPage(
    "Virtual hosts",
    "/vhosts",
    (
        Column("messages_ready", "Ready", "count"),
        Column("messages_unacknowledged", "Unacked", "count"),
        _published("publish", "In"),
        _published("deliver_get", "Out"),
        _published("ack", "Acked"),
        Column("default_queue_type", "Queues by default"),
        Column("tracing", "Firehose", "yes"),
    ),
    below="description",
    changes=("put-vhost",),
    link="/vhosts/{name}",
    link_api="/vhosts/{vhost}",
)
NODES = ListPage(
    "Nodes",
    "/nodes",
    (
        Column("running", "Runs", "yes"),
        Column("in_sync", "In sync", "yes"),
        Column("blocks_behind", "Blocks behind", "count"),
        Column("uptime", "Up for", "span"),
        Column("mem_used", "Memory", "octets of", "mem_limit"),
        Column("disk_free", "Free on disk", "octets"),
        Column("fd_used", "Open files", "of", "fd_total"),
        Column("sockets_used", "Connections", "of", "sockets_total"),
    ),
)
EXCHANGES = ListPage(
    "Exchanges",
    "/exchanges",
    (
        Column("type", "Type", "badges"),
        Column("durable", "Durable", "yes"),
        Column("internal", "Internal", "yes"),
        Column("message_stats.publish_in_details.rate", "In", "rate"),
        Column("message_stats.publish_out_details.rate", "Out", "rate"),
        Column("messages_delayed", "Delayed", "count"),
        Column("policy", "Policy", "name"),
    ),
    of_vhost="/exchanges/{vhost}",
    below="vhost",
    changes=("declare-exchange",),
    link="/exchanges/{vhost}/{name}",
)
GROUPS = ListPage(
    "Streams and groups",
    "/readers",
    (
        Column("queue", "Of", "link", "/queues/{vhost}/{queue}"),
        Column("messages_ready", "Behind", "count"),
        Column("messages_unacknowledged", "Unacked", "count"),
        Column("consumers", "Consumers", "count"),
        Column("partitions", "Partitions", "count"),
        Column("lapsed", "Lost messages", "yes"),
    ),
    of_vhost="/readers/{vhost}",
    main=Column("name", "Group or reader"),
    below="vhost",
    link="/readers/{vhost}/{queue}/{name}",
)

LISTS = (
    EXCHANGES,
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

STREAMS = "/readers"
STREAMS_SHOWN = "100"


async def list_streams(visit: Visit) -> Shows:
    """Streams, and who reads logs by a group."""
    shown = await GROUPS.show(visit)
    assert isinstance(shown, Shown)
    query = {"page": "1", "page_size": STREAMS_SHOWN, "name": visit.asked("name")}
    path, parts = visit.within("/queues", "/queues/{vhost}")
    streams = await visit.table(path, list_query(query), parts, wanted={"only": "streams"})
    return Shown("streams.html", {**shown.values, "streams": streams})


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
