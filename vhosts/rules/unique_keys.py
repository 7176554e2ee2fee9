"""Deduplication in a queue (`x-message-deduplication`): at most one message of each key.

A message is dropped while another one with the same `x-deduplication-header` is in the queue, ready or
delivered; the dropped one is confirmed when the other is durable. Keys are not stored: they are read from the
messages at a start. A settlement does not touch the keys: whether the message of a key still exists is checked
when the key comes again. What a block of the journal settles holds no key for what the same block publishes.

Source: the plugin `rabbitmq_message_deduplication`.
"""

from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from routelog.log_backend import Records, split_records
from routelog.vhosts.messages.message_header import header_identity
from routelog.vhosts.messages.property_list import expiration
from routelog.vhosts.messages.unsettled_records import unsettled_records
from routelog.vhosts.partitions.queue_partition import QueuePartition
from routelog.vhosts.publishing.seen_keys import KEY_HEADER, short_key
from routelog.vhosts.rules.rule_services import RuledQueue

DEDUPLICATION = "x-message-deduplication"
_HEADER = KEY_HEADER.encode()
MILLISECOND = 1_000  # us
# Old keys checked for each new one: so at most half of all keys are of settled messages.
LOOKS = 2


class Holder(NamedTuple):
    """The message that has a key.

    Attributes:
        expires: microseconds since 1970; 0: never.
    """

    partition: QueuePartition
    offset: int
    expires: int


class UniqueKeys:
    """The keys of the messages in one queue.

    Attributes:
        ttl: `x-message-ttl` in microseconds; None: only `expiration` counts.

    Args:
        now: microseconds since 1970.
    """

    def __init__(self, queue: RuledQueue, now: Callable[[], int]) -> None:
        self.ttl: int | None = None
        self._queue = queue
        self._now = now
        self._holders: OrderedDict[bytes, Holder] = OrderedDict()
        self._keys: dict[tuple[QueuePartition, int], bytes] = {}  # by partition and offset
        self._position = 0  # journal position of the last message with a key
        # Of a transaction that is being appended: what it settles, and keys that it has taken from that
        self._leaving: dict[QueuePartition, list[tuple[int, int]]] = {}
        self._taken_over: list[tuple[bytes, Holder]] = []

    def __len__(self) -> int:
        return len(self._holders)

    async def load(self) -> None:
        """Read the keys of the messages that earlier runs left."""
        for partition in self._queue.partitions:
            async for kept in unsettled_records(partition.log, partition.cursor):
                records = kept.batch.records
                key = _key(records, kept.index)
                if key is not None:
                    offset = kept.batch.base_offset + kept.index
                    expires = self._expires(records, kept.index, records.last_time)
                    self._hold(key, Holder(partition, offset, expires))

    def publish(self, records: Records, append: Callable[[Records], int]) -> int:
        """Append the records whose keys are new.

        Returns:
            The journal position that confirms of all records wait for, also of dropped ones; 0: none.
        """
        keys = [_key(records, index) for index in range(records.count)]
        places = array("i", self._places(keys))
        fresh = dict(split_records(records, places, 2)).get(0) if any(places) else records
        position = 0
        if fresh is not None:
            left = [key for key, place in zip(keys, places, strict=True) if not place]
            position = self._append(fresh, left, append)
        if any(key is not None for key in keys):
            self._position = max(self._position, position)
            return self._position
        return position

    def free(self, partition: QueuePartition, first: int, end: int) -> None:
        """Forget the keys of messages that leave the queue: their dead letters may come back to it."""
        for offset in range(first, end):
            key = self._keys.pop((partition, offset), None)
            if key is not None:
                del self._holders[key]

    def leaving(self, partition: QueuePartition, ranges: Sequence[tuple[int, int]]) -> None:
        """The transaction that is being appended settles these: they hold no key until `appended`."""
        self._leaving[partition] = sorted([*self._leaving.get(partition, ()), *ranges])

    def appended(self, *, failed: bool) -> None:
        """The transaction is appended, in the turn of `leaving`, or nothing of it is."""
        taken_over, self._taken_over = self._taken_over, []
        self._leaving.clear()
        if failed:
            for key, holder in taken_over:
                self._hold(key, holder)

    def _places(self, keys: list[bytes | None]) -> Iterator[int]:
        # By index: 1 for a dropped record.
        coming: set[bytes] = set()
        for key in keys:
            if key is None:
                yield 0
            elif key in coming or self._is_held(key):
                yield 1
            else:
                coming.add(key)
                yield 0

    def _append(
        self, records: Records, keys: list[bytes | None], append: Callable[[Records], int]
    ) -> int:
        partitions = self._queue.partitions
        if len(partitions) == 1:
            offset = partitions[0].log.next_offset
            position = append(records)
            for index, key in enumerate(keys):
                self._note(key, partitions[0], offset + index, records, index)
            return position
        position = 0
        for index, single in split_records(records, array("i", range(len(keys))), len(keys)):
            ends = [partition.log.next_offset for partition in partitions]
            position = max(position, append(single))
            for partition, end in zip(partitions, ends, strict=True):
                if partition.log.next_offset > end:
                    self._note(keys[index], partition, end, single, 0)
        return position

    def _note(
        self,
        key: bytes | None,
        partition: QueuePartition,
        offset: int,
        records: Records,
        index: int,
    ) -> None:
        if key is None:
            return
        for _ in range(min(LOOKS, len(self._holders))):
            oldest = next(iter(self._holders))
            if self._is_held(oldest):
                self._holders.move_to_end(oldest)
        expires = self._expires(records, index, self._now())
        self._hold(key, Holder(partition, offset, expires))

    def _hold(self, key: bytes, holder: Holder) -> None:
        if self._leaving and (before := self._holders.get(key)) is not None:
            self._taken_over.append((key, before))
        self._drop(key)
        self._holders[key] = holder
        self._keys[holder.partition, holder.offset] = key

    def _drop(self, key: bytes) -> None:
        before = self._holders.pop(key, None)
        if before is not None:
            del self._keys[before.partition, before.offset]

    def _is_held(self, key: bytes) -> bool:
        # Forgets the key if its message is settled.
        holder = self._holders.get(key)
        if holder is None:
            return False
        is_over = 0 < holder.expires <= self._now()
        if is_over or holder.offset in holder.partition.cursor.settled:
            self._drop(key)
            return False
        return not self._is_leaving(holder)

    def _is_leaving(self, holder: Holder) -> bool:
        ranges = self._leaving.get(holder.partition, ())
        at = bisect_right(ranges, holder.offset, key=lambda each: each[0])
        return at > 0 and holder.offset < ranges[at - 1][1]

    def _expires(self, records: Records, index: int, time: int) -> int:
        times = [] if self.ttl is None else [self.ttl]
        own = expiration(records.properties(index))
        times += [] if own is None else [own * MILLISECOND]
        return time + min(times) if times else 0


def _key(records: Records, index: int) -> bytes | None:
    found = header_identity(records.properties(index), _HEADER)
    return None if found is None else short_key(found)
