"""The limit of a queue's length: by ready messages, by the bytes of their bodies, or by both."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace

from routelog.log_backend import Lane, Records, Scheduler
from routelog.vhosts.partitions.queue_partition import QueuePartition
from routelog.vhosts.rules.ready_bytes import ReadyBytes
from routelog.vhosts.rules.rule_services import RuledQueue

RANGES_MAX = 256  # dropped in one turn: about 1 ms
# Ranges dropped for each run that is published in the same turn: more leave than come.
RANGES_MORE = 2


@dataclass(frozen=True, slots=True)
class LengthOptions:
    """The limits in a queue's arguments.

    Attributes:
        count_max: ready messages; None: no limit.
        bytes_max: of their bodies; None: no limit.
        refuses: a full queue refuses messages; otherwise the oldest messages are dropped.
        keeps_refused: refused messages become dead letters.
    """

    count_max: int | None
    bytes_max: int | None
    refuses: bool
    keeps_refused: bool


def length_options(arguments: Mapping[str, object]) -> LengthOptions | None:
    """The limits in a queue's arguments; None: there are none."""
    count_max, bytes_max = arguments.get("x-max-length"), arguments.get("x-max-length-bytes")
    if not isinstance(count_max, int) and not isinstance(bytes_max, int):
        return None
    overflow = arguments.get("x-overflow", "drop-head")
    return LengthOptions(
        count_max if isinstance(count_max, int) else None,
        bytes_max if isinstance(bytes_max, int) else None,
        overflow != "drop-head",
        overflow == "reject-publish-dlx",
    )


class LengthLimit:
    """Keeps one queue within its limit.

    Consumers with credit count as room: new messages go to them after the turn, before any message is dropped.
    Kept dead letters take room in a queue that refuses: where they are to go may be gone for good.

    Args:
        discard: drops messages [first, end) of a partition.
        kept_letters: messages that wait until a queue takes their dead letters, and bytes of their bodies: as
            far as they take room from what comes now.
    """

    def __init__(
        self,
        queue: RuledQueue,
        options: LengthOptions,
        scheduler: Scheduler,
        discard: Callable[[QueuePartition, int, int], None],
        kept_letters: Callable[[], tuple[int, int]],
    ) -> None:
        self.options = options
        self._queue = queue
        self._scheduler = scheduler
        self._discard = discard
        self._kept_letters = kept_letters
        self._scheduled = self._stopped = False
        # RANGES_MAX were dropped in this turn, and the queue is still too long
        self._has_more = False
        self._bytes: dict[QueuePartition, ReadyBytes] = {}
        if options.bytes_max is not None:
            for partition in queue.partitions:
                self._bytes[partition] = ReadyBytes(partition, scheduler, self.enforce_soon)
        self.enforce_soon()

    def stop(self) -> None:
        """Drop nothing more: another limit is in force, or none."""
        self._stopped = True

    # -- what is ready

    @property
    def ready_bytes(self) -> int:
        """Bytes of the bodies of ready messages, as far as they are counted."""
        return sum(each.total for each in self._bytes.values())

    def left(self, partition: QueuePartition, first: int, end: int) -> None:
        """Messages are not ready any more."""
        if self._bytes:
            self._bytes[partition].left(first, end)

    def returned(self, partition: QueuePartition, first: int, end: int) -> None:
        """Messages are ready again."""
        if self._bytes:
            self._bytes[partition].returned(first, end)
        self.enforce_soon()

    # -- at publishing

    def refused(self, records: Records) -> Sequence[int]:
        """Indexes of the records for which the queue has no room."""
        if self.takes(records.count, records.bodies_bytes):
            return ()
        return _without_room(records, *self._room(records.count, records.bodies_bytes))

    def takes(self, count: int, size: int) -> bool:
        """Whether there is room for so many messages, of so many bytes of bodies, at once."""
        if not self.options.refuses:
            return True
        room, left = self._room(count, size)
        return (room is None or room >= count) and (left is None or size <= left)

    def _room(self, count: int, size: int) -> tuple[int | None, int | None]:
        # Room for messages, and for bytes of their bodies; None: no limit. Consumers are asked only for what so
        # many messages lack that are to come: there may be thousands.
        count_max, bytes_max = self.options.count_max, self.options.bytes_max
        room = left = None
        wanted = 0
        kept, kept_bytes = self._kept_letters()
        if count_max is not None:
            room = count_max - self._queue.ready - self._queue.coming - kept
            wanted = count - room if count_max else 0
        if bytes_max is not None:
            left = bytes_max - self.ready_bytes - kept_bytes
            left -= sum(map(_coming_bytes, self._queue.partitions))
            wanted = max(wanted, 1) if bytes_max and size > left else wanted
        credit = self._queue.credit(wanted) if wanted > 0 else 0
        if room is not None and count_max:
            room += credit
        return room, None if bytes_max and credit else left

    def published(self) -> None:
        """Messages came in."""
        for each in self._bytes.values():
            each.catch_up()
        if self.options.refuses or max(self._over()) <= 0:
            return
        if self._queue.credit(1):
            self.enforce_soon()
        else:
            self._enforce(RANGES_MORE if self._has_more else RANGES_MAX)

    # -- making room

    def enforce_soon(self) -> None:
        """Drop the oldest messages after this turn, when consumers have taken theirs."""
        if not self._scheduled:
            self._scheduled = True
            self._scheduler.call(Lane.FRESH, self._turn)

    def enforce_now(self) -> None:
        """If messages are to be dropped after this turn, drop them at once."""
        if self._scheduled:
            self._turn()

    def _turn(self) -> None:
        self._scheduled = self._has_more = False
        if self._queue.deleted or self._stopped:
            return
        if self._queue.has_turn:
            self.enforce_soon()
        else:
            self._enforce(RANGES_MAX)

    def _enforce(self, ranges_max: int) -> None:
        over, bytes_over = (0, 0) if self.options.refuses else self._over()
        if over <= 0 and bytes_over <= 0:
            return
        # Ready messages are counted once, and by partition from then on: there may be 256.
        partitions = self._queue.partitions
        fullest = [(-each.ready, at) for at, each in enumerate(partitions)]
        heapify(fullest)
        for _ in range(ranges_max):
            if over <= 0 and bytes_over <= 0:
                return
            at = fullest[0][1]
            partition = partitions[at]
            count = min(over, _lead(fullest))
            if count <= 0:
                count = self._too_large(partition, bytes_over)
            if not count:
                return
            before = self._bytes_in(partition)
            gone = partition.withdraw(count, partition.log.ready_end)
            if gone is None:
                partition.prepare(self.enforce_soon)
                return
            over -= gone[1] - gone[0]
            bytes_over -= before - self._bytes_in(partition)
            heapreplace(fullest, (-partition.ready, at))
            self._discard(partition, *gone)
        self._has_more = True
        self.enforce_soon()

    def _over(self) -> tuple[int, int]:
        # Messages, and bytes of their bodies, by which the queue is above its limit.
        count_max, bytes_max = self.options.count_max, self.options.bytes_max
        over = 0 if count_max is None else self._queue.ready - count_max
        return over, 0 if bytes_max is None else self.ready_bytes - bytes_max

    def _bytes_in(self, partition: QueuePartition) -> int:
        return self._bytes[partition].total if self._bytes else 0

    def _too_large(self, partition: QueuePartition, excess: int) -> int:
        # How many messages at the head of one batch have so many bytes together.
        head = partition.head
        if head is None:
            return 0
        first, end = head
        batch = partition.log.read(first)
        if batch is None:
            partition.log.load(first, self.enforce_soon)
            return 0
        if batch.base_offset > first:
            return min(end, batch.base_offset) - first
        index, end = first - batch.base_offset, min(end, batch.end_offset)
        sizes = batch.records.offset_columns()
        for count in range(1, end - first):
            if sizes[index + count] - sizes[index] >= excess:
                return count
        return end - first


def _coming_bytes(partition: QueuePartition) -> int:
    # Of messages that may not be handed out yet.
    log = partition.log
    at, size = log.ready_end, 0
    while at < log.next_offset and (batch := log.read(at)) is not None:
        size += batch.records.bodies_bytes
        at = batch.end_offset
    return size


def _without_room(records: Records, room: int | None, bytes_left: int | None) -> list[int]:
    # One after the other: a small message may fit after a large one that did not.
    sizes = records.offset_columns()
    refused = []
    for index in range(records.count):
        size = sizes[index + 1] - sizes[index]
        if (room is not None and room <= 0) or (bytes_left is not None and size > bytes_left):
            refused.append(index)
            continue
        if room is not None:
            room -= 1
        if bytes_left is not None:
            bytes_left -= size
    return refused


def _lead(fullest: Sequence[tuple[int, int]]) -> int:
    # By how much the first of a heap exceeds the second, plus 1.
    if len(fullest) == 1:
        return -fullest[0][0]
    return min(fullest[1:3])[0] - fullest[0][0] + 1
