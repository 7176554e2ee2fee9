"""The virtual hosts of a node that does not lead: its clients use them by way of the leader, until it leads."""

from collections.abc import Callable, Set
from functools import partial

from routelog.vhosts.counters.counters import UNWATCHED, MessageCounters
from routelog.vhosts.publishing.stateful_route import StatefulRoute
from routelog.vhosts.sessions.front_queues import FrontQueues
from routelog.vhosts.sessions.leader_link import LeaderLink
from routelog.vhosts.sessions.remote_definitions import FrontConnections, RemoteDefinitions
from routelog.vhosts.sessions.remote_exchange import RemoteExchanges, RemoteRoute
from routelog.vhosts.sessions.remote_queue import RemoteQueue
from routelog.vhosts.vhost.stored_topology import StoredQueue
from routelog.vhosts.vhost.vhost import VirtualHost
from routelog.vhosts.vhost.vhost_directory import VhostDirectory


class FrontVhosts:
    """Turns all vhosts of a node to the leader, those to come too, and back when this node leads.

    Args:
        vhosts: whose definitions are loaded, and follow the leader's.
        link: the way to the leader.
        close: closes connections, for a reason in words.
    """

    def __init__(
        self,
        vhosts: VhostDirectory,
        link: LeaderLink,
        connections: FrontConnections,
        close: Callable[[Set[object], str], None],
    ) -> None:
        self._vhosts = vhosts
        self._link = link
        self._connections = connections
        self._close = close
        self._queues: dict[VirtualHost, FrontQueues] = {}

    def begin(self) -> None:
        """Clients are taken from here on."""
        self._vhosts.on_added = self._added
        for vhost in self._vhosts.all():
            self._add(vhost)

    def session_lost(self) -> None:
        """Exclusive queues went with the leader: close the connections that had one.

        What the next leader commits is not known here yet.
        """
        vhosts = self._vhosts.all()
        owners = {queue.owner for vhost in vhosts for queue in vhost.stored.queues.values()}
        had_one = self._connections.named(owners)
        self._close(had_one, "the node of its exclusive queues does not lead any more")

    def freeze(self) -> None:
        """This node is to lead, and opens its queues: clients wait."""
        self._vhosts.on_added = lambda vhost: None
        for vhost, queues in self._queues.items():
            vhost.stored.on_queue = vhost.stored.on_exchange_gone = lambda name: None
            vhost.stored.on_policies = lambda: None
            queues.freeze()

    def route_here(self) -> None:
        """The queues are open, and the journal is about to take entries.

        From then on dead letters and due messages come. They must not go by way of a session that is over: they
        would be settled, and lost. Clients still wait.
        """
        for vhost in self._queues:
            vhost.stateful_route = StatefulRoute
            vhost.targets.turn_to(vhost.queues, vhost.hosted.delays)

    def lead(self) -> None:
        """All is loaded: consumers and publishers go on with the queues of this node."""
        for vhost, queues in self._queues.items():
            vhost.definitions = vhost
            for handle in queues.made():
                queue = vhost.queues.get(handle.name)
                if queue is not None and queue.number == handle.number:
                    handle.hand_over(queue)
                else:
                    handle.delete()
        self._queues.clear()
        self._link.end("this node leads")  # behind consumers: the session has none any more

    def _added(self, vhost: VirtualHost) -> None:
        vhosts = self._vhosts.all()
        if len(self._queues) >= len(vhosts):  # else none is deleted; thousands may come in a row
            for gone in self._queues.keys() - {*vhosts}:
                del self._queues[gone]
        self._add(vhost)

    def _add(self, vhost: VirtualHost) -> None:
        stored = vhost.stored
        queues = FrontQueues(stored.queues, vhost.policies.book, partial(self._handle, vhost))
        self._queues[vhost] = queues

        def queue_changed(name: str) -> None:
            queues.changed(name)
            if name in queues:
                vhost.targets.newest = max(vhost.targets.newest, queues.number(name))

        stored.on_queue = queue_changed
        for name in queues:
            queue_changed(name)

        def policies_changed() -> None:
            queues.policies_changed()
            for exchange in vhost.routing.exchanges():
                vhost.policies.follow_exchange(exchange.name)

        stored.on_policies = policies_changed
        policies_changed()
        vhost.definitions = RemoteDefinitions(vhost, queues, self._link, self._connections)
        vhost.stateful_route = RemoteRoute
        exchanges = RemoteExchanges(vhost.name, self._link)
        stored.on_exchange_gone = exchanges.forget
        vhost.targets.turn_to(queues, exchanges)

    def _handle(self, vhost: VirtualHost, stored: StoredQueue) -> RemoteQueue:
        return RemoteQueue(
            vhost.name,
            stored.properties,
            stored.partitions,
            self._link,
            MessageCounters(UNWATCHED),  # the leader samples and sums those of queues
            self._vhosts.default_durability,
        )
