"""The connections of one node with all others: one with each, one for each client of HTTP that is passed on,
and one for each copy of a checkpoint or digest of the data.

Of two nodes the one whose name comes first connects; when the connection breaks it tries again, soon and then
less often. A machine that refuses the connection has no process of that node any more, which is known
seconds before the node's lease ends.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from routelog.log_backend import random_key
from routelog.mirror_cluster.coordination.coordinator import NodeEntry
from routelog.mirror_cluster.links.given_link import (
    HandshakeFailed,
    TakeConnection,
    connect,
    connect_given,
)
from routelog.mirror_cluster.links.introduction import (
    DialerIntroduction,
    Introduced,
    ListenerIntroduction,
    Opening,
    Purpose,
)
from routelog.mirror_cluster.links.node_door import DoorSockets, NodeDoor
from routelog.mirror_cluster.links.node_link import DoorSocket, NodeLink
from routelog.mirror_cluster.node_tls import NodeTls
from routelog.mirror_cluster.protocol.messages import Message

log = logging.getLogger(__name__)

# As refusals of the other doors: at most 20 MB a day.
LINES_MAX, WINDOW_SECONDS = 60, 60.0
CHARACTERS_MAX = 512  # of a line: most of it may be what the other end has sent

REDIAL_SECONDS_MIN, REDIAL_SECONDS_MAX = 0.05, 1.0
TakeNode = Callable[[str, asyncio.Transport, bytes], None]


class StrangerLog:
    """Log lines about connections that were not introduced: whoever reaches the port must not fill the disk.

    Of a window's further lines only the number is written.
    """

    def __init__(self) -> None:
        self._lines = self._left_out = 0
        self._timer: asyncio.TimerHandle | None = None

    def tell(self, level: int, text: str) -> None:
        """Write a line, unless there were too many."""
        if not log.isEnabledFor(level):
            return
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(WINDOW_SECONDS, self.end_window)
        if self._lines >= LINES_MAX:
            self._left_out += 1
            return
        self._lines += 1
        more = len(text) - CHARACTERS_MAX
        shown = text if more <= 0 else f"{text[:CHARACTERS_MAX]}… ({more} characters more)"
        log.log(level, "%s", shown)

    def end_window(self) -> None:
        """Write the number of the lines left out, and begin another window."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._left_out:
            log.warning("%d more lines like these, of who was not introduced", self._left_out)
        self._lines = self._left_out = 0


@dataclass(frozen=True)
class LinkSecurity:
    """What nodes prove to each other.

    Attributes:
        secret: of the cluster, the same on all nodes; not empty.
        tls: None: whoever can read or change the network's traffic can read and change what is replicated.
    """

    secret: bytes
    tls: NodeTls | None = None


class NodeLinks:
    """Keeps a connection with each other node, and makes those that are given away.

    Attributes:
        take_client: called with each connection for a client of another node; None: they are closed.
        take_copier, take_follower, take_verifier, take_asker, take_front: the same, with the name of the node
            first, for each that is to have a copy, for each of a standby, for each of an operator who compares
            nodes, for each of one who asks how this node is, and for each session of a front.

    Args:
        own: this node.
        received: called with the sender's name for each message.
        gone: called with the name of a node whose machine refuses connections; perhaps several times.
        sockets: of those who connect.
        lease_seconds: see `Opening`.
    """

    def __init__(
        self,
        cluster: str,
        own: NodeEntry,
        security: LinkSecurity,
        received: Callable[[str, Message], None],
        gone: Callable[[str], None],
        sockets: DoorSockets,
        *,
        lease_seconds: float = 0,
    ) -> None:
        self._cluster = cluster
        self._lease_seconds = lease_seconds
        self._own = own
        self._security = security
        self._received = received
        self._gone = gone
        self.take_client: TakeConnection | None = None
        self.take_copier: TakeNode | None = None
        self.take_follower: TakeNode | None = None
        self.take_verifier: TakeNode | None = None
        self.take_asker: TakeNode | None = None
        self.take_front: TakeNode | None = None
        self._entries: dict[str, NodeEntry] = {}
        self._links: dict[str, NodeLink] = {}
        self._all: set[NodeLink] = set()
        self._ends: dict[NodeLink, asyncio.Event] = {}
        self._dialers: dict[str, asyncio.Task[None]] = {}
        self._probes: set[asyncio.Task[None]] = set()
        self._strangers = StrangerLog()
        self._door = NodeDoor(self._accepted, security.tls, sockets)

    @property
    def connected(self) -> frozenset[str]:
        """Nodes that messages reach."""
        return frozenset(self._links)

    async def listen(self, host: str, port: int) -> int:
        """Take connections; returns the port, chosen by the system if it was 0."""
        return await self._door.open(host, port)

    def set_nodes(self, entries: Mapping[str, NodeEntry]) -> None:
        """Connect with these nodes, and with no others; this one may be among them."""
        self._entries = {name: each for name, each in entries.items() if name != self._own.node}
        for name in [*self._dialers]:
            if name not in self._entries:
                self._dialers.pop(name).cancel()
        for name, link in [*self._links.items()]:
            if name not in self._entries:
                link.close()
        for name in self._entries:
            if self._own.node < name and name not in self._dialers:
                self._dialers[name] = asyncio.create_task(self._dial(name))

    def send(self, to: str, message: Message) -> None:
        """Send a message; it is dropped when there is no connection."""
        link = self._links.get(to)
        if link is not None:
            link.send(message)

    async def connect_client(self, to: str, process: int, take: TakeConnection) -> None:
        """Connect with a node for one client.

        Args:
            process: of the node; no other one will do.
            take: called with the connection, in the turn in which the node is known to be that one.

        Raises:
            OSError: it cannot be reached, or is not that process.
        """
        await self._connect_for(Purpose.CLIENT, to, process, take)

    async def connect_front(self, to: str, process: int, take: TakeConnection) -> None:
        """Connect with a node for a session; see `connect_client`."""
        await self._connect_for(Purpose.FORWARD, to, process, take)

    async def connect_copy(self, to: str, take: TakeConnection) -> None:
        """Connect with a node for a copy of its checkpoint.

        Args:
            take: as with `connect_client`.

        Raises:
            OSError: it cannot be reached.
        """
        await self._connect_for(Purpose.COPY, to, None, take)

    async def _connect_for(
        self, purpose: Purpose, to: str, process: int | None, take: TakeConnection
    ) -> None:
        if to not in self._entries:
            raise ConnectionError(f"nobody knows where node {to} is")
        reach = partial(self._reach, to, tls=self._security.tls)
        opening = self._opening(to, purpose)
        await connect_given(opening, self._security.secret, process, take, reach)

    async def aclose(self) -> None:
        """Close everything; connections that were given away are their owners'."""
        tasks = [*self._dialers.values(), *self._probes]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._door.aclose()
        self._strangers.end_window()
        for link in [*self._all]:
            link.close()

    # -- see `LinkOwner`

    def introduced(self, link: NodeLink, other: Introduced) -> None:
        """The other end has proved who it is; messages may be sent.

        The newest connection counts: the other end has given up the one before.
        """
        if other.purpose is Purpose.CLIENT:
            return self._give_away(link, self.take_client)
        if other.purpose is not Purpose.REPLICATION:
            takes = {
                Purpose.COPY: self.take_copier,
                Purpose.FOLLOW: self.take_follower,
                Purpose.DIGEST: self.take_verifier,
                Purpose.REPORT: self.take_asker,
                Purpose.FORWARD: self.take_front,
            }
            take = takes[other.purpose]
            return self._give_away(link, take and partial(take, other.node))
        before = self._links.get(other.node)
        self._links[other.node] = link
        if before is not None:
            before.close()

    def _give_away(self, link: NodeLink, take: TakeConnection | None) -> None:
        if take is None:
            return link.close()
        self._all.discard(link)
        take(*link.give_away())

    def received(self, link: NodeLink, message: Message) -> None:
        """A message came from a node that was introduced."""
        if link.other is not None and self._links.get(link.other.node) is link:
            self._received(link.other.node, message)

    def ended(self, link: NodeLink) -> None:
        """The connection is closed; nothing comes any more."""
        self._all.discard(link)
        end = self._ends.pop(link, None)
        if end is not None:
            end.set()
        name = link.other.node if link.other is not None else ""
        if self._links.get(name) is link:
            del self._links[name]
            if end is None and name in self._entries:  # the other node dials, if it is still there
                probe = asyncio.create_task(self._probe(name))
                self._probes.add(probe)
                probe.add_done_callback(self._probes.discard)

    # -- connecting

    def _opening(self, to: str, purpose: Purpose = Purpose.REPLICATION) -> Opening:
        own = self._own
        return Opening(
            self._cluster,
            own.node,
            to,
            own.process,
            purpose,
            random_key(),
            lease_seconds=self._lease_seconds,
        )

    def _accepted(self, address: str, accepted: DoorSocket) -> NodeLink:
        introduction = ListenerIntroduction(self._opening(""), self._security.secret)
        link = NodeLink(introduction, self, address, accepted, self._strangers.tell)
        self._all.add(link)
        return link

    async def _dial(self, name: str) -> None:
        pause = REDIAL_SECONDS_MIN
        while True:
            introduction = DialerIntroduction(self._opening(name), self._security.secret)
            link = NodeLink(introduction, self, f"node {name}")
            ended = self._ends[link] = asyncio.Event()
            if await self._connect(name, link):
                await ended.wait()
                if link.other is not None:
                    pause = REDIAL_SECONDS_MIN
            else:
                self._ends.pop(link, None)
            await asyncio.sleep(pause)
            pause = min(2 * pause, REDIAL_SECONDS_MAX)

    async def _probe(self, name: str) -> None:
        # Nothing is said on these connections: whether one can be made is all. A process that is being
        # killed may take some after others have ended.
        pause = REDIAL_SECONDS_MIN
        while name in self._entries and name not in self._links:
            try:
                transport = await self._reach(name, asyncio.BaseProtocol(), None)
                transport.close()
            except ConnectionRefusedError:
                return
            except OSError as error:
                log.info("node %s cannot be reached: %s", name, error)
            await asyncio.sleep(pause)
            pause = min(2 * pause, REDIAL_SECONDS_MAX)

    async def _connect(self, name: str, link: NodeLink) -> bool:
        self._all.add(link)
        try:
            await self._reach(name, link, self._security.tls)
        except OSError as error:
            if isinstance(error, HandshakeFailed):
                log.warning("no connection with node %s: %s", name, error)
            else:
                log.info("node %s cannot be reached: %s", name, error)
            self._all.discard(link)
            return False
        return True

    async def _reach(
        self, name: str, protocol: asyncio.BaseProtocol, tls: NodeTls | None
    ) -> asyncio.Transport:
        entry = self._entries[name]
        try:
            return await connect(entry.address, protocol, tls)
        except ConnectionRefusedError:
            # Its next process may be known already; and one with a link runs, whatever lies between.
            if self._entries.get(name) == entry and name not in self._links:
                self._gone(name)
            raise
