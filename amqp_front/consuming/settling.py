"""What a channel held on its way out: very many deliveries take several turns of the event loop.

They are settled, or come back to their queues, because the client says so or the channel ends. Neighbours
within a queue leave as one, whoever held them and whatever was delivered between them. A queue hands out
nothing while its own come back, so that nothing behind them goes first; other queues may have another turn:
as in RabbitMQ, they hear of a closed channel one after the other. Until then a queue counts what is on its way
as unsettled, and the consumers keep their places, so that an exclusive or single active one is not followed
too early; they are handed nothing.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Protocol

from routelog.amqp_front.consuming.channel_consumer import ChannelConsumer
from routelog.amqp_front.consuming.tag_order import TagOrder
from routelog.amqp_front.consuming.unacked import Holder, UnackedRun, messages_of
from routelog.amqp_front.node.services import Services
from routelog.log_backend import Lane, Reason, SettledEntries, SettledPart
from routelog.vhosts import (
    DeliverySource,
    MessageCounters,
    QueueHandle,
    RemoteTransaction,
    ReturnReason,
    UniqueKeys,
    VirtualHost,
    decided,
    keys_of,
)

RUNS_MAX = 256  # that are settled at once: 1 to 6 us each
MESSAGES_MAX = 4_096  # of them: what the rules of a queue do with one of them takes up to 2 us
# Consumers that leave their queues at once: 2 to 5 us each, 40 when the queue ends, too
LEAVING_MAX = 32
SORTED_RUNS = 1_024  # between two looks at the clock: 0.4 ms
PREPARED_RANGES = 512  # likewise
FORGOTTEN_RUNS = 4_096  # likewise
PIECE_RANGES = 64  # between two looks, likewise
PIECE_MESSAGES = 512


class Holdings(Protocol):
    """Who held what leaves: a channel's consumption."""

    vhost: VirtualHost
    counters: MessageCounters

    def begin_turn(self) -> None:
        """Some leaves."""

    def let_go(self, holder: Holder, count: int) -> None:
        """A consumer holds so many deliveries less."""


class _Share:
    """What one queue, or partition of it, has to do with.

    Attributes:
        ranges: of offsets, [first, end).
        count: messages in them, before the first leaves.
        held: how many its consumers held.
        committed: what the journal knows of it before it is settled.
        prepared: how many of the ranges are in that.
        is_sent: the node that leads settles it, in a transaction, or has it back.
    """

    __slots__ = ("committed", "count", "held", "is_sent", "prepared", "ranges", "source")

    def __init__(self, source: DeliverySource) -> None:
        self.source = source
        self.ranges: list[tuple[int, int]] = []
        self.held: dict[Holder, int] = {}
        self.committed: list[SettledPart] = []
        self.prepared = 0
        self.count = 0
        self.is_sent = False

    def add(self, run: UnackedRun) -> None:
        count = run.end_tag - run.first_tag
        first, holder, ranges = run.offset, run.consumer, self.ranges
        self.count += count
        if holder is not None:
            self.held[holder] = self.held.get(holder, 0) + count
        if ranges and ranges[-1][1] == first:
            ranges[-1] = (ranges[-1][0], first + count)
        else:
            ranges.append((first, first + count))

    def prepare(self, outcome: Reason, entries: SettledEntries) -> bool:
        """Encode some of what the journal may know; returns whether there is more."""
        at, self.prepared = self.prepared, self.prepared + PREPARED_RANGES
        ranges = self.ranges[at : self.prepared]
        part = self.source.settlement(ranges, outcome) if ranges else None
        if part is None:
            return False
        entries.add(part)
        self.committed.append(part)
        return self.prepared < len(self.ranges)

    def end_piece(self, outcome: Reason | ReturnReason) -> None:
        """Settle, or return, some of the ranges; those that are left are in falling order."""
        ranges, source = self.ranges, self.source
        count_left = PIECE_MESSAGES
        for _ in range(min(PIECE_RANGES, len(ranges))):
            first, end = ranges.pop()
            if end - first > count_left:
                ranges.append((first + count_left, end))
                end = first + count_left
            if self.is_sent:
                pass
            elif isinstance(outcome, ReturnReason):
                source.give_back(first, end, outcome)
            else:
                source.settle(first, end, outcome)
            count_left -= end - first
            if not count_left:
                return


class Settling:
    """What a channel held on its way out.

    Attributes:
        are_few: all may leave at once.
        entries: what the journal may know before they are settled, when all is prepared: see `prepare_some`.

    Args:
        runs: the list is not the caller's any more when it goes on.
        outcome: why they are settled, or how they come back.
        consumers: they leave their queues with it.
        order: what leaves when it is in order, instead of runs.

    Of all that are under way (`Services.settlings`), each begins when those in front have ended.
    """

    def __init__(
        self,
        holdings: Holdings,
        runs: list[UnackedRun],
        outcome: Reason | ReturnReason,
        services: Services,
        consumers: Iterable[ChannelConsumer] = (),
        order: TagOrder | None = None,
    ) -> None:
        self.services = services
        self._holdings = holdings
        self._outcome = outcome
        self.are_few = order is None and are_few(runs)
        self._order = order
        self._runs = runs
        self._sorted = 0  # how many of them
        self._shares: dict[DeliverySource, _Share] = {}
        self.entries = SettledEntries()
        self._unprepared: list[_Share] | None = None
        self._leaving: defaultdict[QueueHandle, dict[ChannelConsumer, None]] = defaultdict(dict)
        for consumer in consumers:
            self._leaving[consumer.queue][consumer] = None
        self._due: list[_Share] = []  # of one queue
        self._left: QueueHandle | None = None  # what its consumers had is not back yet
        self._is_empty = not (runs or order or self._leaving)
        self._unknown: list[Awaitable[object]] = []  # departures that not all nodes know of
        self._error: Exception | None = None

    def at_once(self) -> None:
        """Settle or return all of it before this returns.

        Raises:
            Exception: what the first queue raised that did; all others have had their share nevertheless.
        """
        for _ in self._pieces():
            pass

    def steps(self) -> Iterator[None]:
        """Settle or return all of it, when those in front have ended; it yields when the turn is over.

        Raises: see `at_once`.
        """
        line, is_over = self.services.settlings, self.services.scheduler.is_over
        while line[0] is not self:
            yield
        try:
            for _ in self._pieces():
                if is_over():
                    yield
                    self._holdings.begin_turn()
        finally:
            line.popleft()

    def _pieces(self) -> Iterator[None]:
        self._holdings.begin_turn()
        while (step := self._next_step()) is not None:
            try:
                step()
            except Exception as error:
                self._error = self._error or error
            yield
        if self._error is not None:
            raise self._error

    def _next_step(self) -> Callable[[], object] | None:
        if self._order is not None:
            return self._order_some
        if self._runs:
            return self._sort_some if self._sorted < len(self._runs) else self._forget_some
        if self._due:
            return self._end_piece if self._due[-1].ranges else self._end_share
        if self._left is not None:
            return self._tell_left
        if self._leaving:
            return self._leave_queue
        return self._begin_share if self._shares else None

    def _sort_some(self) -> None:
        # Finds out where some of the deliveries come from.
        shares = self._shares
        at, self._sorted = self._sorted, self._sorted + SORTED_RUNS
        for run in self._runs[at : self._sorted]:
            share = shares.get(run.partition)
            if share is None:
                share = shares[run.partition] = _Share(run.partition)
            share.add(run)

    def _order_some(self) -> None:
        order = self._order
        if order is not None and not order.step():
            self._runs, self._order = order.ordered, None

    def _forget_some(self) -> None:
        del self._runs[-FORGOTTEN_RUNS:]

    # -- with a transaction

    def prepare_some(self) -> bool:
        """Do some of what has to be done before `entries` are all; returns whether there is more."""
        if self._sorted < len(self._runs):
            self._sort_some()
            return True
        if self._unprepared is None:
            self._unprepared = list(self._shares.values())
        outcome = self._outcome
        if not self._unprepared or not isinstance(outcome, Reason):
            return False
        if not self._unprepared[-1].prepare(outcome, self.entries):
            self._unprepared.pop()
        return True

    def is_prepared(self) -> bool:
        """Whether queues still say of each share what they said; else all is to be prepared anew.

        What a deleted queue has in the journal means nothing, so only rejects count: a policy may say that
        these become dead letters.

        Raises:
            SessionLost: they cannot be settled any more.
        """
        outcome = self._outcome
        if not isinstance(outcome, Reason):
            return True
        for share in self._shares.values():
            is_known = share.source.settlement((), outcome) is not None
            if outcome is Reason.REJECTED and bool(share.committed) != is_known:
                self._prepare_anew()
                return False
        return True

    def send(self, transaction: RemoteTransaction) -> Iterator[None]:
        """Have the node that leads settle what came from there, with a transaction; prepared before.

        Raises:
            SessionLost: as `is_prepared`.
        """
        outcome = self._outcome
        if not isinstance(outcome, Reason):
            return
        for share in self._shares.values():
            if transaction.settles(share.source):
                yield from transaction.settle(share.source, share.ranges, outcome)
                share.is_sent = True
            else:
                share.source.settlement((), outcome)

    def _prepare_anew(self) -> None:
        self.entries, self._unprepared = SettledEntries(), None
        for share in self._shares.values():
            share.committed.clear()
            share.prepared = 0

    def leaving(self) -> Iterator[UniqueKeys]:
        """What it settles holds no keys until all is appended: yields these keys. Prepared before."""
        if isinstance(self._outcome, Reason):
            for share in self._shares.values():
                keys = keys_of(share.source, share.ranges)
                if keys is not None:
                    yield keys

    def committed(self) -> None:
        """The journal has what it may know, if there was any: no snapshot may know less from here on."""
        for share in self._shares.values():
            if share.committed:
                share.source.committed(share.committed)

    def failed(self) -> None:
        """Nobody knows what the journal has: they come back."""
        self._outcome = ReturnReason.FAILED
        for share in self._shares.values():
            share.committed.clear()

    # -- in turns

    def _leave_queue(self) -> None:
        queue, gone = self._leaving.popitem()
        for source in queue.sources():
            if (share := self._shares.pop(source, None)) is not None:
                self._begin(share)
        self._left = queue
        if not queue.deleted:
            self._wait_for(queue.detach(gone))

    def _begin_share(self) -> None:
        # None of its consumers leaves: they stay, were cancelled, or it was basic.get; or the queue is deleted.
        self._begin(self._shares.popitem()[1])

    def _begin(self, share: _Share) -> None:
        share.ranges.reverse()
        self._due.append(share)
        self._count(share)
        if isinstance(self._outcome, ReturnReason) and not share.is_sent:
            share.source.pause()

    def _count(self, share: _Share) -> None:
        counters, count = share.source.counters, share.count
        if self._outcome is Reason.ACKED:
            counters.acked(self._holdings.counters, count)
        elif self._outcome is Reason.REJECTED:
            counters.refused(self._holdings.counters, count)
        else:
            counters.note()

    def _end_piece(self) -> None:
        self._due[-1].end_piece(self._outcome)

    def _end_share(self) -> None:
        share = self._due.pop()
        if share.committed:
            share.source.carried_out(share.committed)
        if isinstance(self._outcome, ReturnReason) and not share.is_sent:
            share.source.resume()
        else:
            share.source.on_ready()
        for holder, count in share.held.items():  # who has credit again when it is dispatched
            self._holdings.let_go(holder, count)

    def _tell_left(self) -> None:
        queue, self._left = self._left, None
        if queue is not None:
            self._wait_for(self._holdings.vhost.definitions.consumers_left(queue.name))

    def _wait_for(self, departure: Awaitable[object] | None) -> None:
        if departure is not None:
            self._unknown.append(departure)

    def known(self) -> "asyncio.Future[None] | None":
        """When all of it has left, or is back, at the node that leads, and all nodes know what went with it.

        Returns:
            Done then, or when the time for an answer is over; it does not fail. None: it is so.
        """
        definitions = self._holdings.vhost.definitions
        if self._unknown:
            done: Awaitable[object] | None = self._until_known()
        else:
            done = None if self._is_empty else definitions.carried_out()
        return None if done is None else decided(self.services.in_time(done))

    async def _until_known(self) -> None:
        for departure in self._unknown:
            await decided(departure)
        # Behind what was on the way to its consumers, and came back
        done = self._holdings.vhost.definitions.carried_out()
        if done is not None:
            await done


def settled_in_turns(settling: Settling) -> asyncio.Future[None]:
    """Begin to settle or return; done when all of it is."""
    services = settling.services
    services.settlings.append(settling)
    return services.scheduler.run(settling.steps(), Lane.JOBS)


def are_few(runs: list[UnackedRun]) -> bool:
    """Whether deliveries may be settled at once."""
    return len(runs) <= RUNS_MAX and messages_of(runs) <= MESSAGES_MAX
