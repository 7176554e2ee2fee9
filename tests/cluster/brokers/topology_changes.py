"""Queues that are declared, bound and deleted while nodes fail: what was answered must be so at the end."""

import asyncio
from contextlib import suppress

from aio_pika.abc import AbstractConnection
from aio_pika.exceptions import ChannelNotFoundEntity
from cluster.brokers.client_rounds import ANSWER_SECONDS_MAX, Session

EXCHANGE = "changing"
PAUSE_SECONDS = 0.7
KEPT = 4  # queues that stay when later ones are declared


class TopologyChanges:
    """See the module.

    Attributes:
        declared: was answered, and nobody asked to delete it.
        deleted: was answered.
    """

    def __init__(self) -> None:
        self.declared: list[str] = []
        self.deleted: list[str] = []
        self._count = 0

    async def work(self, connection: AbstractConnection, session: Session) -> None:
        """Declare one, delete another, until something is wrong."""
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            channel = await connection.channel()
            exchange = await channel.declare_exchange(EXCHANGE, durable=True)
        while True:
            self._count += 1
            name = f"changing.{self._count}"
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                queue = await channel.declare_queue(name, durable=True)
                await queue.bind(exchange, name)
                self.declared.append(name)
                if len(self.declared) > KEPT and self._count % 2:
                    gone = self.declared.pop(0)
                    await channel.queue_delete(gone)
                    self.deleted.append(gone)
            await asyncio.sleep(PAUSE_SECONDS)

    async def differences(self, connection: AbstractConnection) -> list[str]:
        """What is not as it was answered."""
        found = []
        for name in self.declared + self.deleted:
            is_there = await _is_there(connection, name)
            if is_there != (name in self.declared):
                found.append(f"topology: {name} is {'there' if is_there else 'gone'}")
        return found


async def _is_there(connection: AbstractConnection, name: str) -> bool:
    while True:
        channel = await connection.channel()
        try:
            await channel.declare_queue(name, passive=True)
        except ChannelNotFoundEntity as error:
            if "is down or inaccessible" not in str(error):  # a front that has lost its leader
                return False
        else:
            return True
        finally:
            with suppress(Exception):
                await channel.close()
