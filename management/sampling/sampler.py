"""Samples all counters that have changed, every five seconds, and keeps them in memory.

Of the node, its vhosts, queues and consumer groups a day is kept, thinned: see `history`; of connections,
channels and exchanges ten minutes. Objects without traffic cost nothing. Lengths of queues are sampled with
their counters; the sums over a vhost and the node are kept from these.

Of the capacity of consumers the data plane counts nothing: a look every five seconds finds each state as
often as it lasts.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

from routelog.log_backend import Clock, Lane, in_turns
from routelog.management.sampling.histories import Histories
from routelog.management.sampling.history import DAY, TEN_MINUTES, History
from routelog.vhosts import ConsumerGroup, Counters, MessageCounters, Queue, VhostDirectory

log = logging.getLogger(__name__)

SAMPLE_SECONDS = 5.0  # RabbitMQ's collect_statistics_interval
SAMPLE_SECONDS_MIN = 0.5  # between two, when one takes long: of 100,000 busy objects 0.4 s of work
# Of queues, vhosts and groups, up to 144 bytes each: 29 MB. 490 that are always busy have a whole day, 1,650
# ten minutes.
LASTING_ROWS_MAX = 200_000
PASSING_ROWS_MAX = 60_000  # of what comes and goes with clients, up to 128 bytes each: 8 MB
NODE_ROWS_MAX = 10_000  # of the node: always a whole day

DISK_FREE = "disk free"  # whose history has the free bytes


class Sampler:
    """The samples of a node.

    Attributes:
        since: monotonic time of the newest complete sample; what has no row since then does not change.
        epoch: seconds since 1970 at monotonic time 0.

    Args:
        disk_free: bytes; 0: not known yet.
    """

    def __init__(self, vhosts: VhostDirectory, clock: Clock, disk_free: Callable[[], int]) -> None:
        self._vhosts = vhosts
        self._node = vhosts.counters
        self._clock = clock
        self._disk_free = disk_free
        self.since = self._before = clock.monotonic()
        self.epoch = clock.now() / 1_000_000 - self.since
        node = self._node
        self._of_node: set[object] = {node, node.churn, node.channels, node.traffic, DISK_FREE}
        self._of_node.update(node.queues.values())
        self._of_vhosts: set[object] = set()
        self._groups: set[ConsumerGroup] = set()
        self._node_histories = Histories(DAY, NODE_ROWS_MAX)
        self._lasting = Histories(DAY, LASTING_ROWS_MAX)
        self._passing = Histories(TEN_MINUTES, PASSING_ROWS_MAX)
        self._lengths: dict[str, list[int]] = {}  # of vhosts: ready and unacknowledged messages
        self._capacity = ConsumerCapacity()
        self._is_counted = self._has_sampled = False
        self._task: asyncio.Task[None] | None = None

    def count_queues(self) -> None:
        """Queues were opened: the next sample counts the messages of all."""
        self._is_counted = False

    def start(self) -> None:
        """Begin to sample."""
        self._node.changed.is_watched = True
        self._task = asyncio.ensure_future(self._run())

    async def stop(self) -> None:
        """Sample no more."""
        self._node.changed.is_watched = False
        self._node.changed.noted.clear()
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        while True:
            began = self._clock.monotonic()
            try:
                await self.sample()
            except Exception as error:  # what is noted must not grow without end
                log.error("an error of the broker, sampling its counters", exc_info=error)
            took = self._clock.monotonic() - began
            await asyncio.sleep(max(SAMPLE_SECONDS - took, SAMPLE_SECONDS_MIN))

    def history(self, of: object) -> History | None:
        """The samples of counters; None: they have not changed for long.

        Args:
            of: counters; of the lengths of queues, those of a vhost, or of the node; a consumer group, of what
                it is behind; `DISK_FREE`.
        """
        return self._histories(of).get(of)

    def _histories(self, of: object) -> Histories:
        if of in self._of_node:
            return self._node_histories
        is_queue = isinstance(of, MessageCounters) and of.owner is not None
        lasts = is_queue or of in self._of_vhosts or isinstance(of, ConsumerGroup)
        return self._lasting if lasts else self._passing

    def consumer_capacity(self, queue: Queue) -> float:
        """How much of the time the consumers of a queue could take a message at once; 0 without any."""
        counters = queue.counters
        is_idle = not counters.is_noted and counters.sampled_at < self.since
        return self._capacity.of(queue, is_idle=is_idle)

    def lengths(self, vhost: str) -> tuple[int, int] | None:
        """The ready and unacknowledged messages of a vhost at the newest sample; None: there is none yet."""
        ready, unacked = self._lengths.get(vhost, (0, 0))
        return (ready, unacked) if self._has_sampled else None

    def rate(self, history: History | None, columns: Sequence[int]) -> float:
        """How fast the sum of some values grows, by the second."""
        if history is None or history.last_time < self.since:
            return 0.0
        return history.rate(columns)

    async def sample(self) -> None:
        """Take one sample."""
        began = self._clock.monotonic()
        if not self._is_counted:
            self._is_counted = True
            for vhost in self._vhosts.all():
                async for queue in in_turns(list(vhost.queues.values()), Lane.OPERATORS):
                    self._measure(queue.counters, queue)
        for vhost in self._vhosts.all():
            self._of_vhosts |= {vhost.counters, vhost.counters.channels}
        changed = self._node.changed
        noted, changed.noted = changed.noted, []
        noted.reverse()
        async for counters in in_turns(_taken(noted), Lane.OPERATORS):
            self._take(counters)
        groups = [each for vhost in self._vhosts.all() for each in vhost.hosted.groups.queues]
        async for group in in_turns(groups, Lane.OPERATORS):
            self._add_changed(group, (group.ready + group.unacked,))
        for gone in self._groups.difference(groups):
            self._lasting.forget(gone)
        self._groups = set(groups)
        self._take_totals()
        for histories in (self._lasting, self._passing):
            async for _ in in_turns(histories.expired(began), Lane.OPERATORS):
                pass
        self._before = self.since = began
        self._has_sampled = True

    def _take(self, counters: Counters) -> None:
        counters.is_noted = False
        values = counters.values()
        # They began at 0; the messages of a queue need not, as it may have been recovered.
        before = None if counters.sampled_at else (0,) * len(values)
        if isinstance(counters, MessageCounters) and counters.owner is not None:
            if counters.owner.deleted:
                self._forget(counters, counters.owner)
                return
            if before is not None:
                before += (counters.ready_sampled, counters.unacked_sampled)
            values += self._measure(counters, counters.owner)
        self._add(counters, values, before)
        now = self._clock.monotonic()
        counters.sampled_at = now
        if isinstance(counters, MessageCounters):
            counters.sample_flows(now, now - self._before)

    def _measure(self, counters: MessageCounters, queue: Queue) -> tuple[int, int]:
        self._capacity.look(queue)
        ready, unacked = queue.ready, queue.unacked
        self._changed(counters, queue.vhost, ready, unacked)
        return ready, unacked

    def _changed(self, counters: MessageCounters, vhost: str, ready: int, unacked: int) -> None:
        sums = self._lengths.setdefault(vhost, [0, 0])
        sums[0] += ready - counters.ready_sampled
        sums[1] += unacked - counters.unacked_sampled
        counters.ready_sampled, counters.unacked_sampled = ready, unacked

    def _forget(self, counters: MessageCounters, queue: Queue) -> None:
        self._changed(counters, queue.vhost, 0, 0)
        self._lasting.forget(counters)
        counters.owner = None
        self._capacity.forget(queue)

    def _take_totals(self) -> None:
        vhosts = self._vhosts.all()
        totals: set[object] = {vhost.counters for vhost in vhosts}
        totals.update(vhost.counters.channels for vhost in vhosts)
        for gone in self._of_vhosts - totals:
            self._lasting.forget(gone)
        self._of_vhosts = totals
        for vhost in vhosts:
            self._add_changed(vhost.counters, self._lengths.get(vhost.name, (0, 0)))
        names = {vhost.name for vhost in vhosts}
        for name in [each for each in self._lengths if each not in names]:
            if not any(self._lengths[name]):
                del self._lengths[name]
        ready = sum(each[0] for each in self._lengths.values())
        unacked = sum(each[1] for each in self._lengths.values())
        self._add_changed(self._node, (ready, unacked))
        churn = self._node.churn.values()
        self._add_changed(self._node.churn, churn, None if self._has_sampled else (0,) * len(churn))
        if free := self._disk_free():
            self._add_changed(DISK_FREE, (free,))

    def _add_changed(
        self, of: object, values: Sequence[int], before: Sequence[int] | None = None
    ) -> None:
        """Add a row of totals where they have changed, and now and then, so that they do not expire."""
        history = self.history(of)
        if (
            history is None
            or history.last != tuple(values)
            or history.last_time < self._before - DAY[-1].age / 2
        ):
            self._add(of, values, before)

    def _add(self, of: object, values: Sequence[int], before: Sequence[int] | None) -> None:
        """Add a row.

        Args:
            before: the values at the sample before, of what has no row; None: nobody knows.
        """
        self._histories(of).add(of, self._clock.monotonic(), values, (self._before, before))


def _taken(noted: list[Any]) -> Iterator[Any]:
    # Many are let go of one by one: all at once would be a long turn.
    while noted:
        yield noted.pop()


WEIGHT = 0.2  # of a look: 5 looks of the same kind, 25 s, are two thirds of the value
CONSUMERS_MAX = 64  # looked at for one with credit: 10 us


class ConsumerCapacity:
    """The shares of time by queue, for queues in which something happens."""

    def __init__(self) -> None:
        self._shares: dict[Queue, float] = {}

    def look(self, queue: Queue) -> None:
        """Note whether a consumer could take a message now."""
        if not queue.consumers:
            self._shares.pop(queue, None)
            return
        now = float(takes_more(queue))
        before = self._shares.get(queue, now)
        self._shares[queue] = before + (now - before) * WEIGHT

    def forget(self, queue: Queue) -> None:
        """The queue is deleted."""
        self._shares.pop(queue, None)

    def of(self, queue: Queue, *, is_idle: bool) -> float:
        """The share of time, from 0 to 1; 0 without consumers.

        Args:
            is_idle: nothing happened in it since the newest sample, so it is as it was.
        """
        if not queue.consumers:
            return 0.0
        share = None if is_idle else self._shares.get(queue)
        return round(share if share is not None else float(takes_more(queue)), 3)


def takes_more(queue: Queue) -> bool:
    """Whether a consumer of a queue has credit."""
    return any(consumer.credit() > 0 for consumer in islice(queue.consumers, CONSUMERS_MAX))
