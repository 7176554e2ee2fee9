"""Counts that limits speak of: what the clients of this node have, and those of all other nodes.

Each node tells its own once a second, to the one that leads, which tells each the sum of all others. So a limit
may be exceeded by what comes in that second.
"""

from collections import Counter
from collections.abc import Iterable
from enum import IntEnum


class CountOf(IntEnum):
    """What is counted; the rates are of the last second."""

    VHOST_CONNECTIONS = 1
    USER_CONNECTIONS = 2
    USER_CHANNELS = 3
    VHOST_MESSAGES = 4
    VHOST_BYTES = 5
    USER_MESSAGES = 6
    USER_BYTES = 7


Key = tuple[int, str]  # a `CountOf`, and a name


class SharedCounts:
    """The counts of a node.

    Attributes:
        own: of its clients.
        others: of all other nodes.
        nodes: how many have clients, with this one.
        is_told: other nodes are told of changes; else nothing is noted.
    """

    def __init__(self) -> None:
        self.own: Counter[Key] = Counter()
        self.others: dict[Key, int] = {}
        self.nodes = 1
        self.is_told = False
        self._changed: set[Key] = set()

    def all(self, of: int, name: str) -> int:
        """A count of all nodes."""
        key = of, name
        return self.own[key] + self.others.get(key, 0)

    def add(self, of: CountOf, name: str, count: int) -> None:
        """Count more clients here, or fewer."""
        self.put(of, name, self.own[of, name] + count)

    def put(self, of: CountOf, name: str, count: int) -> None:
        """Set a count of this node."""
        key = of, name
        if count == self.own[key]:
            return
        if self.is_told:
            self._changed.add(key)
        if count > 0:
            self.own[key] = count
        else:
            del self.own[key]  # nothing is kept of users and vhosts without clients

    def changed(self) -> set[Key]:
        """Which counts of this node have changed since the last call."""
        changed, self._changed = self._changed, set()
        return changed

    def learn(self, counts: Iterable[tuple[Key, int]], nodes: int) -> None:
        """Other nodes have other counts now.

        Args:
            nodes: see the class.
        """
        self.nodes = nodes
        for key, count in counts:
            if count > 0:
                self.others[key] = count
            else:
                self.others.pop(key, None)

    def forget_others(self) -> None:
        """Nothing is known of other nodes."""
        self.others.clear()
        self.nodes = 1
