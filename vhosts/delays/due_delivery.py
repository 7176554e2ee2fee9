"""Delivery of held messages: read a little before they are due, then routed as if just published.

The block of the journal that has a message in its queues settles it here, so after a crash it is in one place.
In memory it is settled when that block is durable.
"""

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby

from routelog.log_backend import (
    BLIND_COPIES,
    EXPIRATION,
    EXPIRING,
    OWN_DEATHS,
    PERSISTENT,
    PartitionLog,
    Reason,
    ScheduledRecord,
    StoredRecord,
    Timer,
)
from routelog.vhosts.delays.held_messages import HeldMessages
from routelog.vhosts.delays.message_delay import DueLetters, message_delay
from routelog.vhosts.messages.property_list import is_persistent
from routelog.vhosts.publishing.internal_publish import Posted
from routelog.vhosts.rules.rule_services import RuleServices

AHEAD = 2_000_000  # us; messages are read so long before they are due: many reads of a busy disk
COMING_MAX = 4_096  # messages that are read ahead: as many as due in AHEAD at 2,000 a second
READ_BYTES_MAX = 16_777_216  # of messages read ahead that are not in memory anyway
FETCH_BYTES_MAX = 2_097_152  # of one read
FETCH_MAX = 512  # messages of one read
POSTED_MAX = 256  # messages of one turn: about 5 ms
POSTED_BYTES_MAX = 1_048_576  # bodies of one turn; a larger message goes alone
PRESSED_SECONDS = 0.1  # until publishers are checked again for back-pressure
REFUSED_SECONDS = 5.0  # until a message that a full queue refused is tried again
UNREADABLE_SECONDS = 5.0  # until messages whose read failed are read again
TIMER_SECONDS_MAX = 60.0  # the clock may be set meanwhile
NO_QUEUES: frozenset[str] = frozenset()

log = logging.getLogger(__name__)


class DueDelivery:
    """Delivers the messages of one exchange when they are due.

    Invariant: `_next_entries` ascends, and its entries are not in the schedule's memory any more.
    """

    def __init__(self, held: HeldMessages, services: RuleServices) -> None:
        self._held_messages = held
        self._rule_services = services
        self._next_entries: list[ScheduledRecord] = []
        # Of `_next_entries`: not in memory, and no read is under way
        self._unread_entries: list[ScheduledRecord] = []
        self._reading: set[ScheduledRecord] = set()
        self._records: dict[ScheduledRecord, StoredRecord] = {}
        self._read_bytes = 0
        self._open_posts = 0  # groups of messages that are published and not yet durable
        # Messages that a full queue refused, until they are tried again, with the queues that have them
        self._taken_by: dict[ScheduledRecord, frozenset[str]] = {}
        self._refused_count = 0  # of them, those that are not in `_next_entries`
        self._unreadable_entries: list[ScheduledRecord] = []  # due, and read again soon
        self._timer: Timer | None = None
        self._timer_at = 0  # us since 1970
        self._looking = False
        self._stopped = False
        held.on_earlier = self._came
        held.on_near = self.look_soon

    def look_soon(self) -> None:
        """Look for due messages after this turn of the event loop."""
        if not self._looking and not self._stopped:
            self._looking = True
            self._rule_services.call_soon(self._look)

    def stop(self) -> None:
        """The exchange is gone."""
        self._stopped = True
        self._next_entries.clear()
        self._unread_entries.clear()
        self._unreadable_entries.clear()
        self._records.clear()
        self._taken_by.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _came(self, due: int) -> None:
        if self._timer is None or due - AHEAD < self._timer_at:
            self.look_soon()

    def _look(self) -> None:
        self._looking = False
        if self._stopped:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now = self._rule_services.now()
        self._bring(now + AHEAD)
        self._fetch()
        if self._open_posts:
            return  # the last post to end looks again
        if self._next_entries and self._next_entries[0].due <= now:
            if self._rule_services.is_pressed():
                self._wake_at(now + int(PRESSED_SECONDS * 1_000_000))
                return
            if self._deliver(now):
                self.look_soon()
        if not self._open_posts and not self._looking:
            self._set_timer(now)

    def _set_timer(self, now: int) -> None:
        times = []
        if self._next_entries and self._next_entries[0].due > now:
            times.append(self._next_entries[0].due)
        following = self._held_messages.schedule.next_due
        if following is not None and self._room:
            times.append(following - AHEAD)
        if times:
            self._wake_at(min(times))

    def _wake_at(self, time: int) -> None:
        seconds = (time - self._rule_services.now()) / 1_000_000
        self._timer_at = time
        self._timer = self._rule_services.call_later(
            min(max(seconds, 0.0), TIMER_SECONDS_MAX), self.look_soon
        )

    @property
    def _room(self) -> int:
        waiting = self._refused_count + len(self._unreadable_entries)
        return max(0, COMING_MAX - len(self._next_entries) - waiting)

    # -- reading

    def _bring(self, until: int) -> None:
        taken = self._held_messages.schedule.take_due(until, self._room)
        if not taken:
            return
        brought = [entry for entry in taken if self._held_messages.is_held(entry)]
        if len(brought) < len(taken):
            self._held_messages.forget([e for e in taken if not self._held_messages.is_held(e)])
        self._next_entries += brought
        self._next_entries.sort()
        logs = self._held_messages.logs
        self._unread_entries += [e for e in brought if logs[e.part].needs_load(e.offset)]

    def _fetch(self) -> None:
        while (
            self._unread_entries
            and self._read_bytes < READ_BYTES_MAX
            and len(self._reading) < COMING_MAX
        ):
            first = self._unread_entries[0]
            part_log = self._held_messages.logs[first.part]
            segment = part_log.segment_of(first.offset)
            if segment is None:
                del self._unread_entries[0]  # settled or lost: delivery finds out
                continue
            end = segment.written_end
            group = [
                each
                for each in self._unread_entries
                if each.part == first.part and segment.base_offset <= each.offset < end
            ][:FETCH_MAX] or [first]
            chosen = set(group)
            self._unread_entries = [each for each in self._unread_entries if each not in chosen]
            self._reading |= chosen
            offsets = sorted(each.offset for each in group)
            self._rule_services.fetch(
                segment, offsets, FETCH_BYTES_MAX, partial(self._fetched, group, part_log)
            )

    def _fetched(
        self,
        group: Sequence[ScheduledRecord],
        part_log: PartitionLog,
        found: Mapping[int, StoredRecord] | None,
    ) -> None:
        self._reading.difference_update(group)
        if self._stopped:
            return
        if found is None:
            # Damaged, or just removed: loading the first of them makes the log quarantine or skip them.
            part_log.load(min(each.offset for each in group), self.look_soon)
            self._rule_services.call_later(PRESSED_SECONDS, self.look_soon)
            return
        reached = max(found, default=group[0].offset)
        left = []
        for entry in group:
            record = found.get(entry.offset)
            if record is not None:
                self._records[entry] = record
                self._read_bytes += len(record.body) + len(record.properties)
            elif entry.offset > reached:
                left.append(entry)
        self._unread_entries = left + self._unread_entries
        self.look_soon()

    # -- delivering

    def _deliver(self, now: int) -> bool:
        # Returns whether there is more to do at once.
        due: list[tuple[ScheduledRecord, StoredRecord]] = []
        at = size = 0
        more = False
        for entry in self._next_entries:
            if entry.due > now:
                break
            if len(due) >= POSTED_MAX or size >= POSTED_BYTES_MAX:
                more = True
                break
            if self._held_messages.is_held(entry):
                record = self._record(entry)
                if record is None and self._waits_for(entry):
                    break
                if record is not None and self._is_due(entry, record):
                    due.append((entry, record))
                    size += len(record.body)
            at += 1
        gone = self._next_entries[:at]
        del self._next_entries[:at]
        taken_by = {entry: self._taken_by.pop(entry, NO_QUEUES) for entry in gone}
        for entry in gone:
            if (known := self._records.pop(entry, None)) is not None:
                self._read_bytes -= len(known.body) + len(known.properties)
        # Only neighbours are grouped, so that messages go on in the order in which they are due.
        for (exchange, attributes), group in groupby(due, _kind):
            self._post(exchange, attributes, list(group), taken_by)
        return more or bool(gone and self._next_entries and self._next_entries[0].due <= now)

    def _record(self, entry: ScheduledRecord) -> StoredRecord | None:
        return self._records.get(entry) or self._held_messages.in_memory(entry)

    def _waits_for(self, entry: ScheduledRecord) -> bool:
        # Whether a due message that is not in memory is being loaded.
        part_log = self._held_messages.logs[entry.part]
        if entry in self._reading:
            return True
        if part_log.needs_load(entry.offset):
            if entry not in self._unread_entries:  # it was in memory when it was read ahead
                self._unread_entries.insert(0, entry)
            self._fetch()
            return True
        if entry.offset < part_log.blocked_from:
            self._held_messages.settle([entry], Reason.LOST)
        elif part_log.read_error is None or not self._set_aside(entry):
            where = part_log.directory
            log.error("a held message waits for the next start: %s, offset %d", where, entry.offset)
        return False

    def _set_aside(self, entry: ScheduledRecord) -> bool:
        # The read failed without damage, so the disk may be well again: no consumer comes here to ask for it.
        # Half of the room is for messages that can be read.
        if len(self._unreadable_entries) >= COMING_MAX // 2:
            return False
        if not self._unreadable_entries:
            self._rule_services.call_later(UNREADABLE_SECONDS, self._read_again)
        self._unreadable_entries.append(entry)
        return True

    def _read_again(self) -> None:
        unreadable, self._unreadable_entries = self._unreadable_entries, []
        for part in {entry.part for entry in unreadable}:
            self._held_messages.logs[part].read_again()
        self._bring_back(unreadable)

    def _is_due(self, entry: ScheduledRecord, record: StoredRecord) -> bool:
        # After a crash another message may have the offset of an entry: the entry is void then.
        if record.time + message_delay(record.properties) == entry.due:
            return True
        self._held_messages.schedule.strike_out([entry])
        return False

    def _post(
        self,
        exchange: bytes,
        attributes: int,
        group: Sequence[tuple[ScheduledRecord, StoredRecord]],
        taken_by: Mapping[ScheduledRecord, frozenset[str]],
    ) -> None:
        letters = DueLetters([(record, taken_by[entry]) for entry, record in group])
        entries = [entry for entry, _ in group]
        self._open_posts += 1
        self._held_messages.leaving.update(entries)
        self._rule_services.post.begin(
            self._held_messages.exchange,
            letters,
            attributes,
            exchange,
            self._posted,
            partial(self._settle, entries),
            keeps_refused=True,
        )

    def _posted(self, posted: Posted | None) -> None:
        if posted is None:
            return  # the journal has logged it; a restart delivers the messages
        self._open_posts -= 1
        if not self._open_posts:
            self.look_soon()

    def _settle(self, entries: Sequence[ScheduledRecord], places: range, posted: Posted) -> None:
        # A message that failed is held until a restart tries it again.
        held = self._held_messages
        kept = posted.refused | posted.failed
        held.leaving.difference_update([entries[place] for place in places if place in kept])
        refused = [entries[place] for place in places if place in posted.refused]
        if refused:
            self._refused_count += len(refused)
            for place, names in posted.taken_by.items():
                self._taken_by[entries[place]] = names
            self._rule_services.call_later(REFUSED_SECONDS, partial(self._try_again, refused))
        gone = [entries[place] for place in places if place not in kept]
        if gone:
            settle = partial(held.settle, gone)
            self._rule_services.when_moved(posted, held.settlements(gone), settle)

    def _try_again(self, refused: Sequence[ScheduledRecord]) -> None:
        self._refused_count -= len(refused)
        self._bring_back(refused)

    def _bring_back(self, entries: Sequence[ScheduledRecord]) -> None:
        if not self._stopped:
            self._next_entries += entries
            self._next_entries.sort()
            self.look_soon()


def _kind(due: tuple[ScheduledRecord, StoredRecord]) -> tuple[bytes, int]:
    # Exchange and attributes for the batch in which a message is published.
    record = due[1]
    attributes = record.attributes & (BLIND_COPIES | OWN_DEATHS)
    if is_persistent(record.properties):
        attributes |= PERSISTENT
    if int.from_bytes(record.properties[:2], "big") & EXPIRATION:
        attributes |= EXPIRING
    return record.exchange, attributes
