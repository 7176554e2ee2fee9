"""Queues and consumer groups that fall behind, hang, are damaged, or hold what nobody takes.

A queue is told of once, as the worst that it is: of 100,000 queues nearly all are small and left after a look
at their lengths.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator
from itertools import count

from msgspec import UNSET, UnsetType

from routelog.log_backend import Lane, PartitionLog, in_turns
from routelog.management.calls.call import Call
from routelog.management.calls.listing import SLICE_ITEMS, slices
from routelog.management.figures.numbers import as_rate, as_span
from routelog.management.findings.finding import NAMED_MAX, Finding, Named, Severity, finding
from routelog.management.sampling.history import (
    GROWING_MINUTES,
    MINUTE,
    History,
    growing_since,
    grown,
    unchanged_since,
)
from routelog.management.sampling.sampler import takes_more
from routelog.management.views.bindings import bindings_from
from routelog.vhosts import ROUND_ROBIN, ConsumerGroup, MessageCounters, Queue, VirtualHost

HUNG_SECONDS = GROWING_MINUTES * MINUTE
TREND_SECONDS, TREND_STEP = 600, 20

_NAMES = MessageCounters.NAMES
_CAME = [_NAMES.index("publish")]
_LEFT = [_NAMES.index(each) for each in ("deliver", "deliver_no_ack", "get", "get_no_ack", "ack")]
_LENGTH = [len(_NAMES), len(_NAMES) + 1]  # ready and unacknowledged: see `Sampler`
_LAG = [0]


class _Kind:
    """The objects of a kind: how many there are, and those with most messages."""

    def __init__(
        self, kind: str, summary: str, severity: Severity = "look", *, counts_messages: bool = True
    ) -> None:
        self._kind = kind
        self._summary = summary
        self._severity: Severity = severity
        self._counts_messages = counts_messages
        self._count = self._messages = 0
        self._order = count()
        self._heap: list[tuple[int, int, Callable[[], Named]]] = []

    def add(self, messages: int, named: Callable[[], Named]) -> None:
        """Count an object; it is described later, if it is one of the largest."""
        self._count += 1
        self._messages += messages
        entry = (messages, -next(self._order), named)
        if len(self._heap) < NAMED_MAX:
            heapq.heappush(self._heap, entry)
        else:
            heapq.heappushpop(self._heap, entry)

    def findings(self) -> Iterator[Finding]:
        """The finding, if there is any object."""
        if self._heap:
            summary = self._summary.format(count=self._count, messages=self._messages)
            yield finding(
                self._kind,
                [named() for _, _, named in sorted(self._heap, reverse=True)],
                severity=self._severity,
                count=self._count,
                messages=self._messages if self._counts_messages else None,
                summary=summary,
            )


class QueueFindings:
    """The findings of one call."""

    def __init__(self, call: Call) -> None:
        self._sampler = call.sampler
        self._limits = call.broker.findings
        self._now = call.broker.clock.now()  # microseconds since 1970
        # What is added to monotonic seconds for seconds since 1970.
        self._epoch = self._now / 1_000_000 - call.broker.clock.monotonic()
        of = "{count:,} queues"
        self._damaged = _Kind("quarantine", f"{of} are damaged", "wrong", counts_messages=False)
        self._uncompacted = _Kind(
            "compaction", "{count:,} streams are not compacted", counts_messages=False
        )
        self._growing = _Kind("backlog", f"{of} take in more than they give out")
        self._groups = _Kind("group", "{count:,} groups are {messages:,} messages behind")
        self._hung = _Kind("capacity", f"the consumers of {of} take nothing")
        self._old = _Kind("age", f"{of} have messages that wait for long")
        self._dead = _Kind("dead letters", f"{of} hold {{messages:,}} dead letters")
        self._forsaken = _Kind(
            "no consumer", f"{of} hold {{messages:,}} messages that nobody takes"
        )
        self._paused = _Kind("paused", f"{of} are paused and hold {{messages:,}} messages")
        self._one_sided = _Kind(
            "partitions", f"{of} use one of their partitions only", counts_messages=False
        )

    async def look(self, vhosts: Iterable[VirtualHost]) -> list[Finding]:
        """Look at all queues and groups of some vhosts, in turns of the event loop."""
        for vhost in vhosts:
            await self._look_at_queues(vhost)
            async for group in in_turns(list(vhost.hosted.groups.queues), Lane.OPERATORS):
                self._look_at_group(group)
        kinds = (
            self._damaged,
            self._uncompacted,
            self._growing,
            self._groups,
            self._hung,
            self._old,
            self._dead,
            self._forsaken,
            self._paused,
            self._one_sided,
        )
        return [found for kind in kinds for found in kind.findings()]

    async def _look_at_queues(self, vhost: VirtualHost) -> None:
        large: list[Queue] = []
        addresses: set[tuple[str, str | None]] = set()
        async for some in in_turns(slices(vhost.queues.values(), SLICE_ITEMS), Lane.OPERATORS):
            for queue in some:
                for partition in queue.partitions:
                    if partition.log.is_damaged:
                        self._damaged.add(queue.ready, _damaged(queue))
                        break
                    if partition.log.compaction_failure:
                        self._uncompacted.add(queue.ready, _uncompacted(queue, partition.log))
                        break
                else:
                    if not queue.is_stream and (queue.consumers or self._is_large(queue)):
                        large.append(queue)
                if len(queue.partitions) > 1:
                    self._look_at_partitions(queue)
                arguments = queue.effective.values
                exchange = arguments.get("x-dead-letter-exchange")
                if exchange is not None:
                    key = arguments.get("x-dead-letter-routing-key")
                    addresses.add((str(exchange), None if key is None else str(key)))
        letters = {
            name async for name in in_turns(_letter_queues(vhost, addresses), Lane.OPERATORS)
        }
        async for queue in in_turns(large, Lane.OPERATORS):
            self._look_at_queue(queue, is_for_letters=queue.name in letters)

    def _is_large(self, queue: Queue) -> bool:
        return queue.ready + queue.unacked >= self._limits.messages

    def _look_at_queue(self, queue: Queue, *, is_for_letters: bool) -> None:
        ready = queue.ready
        is_left = not queue.consumer_count
        if is_for_letters and is_left:
            if ready >= self._limits.messages:
                self._dead.add(ready, lambda: self._untaken(queue, "dead letters"))
            return
        if queue.paused:
            if ready >= self._limits.messages:
                text = f"is paused and holds {ready:,} messages"
                self._paused.add(ready, lambda: self._named(queue, text, self._oldest(queue)))
            return
        history = self._sampler.history(queue.counters)
        if self._is_large(queue) and history is not None:
            since = self._growing_since(history, _LENGTH)
            if since is not None:
                self._growing.add(ready, lambda: self._grows(queue, history, since))
                return
        if queue.consumers and ready:
            hung = self._hung_since(queue, history)
            oldest = self._oldest(queue)
            if hung is not None:
                self._hung.add(ready, lambda: self._hangs(queue, hung))
            elif oldest is not UNSET and self._age(oldest) >= self._limits.age_seconds:
                self._old.add(ready, lambda: self._waits(queue, oldest))
        elif is_left and ready >= self._limits.messages:
            self._forsaken.add(ready, lambda: self._untaken(queue, "messages"))

    def _look_at_partitions(self, queue: Queue) -> None:
        # By all that ever came, consumed or not. A run of any length is in one partition by round robin.
        ends = [partition.log.next_offset for partition in queue.partitions]
        came = max(ends)
        is_by_key = queue.effective.values.get("x-partition-strategy") != ROUND_ROBIN
        if came == sum(ends) and came >= self._limits.messages and is_by_key:
            text = f"has all {came:,} messages that came in one of its {len(ends)} partitions"
            self._one_sided.add(came, lambda: self._named(queue, text, UNSET))

    def _look_at_group(self, group: ConsumerGroup) -> None:
        behind = group.ready + group.unacked
        if group.deleted or behind < self._limits.messages:
            return
        history = self._sampler.history(group)
        since = None if history is None else self._growing_since(history, _LAG)
        oldest = _first_time(partition.oldest_time for partition in group.partitions)
        if since is None and (oldest is UNSET or self._age(oldest) < self._limits.age_seconds):
            return
        self._groups.add(behind, lambda: self._lags(group, behind, since, oldest))

    # -- what is so

    def _growing_since(self, history: History, columns: list[int]) -> float | None:
        return growing_since(history, columns, self._sampler.since, self._limits.messages)

    def _hung_since(self, queue: Queue, history: History | None) -> float | None:
        """Since when consumers that have no credit were given, and acknowledged, nothing: monotonic seconds."""
        if takes_more(queue):
            return None
        now, counters = self._sampler.since, queue.counters
        since = counters.sampled_at if history is None else unchanged_since(history, _LEFT, now)
        return since if since and now - since >= HUNG_SECONDS else None

    def _oldest(self, queue: Queue) -> float | UnsetType:
        """When the next ready message came, or shortly before, in seconds since 1970."""
        times = (
            partition.log.time_at(head[0])
            for partition in queue.partitions
            if (head := partition.head) is not None
        )
        return _first_time(times)

    def _age(self, since: float) -> float:
        return self._now / 1_000_000 - since

    # -- what is said of it

    def _grows(self, queue: Queue, history: History, since: float) -> Named:
        now = self._sampler.since
        came = grown(history, _CAME, now) / HUNG_SECONDS
        left = max(0.0, came - grown(history, _LENGTH, now) / HUNG_SECONDS)
        text = f"takes in {as_rate(came)} and gives out {as_rate(left)}"
        if not queue.consumer_count:
            text = f"takes in {as_rate(came)} and has no consumer"
        elif queue.consumers and self._hung_since(queue, history) is not None:
            text = f"takes in {as_rate(came)}, and its consumers take nothing"
        oldest = self._oldest(queue)
        age = "" if oldest is UNSET else f", the oldest {as_span(self._age(oldest))} old"
        return self._named(queue, f"{text}: {queue.ready:,} ready{age}", since + self._epoch)

    def _hangs(self, queue: Queue, since: float) -> Named:
        text = f"has consumers that take nothing: {queue.ready:,} ready, {queue.unacked:,} unacknowledged"
        return self._named(queue, text, since + self._epoch)

    def _waits(self, queue: Queue, since: float) -> Named:
        text = f"has consumers, and its oldest ready message waits for {as_span(self._age(since))}"
        return self._named(queue, f"{text}: {queue.ready:,} ready", since)

    def _untaken(self, queue: Queue, what: str) -> Named:
        since = self._oldest(queue)
        age = "" if since is UNSET else f", the oldest {as_span(self._age(since))} old"
        text = f"holds {queue.ready:,} {what} and has no consumer{age}"
        return self._named(queue, text, since)

    def _lags(
        self, group: ConsumerGroup, behind: int, since: float | None, oldest: float | UnsetType
    ) -> Named:
        age = "" if oldest is UNSET else f" and {as_span(self._age(oldest))}"
        text = f"on {group.name} is {behind:,} messages{age} behind"
        if since is not None:
            text += ", and falls further"
        return Named(
            type="group",
            name=group.record.name,
            text=text,
            vhost=group.vhost,
            queue=group.name,
            messages=behind,
            since=oldest if since is None else since + self._epoch,
            trend=self._trend(group, _LAG),
        )

    def _named(self, queue: Queue, text: str, since: float | UnsetType) -> Named:
        return Named(
            type="queue",
            name=queue.name,
            text=text,
            vhost=queue.vhost,
            messages=queue.ready,
            since=since,
            trend=self._trend(queue.counters, _LENGTH),
        )

    def _trend(self, of: object, columns: list[int]) -> list[int] | UnsetType:
        history, now = self._sampler.history(of), self._sampler.since
        if history is None:
            return UNSET
        ages = range(TREND_SECONDS, -1, -TREND_STEP)
        return [history.at(now - age, columns) for age in ages]


def _damaged(queue: Queue) -> Callable[[], Named]:
    text = "is damaged: a part is not delivered"
    return lambda: Named(type="queue", name=queue.name, text=text, vhost=queue.vhost)


def _uncompacted(queue: Queue, log: PartitionLog) -> Callable[[], Named]:
    text = f"is not compacted: {log.compaction_failure}"
    return lambda: Named(type="queue", name=queue.name, text=text, vhost=queue.vhost)


def _first_time(times: Iterable[int | None]) -> float | UnsetType:
    found = min((time for time in times if time is not None), default=None)
    return UNSET if found is None else found / 1_000_000


def _letter_queues(
    vhost: VirtualHost, addresses: Iterable[tuple[str, str | None]]
) -> Iterator[str]:
    for exchange, key in addresses:
        if exchange:
            for binding in bindings_from(vhost, exchange):
                if binding.destination_kind == "queue":
                    yield binding.destination
        elif key is not None:  # else each letter would go back to where it died
            yield key
