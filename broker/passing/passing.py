"""All clients of HTTP of a node that does not lead."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from routelog.broker.passing.passed_connection import GOODBYE_SECONDS_MAX, ClientEnd
from routelog.broker.sockets.accepted_sockets import AcceptedSocket
from routelog.broker.sockets.proxy_header import Endpoint
from routelog.mirror_cluster import ClusterMember

log = logging.getLogger(__name__)

RETRY_SECONDS = 0.1  # until a leader that could not be reached is tried again


class Passing:
    """Passes the clients of a node to the leader, until it is closed.

    Args:
        wait_seconds: how long a client waits for a leader; then it is told that there is none.
        trouble: why this node serves no clients of AMQP; then health checks fail, whatever the leader would
            say. Empty: it does.
    """

    def __init__(
        self, leaders: ClusterMember, wait_seconds: float, trouble: Callable[[], str]
    ) -> None:
        self._leaders = leaders
        self._wait_seconds = wait_seconds
        self._trouble = trouble
        self._clients: set[ClientEnd] = set()
        self._reaching: dict[ClientEnd, asyncio.Task[None]] = {}
        self._news = asyncio.Event()
        self._one_ended = asyncio.Event()
        leaders.watch(self._changed)

    def __len__(self) -> int:
        return len(self._clients)

    def serve(self, accepted: AcceptedSocket, proxied: Endpoint | None) -> ClientEnd:
        """Make what a client's socket is given to; see `Serve`."""
        client = ClientEnd(accepted, self._begin, self._ended, self._trouble)
        self._clients.add(client)
        return client

    async def aclose(self, reason: str) -> None:
        """Close all clients, when the listeners are closed or serve them otherwise."""
        leaving = {*self._clients}
        for client in leaving:
            if task := self._reaching.get(client):
                task.cancel()
            client.leave(reason)
        with suppress(TimeoutError):
            async with asyncio.timeout(GOODBYE_SECONDS_MAX):
                while leaving & self._clients:
                    self._one_ended.clear()
                    await self._one_ended.wait()
        for client in leaving & self._clients:
            client.abort()

    def _begin(self, client: ClientEnd) -> None:
        task = asyncio.get_running_loop().create_task(self._reach(client))
        self._reaching[client] = task
        task.add_done_callback(lambda _: self._reaching.pop(client, None))

    def _ended(self, client: ClientEnd) -> None:
        self._clients.discard(client)
        if task := self._reaching.get(client):
            task.cancel()
        self._one_ended.set()

    def _changed(self) -> None:
        self._news.set()
        self._news = asyncio.Event()
        for client in [*self._clients]:
            if client.leader not in (None, self._leaders.leader):
                client.leave()

    async def _reach(self, client: ClientEnd) -> None:
        try:
            async with asyncio.timeout(self._wait_seconds):
                while not await self._connected(client):
                    with suppress(TimeoutError):
                        async with asyncio.timeout(RETRY_SECONDS):
                            await self._news.wait()
        except TimeoutError:
            log.warning("a request is refused: no leader for %g s", self._wait_seconds)
            client.leave(f"no node takes clients: {self._leaders.trouble}")

    async def _connected(self, client: ClientEnd) -> bool:
        leader = self._leaders.leader
        if leader is None:
            return False
        try:
            await self._leaders.connect(
                leader.node, leader.process, partial(client.reached, leader)
            )
        except OSError as error:
            log.debug("the leader %s cannot be reached: %s", leader.node, error)
            return False
        if self._leaders.leader != leader:
            client.leave()
        return True
