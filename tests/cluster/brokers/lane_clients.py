"""Clients of a lane: one publishes, one takes, and tells the ledger of it."""

import asyncio
import time
from random import Random

from aio_pika import DeliveryMode, Message
from aio_pika.abc import (
    AbstractChannel,
    AbstractConnection,
    AbstractExchange,
    AbstractIncomingMessage,
)
from aio_pika.exceptions import DeliveryError
from aiormq.abc import DeliveredMessage
from cluster.brokers.client_rounds import ANSWER_SECONDS_MAX, Session, cancelled
from cluster.brokers.lanes import Answer, Consumption, Lane
from cluster.brokers.ledger import Ledger, body_of

PREFETCH = 50
REPEATED = 0.2  # of what was confirmed, where a repetition must change nothing
IDLE_SECONDS_MAX = 5.0  # of a consumer: its node may be cut off


async def declare(channel: AbstractChannel, lane: Lane) -> AbstractExchange:
    """All of a lane, as every client does; returns what is published to."""
    for queue, arguments in lane.queues.items():
        await channel.declare_queue(queue, durable=True, arguments=dict(arguments))
    if lane.exchange is None:
        return channel.default_exchange
    name, kind, arguments = lane.exchange
    exchange = await channel.declare_exchange(name, kind, durable=True, arguments=dict(arguments))
    bound = await channel.get_queue(lane.home)
    await bound.bind(exchange, lane.key)
    return exchange


class LanePublisher:
    """See the module.

    Args:
        pause: seconds between two messages of a slot.
    """

    def __init__(self, ledger: Ledger, lane: Lane, pause: float, randomness: Random) -> None:
        self._ledger = ledger
        self._lane = lane
        self._pause = pause
        self._randomness = randomness
        self._unanswered: list[int] = []

    async def work(self, connection: AbstractConnection, session: Session) -> None:
        """Publish until something is wrong."""
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            channel = await connection.channel(publisher_confirms=not self._lane.along)
            exchange = await declare(channel, self._lane)
        slots = [
            asyncio.create_task(self._slot(channel, exchange, session))
            for _ in range(self._lane.slots)
        ]
        try:
            await asyncio.gather(*slots)
        finally:
            await cancelled(slots)

    async def _slot(
        self, channel: AbstractChannel, exchange: AbstractExchange, session: Session
    ) -> None:
        while True:
            number = (
                self._unanswered.pop() if self._unanswered else self._ledger.publish(self._lane)
            )
            published = time.monotonic()
            try:
                await self._give(channel, exchange, number)
            except BaseException as error:
                if self._lane.repeats:
                    self._unanswered.append(number)
                if not isinstance(error, DeliveryError):  # the leader of a front is another one
                    raise
            else:
                self._ledger.confirm(number)
                session.published, session.confirmed = published, time.monotonic()
                if self._lane.repeats and self._randomness.random() < REPEATED:
                    self._unanswered.append(number)
            await asyncio.sleep(self._pause)

    async def _give(
        self, channel: AbstractChannel, exchange: AbstractExchange, number: int
    ) -> None:
        headers = self._lane.headers(number, self._randomness)
        told = self._ledger.told[number]
        told.due = told.published + headers.get("x-delay", 0) / 1_000
        message = Message(
            body_of(number),
            delivery_mode=DeliveryMode.PERSISTENT,
            headers=headers,
            priority=self._lane.priority(number),
        )
        if self._lane.along:
            async with asyncio.timeout(ANSWER_SECONDS_MAX), channel.transaction():
                for queue in self._lane.along:
                    await exchange.publish(message, queue)
            return
        key = self._lane.key or next(iter(self._lane.queues))
        answer = await exchange.publish(message, key, timeout=ANSWER_SECONDS_MAX)
        if isinstance(answer, DeliveredMessage):
            self._ledger.wrong.append(f"{number} was returned: {key} is not bound any more")


class LaneConsumer:
    """See the module."""

    def __init__(self, ledger: Ledger, lane: Lane, consumption: Consumption) -> None:
        self._ledger = ledger
        self._lane = lane
        self._consumption = consumption
        self._next_offset: int | None = None  # of a reader of a stream

    async def work(self, connection: AbstractConnection, session: Session) -> None:
        """Take until something is wrong, or nothing comes."""
        which = self._consumption
        moves = which.answer is Answer.MOVE
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            channel = await connection.channel(publisher_confirms=not moves)
            await channel.set_qos(PREFETCH)
            await declare(channel, self._lane)
            queue = await channel.get_queue(which.queue)
        hearing = self._ledger.hear(self._lane, which.queue, which.reader)
        inbox: asyncio.Queue[tuple[int, AbstractIncomingMessage]] = asyncio.Queue()

        async def come(message: AbstractIncomingMessage) -> None:
            marked = bool(message.redelivered)
            number = self._ledger.came(hearing, message.body, is_marked=marked)
            if which.answer is Answer.READ:
                offset = int(str(message.headers["x-stream-offset"]))
                self._ledger.read(hearing, offset, self._next_offset, number)
                self._next_offset = offset + 1
                self._ledger.ends(hearing, number)  # it reads on behind it, whatever its ack meets
            inbox.put_nowait((number, message))

        await queue.consume(come, arguments=self._arguments(), timeout=ANSWER_SECONDS_MAX)
        while True:
            async with asyncio.timeout(IDLE_SECONDS_MAX):
                number, message = await inbox.get()
            await self._answer(channel, number, message)
            comes_again = which.answer is Answer.RETURN_ONCE and not message.redelivered
            if which.answer is not Answer.READ and not comes_again:
                self._ledger.ends(hearing, number)

    def _arguments(self) -> dict[str, object]:
        which = self._consumption
        if which.answer is Answer.READ:
            return {"x-stream-offset": self._next_offset or 0}
        if which.reader:
            return {"x-group": which.reader, "x-stream-offset": "first"}
        return {}

    async def _answer(
        self, channel: AbstractChannel, number: int, message: AbstractIncomingMessage
    ) -> None:
        match self._consumption.answer:
            case Answer.ACK | Answer.READ:
                await message.ack()
            case Answer.REJECT:
                await message.reject()
            case Answer.RETURN_ONCE if not message.redelivered:
                await message.nack()
            case Answer.RETURN_ONCE:
                await message.ack()
            case Answer.MOVE:
                moved = Message(message.body, delivery_mode=DeliveryMode.PERSISTENT)
                async with asyncio.timeout(ANSWER_SECONDS_MAX), channel.transaction():
                    await channel.default_exchange.publish(moved, self._lane.home)
                    await message.ack()
