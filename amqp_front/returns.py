"""What a channel held on its way back to queues: very many deliveries take several turns of the event loop.

All that comes back to a queue comes in one turn, so that nothing behind it is handed out first; other queues
may have another turn: as in RabbitMQ, they hear of a closed channel one after the other. Until then a queue
counts what will come back as unsettled, and the consumers keep their places, so that an exclusive or single
active one is not followed too early; they are handed nothing.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Protocol

from amqp_front.channel_consumer import ChannelConsumer
from amqp_front.piecework import Piecework
from amqp_front.services import Services
from amqp_front.unacked import UnackedRun
from vhosts import Comeback, DeliverySource, Queue, VirtualHost

TURN_SECONDS = 0.001
AWAITED_MAX = 64  # messages, or those of a queue: handed out behind the turn, 20 us each
LEAVING_MAX = 128  # consumers that leave their queues at once: 2 to 5 us each
SORTED_RUNS = 1_024  # between two looks at the clock: 0.3 ms


class Holdings(Protocol):
    """Who held what comes back: a channel's consumption."""

    vhost: VirtualHost

    def begin_turn(self) -> None:
        """Some comes back."""

    def end_runs(self, runs: Iterable[UnackedRun], outcome: Comeback) -> None:
        """Return them."""


class Return:
    """What a channel held on its way back; see `Work`.

    Args:
        runs: in the order of their tags; the list is not the caller's any more.
        consumers: they leave their queues with it.

    Of all that are under way (`Services.returns`), each begins when those in front have ended.
    """

    def __init__(
        self,
        holdings: Holdings,
        runs: list[UnackedRun],
        comeback: Comeback,
        services: Services,
        consumers: Iterable[ChannelConsumer] = (),
    ) -> None:
        self.services = services
        self._holdings = holdings
        self._comeback = comeback
        runs.reverse()  # a copy would look at each of them
        self._unsorted = runs
        self._shares: defaultdict[DeliverySource, list[UnackedRun]] = defaultdict(list)
        self._leaving: defaultdict[Queue, set[ChannelConsumer]] = defaultdict(set)
        for consumer in consumers:
            self._leaving[consumer.queue].add(consumer)
        self._awaited = 0  # messages of this turn that a consumer may wait for
        self._error: Exception | None = None

    def go_on(self, whole: bool) -> bool:
        """See `Work`.

        Raises:
            Exception: what the first queue raised that did; all others have had their share nevertheless.
        """
        line, clock = self.services.returns, self.services.clock
        if not whole and line[0] is not self:
            return False
        self._holdings.begin_turn()
        self._awaited = 0
        until = clock.monotonic() + TURN_SECONDS
        while (step := self._next_step()) is not None:
            try:
                step()
            except Exception as error:
                self._error = self._error or error
            is_over = self._awaited >= AWAITED_MAX or clock.monotonic() >= until
            if is_over and not whole:
                return False
        if self in line:
            line.remove(self)
        if self._error is not None:
            raise self._error
        return True

    def _next_step(self) -> Callable[[], None] | None:
        if self._unsorted:
            return self._sort_some
        if self._leaving:
            return self._leave_queue
        return self._return_share if self._shares else None

    def _sort_some(self) -> None:
        some = self._unsorted[: -SORTED_RUNS - 1 : -1]
        del self._unsorted[-SORTED_RUNS:]
        shares = self._shares
        for run in some:
            share = shares[run.partition]
            last = share[-1] if share else None
            if last and last.end_offset == run.offset and last.consumer is run.consumer:
                last.end_tag += len(run)  # nobody knows it by its tags any more
            else:
                share.append(run)

    def _leave_queue(self) -> None:
        queue, gone = self._leaving.popitem()
        if not queue.deleted:
            queue.remove_consumers(gone)
        groups = (group.partitions for group in queue.groups.values())
        for source in chain(queue.partitions, *groups):
            if (runs := self._shares.pop(source, None)) is not None:
                self._come_back(runs, queue.consumer_count > 0)
        self._holdings.vhost.consumers_left(queue)

    def _return_share(self) -> None:
        # None of its consumers leaves: they stay, were cancelled, or it was basic.get; or the queue is deleted.
        self._come_back(self._shares.popitem()[1], True)

    def _come_back(self, runs: list[UnackedRun], awaited: bool) -> None:
        if awaited:
            self._awaited += sum(map(len, runs))
        self._holdings.end_runs(runs, self._comeback)


def returned_in_turns(returning: Return) -> asyncio.Future[None]:
    """Begin to return; done when all of it is back."""
    services = returning.services
    services.returns.append(returning)
    return Piecework(returning, services.piecework, services.loop).done
