"""Half messages with aio-pika: what `half_messages.py` does, for asyncio. Copy both."""

from __future__ import annotations

import contextlib
import sqlite3
import uuid
from collections.abc import AsyncGenerator
from typing import Any

import aio_pika
from aio_pika.abc import (
    AbstractChannel,
    AbstractConnection,
    AbstractExchange,
    AbstractQueue,
    DeliveryMode,
)
from aiormq.exceptions import AMQPError
from half_messages import (
    CHECK_AFTER_SECONDS,
    CHECKED_AGAIN,
    CHECKS,
    DELAYED,
    ONCE,
    ORDERS,
    PREPARED,
    UNDECIDED,
    Business,
    Decisions,
)


class Outbox:
    """Sends messages with transactions, and checks those of programs that ended in between.

    Transactions run in the event loop, which is right for SQLite: for a database on a network, make
    `Decisions` asynchronous.
    """

    def __init__(
        self,
        connection: AbstractConnection,
        database: sqlite3.Connection,
        check_after: float = CHECK_AFTER_SECONDS,
    ) -> None:
        self._connection = connection
        self._decisions = Decisions(database)
        self._check_after_ms = int(check_after * 1_000)
        self._channel: AbstractChannel
        self._prepared: AbstractExchange
        self._orders: AbstractExchange
        self._checks: AbstractQueue

    async def open(self) -> None:
        """Open a channel and declare what an outbox needs."""
        self._channel = channel = await self._connection.channel()  # with confirms
        await channel.set_qos(prefetch_count=1)
        self._prepared = await channel.declare_exchange(
            PREPARED, "x-delayed-message", durable=True, arguments=DELAYED
        )
        self._orders = await channel.declare_exchange(
            ORDERS, "x-message-deduplication", durable=True, arguments=ONCE
        )
        await channel.declare_queue(UNDECIDED, durable=True)
        self._checks = await channel.declare_queue(CHECKS, durable=True, arguments=CHECKED_AGAIN)
        await self._checks.bind(self._prepared)

    async def send(self, body: bytes, business: Business) -> None:
        """Do business in a transaction, and send `body` if it commits.

        Raises:
            sqlite3.IntegrityError: the transaction took longer than `check_after`, and is rolled back.
        """
        message_id = str(uuid.uuid4())
        await self._prepare(message_id, body)
        self._decisions.commit(message_id, business)
        with contextlib.suppress(AMQPError):  # the check will send it
            await self._publish(message_id, body)

    async def checks(self) -> AsyncGenerator[str]:
        """Check messages when their time comes, and give the id of each that is decided."""
        async with self._checks.iterator() as messages:
            async for message in messages:
                message_id = str(message.message_id)
                try:
                    committed = self._decisions.is_committed(message_id)
                except sqlite3.OperationalError:
                    await message.nack()  # it is asked again
                    continue
                if committed:
                    await self._publish(message_id, message.body)
                await message.ack()
                yield message_id

    async def _prepare(self, message_id: str, body: bytes) -> None:
        await self._prepared.publish(
            _message(message_id, body, {"x-delay": self._check_after_ms}), "", mandatory=False
        )

    async def _publish(self, message_id: str, body: bytes) -> None:
        await self._orders.publish(
            _message(message_id, body, {"x-deduplication-header": message_id}), "", mandatory=False
        )


def _message(message_id: str, body: bytes, headers: dict[str, Any]) -> aio_pika.Message:
    return aio_pika.Message(
        body,
        message_id=message_id,
        headers=headers,
        delivery_mode=DeliveryMode.PERSISTENT,
    )
