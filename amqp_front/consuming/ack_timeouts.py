"""Deliveries of a channel that were not settled in time, on their way back to their queues.

They are looked for in turns of the event loop, once for all consumers whose time is over: a channel may hold
very many, and have thousands of consumers.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Protocol

from routelog.amqp_front.consuming.channel_consumer import ChannelConsumer
from routelog.amqp_front.consuming.settling import Holdings, Settling, settled_in_turns
from routelog.amqp_front.consuming.unacked import EndedLease, Holder, Unacked, UnackedRun
from routelog.amqp_front.node.services import Services
from routelog.log_backend import Lane
from routelog.vhosts import DeliverySource, ReturnReason

LOOKED_RUNS = 512  # between two looks at the clock: 0.2 ms, and as much again where they are over


class TimedHoldings(Holdings, Protocol):
    """Who holds them: a channel's consumption; `number` is the channel's."""

    number: int
    unacked: Unacked


class AckTimeouts:
    """The deliveries of one channel whose time is over."""

    def __init__(self, holdings: TimedHoldings, services: Services) -> None:
        self._holdings = holdings
        self._services = services
        self._wanted: dict[ChannelConsumer, int] = {}  # below which tag, when a look begins
        self._ended: list[UnackedRun] = []  # not yet on their way back
        # Until they are back: nothing behind them goes first
        self._paused: dict[DeliverySource, None] = {}
        self._looking: asyncio.Future[None] | None = None  # until none is looked for any more
        self._begin()

    def _begin(self) -> None:
        self._ends: dict[Holder, int] = dict(self._wanted.items())
        self._end_tag = max(self._wanted.values(), default=0)
        self._consumers, self._wanted = list(self._wanted), {}
        self._over: dict[tuple[DeliverySource, Holder], EndedLease] = {}
        self._tag = 0
        self._counts: Counter[Holder] = Counter()

    def end(self, consumer: ChannelConsumer, end_tag: int) -> None:
        """Take back what a consumer holds with tags below; the tags stay known, and mean nothing."""
        self._wanted[consumer] = end_tag
        if self._looking is None or self._looking.done():
            self._looking = self._services.scheduler.run(self._steps(), Lane.JOBS)

    def _steps(self) -> Iterator[None]:
        while self._wanted:
            self._begin()
            while self._look() or self._tell():
                if self._services.scheduler.is_over():
                    yield
            self._return()

    def _look(self) -> bool:
        # Tells whether there may be more to look at.
        unacked, first = self._holdings.unacked, self._tag
        if first >= self._end_tag:
            return False
        ended, self._tag = unacked.end_leases(self._ends, self._over, first, LOOKED_RUNS)
        for run in ended:
            holder = run.consumer
            if holder is not None:
                holder.lapsed += len(run)
                self._counts[holder] += len(run)
                run.consumer = None  # it holds the tag still
                if run.partition not in self._paused:
                    self._paused[run.partition] = None
                    run.partition.pause()
        self._ended += ended
        return self._tag > first

    def _tell(self) -> bool:
        # Of one consumer; tells whether there was one.
        if not self._consumers:
            return False
        consumer = self._consumers.pop()
        if count := self._counts[consumer]:
            consumer.timed_out += count
            queue = consumer.queue
            queue.stand_aside(consumer)
            self._services.vhosts.events.note(
                "delivery.timeout",
                queue=queue.name,
                vhost=queue.vhost,
                consumer=consumer.tag,
                channel=self._holdings.number,
                count=count,
            )
        return True

    def _return(self) -> None:
        ended, self._ended = self._ended, []
        paused, self._paused = self._paused, {}
        settling = Settling(self._holdings, ended, ReturnReason.RETURNED, self._services)
        if settling.are_few:
            try:
                settling.at_once()
            finally:
                _resume(paused)
        else:
            settled_in_turns(settling).add_done_callback(lambda _: _resume(paused))


def _resume(sources: Iterable[DeliverySource]) -> None:
    for source in sources:
        source.resume()
