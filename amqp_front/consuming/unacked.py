# cython: annotation_typing=False, wraparound=True
# mypy: allow-untyped-decorators, no-warn-return-any, disable-error-code="index,name-defined"
"""The deliveries of a channel that are not settled: runs of delivery tags."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from operator import attrgetter, eq
from typing import NamedTuple, Protocol

import cython

from routelog.log_backend import Reason, SettledPart
from routelog.vhosts import (
    UNCOUNTED,
    Consumer,
    ConsumerSource,
    Delivery,
    DeliverySource,
    MessageCounters,
    ReturnReason,
)

SORTED_AT_ONCE_MAX = 1_024  # 0.1 ms
FEW_RUNS = 32  # to put one back among 100,000 takes 20 us

first_tag = attrgetter("first_tag")
_end_tag = attrgetter("end_tag")


class Holder(Consumer, Protocol):
    """A consumer that holds deliveries of `source`; `unacked` counts them, `lapsed` those taken back."""

    source: ConsumerSource
    unacked: int
    lapsed: int

    def end_lease(self) -> None:
        """It holds nothing any more, or its channel is closed."""


class UnknownDeliveryTag(Exception):
    """No unsettled delivery of this channel has the tag."""

    def __init__(self, tag: int) -> None:
        super().__init__(f"unknown delivery tag {tag}")
        self.tag = tag


class EndedLease:
    """Where deliveries came from that were taken back: settling them does nothing but make room for others."""

    def __init__(self, source: DeliverySource, holder: Holder) -> None:
        self._source = source
        self._holder = holder

    @property
    def counters(self) -> MessageCounters:
        """See `DeliverySource`: those of no queue."""
        return UNCOUNTED

    @property
    def number(self) -> int:
        """See `DeliverySource`."""
        return self._source.number

    @property
    def ready(self) -> int:
        """See `DeliverySource`."""
        return self._source.ready

    def on_ready(self) -> None:
        """See `DeliverySource`."""
        self._source.on_ready()

    def settle(self, first: int, end: int, reason: Reason = Reason.ACKED) -> None:
        """See `DeliverySource`: somebody else may have the messages."""
        self._holder.lapsed -= end - first

    def settlement(self, ranges: Sequence[tuple[int, int]], reason: Reason) -> None:
        """See `DeliverySource`: nothing is settled."""

    def committed(self, settled: Sequence[SettledPart]) -> None:
        """See `DeliverySource`: nothing is."""

    def carried_out(self, settled: Sequence[SettledPart]) -> None:
        """See `DeliverySource`."""

    def give_back(self, first: int, end: int, reason: ReturnReason = ReturnReason.UNUSED) -> None:
        """See `DeliverySource`: they are back."""
        self._holder.lapsed -= end - first

    def pause(self) -> None:
        """See `DeliverySource`: nothing is handed out from here."""

    def resume(self) -> None:
        """See `DeliverySource`."""
        self.on_ready()

    def redeliver(
        self, first: int, end: int, bytes_max: int, when_loaded: Callable[[], None]
    ) -> tuple[int, Sequence[Delivery]]:
        """See `DeliverySource`: somebody else may have them."""
        self._holder.lapsed -= end - first
        return end - first, ()

    def delivery_count(self, offset: int) -> int:
        """See `DeliverySource`; nothing is delivered from here."""
        return 0


@cython.final
@cython.cclass
class UnackedRun:
    """Deliveries with consecutive tags of consecutive offsets to one consumer (None: basic.get)."""

    __slots__ = ("consumer", "end_tag", "first_tag", "offset", "partition")

    def __init__(
        self,
        first_tag: int,
        end_tag: int,
        partition: DeliverySource,
        offset: int,
        consumer: Holder | None,
    ) -> None:
        self.first_tag = first_tag
        self.end_tag = end_tag
        self.partition = partition
        self.offset = offset
        self.consumer = consumer

    def __len__(self) -> int:
        return self.end_tag - self.first_tag

    @property
    def end_offset(self) -> int:
        """Behind the last offset."""
        return self.offset + self.end_tag - self.first_tag

    @cython.ccall
    @cython.returns("UnackedRun")
    @cython.locals(first_tag=cython.ulonglong, end_tag=cython.ulonglong)
    def cut(self, first_tag: int, end_tag: int) -> "UnackedRun":
        """The part of the run with these tags."""
        offset = self.offset + first_tag - self.first_tag
        return new_run(first_tag, end_tag, self.partition, offset, self.consumer)


@cython.ccall
@cython.returns(UnackedRun)
@cython.locals(
    first_tag=cython.ulonglong, end_tag=cython.ulonglong, offset=cython.longlong, run=UnackedRun
)
def new_run(
    first_tag: int,
    end_tag: int,
    partition: DeliverySource,
    offset: int,
    consumer: Holder | None,
) -> UnackedRun:
    """As the constructor: the same for compiled callers, without the cost of a Python call."""
    run = UnackedRun.__new__(UnackedRun)
    run.first_tag = first_tag
    run.end_tag = end_tag
    run.partition = partition
    run.offset = offset
    run.consumer = consumer
    return run


@cython.ccall
@cython.returns(cython.longlong)
@cython.exceptval(-1, check=True)
@cython.locals(runs=list, run=UnackedRun, count=cython.longlong)
def messages_of(runs: list[UnackedRun]) -> int:
    """How many deliveries some runs are."""
    count = 0
    for run in runs:
        count += run.end_tag - run.first_tag
    return count


class Taken(NamedTuple):
    """Deliveries on their way out.

    Attributes:
        outcome: why they are settled, or how they come back to their queues.
    """

    runs: list[UnackedRun]
    outcome: Reason | ReturnReason


@cython.final
@cython.cclass
class Unacked:
    """Unsettled deliveries in the order of their tags."""

    __slots__ = ("_runs",)

    def __init__(self) -> None:
        self._runs: list[UnackedRun] = []

    @property
    def count(self) -> int:
        """How many deliveries."""
        return messages_of(self._runs)

    @cython.ccall
    @cython.locals(run=UnackedRun, runs=list, last=UnackedRun, count=cython.longlong)
    def add(self, run: UnackedRun) -> None:
        """Add deliveries whose tags are above all others."""
        runs = self._runs
        if runs:
            last = runs[-1]
            count = last.end_tag - last.first_tag
            if (
                last.end_tag == run.first_tag
                and last.partition is run.partition
                and last.consumer is run.consumer
                and last.offset + count == run.offset
            ):
                last.end_tag = run.end_tag
                return
        runs.append(run)

    @cython.ccall
    @cython.returns(list)
    @cython.locals(
        first=cython.ulonglong,
        last=cython.ulonglong,
        tag=cython.ulonglong,
        at=cython.Py_ssize_t,
        end=cython.Py_ssize_t,
        runs=list,
        run=UnackedRun,
    )
    def take(self, first: int, last: int) -> list[UnackedRun]:
        """Remove the deliveries first to last, all of which must be there.

        Raises:
            UnknownDeliveryTag: one is not; nothing was removed.
        """
        runs = self._runs
        if runs:
            run = runs[0]
            if run.first_tag == first and run.end_tag == last + 1:
                return [runs.pop(0)]  # with a small prefetch, nearly always
        at, end = self._index(first), self._index(last) + 1
        if end - at < FEW_RUNS or not self._has_all(at, end, first, last):
            tag, end = first, at
            while tag <= last:
                if end >= len(runs):
                    raise UnknownDeliveryTag(tag)
                run = runs[end]
                if not run.first_tag <= tag < run.end_tag:
                    raise UnknownDeliveryTag(tag)
                tag = run.end_tag
                end += 1
        return self._remove(at, end, first, last + 1)

    def _has_all(self, at: int, end: int, first: int, last: int) -> bool:
        # Whether the tags first to last are those of these runs; 12,000 acks may be one command.
        some = self._runs[at:end]
        is_whole = some[0].first_tag <= first < some[0].end_tag and last < some[-1].end_tag
        return is_whole and all(map(eq, map(_end_tag, some), map(first_tag, islice(some, 1, None))))

    def take_up_to(self, last: int) -> list[UnackedRun]:
        """Remove all deliveries up to a tag; 0 means all.

        Raises:
            UnknownDeliveryTag: the tag itself is not there, unless it is 0.
        """
        if last == 0:
            return self.take_all()
        at = self._index(last)
        if at >= len(self._runs) or not self._runs[at].first_tag <= last < self._runs[at].end_tag:
            raise UnknownDeliveryTag(last)
        return self._remove(0, at + 1, 0, last + 1)

    def first_below(self, end_tag: int) -> UnackedRun | None:
        """The first deliveries, as far as their tags are below; they stay."""
        run = self._runs[0] if self._runs else None
        if run is None or run.first_tag >= end_tag:
            return None
        return run.cut(run.first_tag, min(run.end_tag, end_tag))

    def put_back(self, runs: Iterable[UnackedRun]) -> None:
        """Deliveries that were removed are unsettled again."""
        self._runs += runs
        self._runs.sort(key=first_tag)

    def put_back_few(self, lists: Sequence[list[UnackedRun]]) -> bool:
        """As `put_back`, unless it would take long: then nothing is done; returns whether it was."""
        count = sum(map(len, lists))
        if count + len(self._runs) <= SORTED_AT_ONCE_MAX:
            self.put_back(chain.from_iterable(lists))
        elif count <= FEW_RUNS:
            for run in chain.from_iterable(lists):
                insort(self._runs, run, key=first_tag)
        else:
            return False
        return True

    def put_below(self, runs: list[UnackedRun]) -> None:
        """As `put_back`, of deliveries in order, with tags below all others; the list is kept."""
        runs += self._runs
        self._runs = runs

    def take_all(self) -> list[UnackedRun]:
        """Remove everything."""
        runs, self._runs = self._runs, []
        return runs

    def end_leases(
        self,
        ends: Mapping[Holder, int],
        over: dict[tuple[DeliverySource, Holder], EndedLease],
        first: int,
        runs_max: int,
    ) -> tuple[list[UnackedRun], int]:
        """Let go of what consumers hold too long; the tags stay known, and mean nothing.

        Args:
            ends: below which tag they do, by consumer.
            over: what the tags lead to from here on.
            first: tag to begin with, where a run begins or none is.
            runs_max: to look at.

        Returns:
            What they held, and the tag to go on with; the one to begin with when that was all.
        """
        at = bisect_left(self._runs, first, key=first_tag)
        some = self._runs[at : at + runs_max]
        ended: list[UnackedRun] = []
        runs: list[UnackedRun] = []
        for run in some:
            holder = run.consumer
            end_tag = 0 if holder is None else ends.get(holder, 0)
            if holder is None or run.first_tag >= end_tag or isinstance(run.partition, EndedLease):
                runs.append(run)
                continue
            part = run.cut(run.first_tag, min(end_tag, run.end_tag))
            ended.append(part)
            lease = over.get((run.partition, holder))
            if lease is None:
                lease = over[run.partition, holder] = EndedLease(run.partition, holder)
            runs.append(UnackedRun(part.first_tag, part.end_tag, lease, part.offset, holder))
            if part.end_tag < run.end_tag:
                runs.append(run.cut(part.end_tag, run.end_tag))
        if ended:
            self._runs[at : at + runs_max] = runs
        return ended, some[-1].end_tag if some else first

    @cython.cfunc
    @cython.returns(cython.Py_ssize_t)
    @cython.exceptval(-1)
    @cython.locals(tag=cython.ulonglong, run=UnackedRun)
    def _index(self, tag: int) -> int:
        if self._runs:
            run = self._runs[0]
            if tag < run.end_tag:
                return 0  # acks come in order, nearly always
        return max(0, bisect_right(self._runs, tag, key=first_tag) - 1)

    @cython.cfunc
    @cython.returns(list)
    @cython.locals(
        at=cython.Py_ssize_t,
        end=cython.Py_ssize_t,
        first=cython.ulonglong,
        end_tag=cython.ulonglong,
        before=UnackedRun,
        behind=UnackedRun,
        taken=list,
        kept=list,
    )
    def _remove(self, at: int, end: int, first: int, end_tag: int) -> list[UnackedRun]:
        # There may be very many: only the two at the ends are looked at, as they may be cut.
        taken = self._runs[at:end]
        before, behind = taken[0], taken[-1]
        if before is behind and before.first_tag == first and end_tag < before.end_tag:
            part = before.cut(first, end_tag)  # the beginning of one run, mostly
            before.offset += end_tag - first
            before.first_tag = end_tag
            return [part]
        kept: list[UnackedRun] = []
        if before.first_tag < first:
            kept.append(before.cut(before.first_tag, first))
            taken[0] = before.cut(first, before.end_tag)
        if end_tag < behind.end_tag:
            kept.append(behind.cut(end_tag, behind.end_tag))
            taken[-1] = taken[-1].cut(taken[-1].first_tag, end_tag)
        self._runs[at:end] = kept
        return taken

    def __iter__(self) -> Iterator[UnackedRun]:
        return iter(self._runs)
