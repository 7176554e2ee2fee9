"""What tools ask RabbitMQ for and is not here, answered as RabbitMQ does where there is nothing of it."""

import asyncio
from typing import Any, Literal, TypedDict

import msgspec

from routelog.management.calls.answer import Answer, Empty, Listing, Value
from routelog.management.calls.call import Call
from routelog.management.calls.failures import bad_request, not_found
from routelog.management.calls.operation import answers, changes, lists
from routelog.management.calls.process_usage import process_usage

# At /cli/rabbitmqadmin, where scripts download a program and run it.
CLI = b"""#!/bin/sh
# RouteLog has no rabbitmqadmin to download. Its own command is `routelog`, which is installed with the broker:
# `routelog --help`, docs/management/management.md. The rabbitmqadmin of RabbitMQ 3.10 works here, too.
echo "this broker has no rabbitmqadmin to download: use 'routelog', or that of a RabbitMQ 3.10" >&2
exit 1
"""


class FeatureFlagRow(TypedDict):
    """A feature flag."""

    name: str
    state: Literal["enabled"]
    stability: Literal["stable"]


class ActionBody(msgspec.Struct):
    """What a queue is to do."""

    action: Literal["sync", "cancel_sync"]


# RabbitMQ 3.10's: what they stand for is here, or has no meaning here. Tools ask before they use it.
FEATURE_FLAGS = (
    "classic_mirrored_queue_version",
    "drop_unroutable_metric",
    "empty_basic_get_metric",
    "implicit_default_bindings",
    "maintenance_mode_status",
    "quorum_queue",
    "stream_queue",
    "user_limits",
    "virtual_host_metadata",
)


@lists(FeatureFlagRow)
def list_feature_flags(call: Call) -> Answer:
    """Feature flags of RabbitMQ 3.10: all are enabled."""
    return Listing(
        FEATURE_FLAGS, lambda name: {"name": name, "state": "enabled", "stability": "stable"}
    )


@changes()
def enable_feature_flag(call: Call) -> Answer:
    """Enable a feature flag: it is."""
    if call.path("name") not in FEATURE_FLAGS:
        raise bad_request("unsupported")
    return Empty()


@lists(dict[str, Any])
def nothing(call: Call) -> Answer:
    """Shovels, links of federation, counts of logins: there are none."""
    return Listing([], dict)


@changes()
def done(call: Call) -> Answer:
    """Queues are in balance, samples pass: nothing is to be done."""
    return Empty()


@changes()
def reset(call: Call) -> Answer:
    """Forget the samples of a node, which pass by themselves."""
    _check_node(call)
    return Empty()


@answers(dict[str, Any])
def auth(call: Call) -> Answer:
    """How a page logs in with OAuth: it does not."""
    return Value({"enable_uaa": False, "uaa_client_id": "", "uaa_location": ""})


@lists(dict[str, Any])
def get_attempts(call: Call) -> Answer:
    """Counts of logins, which are not kept: failed ones are in the log."""
    _check_node(call)
    return nothing(call)


@changes()
def delete_attempts(call: Call) -> Answer:
    """Forget the counts of logins, which are not kept."""
    _check_node(call)
    return Empty()


@changes(ActionBody)
async def act_on_queue(call: Call) -> Answer:
    """Synchronise a queue's mirrors, or stop that: they always are, or are on their way."""
    await call.body(ActionBody)
    if call.path("name") not in call.vhost.queues:
        raise not_found("queue", call.path("name"), call.vhost.name)
    return Empty()


@changes()
def start_vhost(call: Call) -> Answer:
    """Start a vhost on a node: it runs."""
    name = call.path("node")
    if name not in [each.name for each in call.broker.cluster.replicas() if each.is_running]:
        raise bad_request(f"Request to node {name} failed with nodedown")
    return Empty()


@answers(dict[str, Any])
async def memory(call: Call) -> Answer:
    """What the process uses, in all: it is not divided."""
    _check_node(call)
    usage = await asyncio.to_thread(process_usage)
    if usage is None:
        return Value({"memory": "not_available"})
    size = usage.memory_bytes
    total = {"erlang": size, "rss": size, "allocated": size}
    return Value({"memory": {"total": total, "strategy": "rss"}})


@answers(dict[str, Any])
async def relative_memory(call: Call) -> Answer:
    """The same in per cent."""
    _check_node(call)
    return Value({"memory": {"total": 100}})


def _check_node(call: Call) -> None:
    if call.path("node") != call.broker.node.name:
        raise not_found("node", call.path("node"))
