"""What can be done with a queue, by its kind: what is offered is not refused, and what is not offered is."""

from collections.abc import Mapping
from typing import Any

import pytest
from support.queue_samples import declare_queue, records
from unit.management.managed_node import ManagedNode

from routelog.management.calls.failures import refused
from routelog.management.views import messages, queues
from routelog.management.views.queue_actions import actions_of
from routelog.vhosts import QueueProperties

TO = {"to": {"queue": "other"}}
CALLS: Mapping[str, tuple[Any, Any]] = {
    "restore": (messages.restore_messages, {}),
    "purge": (queues.purge_queue, None),
    "move": (messages.move_messages, {"mode": "move", "filter": {}, **TO}),
    "copy": (messages.move_messages, {"mode": "copy", "filter": {}, **TO}),
    "redrive": (messages.redrive_messages, {}),
    "set": (queues.change_queue, {"x-max-length-bytes": 1_000_000}),
    "pause": (queues.pause_queue, None),
    "delete": (queues.delete_queue, None),
}
KINDS: Mapping[str, tuple[dict[str, object], set[str]]] = {
    "classic": ({}, {"purge", "move", "copy", "redrive", "get", "set", "pause", "delete"}),
    "single active": (
        {"x-single-active-consumer": True},
        {"purge", "move", "copy", "redrive", "set", "pause", "delete"},
    ),
    "with a log": (
        {"x-retention": "1D"},
        {"purge", "move", "copy", "redrive", "get", "replay", "restore", "set", "pause", "delete"},
    ),
    "stream": ({"x-queue-type": "stream"}, {"copy", "replay", "set", "pause", "delete"}),
    "exclusive": ({}, set()),
}


@pytest.mark.parametrize("kind", KINDS)
async def test_only_what_a_queue_of_the_kind_can_do_is_offered(
    node: ManagedNode, kind: str
) -> None:
    arguments, expected = KINDS[kind]
    await node.queue("other")
    properties = QueueProperties(
        "q", durable=kind != "exclusive", exclusive=kind == "exclusive", arguments=arguments
    )
    queue, done = declare_queue(node.vhost, properties, object())
    if done is not None:
        await done
    queue.publish(records("a"), False)
    if "restore" in expected:
        queue.purge()
    offered = {*actions_of(queue)}
    assert offered == {"publish", *expected}
    assert (await node.ask(queues.get_queue, name="q"))["actions"] == actions_of(queue)
    for action, (handler, body) in CALLS.items():
        assert (await refusal(node, handler, body) == 0) == (action in offered), action


async def refusal(node: ManagedNode, handler: Any, body: Any) -> int:
    """The status of a refusal; 0: there is none."""
    try:
        await node.ask(handler, name="q", body=body)
    except Exception as error:
        answer = refused(error)
        assert answer is not None
        return answer.status
    return 0


async def test_a_paused_queue_can_be_resumed(node: ManagedNode) -> None:
    await node.queue("q")
    await node.ask(queues.pause_queue, name="q")
    row = await node.ask(queues.get_queue, name="q")
    assert (row["state"], "resume" in row["actions"]) == ("paused", True)
    await node.ask(queues.resume_queue, name="q")
    row = await node.ask(queues.get_queue, name="q")
    assert (row["state"], "pause" in row["actions"]) == ("running", True)
