"""Places where a queue is used: its node, and a front with a session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from support.queue_samples import Node, declare_queue, records
from unit.vhosts.sessions.session_pipe import PipedFront, RemoteTaker

from routelog.log_backend import Receipt, Records
from routelog.vhosts import (
    ConsumeOptions,
    Delivery,
    Queue,
    QueueHandle,
    QueueProperties,
    value_of,
)
from routelog.vhosts.publishing.appending import Appending


class Place:
    """Where a queue is used: at its node, or at a front.

    Attributes:
        node: that has the queues.
        front: None: at the node.
    """

    def __init__(self, node: Node, front: PipedFront | None) -> None:
        self.node = node
        self.front = front
        self.appending = Appending(node.turns.scheduler)

    async def queue(self, name: str = "q", **arguments: object) -> Any:
        """Declare a durable queue; returns the handle of this place."""
        named = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
        properties = QueueProperties(name, durable=True, arguments=named)
        queue, durable = declare_queue(self.node.vhost, properties, object())
        if durable is not None:
            await durable
        return self.handle(queue)

    def handle(self, queue: Queue) -> QueueHandle:
        """The handle of a queue."""
        if self.front is not None:
            return self.front.queue(queue)
        return queue

    async def rest(self) -> None:
        """Let all that is due be done."""
        quiet = 0
        while quiet < 3:
            self.node.turns.run()
            quiet = 0 if self.front is not None and self.front.carry() else quiet + 1
            await asyncio.sleep(0)

    async def value(self, answer: Any) -> Any:
        """The value of an answer."""
        if asyncio.isfuture(answer):
            async with asyncio.timeout(30):
                while not answer.done():
                    await self.rest()
        return await value_of(answer)

    async def publish(self, queue: Any, *contents: str) -> tuple[Receipt, list[int]]:
        """Publish a batch; returns what its confirm waits for, and what the queue refuses."""
        return await self.publish_batch(queue, records(*contents))

    async def publish_batch(self, queue: Any, batch: Records) -> tuple[Receipt, list[int]]:
        """As `publish`."""
        self.appending.begin(True)
        receipt = self.appending.append_run(batch, (queue,), range(batch.count))
        async with asyncio.timeout(30):
            while not self.appending.learn_outcomes():
                await self.rest()
        refused = sorted(self.appending.refused)
        self.appending.refused.clear()
        return receipt, refused

    async def confirmed(self, receipt: Receipt) -> None:
        """Wait until it is covered."""
        async with asyncio.timeout(30):
            while not receipt.is_covered():
                await self.rest()

    async def attach(self, queue: Any, taker: RemoteTaker, **options: Any) -> None:
        """Attach a consumer."""
        await self.value(queue.attach(taker, ConsumeOptions(**options), taker.begin))
        await self.rest()

    async def get(self, queue: Any) -> Delivery | None:
        """Get a message."""
        got: Delivery | None = await self.value(queue.get())
        return got

    async def took(self, taker: RemoteTaker) -> list[str]:
        """What a consumer got, when all is done."""
        await self.rest()
        return taker.bodies()


@pytest.fixture(params=["here", "front", "slow front"])
async def place(node: Node, request: pytest.FixtureRequest) -> AsyncIterator[Place]:
    front = None if request.param == "here" else PipedFront(node)
    if front is not None:
        front.is_whole = request.param == "front"
    yield Place(node, front)
    if front is not None:
        assert front.refusals == []
        front.cut()
        node.turns.run()
