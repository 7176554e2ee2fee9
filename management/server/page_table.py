"""The table of pages: for each one its path, what shows it, and the call of the API that it is for."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from routelog.management.pages.api_pages import API, OPERATION, list_operations, show_operation
from routelog.management.pages.change_table import CHANGES
from routelog.management.pages.changes import make_change
from routelog.management.pages.definition_pages import (
    DEFINITIONS,
    import_definitions,
    plan_import,
    save_definitions,
    show_definitions,
)
from routelog.management.pages.list_pages import DELAYED as DELAYED_OF_ALL
from routelog.management.pages.list_pages import LISTS, STREAMS, list_delayed, list_streams
from routelog.management.pages.overview_page import overview, show_cluster, show_log
from routelog.management.pages.queue_pages import (
    QUEUES,
    change_queues,
    choose_queues,
    list_queues,
)
from routelog.management.pages.search_page import SEARCH, search
from routelog.management.pages.visit import Shows, Visit
from routelog.management.things.access_pages import USER, VHOST, show_user, show_vhost
from routelog.management.things.connection_pages import (
    CHANNEL,
    CONNECTION,
    show_channel,
    show_connection,
)
from routelog.management.things.exchange_pages import (
    DELAYED,
    EXCHANGE,
    show_delayed,
    show_exchange,
    show_exchange_bindings,
    show_exchange_danger,
    show_exchange_publish,
)
from routelog.management.things.message_pages import (
    browse_messages,
    choose_messages,
    move_messages,
    show_publish,
    take_messages,
)
from routelog.management.things.queue_page import (
    GROUP,
    QUEUE,
    READERS,
    show_bindings,
    show_consumers,
    show_danger,
    show_group,
    show_queue,
    show_settings,
)
from routelog.management.things.rule_pages import OPERATOR_POLICY, POLICY, show_limits, show_policy


@dataclass(frozen=True, slots=True)
class Page:
    """A page.

    Attributes:
        api: the GET of the API whose tag opens the page.
    """

    path: str
    handler: Callable[[Visit], Awaitable[Shows]]
    api: str
    method: Literal["GET", "POST"] = "GET"


def in_tabs(path: str, show: Callable[..., Awaitable[Shows]], *tabs: str) -> list[Page]:
    """The pages of a thing: its own, and one for each of the other tabs."""
    own = Page(path, show, path)
    return [own, *(Page(f"{path}/{tab}", partial(show, tab=tab), path) for tab in tabs)]


PAGES = (
    Page("/", overview, "/overview"),
    Page(SEARCH, search, "/overview"),
    Page(QUEUES, list_queues, QUEUES),
    Page(QUEUE, show_queue, QUEUE),
    *(
        Page(f"{QUEUE}/{tab}", show, QUEUE)
        for tab, show in (
            ("bindings", show_bindings),
            ("consumers", show_consumers),
            ("settings", show_settings),
            ("publish", show_publish),
            ("danger", show_danger),
        )
    ),
    Page(f"{QUEUE}/messages", browse_messages, f"{QUEUE}/messages"),
    Page(f"{QUEUE}/messages/chosen", choose_messages, QUEUE, method="POST"),
    Page(f"{QUEUE}/messages/move", move_messages, QUEUE, method="POST"),
    Page(f"{QUEUE}/get", take_messages, QUEUE, method="POST"),
    *(Page(each.api, each.show, each.api) for each in LISTS),
    Page(STREAMS, list_streams, STREAMS),
    Page("/limits", show_limits, "/vhost-limits"),
    Page("/cluster", show_cluster, "/cluster"),
    Page("/log", show_log, "/log"),
    Page(DEFINITIONS, show_definitions, DEFINITIONS),
    Page(f"{DEFINITIONS}/file", save_definitions, DEFINITIONS),
    Page(f"{DEFINITIONS}/plan", plan_import, DEFINITIONS, method="POST"),
    Page(f"{DEFINITIONS}/import", import_definitions, DEFINITIONS, method="POST"),
    Page(DELAYED_OF_ALL, list_delayed, "/exchanges"),
    Page(EXCHANGE, show_exchange, EXCHANGE),
    Page(f"{EXCHANGE}/bindings", show_exchange_bindings, EXCHANGE),
    Page(f"{EXCHANGE}/publish", show_exchange_publish, EXCHANGE),
    Page(f"{EXCHANGE}/danger", show_exchange_danger, EXCHANGE),
    *in_tabs(CONNECTION, show_connection, "channels", "client", "danger"),
    *in_tabs(CHANNEL, show_channel, "consumers"),
    *in_tabs(USER, show_user, "permissions", "limits", "settings", "danger"),
    *in_tabs(VHOST, show_vhost, "permissions", "limits", "settings", "danger"),
    *in_tabs(POLICY, show_policy, "settings", "danger"),
    *in_tabs(OPERATOR_POLICY, partial(show_policy, kind="operator-policy"), "settings", "danger"),
    Page(DELAYED, show_delayed, DELAYED),
    Page(GROUP, show_group, READERS),
    Page("/queues-chosen", choose_queues, QUEUES, method="POST"),
    Page("/queues-chosen/{change}", change_queues, QUEUES, method="POST"),
    Page(API, list_operations, "/overview"),
    Page(OPERATION, show_operation, "/overview"),
    Page(OPERATION, show_operation, "/overview", method="POST"),
    Page("/do/{change}", partial(make_change, changes=CHANGES), "/overview", method="POST"),
)
