"""A page of held messages, for operators: when each is due, and its content."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from routelog.log_backend import LogStore, ScheduledRecord, SegmentDamaged, StoredRecord
from routelog.vhosts.delays.held_messages import HeldMessages

FETCH_BYTES_MAX = 2_097_152  # of one read; bodies are read to know their sizes
NOTHING_BEFORE = ScheduledRecord(0, 0, 0)


class HeldMessage(NamedTuple):
    """A held message.

    Attributes:
        entry: its due time, part and offset.
        received: microseconds since 1970.
        exchange: that it was published to.
    """

    entry: ScheduledRecord
    received: int
    exchange: bytes
    routing_key: bytes
    body_bytes: int


class HeldPage(NamedTuple):
    """Some held messages, in the order of their due times.

    Attributes:
        following: where the next page begins; None: there is none.
    """

    messages: Sequence[HeldMessage]
    following: ScheduledRecord | None


async def held_page(
    held: HeldMessages, logs: LogStore, first: ScheduledRecord, count: int
) -> HeldPage:
    """Read a page, from an entry on.

    Messages that cannot be read are left out.

    Raises:
        MetadataUnavailable: the schedule cannot be read.
    """
    entries: list[ScheduledRecord] = []
    following: ScheduledRecord | None = first
    while following is not None and len(entries) < count:
        found = await held.schedule.page(following, count)
        more = len(found) == count
        following = _behind(found[-1]) if more else None
        entries += [each for each in found if held.is_held(each)]
    if len(entries) > count:
        following = entries[count]
        del entries[count:]
    known = await _read(held, logs, entries)
    return HeldPage([known[each] for each in entries if each in known], following)


async def _read(
    held: HeldMessages, logs: LogStore, entries: Iterable[ScheduledRecord]
) -> Mapping[ScheduledRecord, HeldMessage]:
    known: dict[ScheduledRecord, HeldMessage] = {}
    left: dict[int, list[ScheduledRecord]] = {}
    for entry in entries:
        record = held.in_memory(entry)
        if record is not None:
            known[entry] = _message(entry, record)
        else:
            left.setdefault(entry.part, []).append(entry)
    for part, missing in left.items():
        wanted = sorted(missing, key=lambda entry: entry.offset)
        while wanted:
            read = await _fetch(held, logs, part, wanted)
            known.update({entry: _message(entry, record) for entry, record in read.items()})
            last = max((entry.offset for entry in read), default=wanted[0].offset)
            wanted = [entry for entry in wanted if entry.offset > last]
    return known


async def _fetch(
    held: HeldMessages, logs: LogStore, part: int, wanted: Sequence[ScheduledRecord]
) -> Mapping[ScheduledRecord, StoredRecord]:
    # Of the first segment that has any of them.
    segment = held.logs[part].segment_of(wanted[0].offset)
    if segment is None:
        return {}
    here = {each.offset: each for each in wanted if each.offset < segment.written_end}
    try:
        found = await logs.reads.fetch(segment, list(here), FETCH_BYTES_MAX)
    except (OSError, SegmentDamaged):
        return {}
    return {here[offset]: record for offset, record in found.items()}


def _message(entry: ScheduledRecord, record: StoredRecord) -> HeldMessage:
    return HeldMessage(entry, record.time, record.exchange, record.routing_key, len(record.body))


def _behind(entry: ScheduledRecord) -> ScheduledRecord:
    return entry._replace(offset=entry.offset + 1)
