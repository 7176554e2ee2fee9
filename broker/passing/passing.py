"""All clients of a node that does not lead."""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from functools import partial

from routelog.broker.listeners.acceptor import Serve
from routelog.broker.passing.passed_connection import GOODBYE_SECONDS_MAX, ClientEnd
from routelog.broker.passing.passed_protocol import PassedProtocol
from routelog.broker.sockets.accepted_sockets import AcceptedSocket
from routelog.broker.sockets.proxy_header import Endpoint
from routelog.mirror_cluster import ClusterMember

log = logging.getLogger(__name__)

CHANGE_SECONDS = 3.0  # what a change of leader may take beside a lease
RETRY_SECONDS = 0.1  # until a leader that could not be reached is tried again
GONE = (
    "transient messages and queues that are not durable may be gone, "
    "what was not confirmed may be lost; connect again"
)
CHANGED = f"another node leads now: {GONE}"
STOPPED = "broker forced connection closure with reason 'shutdown'"


class Passing:
    """Passes the clients of a node to the leader, until it is closed.

    Args:
        wait_seconds: how long a client waits for a leader; then it is told that there is none.
        protocols: what clients speak, by the names in a PROXY header: `AMQP`, `HTTP`.
    """

    def __init__(
        self, leaders: ClusterMember, wait_seconds: float, protocols: Mapping[str, PassedProtocol]
    ) -> None:
        self._leaders = leaders
        self._wait_seconds = wait_seconds
        self._protocols = protocols
        self._clients: set[ClientEnd] = set()
        self._reaching: dict[ClientEnd, asyncio.Task[None]] = {}
        self._news = asyncio.Event()
        self._one_ended = asyncio.Event()
        leaders.watch(self._changed)

    def door(self, name: str) -> Serve:
        """What a listener of a protocol makes of its sockets: `AMQP` or `HTTP` of the PROXY header."""
        return partial(self._serve, name)

    def __len__(self) -> int:
        return len(self._clients)

    async def aclose(self, reason: str = STOPPED) -> None:
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

    def _serve(self, door: str, accepted: AcceptedSocket, proxied: Endpoint | None) -> ClientEnd:
        client = ClientEnd(accepted, door, self._protocols[door], proxied, self._begin, self._ended)
        self._clients.add(client)
        return client

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
                client.leave(CHANGED)

    async def _reach(self, client: ClientEnd) -> None:
        try:
            async with asyncio.timeout(self._wait_seconds):
                while not await self._connected(client):
                    with suppress(TimeoutError):
                        async with asyncio.timeout(RETRY_SECONDS):
                            await self._news.wait()
        except TimeoutError:
            log.warning("a client is refused: no leader for %g s", self._wait_seconds)
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
            client.leave(CHANGED)
        return True
