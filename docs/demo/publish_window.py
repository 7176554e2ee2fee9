"""Publishing with many confirms in flight."""

from __future__ import annotations

import asyncio

from aio_pika import Message
from aio_pika.abc import AbstractExchange
from aiormq.abc import DeliveredMessage

IN_FLIGHT_MAX = 1_000  # keeps the client library busy while confirms travel


class PublishWindow:
    """Numbers messages, publishes them in order, and remembers what became of each.

    `confirmed` holds the numbers the broker answered with basic.ack. `returned` counts messages
    that no queue got. `failed` counts those without an answer: the broker may or may not have them.
    """

    def __init__(self, exchange: AbstractExchange) -> None:
        self._exchange = exchange
        self._room = asyncio.Semaphore(IN_FLIGHT_MAX)
        self._in_flight: set[asyncio.Task[None]] = set()
        self.published = 0
        self.confirmed: list[int] = []
        self.returned = 0
        self.failed = 0

    async def publish(self, message: Message, routing_key: str) -> None:
        """Start to publish; waits only while the window is full."""
        await self._room.acquire()
        task = asyncio.create_task(self._publish(self.published, message, routing_key))
        self.published += 1
        self._in_flight.add(task)
        task.add_done_callback(self._settle)

    async def drain(self) -> None:
        """Wait until nothing is in flight."""
        while self._in_flight:
            await asyncio.wait(self._in_flight)

    async def _publish(self, number: int, message: Message, routing_key: str) -> None:
        answer = await self._exchange.publish(message, routing_key, mandatory=True)
        if isinstance(answer, DeliveredMessage):
            self.returned += 1
        else:
            self.confirmed.append(number)

    def _settle(self, task: asyncio.Task[None]) -> None:
        self._in_flight.discard(task)
        self._room.release()
        # A lost connection cancels what waits for a confirm, or fails it.
        if task.cancelled() or task.exception() is not None:
            self.failed += 1
