"""Clients that go from node to node: to the next one when theirs is gone, refuses or does not answer."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

import aio_pika
from aio_pika.abc import AbstractConnection

RETRY_SECONDS = 0.05
ANSWER_SECONDS_MAX = 3.0  # then a client gives up, and asks another node


@dataclass(slots=True)
class Session:
    """One connection of a client.

    Attributes:
        published, confirmed: when the message was published whose confirm came last, and when that came.
        lost: when the connection was lost, or closed by the node.
        is_over: the client has left by itself.
    """

    node: str
    published: float = 0.0
    confirmed: float = 0.0
    lost: float = 0.0
    is_over: bool = False


Work = Callable[[AbstractConnection, Session], Awaitable[None]]


class ClientRounds:
    """See the module.

    Args:
        urls: of the nodes, by name.

    Attributes:
        sessions: all that had a connection, in order.
        refusals: why clients left a node, in words.
    """

    def __init__(self, urls: Mapping[str, str]) -> None:
        self._urls = dict(urls)
        self.sessions: list[Session] = []
        self.refusals: Counter[str] = Counter()

    def start(self, name: str, at: int, work: Work) -> asyncio.Task[None]:
        """A client that begins with this node: it does its work, at another node when that fails or ends."""
        return asyncio.create_task(self._go_round(name, at, work))

    async def once(self, name: str, work: Work) -> None:
        """Do work at one node or the next, until it is done."""
        await self._go_round(name, 0, work, again=False)

    async def _go_round(self, client: str, at: int, work: Work, *, again: bool = True) -> None:
        names = list(self._urls)
        while True:
            name = names[at % len(names)]
            at += 1
            try:
                await self._at(name, work)
            except Exception as error:  # whatever a client library raises when a node is gone
                self.refusals[f"{client}: {type(error).__name__} {error}"] += 1
            else:
                if not again:
                    return
            await asyncio.sleep(RETRY_SECONDS)

    async def _at(self, name: str, work: Work) -> None:
        session = Session(name)

        def closed(*_: object) -> None:
            if not session.is_over:
                session.lost = time.monotonic()

        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            connection = await aio_pika.connect(self._urls[name])
        connection.close_callbacks.add(closed)
        try:
            self.sessions.append(session)
            await work(connection, session)
        finally:
            session.is_over = True
            with suppress(Exception):
                async with asyncio.timeout(0.2):
                    await connection.close()


async def cancelled(tasks: list[asyncio.Task[None]]) -> None:
    """End tasks: they are cancelled until they have ended, as a client's library may swallow a cancellation."""
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=ANSWER_SECONDS_MAX)
    await asyncio.gather(*tasks, return_exceptions=True)
