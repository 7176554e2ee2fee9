"""The places where a queue is used, and a front at one of them."""

import pytest
from support.queue_samples import Node
from unit.vhosts.sessions.hand_front import HandFront, declared
from unit.vhosts.sessions.queue_places import place

from routelog.vhosts import Queue

__all__ = ["place"]


@pytest.fixture
def front(node: Node) -> HandFront:
    return HandFront(node)


@pytest.fixture
async def queue(node: Node) -> Queue:
    return await declared(node)


@pytest.fixture
def subject(front: HandFront, queue: Queue) -> int:
    return front.bind(queue)
