"""The counts that nodes tell each other, once a second, of what has changed: see `SharedCounts`.

COUNTS has msgpack: [[of, name, count], ...]; the number of one from a leader is how many nodes have clients. A
session begins with all that an end has.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Annotated

import msgspec

from routelog.vhosts.people.shared_counts import Key, SharedCounts
from routelog.vhosts.sessions.session_message import (
    OUTBOX_BYTES_MAX,
    BadSessionMessage,
    Kind,
    SessionMessage,
    value_in,
)

TELL_SECONDS = 1.0
COUNTS_MAX = 1_000_000  # of a front: seven of each user and vhost; some 100 MB

_Row = tuple[int, str, Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]]
Send = Callable[[SessionMessage], object]


def counts_message(counts: Iterable[tuple[Key, int]], nodes: int = 0) -> SessionMessage:
    """COUNTS."""
    rows = [(of, name, count) for (of, name), count in counts]
    return SessionMessage(Kind.COUNTS, number=nodes, content=msgspec.msgpack.encode(rows))


def counts_in(message: SessionMessage) -> list[tuple[Key, int]]:
    """What a COUNTS says.

    Raises:
        BadSessionMessage: it says nothing that can be.
    """
    return [((of, name), count) for of, name, count in value_in(message.content, list[_Row])]


class FrontCounts:
    """The front's end, of one session: another leader tells all that it knows."""

    def __init__(self, counts: SharedCounts) -> None:
        self._counts = counts
        self._send: Send | None = None
        counts.forget_others()

    def begin(self, send: Send) -> None:
        """The session is open: tell all."""
        self._send = send
        self._counts.is_told = True
        self._counts.changed()
        self._tell(self._counts.own)

    def tell(self) -> None:
        """Tell what has changed since the last time."""
        if self._send is not None:
            self._tell(self._counts.changed())

    def _tell(self, keys: Iterable[Key]) -> None:
        own = self._counts.own
        if self._send is not None and (counts := [(key, own[key]) for key in keys]):
            self._send(counts_message(counts))

    def told(self, message: SessionMessage) -> None:
        """The leader tells of other nodes.

        Raises:
            BadSessionMessage: see `counts_in`.
        """
        self._counts.learn(counts_in(message), message.number)


class CountedFront:
    """The leader's end of a session.

    Attributes:
        own: what the front has.
        untold: what it is to be told.

    Args:
        outbox_bytes: how much the session has not sent: while it is much, nothing is told.
    """

    def __init__(
        self, all_counts: "LeaderCounts", send: Send, outbox_bytes: Callable[[], int]
    ) -> None:
        self._all = all_counts
        self._send = send
        self._outbox_bytes = outbox_bytes
        self._nodes_told = 0
        self.own: dict[Key, int] = {}
        self.untold: set[Key] = set()

    def told(self, message: SessionMessage) -> None:
        """The front tells of its clients.

        Raises:
            BadSessionMessage: see `counts_in`; they are too many.
        """
        counts = counts_in(message)
        if len(self.own) + len(counts) > COUNTS_MAX:
            raise BadSessionMessage(f"{len(counts)} counts beside {len(self.own)}")
        for key, count in counts:
            if count:
                self.own[key] = count
            else:
                self.own.pop(key, None)
        self._all.changed([key for key, _ in counts], self)

    def tell(self) -> None:
        """Tell what has changed of other nodes since the last time."""
        nodes = self._all.nodes
        if self._outbox_bytes() <= OUTBOX_BYTES_MAX and (self.untold or self._nodes_told != nodes):
            untold, self.untold, self._nodes_told = self.untold, set(), nodes
            counts = [(key, self._all.counts.all(*key) - self.own.get(key, 0)) for key in untold]
            self._send(counts_message(counts, nodes))


class LeaderCounts:
    """The leader's end, of all sessions.

    Attributes:
        counts: of the leader, and all fronts.
    """

    def __init__(self, counts: SharedCounts) -> None:
        counts.forget_others()
        counts.is_told = True
        self.counts = counts
        self._fronts: dict[CountedFront, None] = {}  # in their order, the same one each time

    @property
    def nodes(self) -> int:
        """How many nodes have clients."""
        return 1 + len(self._fronts)

    def opened(self, send: Send, outbox_bytes: Callable[[], int]) -> CountedFront:
        """A session begins."""
        front = CountedFront(self, send, outbox_bytes)
        front.untold |= self.counts.own.keys() | self.counts.others.keys()
        self._fronts[front] = None
        self.changed((), front)
        return front

    def closed(self, front: CountedFront) -> None:
        """A session has ended: what its front has had does not count."""
        self._fronts.pop(front, None)
        self.changed(front.own, front)

    def changed(self, keys: Collection[Key], by: CountedFront) -> None:
        """Counts of a front have changed."""
        sums = [(key, sum(front.own.get(key, 0) for front in self._fronts)) for key in keys]
        self.counts.learn(sums, self.nodes)
        for front in self._fronts:
            if front is not by:
                front.untold.update(keys)

    def tell(self) -> None:
        """Tell each front what has changed since the last time."""
        changed = self.counts.changed()
        for front in self._fronts:
            front.untold |= changed
            front.tell()
