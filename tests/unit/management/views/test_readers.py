"""Readers of all logs over HTTP."""

from support.queue_samples import records
from unit.management.managed_node import ManagedNode

from routelog.management.views import log_readers, readers


async def test_readers_of_all_queues_are_listed(node: ManagedNode) -> None:
    for name in ("mine1", "mine2"):
        queue = await node.queue(name, x_queue_type="stream", x_durability="memory")
        queue.publish(records(*"abc"), waited=False)
    reader = {"queue": "mine2", "name": "lake"}
    await node.ask(log_readers.put_reader, **reader, body={"offsets": {"0": 1}})
    (row,) = await node.ask(readers.list_all_readers)
    assert row == {
        "name": "lake",
        "vhost": "/",
        "queue": "mine2",
        "consumers": 0,
        "partitions": 1,
        "messages_ready": 2,
        "messages_unacknowledged": 0,
        "hold_bytes": 10_000,
        "lapsed": False,
        "filter": None,
    }
    assert await node.ask(readers.list_readers_of_vhost) == [row]
    assert await node.ask(readers.list_all_readers, node.caller("eve", "monitoring")) == []
    await node.ask(log_readers.delete_reader, **reader)
    assert await node.ask(readers.list_all_readers) == []
