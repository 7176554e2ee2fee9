"""A queue on a node whose clock goes when it is told."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.queue_samples import Node, declare_queue, running_node

from routelog.vhosts import Queue, QueueProperties


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    async with running_node(tmp_path, clocked=True) as running:
        yield running


@pytest.fixture
def queue(node: Node) -> Queue:
    return declare_queue(node.vhost, QueueProperties("q"), object())[0]
