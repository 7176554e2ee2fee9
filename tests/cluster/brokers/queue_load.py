"""Clients of all nodes, which publish to one queue and take from it, and a ledger of what they were told.

Each message is published once and never again, so one that is there twice was doubled by a node. One without a
confirm may be there or not.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

import aio_pika
from aio_pika import DeliveryMode, Message
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage, AbstractQueue

QUEUE = "orders"
IN_FLIGHT = 8  # of each publisher
PREFETCH = 50
PAUSE_SECONDS = 0.05  # between two messages of a slot, so that the nodes have some of the processor
RETRY_SECONDS = 0.05
ANSWER_SECONDS_MAX = 3.0  # then a client gives up, and asks another node
IDLE_SECONDS_MAX = 5.0  # of a consumer: its node may be cut off
# A lease, and what finding out takes: a hand-out that no other node has heard of
LATE_SECONDS = 3.0


@dataclass(slots=True)
class Session:
    """One connection of a client."""

    node: str
    opened: float
    confirmed: float = 0.0  # first


class QueueLoad:
    """See the module.

    Args:
        urls: of the nodes, by name.

    Attributes:
        published: messages 0 to this were given to a client.
        confirmed: their numbers.
        deliveries: how often each came.
        unmarked: when each came that was not marked as redelivered.
    """

    def __init__(self, urls: Mapping[str, str]) -> None:
        self._urls = dict(urls)
        self.published = 0
        self.confirmed: set[int] = set()
        self.deliveries: Counter[int] = Counter()
        self.unmarked: dict[int, list[float]] = {}
        self.sessions: list[Session] = []
        self._publishers: list[asyncio.Task[None]] = []
        self._consumers: list[asyncio.Task[None]] = []
        self._last_delivery = 0.0

    def start(self) -> None:
        """Begin: a publisher and a consumer at each node, which go to the next one when theirs fails."""
        for at in range(len(self._urls)):
            self._publishers.append(asyncio.create_task(self._go_round(at, self._publish)))
            self._consumers.append(asyncio.create_task(self._go_round(at, self._consume)))

    async def stop_publishing(self) -> None:
        """Publish no more."""
        await _cancelled(self._publishers)

    async def drain(self, seconds: float) -> None:
        """Wait until everything that was confirmed has come, and nothing comes any more; then take no more.

        Raises:
            TimeoutError: not in time; nobody consumes any more.
        """
        began = time.monotonic()
        try:
            async with asyncio.timeout(seconds):
                while not self._is_drained(began):  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
        finally:
            await _cancelled(self._consumers)

    async def stop(self) -> None:
        """End all clients."""
        await _cancelled(self._publishers + self._consumers)

    async def until_confirmed(self, after: float, seconds: float = 30.0) -> Session:
        """The first client that connected after a moment and had something confirmed."""
        async with asyncio.timeout(seconds):
            while True:
                told = [each for each in self.sessions if each.opened > after and each.confirmed]
                if told:
                    return min(told, key=lambda each: each.confirmed)
                await asyncio.sleep(0.005)

    @property
    def lost(self) -> set[int]:
        """Confirmed, and never delivered."""
        return self.confirmed - self.deliveries.keys()

    @property
    def twice(self) -> dict[int, float]:
        """Delivered twice without a mark: when it was first."""
        return {number: times[0] for number, times in self.unmarked.items() if len(times) > 1}

    def _is_drained(self, began: float) -> bool:
        return not self.lost and time.monotonic() - max(began, self._last_delivery) > 1.0

    async def _go_round(
        self, at: int, work: Callable[[AbstractChannel, AbstractQueue, Session], Awaitable[None]]
    ) -> None:
        names = list(self._urls)
        while True:
            name = names[at % len(names)]
            at += 1
            with suppress(Exception):  # whatever a client library raises when a node is gone
                await self._at(name, work)
            await asyncio.sleep(RETRY_SECONDS)

    async def _at(
        self,
        name: str,
        work: Callable[[AbstractChannel, AbstractQueue, Session], Awaitable[None]],
    ) -> None:
        session = Session(name, time.monotonic())
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            connection = await aio_pika.connect(self._urls[name])
        try:
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                channel = await connection.channel()
                await channel.set_qos(PREFETCH)
                # Records are kept when they are settled, so that the logs can be looked at afterwards, and
                # for longer than clocks jump.
                queue = await channel.declare_queue(
                    QUEUE, durable=True, arguments={"x-retention": "7d"}
                )
            self.sessions.append(session)
            await work(channel, queue, session)
        finally:
            with suppress(Exception):
                async with asyncio.timeout(0.2):
                    await connection.close()

    async def _publish(
        self, channel: AbstractChannel, queue: AbstractQueue, session: Session
    ) -> None:
        async def one_after_another() -> None:
            while True:
                number = self.published
                self.published += 1
                message = Message(b"%d" % number, delivery_mode=DeliveryMode.PERSISTENT)
                await channel.default_exchange.publish(message, QUEUE, timeout=ANSWER_SECONDS_MAX)
                self.confirmed.add(number)
                session.confirmed = session.confirmed or time.monotonic()
                await asyncio.sleep(PAUSE_SECONDS)

        slots = [asyncio.create_task(one_after_another()) for _ in range(IN_FLIGHT)]
        try:
            await asyncio.gather(*slots)
        finally:
            await _cancelled(slots)

    async def _consume(
        self, channel: AbstractChannel, queue: AbstractQueue, session: Session
    ) -> None:
        last = time.monotonic()

        async def take(message: AbstractIncomingMessage) -> None:
            nonlocal last
            last = self._last_delivery = time.monotonic()
            number = int(message.body)
            self.deliveries[number] += 1
            if not message.redelivered:
                self.unmarked.setdefault(number, []).append(last)
            with suppress(Exception):  # then it comes again
                await message.ack()

        await queue.consume(take)
        while not channel.is_closed and time.monotonic() - last < IDLE_SECONDS_MAX:  # noqa: ASYNC110
            await asyncio.sleep(0.1)


async def _cancelled(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
