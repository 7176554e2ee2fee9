"""The source of deliveries that came over a session: a partition of a remote queue, for one of its consumers.

Settlements and returns are merged within a turn of the event loop. The leader hands out nothing of a partition
while several ranges of it come back: each but the last one says MORE.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from routelog.log_backend import Octets, Reason, SettledPart
from routelog.vhosts.counters.counters import MessageCounters
from routelog.vhosts.errors import SessionLost
from routelog.vhosts.messages.delivery import Delivery, ReturnReason
from routelog.vhosts.partitions.queue_partition import UNCOUNTED
from routelog.vhosts.sessions.front_session import FrontSession
from routelog.vhosts.sessions.session_message import MORE, Kind, SessionMessage, message_pieces

Ranges = list[tuple[int, int]]


class RemoteSource(Protocol):
    """What a partition's deliveries are for: a consumer, or a queue for basic.get."""

    @property
    def ready(self) -> int:
        """See `ConsumerSource`."""

    def on_ready(self) -> None:
        """See `ConsumerSource`."""


class PartitionReturns:
    """What comes back to one partition of a queue, or of a group, from all its consumers here.

    Args:
        index: of the partition.
    """

    def __init__(self, session: FrontSession, index: int) -> None:
        self._session = session
        self._index = index
        self._pauses = 0
        # The subject that the pause names, and its end: the leader may have forgotten others
        self._pausing = 0
        self._is_gathered = False
        # By source, in the order of their coming; of each the ranges for a reason
        self._ranges: dict[tuple[int, ReturnReason], Ranges] = {}

    def add(self, subject: int, reason: ReturnReason, first: int, end: int) -> None:
        """Messages come back."""
        _add(self._ranges.setdefault((subject, reason), []), first, end)
        if not self._is_gathered:
            self._is_gathered = True
            self._session.gather(self)

    def pause(self, subject: int) -> None:
        """More messages come back than those of one turn, until `resume`."""
        self._pauses += 1
        if self._pauses == 1:  # ahead of what makes others want them
            self._pausing = subject
            self._session.flush()
            self._session.write(self._returned(subject, ReturnReason.UNUSED, 0, 0, MORE))

    def resume(self) -> None:
        """That was all of one consumer."""
        self._pauses -= 1
        if self._pauses:
            return
        if not self._ranges:
            self._session.write(self._returned(self._pausing, ReturnReason.UNUSED, 0, 0, 0))
        elif not self._is_gathered:
            self._is_gathered = True
            self._session.gather(self)

    def pieces(self) -> list[Octets]:
        """See `Gathered`."""
        self._is_gathered = False
        returns = [
            (subject, reason, first, end)
            for (subject, reason), ranges in self._ranges.items()
            for first, end in _merged(sorted(ranges))
        ]
        self._ranges.clear()
        kept = returns.pop() if self._pauses and returns else None
        pieces: list[Octets] = []
        for at, each in enumerate(returns, 1):
            more = MORE if kept is not None or at < len(returns) else 0
            pieces += self._returned(*each, more)
        if kept is not None:  # `resume` sends it
            subject, reason, first, end = kept
            self._ranges[subject, reason] = [(first, end)]
        return pieces

    def _returned(
        self, subject: int, reason: ReturnReason, first: int, end: int, more: int
    ) -> list[Octets]:
        return message_pieces(
            SessionMessage(
                Kind.RETURN,
                reason.value | more,
                self._index,
                subject,
                first=first,
                count=end - first,
            )
        )


class RemotePartition:
    """A partition of a remote queue as one consumer sees it (`DeliverySource`), until its session is lost.

    What is settled or returned afterwards is the leader's already: its consumer has room, no more happens.

    Attributes:
        number: of the partition.
        index: in its queue.
        session: that its deliveries came over.

    Args:
        subject: of the consumer in the session, or of the queue.
        queue: the subject of the queue.
        returns: what comes back to the partition.
    """

    def __init__(
        self,
        session: FrontSession,
        subject: int,
        queue: int,
        number: int,
        index: int,
        counters: MessageCounters,
        source: RemoteSource,
        returns: PartitionReturns,
    ) -> None:
        self.number = number
        self.index = index
        self.session = session
        self._subject = subject
        self._queue = queue
        self._counters = counters
        self._source = source
        self._returns = returns
        self._settled: dict[Reason, Ranges] = {}
        self._counts: dict[int, int] = {}

    @property
    def counters(self) -> MessageCounters:
        """See `DeliverySource`."""
        return UNCOUNTED if self.session.is_lost else self._counters

    @property
    def ready(self) -> int:
        """See `DeliverySource`: what waits lies at the leader, which knows who has credit in this session."""
        return self._source.ready if self.session.is_lost else 0

    def on_ready(self) -> None:
        """See `DeliverySource`."""
        self._source.on_ready()

    def settle(self, first: int, end: int, reason: Reason = Reason.ACKED) -> None:
        """See `DeliverySource`."""
        if self.session.is_lost:
            return
        settled = self._settled
        if not settled:
            self.session.gather(self)
        ranges = settled.get(reason)
        if ranges is None:
            settled[reason] = [(first, end)]
        else:
            _add(ranges, first, end)

    def pieces(self) -> list[Octets]:
        """See `Gathered`: what was settled."""
        pieces: list[Octets] = []
        for reason, ranges in self._settled.items():
            for settlement in self.settlements(ranges, reason):
                pieces += settlement
        self._settled.clear()
        return pieces

    def settlements(
        self, ranges: Sequence[tuple[int, int]], reason: Reason, flags: int = 0
    ) -> Iterator[list[Octets]]:
        """The messages that settle some, at least one range, as bytes."""
        # Dead letters are in the order of the rejects.
        in_order = sorted(ranges) if reason is Reason.ACKED else ranges
        for first, end in _merged(in_order):
            count = end - first
            yield message_pieces(
                SessionMessage(
                    Kind.SETTLE, reason | flags, self.index, self._subject, 0, first, count
                )
            )

    def settlement(self, ranges: Sequence[tuple[int, int]], reason: Reason) -> None:
        """See `DeliverySource`: no journal of this node knows of it.

        Raises:
            SessionLost: the messages are the leader's again, so no transaction settles them.
        """
        if self.session.is_lost:
            raise SessionLost("what the transaction settles", self.session.leader)

    def committed(self, settled: Sequence[SettledPart]) -> None:
        """See `DeliverySource`: nothing is."""

    def carried_out(self, settled: Sequence[SettledPart]) -> None:
        """See `DeliverySource`."""

    def give_back(self, first: int, end: int, reason: ReturnReason = ReturnReason.UNUSED) -> None:
        """See `DeliverySource`."""
        if not self.session.is_lost:
            self._returns.add(self._subject, reason, first, end)

    def pause(self) -> None:
        """See `DeliverySource`."""
        if not self.session.is_lost:
            self._returns.pause(self._subject)

    def resume(self) -> None:
        """See `DeliverySource`."""
        if not self.session.is_lost:
            self._returns.resume()
        self.on_ready()

    def redeliver(
        self, first: int, end: int, bytes_max: int, when_loaded: Callable[[], None]
    ) -> tuple[int, Sequence[Delivery]]:
        """See `DeliverySource`: they come as other deliveries, later."""
        if not self.session.is_lost:
            span = {
                "consumer": self._subject,
                "partition": self.index,
                "first": first,
                "end": end,
            }
            self.session.tell("redeliver", span, subject=self._queue)
        return end - first, ()

    def counted(self, counts: dict[int, int]) -> None:
        """How often messages were delivered again, by offset: they are handed on next."""
        self._counts = counts

    def got(self, offset: int, count: int) -> None:
        """How often a message was delivered again that is handed on soon."""
        self._counts[offset] = count

    def delivery_count(self, offset: int) -> int:
        """See `DeliverySource`; it is asked once, while a message is handed on."""
        return self._counts.pop(offset, 0)


def _add(ranges: Ranges, first: int, end: int) -> None:
    if ranges and ranges[-1][1] == first:
        ranges[-1] = ranges[-1][0], end
    else:
        ranges.append((first, end))


def _merged(ranges: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    # Neighbours as one.
    begin = behind = ranges[0][0]
    for first, end in ranges:
        if first != behind:
            yield begin, behind
            begin = first
        behind = end
    yield begin, behind
