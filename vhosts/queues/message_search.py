"""Search of a queue's messages, for operators: it reads the logs, and changes nothing.

A search of a large log takes many turns of the event loop, and ends at a limit: `places` says where the next
one is to begin. What is settled meanwhile is not found, or found as it was.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from routelog.log_backend import (
    Lane,
    PartitionLog,
    RecordBatch,
    Records,
    header_key,
    scheduler_of,
)
from routelog.vhosts.filters.expression import Expression
from routelog.vhosts.filters.required_octets import (
    Column,
    RequiredOctets,
    required_header,
    required_identifier,
)
from routelog.vhosts.messages.property_list import identifier
from routelog.vhosts.partitions.queue_partition import QueuePartition
from routelog.vhosts.queues.queue import Queue

# Of one search: 0.5 s of the loop's time for each, spread over as many passes as the lane of operators takes.
LOOKS_MAX = 100_000  # at single messages, and at batches that are passed over
SEARCHED_BYTES_MAX = 1024 * 1024 * 1024
LOOK_SECONDS = 1.0  # until a read that has not ended is looked at again


class MessageState(StrEnum):
    """What a queue has done with a message so far."""

    READY = "ready"
    UNACKED = "unacked"  # handed out; or on its way: a retry that waits, a dead letter
    SETTLED = "settled"  # and still in the log


UNSETTLED = frozenset((MessageState.READY, MessageState.UNACKED))


class Place(NamedTuple):
    """Where to look: from an offset of a partition on, up to `end`; None: up to the end of the log."""

    partition: int
    offset: int
    end: int | None = None

    def __str__(self) -> str:
        return f"{self.partition}:{self.offset}" + ("" if self.end is None else f"-{self.end}")


@dataclass(frozen=True)
class MessageFilter:
    """Which messages are looked for; all conditions hold.

    Attributes:
        key: their routing key.
        header: name and value of a header; a number is written in decimal.
        text: octets of their bodies.
        since, until: when they came, microseconds since 1970: [since, until), of batches as a whole.
        message_id, correlation_id: these properties.
        condition: of SQL.
    """

    states: frozenset[MessageState] = UNSETTLED
    key: bytes | None = None
    header: tuple[bytes, bytes] | None = None
    text: bytes | None = None
    since: int = 0
    until: int | None = None
    message_id: bytes | None = None
    correlation_id: bytes | None = None
    condition: Expression | None = None

    def matches(self, records: Records, index: int) -> bool:
        """Whether key, header, text and identifiers are those of a record, and the condition is true."""
        if self.condition is not None and not self.condition.matches(records, index):
            return False
        if self.key is not None and records.routing_key(index) != self.key:
            return False
        if self.text is not None and self.text not in records.body(index):
            return False
        if self.header is None and self.message_id is None and self.correlation_id is None:
            return True
        properties = records.properties(index)
        if self.header is not None:
            name, value = self.header
            if header_key(properties, name) != value:
                return False
        if self.message_id is not None and identifier(properties, "message_id") != self.message_id:
            return False
        wanted = self.correlation_id
        return wanted is None or identifier(properties, "correlation_id") == wanted

    def may_be_in(self, records: Records) -> bool:
        """Whether a record of a batch may match: if not, none needs to be looked at."""
        if records.last_time < self.since:
            return False
        if (
            self.key is not None
            and not records.has_key_column
            and records.routing_key(0) != self.key
        ):
            return False
        return all(each.may_be_in(records) for each in self._required_octets)

    @cached_property
    def _required_octets(self) -> tuple[RequiredOctets, ...]:
        required = [] if self.condition is None else list(self.condition.required)
        if self.key is not None:
            required.append(RequiredOctets(Column.ROUTING_KEYS, (self.key,)))
        if self.header is not None:
            required.append(required_header(*self.header))
        for value in (self.message_id, self.correlation_id):
            if value is not None:
                required.append(required_identifier(value))
        if self.text is not None:
            required.append(RequiredOctets(Column.BODIES, (self.text,)))
        return tuple(required)


@dataclass(frozen=True, slots=True)
class FoundMessage:
    """A message that was found.

    Attributes:
        partition: its index.
        records, index: the content; it stays as it is, whatever becomes of the message.
        delivery_count: how often it was delivered again; 0 when it is settled.
    """

    partition: int
    offset: int
    state: MessageState
    records: Records
    index: int
    delivery_count: int


class MessageSearch:
    """One search through some partitions of a queue, in the order of the places.

    Attributes:
        wanted: the messages that it looks for.
        places: what is not looked at yet.
        looked_at: messages so far, with those of the batches that were passed over.
        unreadable: where it met damage, a failing disk, or remote storage that does not answer: what is behind
            is left out.
    """

    def __init__(self, queue: Queue, wanted: MessageFilter, places: Iterable[Place]) -> None:
        self.places = deque(places)
        self.looked_at = 0
        self.unreadable: list[Place] = []
        self._queue = queue
        self.wanted = wanted
        self._looks = 0
        self._bytes = 0
        self._last_records: Records | None = None

    @property
    def is_exhausted(self) -> bool:
        """Whether it has read as much as one search may."""
        return self._looks >= LOOKS_MAX or self._bytes >= SEARCHED_BYTES_MAX

    async def found(self) -> AsyncIterator[FoundMessage]:
        """The messages; whoever stops early finds in `places` where to go on behind the last one."""
        scheduler = scheduler_of(asyncio.get_running_loop())
        scheduler.begin(Lane.OPERATORS)
        while self.places and not self.is_exhausted and not self._queue.deleted:
            partition = self._queue.partitions[self.places[0].partition]
            batch = await self._next_batch(partition)
            if batch is None:
                self.places.popleft()
                continue
            for each in self._found_in(batch, partition):
                if each is not None:
                    yield each
                if scheduler.is_over():
                    await scheduler.pause(Lane.OPERATORS)
                if self.is_exhausted or self._queue.deleted:
                    return

    async def _next_batch(self, partition: QueuePartition) -> RecordBatch | None:
        # The batch of the next message that may be wanted; None: there is none in the first place.
        place, log = self.places[0], partition.log
        offset = self._wanted_from(partition, max(place.offset, log.lowest_offset))
        if offset >= _end(log, place):
            return None
        batch = await _read(log, offset)
        if batch is None:
            if not log.closed and (log.is_blocked(offset) or log.waits_for_remote(offset)):
                self.unreadable.append(Place(place.partition, offset))
            return None
        until = self.wanted.until
        if batch.base_offset >= _end(log, place) or (
            until is not None and batch.records.time >= until
        ):
            return None
        if batch.records is not self._last_records:  # several places may lie in one batch
            self._last_records = batch.records
            self._bytes += batch.records.batch_bytes
        self.places[0] = Place(place.partition, max(offset, batch.base_offset), place.end)
        return batch

    def _found_in(
        self, batch: RecordBatch, partition: QueuePartition
    ) -> Iterator[FoundMessage | None]:
        # None: one or more that are not wanted.
        place, records, wanted = self.places[0], batch.records, self.wanted
        offset, end = place.offset, min(batch.end_offset, _end(partition.log, place))
        if not wanted.may_be_in(records):
            self._go_on(end, end - offset)
            yield None
            return
        while offset < end:
            self._go_on(offset + 1, 1)
            index = offset - batch.base_offset
            found = None
            if wanted.matches(records, index):
                state = message_state(partition, offset)
                if state in wanted.states:
                    is_settled = state is MessageState.SETTLED
                    count = 0 if is_settled else partition.delivery_count(offset)
                    found = FoundMessage(place.partition, offset, state, records, index, count)
            yield found
            offset = self._wanted_from(partition, offset + 1)
        self._go_on(end, 0)

    def _wanted_from(self, partition: QueuePartition, offset: int) -> int:
        if MessageState.SETTLED in self.wanted.states or partition.log.is_stream:
            return offset
        unsettled: int = partition.cursor.settled.unsettled_from(offset)
        return unsettled

    def _go_on(self, offset: int, messages: int) -> None:
        # A look is done.
        first = self.places[0]
        self.places[0] = Place(first.partition, offset, first.end)
        self.looked_at += messages
        self._looks += bool(messages)


def _end(log: PartitionLog, place: Place) -> int:
    return log.visible_end if place.end is None else min(place.end, log.visible_end)


def message_state(partition: QueuePartition, offset: int) -> MessageState:
    """The state of a message in its queue; consumer groups have states of their own."""
    if partition.log.is_stream:
        return MessageState.READY
    if offset in partition.cursor.settled:
        return MessageState.SETTLED
    return MessageState.READY if partition.is_ready(offset) else MessageState.UNACKED


async def _read(log: PartitionLog, offset: int) -> RecordBatch | None:
    batch = log.read(offset)
    while batch is None and log.needs_load(offset) and not log.waits_for_remote(offset):
        loaded = asyncio.Event()
        log.load(offset, loaded.set)
        with suppress(TimeoutError):  # remote storage may not answer any more
            async with asyncio.timeout(LOOK_SECONDS):
                await loaded.wait()
        batch = log.read(offset)
    return batch
