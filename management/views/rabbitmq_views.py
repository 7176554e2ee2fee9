"""What tools ask RabbitMQ for and is not here, answered as RabbitMQ does where there is nothing of it."""

import asyncio
from typing import Any, Literal

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


class ActionBody(msgspec.Struct):
    """What a queue is to do."""

    action: Literal["sync", "cancel_sync"]


@lists(dict[str, Any])
def nothing(call: Call) -> Answer:
    """Feature flags, shovels, links of federation, counts of logins: there are none."""
    return Listing([], dict)


@changes()
def done(call: Call) -> Answer:
    """A feature flag is enabled, queues are in balance: nothing is to be done."""
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
        raise not_found()
    return Empty()


@changes()
def start_vhost(call: Call) -> Answer:
    """Start a vhost on a node: it runs."""
    name = call.path("node")
    if name not in [each.name for each in call.broker.replicas() if each.is_running]:
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
        raise not_found()
