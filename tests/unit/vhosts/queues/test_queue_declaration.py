"""Other arguments for a queue that is there: what is kept, removed and refused."""

import re
from collections.abc import Mapping

import pytest
from support.queue_samples import Node, declare_queue

from routelog.vhosts import InvalidArguments, InvalidQueueArgument, Queue, QueueProperties
from routelog.vhosts.queues.queue_declaration import changed_declaration


def declared(node: Node, arguments: Mapping[str, object]) -> Queue:
    properties = QueueProperties("q", durable=True, auto_delete=True, arguments=arguments)
    return declare_queue(node.vhost, properties, None)[0]


async def test_what_is_not_named_stays_and_none_removes(node: Node) -> None:
    queue = declared(node, {"x-max-length": 5, "x-expires": 60_000, "mine": None})
    changes = {"x-expires": None, "x-max-length": 6, "x-message-ttl": 7}
    changed = changed_declaration("/", queue, changes, True)
    assert changed.arguments == {"x-max-length": 6, "x-message-ttl": 7, "mine": None}
    assert (changed.name, changed.durable, changed.auto_delete) == ("q", True, True)
    assert queue.properties.arguments["x-max-length"] == 5


async def test_too_large_arguments_and_remote_storage_that_is_not_there_are_refused(
    node: Node,
) -> None:
    queue = declared(node, {"x-retention": "1h"})
    with pytest.raises(InvalidArguments, match="larger than"):
        changed_declaration("/", queue, {"mine": "x" * 70_000}, True)
    assert changed_declaration("/", queue, {"x-remote-storage": True}, True)
    with pytest.raises(InvalidQueueArgument, match=re.escape("no remote storage")):
        changed_declaration("/", queue, {"x-remote-storage": True}, False)
