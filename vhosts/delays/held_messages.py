"""The messages that a delayed message exchange holds: a log, and a schedule.

The log is like a queue's, with parts for ranges of delays. It has all facts: a message is due its delay after
it came in, and held until it is settled. The schedule is an index by due time; it can be rebuilt from the log.
"""

from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from routelog.exchanges import held_name
from routelog.log_backend import (
    PERSISTENT,
    Durability,
    PartitionLog,
    Reason,
    Records,
    Schedule,
    ScheduledRecord,
    Settlement,
    StoredRecord,
    record_at,
    split_records,
)
from routelog.vhosts.delays.message_delay import PARTS, message_delay, part_of


class HeldMessages:
    """The messages that one exchange holds.

    Attributes:
        name: stands for it in routes.
        exchange: its name.
        logs: by part.
        schedule: entries by due time.
        count: held messages.
        scanned: of each part, whether the schedule has all its messages; new messages then enter both.
        leaving: messages that are being published to queues: they cannot be cancelled.
        on_earlier: called with the due time of messages that came in, when it may be the next one.

    Args:
        when_settled: calls a function when all settlements so far are committed.
    """

    on_caught_up: Callable[[], None] | None = None  # it has no consumers

    def __init__(
        self,
        exchange: str,
        logs: Sequence[PartitionLog],
        open_schedule: Callable[[Callable[[], None]], Schedule],
        when_settled: Callable[[Callable[[], None]], None],
    ) -> None:
        self.name = held_name(exchange)
        self.exchange = exchange
        self.logs = logs
        self.progress = logs[0].progress
        self.count = 0
        self.scanned = [False] * PARTS
        self.leaving: set[ScheduledRecord] = set()
        self.on_earlier: Callable[[int], None] = lambda due: None
        self.on_near: Callable[[], None] = lambda: None
        self.schedule = open_schedule(lambda: self.on_near())
        self._when_settled = when_settled
        # Entries of a log that an open transaction holds back
        self._unscheduled: list[Sequence[ScheduledRecord]] = []

    def recovered(self) -> None:
        """The logs have recovered: count their messages."""
        for log in self.logs:
            settled = log.open_cursor().settled
            first, end = settled.low_water, log.next_offset
            self.count += end - first - settled.count_from(first, end)

    # -- as a recipient of messages

    @property
    def durability(self) -> Durability:
        """See `Recipient`; messages that are not persistent are kept as well."""
        return self.logs[0].durability

    @property
    def deleted(self) -> bool:
        """See `Recipient`."""
        return self.logs[0].closed

    @property
    def is_behind(self) -> bool:
        """See `Recipient`: it has no consumers."""
        return False

    def publish(self, records: Records, waited: bool) -> int:
        """Hold messages until they are due.

        Returns:
            The journal position that they wait for, or 0: see `PartitionLog.append`.

        Raises:
            JournalFailed: the disk failed before.
        """
        known: dict[bytes, int] = {}
        places, delays = array("i"), array("q")
        for index in range(records.count):
            properties = records.properties(index)
            delay = known.get(properties)
            if delay is None:
                delay = known[properties] = message_delay(properties)
            delays.append(delay)
            places.append(part_of(delay))
        position = 0
        for part, own in split_records(records, places, PARTS):
            held = [delay for place, delay in zip(places, delays, strict=True) if place == part]
            position = max(position, self._append(part, own, held, waited=waited))
        return position

    def takes(self, count: int, size: int) -> bool:
        """See `Recipient`: there is no limit of held messages."""
        return True

    @property
    def may_refuse(self) -> bool:
        """See `Recipient`."""
        return False

    def _append(self, part: int, records: Records, delays: Sequence[int], *, waited: bool) -> int:
        log = self.logs[part]
        offset = log.next_offset
        position: int = log.append(_kept(records), waited)
        entries = [
            ScheduledRecord(records.last_time + delay, part, offset + index)
            for index, delay in enumerate(delays)
        ]
        # Later messages wait, too: the schedule must have all messages below its end
        if log.is_open:
            self._unscheduled.append(entries)
        else:
            self._schedule(entries)
        return position

    def _schedule(self, entries: Sequence[ScheduledRecord]) -> None:
        part = entries[0].part
        self.count += len(entries)
        if self.scanned[part]:
            self.schedule.add(entries, part, entries[-1].offset + 1)
            self.on_earlier(min(entries).due)

    def transaction_ended(self, *, failed: bool) -> None:
        """See `Recipient`."""
        unscheduled, self._unscheduled = self._unscheduled, []
        for entries in unscheduled:
            log = self.logs[entries[0].part]
            if log.is_open:
                self._unscheduled.append(entries)
            elif not (log.closed or entries[0].offset in log.open_cursor().settled):
                self._schedule(entries)

    # -- what is held

    def is_held(self, entry: ScheduledRecord) -> bool:
        """Whether a message exists and is not settled."""
        log = self.logs[entry.part]
        return entry.offset < log.next_offset and entry.offset not in log.open_cursor().settled

    def in_memory(self, entry: ScheduledRecord) -> StoredRecord | None:
        """A message, if it is in memory; None: it must be read from the disk."""
        batch = self.logs[entry.part].read(entry.offset)
        if batch is None or batch.base_offset > entry.offset:
            return None
        return record_at(batch, entry.offset)

    def settlements(
        self, entries: Sequence[ScheduledRecord]
    ) -> Iterator[tuple[PartitionLog, Settlement]]:
        """What `settle` will come to, for the journal: with the log of each part."""
        for part in {entry.part for entry in entries}:
            offsets = sorted(entry.offset for entry in entries if entry.part == part)
            ranges: list[tuple[int, int]] = []
            for offset in offsets:
                if ranges and ranges[-1][1] == offset:
                    ranges[-1] = (ranges[-1][0], offset + 1)
                else:
                    ranges.append((offset, offset + 1))
            log = self.logs[part]
            if not log.closed:
                yield log, Settlement(log.open_cursor().number, ranges)

    def settle(self, entries: Sequence[ScheduledRecord], reason: Reason = Reason.ACKED) -> None:
        """Settle messages."""
        for entry in entries:
            self.leaving.discard(entry)
            log = self.logs[entry.part]
            if not log.closed:
                self.count -= log.open_cursor().settle(entry.offset, entry.offset + 1, reason)
        for part in {entry.part for entry in entries}:
            if not self.logs[part].closed:
                self.logs[part].release()
        self.forget(entries)

    def forget(self, settled: Sequence[ScheduledRecord]) -> None:
        """Remove settled messages from the schedule."""
        # Not earlier: if the settlement is taken back, the message must still be in the schedule.
        self._when_settled(partial(self.schedule.strike_out, settled))

    # -- what operators do

    def cancel(self, entry: ScheduledRecord) -> bool:
        """Cancel the delivery of a message; returns whether the message was held."""
        if entry.part >= PARTS or entry in self.leaving or not self.is_held(entry):
            return False
        self.settle([entry], Reason.PURGED)
        return True

    def cancel_all(self) -> int:
        """Cancel all held messages; returns how many."""
        before, ends = self.count, [log.ready_end for log in self.logs]
        for part, log in enumerate(self.logs):
            leaving = sorted(each.offset for each in self.leaving if each.part == part)
            at, cursor = log.open_cursor().low_water, log.open_cursor()
            for offset in (*leaving, ends[part]):
                self.count -= cursor.settle(at, offset, Reason.PURGED)
                at = offset + 1
            log.release()
        self._when_settled(partial(self.schedule.strike_out_below, ends, list(self.leaving)))
        return before - self.count


def _kept(records: Records) -> Records:
    # Held messages are durable even when they are not persistent in their queues.
    if records.persistent:
        return records
    return Records(
        records.payload,
        records.count,
        records.attributes | PERSISTENT,
        records.exchange,
        records.keys_bytes,
        records.properties_bytes,
        records.bodies_bytes,
        records.time,
        records.last_time,
        records.payload_crc(),
    )
