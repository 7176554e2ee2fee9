"""A deleted queue goes at once: the garbage collector has nothing to find."""

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.queue_samples import declare_queue, delete_queue, records, running_node
from support.waiting import until

from routelog.log_backend import PartitionLog
from routelog.vhosts import QueueProperties


@pytest.fixture(autouse=True)
def uncollected() -> Iterator[None]:
    gc.disable()
    gc.freeze()  # nobody looks through what was there before
    yield
    gc.unfreeze()
    gc.enable()


@pytest.mark.parametrize(
    ("durable", "arguments"),
    [
        (False, {}),
        (True, {}),
        (True, {"x-partitions": 3}),
        (True, {"x-queue-type": "stream"}),
        (True, {"x-max-priority": 3}),
    ],
)
async def test_a_deleted_queue_is_freed_without_the_garbage_collector(
    tmp_path: Path, durable: bool, arguments: dict[str, object]
) -> None:
    async with running_node(tmp_path) as node:
        properties = QueueProperties("q", durable, False, False, arguments)
        queue, declared = declare_queue(node.vhost, properties, None)
        if declared is not None:
            await declared
        queue.publish(records("a", "b"), False)
        deleted = delete_queue(node.vhost, queue)
        if deleted is not None:
            await deleted
        assert logs_below(tmp_path)
        del queue, declared, deleted
        await until(lambda: not logs_below(tmp_path))


def logs_below(folder: Path) -> int:
    """How many logs of this folder are in memory."""
    logs = [each for each in gc.get_objects() if isinstance(each, PartitionLog)]
    return sum(each.directory.is_relative_to(folder) for each in logs)
