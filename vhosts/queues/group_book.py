"""The consumer groups of a virtual host: made, stored, deleted."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

import msgspec

from routelog.exchanges import QueueNotFound
from routelog.log_backend import (
    Change,
    LogStore,
    MetadataWriter,
    PartitionLog,
    Scheduler,
    unawaited,
)
from routelog.vhosts.arguments.group_options import GroupOptions
from routelog.vhosts.errors import (
    GroupInequivalent,
    GroupInUse,
    NotReadable,
    PlaceUnknown,
    TooManyGroups,
)
from routelog.vhosts.filters.filter_arguments import FILTER_ARGUMENTS
from routelog.vhosts.filters.reader_filter import ReaderFilter
from routelog.vhosts.messages.consumer import Consumer
from routelog.vhosts.partitions.stream_reader import stream_position, when_located
from routelog.vhosts.queues.consumer_group import ConsumerGroup
from routelog.vhosts.queues.queue import Queue
from routelog.vhosts.queues.queue_handle import Answer, ConsumeOptions, ConsumerSource, then
from routelog.vhosts.stored.stored_definitions import key_names
from routelog.vhosts.stored.topology_record import (
    GroupRecord,
    NextCursorRecord,
    group_change,
    next_cursor_change,
)

# Of one queue: every publish wakes each group, and every settlement checks all their cursors.
GROUPS_MAX = 256
# Until remote storage says where a time lies: the client's whole connection waits.
LOCATE_SECONDS = 5.0


class GroupBook:
    """Groups by queue.

    Attributes:
        queues: the queue of each group.
    """

    def __init__(
        self, vhost: str, logs: LogStore, writer: MetadataWriter, scheduler: Scheduler
    ) -> None:
        self.queues: dict[ConsumerGroup, Queue] = {}
        self._vhost = vhost
        self._logs = logs
        self._writer = writer
        self._scheduler = scheduler
        # Of queues that are not open, by queue and group
        self._stored_records: dict[str, dict[str, GroupRecord]] = {}
        self._next_cursors: dict[str, int] = {}

    # -- start

    def apply(self, change: Change) -> None:
        """Carry out a stored change of a group, or of a next cursor; their queue is not open.

        Raises:
            msgspec.MsgspecError: it cannot be read.
        """
        _, queue, *group = key_names(change.key)
        value = change.value
        if not group:
            if value is None:
                self._next_cursors.pop(queue, None)
            else:
                following = msgspec.json.decode(value, type=NextCursorRecord)
                self._next_cursors[queue] = following.cursor
        elif value is not None:
            record = msgspec.json.decode(value, type=GroupRecord)
            self._stored_records.setdefault(queue, {})[record.name] = record
        elif (records := self._stored_records.get(queue)) is not None:
            records.pop(group[0], None)
            if not records:
                del self._stored_records[queue]

    def cursors(self, queue: str, partition: int) -> Mapping[int, int]:
        """The cursors of a queue's stored groups in a partition, by number, with their first offsets."""
        stored = self._stored_records.get(queue)  # behind the start: none
        if not stored:
            return {}
        return {each.cursor: each.begins[partition] for each in stored.values()}

    def recovered(self, queue: Queue) -> None:
        """The logs of a queue have recovered: open its groups."""
        for record in self._stored_records.pop(queue.name, {}).values():
            self._open(queue, record)

    # -- life

    def attach(
        self,
        queue: Queue,
        consumer: Consumer,
        options: ConsumeOptions,
        begin: Callable[[ConsumerSource], None],
    ) -> Answer[None]:
        """Begin to deliver to a consumer the messages that its group has not settled: see `QueueHandle`."""
        assert options.group is not None
        if options.group.name not in queue.groups:
            located = self.located(queue, options.place, options.now)
            if located is not None:
                return then(located, lambda _: self._attach(queue, consumer, options, begin))
        return self._attach(queue, consumer, options, begin)

    def _attach(
        self,
        queue: Queue,
        consumer: Consumer,
        options: ConsumeOptions,
        begin: Callable[[ConsumerSource], None],
    ) -> Answer[None]:
        if queue.deleted:
            raise QueueNotFound(queue.name, self._vhost)
        assert options.group is not None
        group, made = self.join(queue, options.group, options.place, options.now, options.wanted)
        if made is not None:
            return then(made, lambda _: queue.attach(consumer, options, begin))
        queue.join_group(group, consumer)
        begin(group)
        return None

    def join(
        self,
        queue: Queue,
        options: GroupOptions,
        place: object,
        now: int,
        wanted: ReaderFilter | None = None,
    ) -> tuple[ConsumerGroup, asyncio.Future[int] | None]:
        """Return the group of this name; create it when there is none.

        Args:
            options: a group that exists takes over the limit of held bytes, if there is one.
            place: where a new group begins; see `stream_position`. A place behind the end
                is the next record. A group that exists goes on where it is.
            now: microseconds since 1970.
            wanted: which messages it is given; None: all.

        Returns:
            The group, and what to await before its consumers begin: then the group is durable.

        Raises:
            NotReadable: the queue keeps no log.
            InvalidStreamOffset: there is no such place.
            TooManyGroups: the queue has GROUPS_MAX.
            GroupInequivalent: the group has another filter.
        """
        begins = self._begins(queue, place, now)
        group = queue.groups.get(options.name)
        if group is not None:
            _check_filter(group, wanted)
            if group.wanted is None:
                group.wanted = wanted
            return group, self._limit(group, options.hold_bytes) or group.creating
        if len(queue.groups) >= GROUPS_MAX:
            raise TooManyGroups(queue.name, self._vhost, GROUPS_MAX)
        cursor = self._next_cursors.get(queue.name, 1)
        record = GroupRecord(
            queue.name,
            options.name,
            cursor,
            begins,
            options.expires,
            options.hold_bytes,
            None if wanted is None else wanted.arguments,
        )
        group = self._make(queue, record, [])
        group.wanted = wanted
        return group, group.creating

    def move(self, group: ConsumerGroup, place: object, now: int) -> asyncio.Future[int] | None:
        """Move a group to another place in the log, as if it began there.

        Args:
            place, now: as for `join`.

        Returns:
            What to await: then the move is durable.

        Raises:
            GroupInUse: it has consumers, or messages that they had and did not settle.
            InvalidStreamOffset: there is no such place.
            MetadataUnavailable: nothing more can be written; nothing has happened.
        """
        self._check_unused(group)
        queue = self.queues[group]
        begins = self._begins(queue, place, now)
        # With a new cursor: the journal may still hold settlements of the old one.
        cursor = self._next_cursors[queue.name]
        record = msgspec.structs.replace(group.record, cursor=cursor, begins=begins)
        gone: list[Change] = []
        for partition in group.partitions:
            gone += self._logs.cursor_removal(partition.log, group.record.cursor)
        moved = self._make(queue, record, gone)
        self.queues.pop(group)
        group.delete()
        if moved.creating is None:
            _close_cursors(group)
        else:
            moved.creating.add_done_callback(partial(_deleted, group))
        return moved.creating

    def begins(self, group: ConsumerGroup, place: object, now: int) -> list[int]:
        """The offset of each partition where `move` would let a group go on; raises as that does."""
        self._check_unused(group)
        return self._begins(self.queues[group], place, now)

    def located(self, queue: Queue, place: object, now: int) -> asyncio.Future[object] | None:
        """Wait until it is known where a place lies in remote storage; None: it is.

        Args:
            place, now: as for `join`.

        Returns:
            What may raise PlaceUnknown: remote storage does not answer within LOCATE_SECONDS.
        """
        logs = [each.log for each in queue.partitions]
        waiting = _locating(logs, place, now)
        if not waiting:
            return None
        return asyncio.ensure_future(self._located(queue, waiting, logs, place, now))

    async def _located(
        self,
        queue: Queue,
        waiting: Sequence[asyncio.Future[None]],
        logs: Sequence[PartitionLog],
        place: object,
        now: int,
    ) -> None:
        try:
            async with asyncio.timeout(LOCATE_SECONDS):
                # First perhaps lists of segments, then indexes. One that is damaged is not waited for again.
                await asyncio.gather(*waiting, return_exceptions=True)
                await asyncio.gather(*_locating(logs, place, now), return_exceptions=True)
        except TimeoutError:
            raise PlaceUnknown(queue.name, self._vhost) from None

    def _check_unused(self, group: ConsumerGroup) -> None:
        if group.is_used or group.creating is not None:
            raise GroupInUse(str(group))

    def _begins(self, queue: Queue, place: object, now: int) -> list[int]:
        begins: list[int] = []
        for partition in queue.partitions:
            if partition.log.retention is None:
                raise NotReadable(queue.name, self._vhost)
            begin = stream_position(partition.log, place, now).offset
            begins.append(min(begin, partition.log.visible_end))
        return begins

    def _make(self, queue: Queue, record: GroupRecord, gone: list[Change]) -> ConsumerGroup:
        durable: asyncio.Future[int] | None = None
        if queue.is_stored:
            next_cursor = next_cursor_change(self._vhost, queue.name, record.cursor + 1)
            changes = [next_cursor, group_change(self._vhost, record), *gone]
            durable = self._writer.submit(changes)
        self._next_cursors[queue.name] = record.cursor + 1
        group = self._open(queue, record)
        if durable is not None:
            group.creating = unawaited(asyncio.ensure_future(self._admit(group, durable)))
        return group

    async def _admit(self, group: ConsumerGroup, durable: Awaitable[int]) -> int:
        try:
            revision = await durable
        except Exception:
            self._forget(group)
            _close_cursors(group)
            raise
        group.creating = None
        return revision

    def delete(self, group: ConsumerGroup) -> asyncio.Future[int] | None:
        """Delete a group. Its cursors keep segments until the deletion is durable.

        Raises:
            MetadataUnavailable: nothing more can be written; nothing has happened.
        """
        queue = self.queues[group]
        durable = None
        if queue.is_stored:
            gone = [group_change(self._vhost, group.record, deleted=True)]
            for partition in group.partitions:
                gone += self._logs.cursor_removal(partition.log, group.record.cursor)
            durable = self._writer.submit(gone)
        self._forget(group)
        group.delete()
        if durable is None:
            _close_cursors(group)
        else:
            durable.add_done_callback(partial(_deleted, group))
        return durable

    def queue_deleted(self, queue: Queue) -> list[Change]:
        """Forget the groups of a queue; returns the changes that delete their records."""
        for group in queue.groups.values():
            self.queues.pop(group, None)
        if self._next_cursors.pop(queue.name, None) is None or not queue.is_stored:
            return []
        gone = [group_change(self._vhost, g.record, deleted=True) for g in queue.groups.values()]
        return [*gone, next_cursor_change(self._vhost, queue.name, None)]

    def _open(self, queue: Queue, record: GroupRecord) -> ConsumerGroup:
        group = ConsumerGroup(self._vhost, record, self._scheduler)
        for partition, begin in zip(queue.partitions, record.begins, strict=True):
            # The record has the new place. A settlement in the journal could survive a crash without the
            # record.
            partition.log.open_cursor(record.cursor).settled.settle(0, begin)
        group.open([partition.log for partition in queue.partitions])
        for place in group.places:
            place.counters = queue.counters
        if queue.paused:
            group.pause()
        queue.groups[record.name] = group
        self.queues[group] = queue
        return group

    def _limit(self, group: ConsumerGroup, hold_bytes: int | None) -> asyncio.Future[int] | None:
        if hold_bytes in (None, group.record.hold_bytes) or group.creating is not None:
            return None
        record = msgspec.structs.replace(group.record, hold_bytes=hold_bytes)
        durable: asyncio.Future[int] | None = None
        if self.queues[group].is_stored:
            durable = self._writer.submit([group_change(self._vhost, record)])
        group.hold(record)
        return durable

    def _forget(self, group: ConsumerGroup) -> None:
        queue = self.queues.pop(group, None)
        if queue is not None and queue.groups.get(group.record.name) is group:
            del queue.groups[group.record.name]


def _locating(logs: Sequence[PartitionLog], place: object, now: int) -> list[asyncio.Future[None]]:
    return [each for log in logs if (each := when_located(log, place, now)) is not None]


def _check_filter(group: ConsumerGroup, wanted: ReaderFilter | None) -> None:
    current = group.record.filter or {}
    received = {} if wanted is None else wanted.arguments
    for name in FILTER_ARGUMENTS:
        # As JSON: to Python, true is 1.
        if msgspec.json.encode(received.get(name)) != msgspec.json.encode(current.get(name)):
            raise GroupInequivalent(str(group), name, received.get(name), current.get(name))


def _close_cursors(group: ConsumerGroup) -> None:
    for partition in group.partitions:
        partition.log.close_cursor(group.record.cursor)


def _deleted(group: ConsumerGroup, done: asyncio.Future[int]) -> None:
    # Checkpoints stored its cursors until here, so the journal may have recycled their settlements. If the
    # deletion fails, the cursors stay.
    if not done.cancelled() and done.exception() is None:
        _close_cursors(group)
