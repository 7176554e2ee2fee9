"""What a deposed leader has on its disk, when another one gave the same offsets to other messages."""

from pathlib import Path

import pytest
from support.queue_samples import declare_queue, records
from unit.log_backend.open_store import unsettled
from unit.vhosts.replicated_nodes import ReplicatedNode, replicated_node, there_and_back

from routelog.log_backend import Durability
from routelog.vhosts import Queue, QueueProperties


async def declares(node: ReplicatedNode) -> None:
    _, stored = declare_queue(node.vhost, QueueProperties("q", durable=True), None)
    assert stored is not None
    await stored
    queue_of(node).publish(records("first"), waited=True)


def queue_of(node: ReplicatedNode) -> Queue:
    return node.vhost.queues["q"]


async def left(queue: Queue) -> list[bytes]:
    return [bytes(body) for _, body in await unsettled(queue.partitions[0].log)]


@pytest.mark.parametrize("kept", ["nowhere", "segment", "snapshot"])
@pytest.mark.parametrize("level", [Durability.DISK, Durability.MEMORY])
async def test_offsets_of_messages_that_only_one_leader_had_hide_none_of_another_one(
    tmp_path: Path, kept: str, level: Durability
) -> None:
    async def unreplicated(node: ReplicatedNode) -> None:
        (log,) = (each.log for each in queue_of(node).partitions)
        log.promise(level)
        is_persistent = level is Durability.MEMORY
        queue_of(node).publish(records(*"abcdef", persistent=is_persistent), waited=True)
        await node.drained()
        if kept == "segment":
            await node.logs.checkpoints.flush()
        elif kept == "snapshot":
            await node.logs.checkpoints.take()

    async def nothing(node: ReplicatedNode) -> None:
        return

    async def elsewhere(node: ReplicatedNode) -> None:
        queue_of(node).publish(records("confirmed", "too"), waited=True)

    data = await there_and_back(tmp_path, declares, nothing, elsewhere, committed=unreplicated)
    async with replicated_node(data) as again:
        await again.lead(3)
        found = await left(queue_of(again))
        only_here = [each for each in found if each in b"abcdef"]  # of level `memory`, in segments
        assert found == [b"first", *only_here, b"confirmed", b"too"]
