"""The queues of a virtual host at a node that does not lead: handles of what the leader has."""

from collections.abc import Callable, Iterator, Mapping

from routelog.vhosts.sessions.remote_queue import RemoteQueue
from routelog.vhosts.stored.policy_book import PolicyBook
from routelog.vhosts.vhost.stored_topology import StoredQueue


class FrontQueues(Mapping[str, RemoteQueue]):
    """Handles of all queues, by name, made when they are asked for.

    Args:
        stored: definitions of the queues; the owner tells of each that changes.
        make: makes the handle of a queue.
    """

    def __init__(
        self,
        stored: Mapping[str, StoredQueue],
        policies: PolicyBook,
        make: Callable[[StoredQueue], RemoteQueue],
    ) -> None:
        self._stored = stored
        self._policies = policies
        self._make = make
        self._handles: dict[str, RemoteQueue] = {}

    def __getitem__(self, name: str) -> RemoteQueue:
        handle = self._handles.get(name)
        if handle is None:
            stored = self._stored[name]
            handle = self._handles[name] = self._make(stored)
            self._follow(handle)
        return handle

    def __iter__(self) -> Iterator[str]:
        return iter(self._stored)

    def __len__(self) -> int:
        return len(self._stored)

    def number(self, name: str) -> int:
        """The number of a queue's first partition."""
        return self._stored[name].partitions[0]

    def made(self) -> list[RemoteQueue]:
        """The handles that somebody has asked for."""
        return [*self._handles.values()]

    def changed(self, name: str) -> None:
        """The definition of a queue is new, another one, or gone."""
        handle, stored = self._handles.get(name), self._stored.get(name)
        if handle is None:
            return
        if stored is None or stored.partitions[0] != handle.number:
            del self._handles[name]
            handle.delete()
        else:
            handle.change(stored.properties, *self._policies.of_queue(name, stored.properties.type))

    def freeze(self) -> None:
        """This node opens the queues: these stay what they are until it has."""
        self._stored = dict(self._stored)

    def policies_changed(self) -> None:
        """Queues may have other policies."""
        for handle in self._handles.values():
            self._follow(handle)

    def _follow(self, handle: RemoteQueue) -> None:
        handle.follow(*self._policies.of_queue(handle.name, handle.properties.type))
