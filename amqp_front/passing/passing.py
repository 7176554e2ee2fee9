"""All clients of a node that does not lead."""

import asyncio
import logging
from contextlib import suppress
from functools import partial

from routelog.amqp_front.node.accepted_sockets import AcceptedSocket
from routelog.amqp_front.passing.leaders import Leaders
from routelog.amqp_front.passing.passed_connection import CLOSE_OK_SECONDS_MAX, ClientEnd
from routelog.amqp_front.server.acceptor import Serve
from routelog.amqp_front.wire.proxy_header import Endpoint

log = logging.getLogger(__name__)

WAIT_SECONDS_MAX = 5.0  # for a leader: a change of leader takes some three
RETRY_SECONDS = 0.1  # until a leader that could not be reached is tried again
CHANGED = (
    "another node leads now: transient messages and queues that are not durable are gone, "
    "what was not confirmed may be lost; connect again"
)
STOPPED = "broker forced connection closure with reason 'shutdown'"


class Passing:
    """Passes the clients of a node to the leader, until it is closed.

    Args:
        wait_seconds: how long a client waits for a leader; then its socket is closed.
    """

    def __init__(self, leaders: Leaders, wait_seconds: float = WAIT_SECONDS_MAX) -> None:
        self._leaders = leaders
        self._wait_seconds = wait_seconds
        self._clients: set[ClientEnd] = set()
        self._reaching: dict[ClientEnd, asyncio.Task[None]] = {}
        self._news = asyncio.Event()
        self._all_ended: asyncio.Event | None = None
        leaders.watch(self._changed)

    def door(self, name: str) -> Serve:
        """What a listener of a protocol makes of its sockets: `AMQP` or `HTTP` of the PROXY header."""
        return partial(self._serve, name)

    def __len__(self) -> int:
        return len(self._clients)

    async def aclose(self, reason: str = STOPPED) -> None:
        """Close all clients, when the listeners are closed or serve them otherwise."""
        for task in [*self._reaching.values()]:
            task.cancel()
        for client in [*self._clients]:
            client.leave(reason)
        if self._clients:
            self._all_ended = asyncio.Event()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._all_ended.wait(), CLOSE_OK_SECONDS_MAX)
        for client in [*self._clients]:
            client.abort()

    def _serve(self, door: str, accepted: AcceptedSocket, proxied: Endpoint | None) -> ClientEnd:
        client = ClientEnd(accepted, door, proxied, self._begin, self._ended)
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
        if not self._clients and self._all_ended is not None:
            self._all_ended.set()

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
            log.warning("a client is closed: no leader for %g s", self._wait_seconds)
            client.leave("there is no leader")

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
