"""The door of a running node for its standbys: they copy its checkpoint and follow its journal."""

from routelog.log_backend import Clock, LogStore
from routelog.mirror_cluster.coordination.coordinator import NodeEntry
from routelog.mirror_cluster.links.node_door import DoorSockets
from routelog.mirror_cluster.links.node_links import LinkSecurity, NodeLinks
from routelog.mirror_cluster.node.copy_sender import CopySender
from routelog.mirror_cluster.node.incarnation import new_number
from routelog.mirror_cluster.protocol.messages import Message
from routelog.mirror_cluster.standby.follow_sender import FollowSender, StandbyLag
from routelog.mirror_cluster.standby.standby_options import LEADER, StandbyOptions


class StandbyDoor:
    """Listens for standbys.

    Attributes:
        address: where it listens, host and port.

    Args:
        logs: of a node on its own, which runs.
        sockets: see `NodeLinks`.
    """

    def __init__(
        self, options: StandbyOptions, logs: LogStore, clock: Clock, sockets: DoorSockets
    ) -> None:
        self.address = options.address
        self._follows = FollowSender(logs.journal, clock)
        self._copies = CopySender(logs.copies, self._follows.has_caught_up, lambda: True)
        own = NodeEntry(LEADER, new_number(), "", 0)
        security = LinkSecurity(options.secret, options.tls)
        self._links = NodeLinks(options.cluster, own, security, _drop, _ignore, sockets)
        self._links.take_copier = self._copies.take
        self._links.take_follower = self._follows.take

    async def open(self) -> int:
        """Take connections; returns the port.

        Raises:
            OSError: it cannot listen.
        """
        return await self._links.listen(*self.address)

    def lags(self) -> list[StandbyLag]:
        """How far each standby is behind that has followed since this node was started."""
        return self._follows.lags()

    async def aclose(self) -> None:
        """End all connections."""
        await self._links.aclose()
        await self._follows.aclose()
        await self._copies.aclose()


def _drop(name: str, message: Message) -> None:
    """Standbys send nothing on a connection that is not given away."""


def _ignore(name: str) -> None:
    """Nothing depends on whether a standby is there."""
