"""The newest messages of a recent history exchange, for those who are bound to it later.

On the disk, the persistent ones are records of the exchange's log as they were published.
"""

from array import array
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from routelog.exchanges import Binding, Message
from routelog.log_backend import (
    BLIND_COPIES,
    NOTHING,
    OWN_DEATHS,
    PERSISTENT,
    Receipt,
    Records,
    split_records,
)
from routelog.vhosts.errors import PublishRefused
from routelog.vhosts.messages.recipient import Recipient
from routelog.vhosts.publishing.exchange_memory import ExchangeLog, Note
from routelog.vhosts.publishing.exchange_memory_limit import ExchangeMemoryLimit
from routelog.vhosts.publishing.internal_publish import OutgoingMessage
from routelog.vhosts.publishing.internal_publisher import InternalPublisher

NO_STORE_HEADER = "x-recent-history-no-store"
HISTORY_BYTES_MAX = 64 * 1024 * 1024  # of the batches that hold the messages: older ones go sooner

_NOT_STORED = -1
_A_NOTE = Note(b"")


@dataclass(frozen=True, slots=True)
class Stretch:
    """Neighbouring messages of a batch.

    Attributes:
        index, count: of them in the batch.
        offset: of the first one in the exchange's log, or below 0.
    """

    records: Records
    index: int
    count: int
    offset: int


class RecentHistory:
    """The newest messages, oldest first.

    Args:
        length: messages at most.
        log: where persistent ones are kept, too; None: they end with the process.
        limit: of all histories of the node.

    Attributes:
        bytes: of the batches that hold the messages.
    """

    is_filter = False

    def __init__(self, length: int, log: ExchangeLog | None, limit: ExchangeMemoryLimit) -> None:
        self._length = length
        self.log = log
        self._limit = limit
        limit.add(self)
        self.needed: Receipt = NOTHING
        self._stretches: deque[Stretch] = deque()
        self._count = 0
        self.bytes = 0

    def stretches(self) -> list[Stretch]:
        """The messages."""
        return list(self._stretches)

    def note(self, message: Message) -> Note | None:
        """All but a message that does not want to be kept."""
        return None if message.headers.get(NO_STORE_HEADER) is True else _A_NOTE

    def knows(self, note: Note) -> bool:
        """A message may come again."""
        return False

    def remember(
        self,
        notes: Sequence[tuple[int, Note]],
        records: Callable[[list[int]], Records],
        *,
        persistent: bool,
    ) -> Callable[[], None]:
        """See `ExchangeMemory`."""
        newest = records([place for place, _ in notes[-self._length :]])
        offset = _NOT_STORED
        if persistent and self.log is not None:
            offset = self.log.append(newest)
        return partial(self._remember, Stretch(newest, 0, newest.count, offset))

    def _remember(self, newest: Stretch) -> None:
        self._add(newest)
        self._forget()

    async def load(self) -> None:
        """Take what the log has from earlier runs."""
        if self.log is None:
            return
        async for kept in self.log.kept():
            batch, index = kept.batch, kept.index
            self._add(Stretch(batch.records, index, 1, batch.base_offset + index))
        self._forget()

    def _add(self, stretch: Stretch) -> None:
        self._stretches.append(stretch)
        self._count += stretch.count
        self._grow(_bytes(stretch))

    def _grow(self, size: int) -> None:
        self.bytes += size
        self._limit.grew(size)

    def _forget(self) -> None:
        self.forget_down_to(HISTORY_BYTES_MAX)
        self._limit.keep(self)

    def close(self) -> None:
        """The exchange is gone."""
        self._stretches.clear()
        self._grow(-self.bytes)
        self._count = 0
        self._limit.remove(self)

    def forget_down_to(self, size: int) -> None:
        """Keep so many bytes of the newest messages at most."""
        while self._count > self._length or self.bytes > size:
            oldest = self._stretches.popleft()
            surplus = self._count - self._length
            gone = oldest.count if surplus <= 0 else min(surplus, oldest.count)
            if oldest.offset != _NOT_STORED and self.log is not None:
                self.log.settle(oldest.offset, oldest.offset + gone)
            self._count -= gone
            if gone < oldest.count:
                self._stretches.appendleft(_without(oldest, gone))
            else:
                self._grow(-_bytes(oldest))
        if self.log is not None:
            self.log.release()


def _without(stretch: Stretch, gone: int) -> Stretch:
    offset = stretch.offset if stretch.offset == _NOT_STORED else stretch.offset + gone
    return Stretch(stretch.records, stretch.index + gone, stretch.count - gone, offset)


def _bytes(stretch: Stretch) -> int:
    return len(stretch.records.payload)


def hand_over(
    history: RecentHistory,
    binding: Binding,
    post: InternalPublisher,
    queues: Mapping[str, Recipient],
    now: int,
) -> None:
    """Let the destination of a new binding have the messages; a full queue takes what it can.

    Args:
        now: when they come to their queues, in microseconds since 1970: their time to live begins.

    Raises:
        JournalFailed: the disk failed before; some may be in their queues, in memory.
    """
    for stretch in history.stretches():
        records = stretch.records
        if binding.destination_kind == "queue":
            with suppress(PublishRefused):
                queues[binding.destination].publish(_part(stretch, now), waited=False)
            continue
        places = range(stretch.index, stretch.index + stretch.count)
        messages = [
            OutgoingMessage(records.properties(at), (records.routing_key(at),), records.body(at))
            for at in places
        ]
        attributes = records.attributes & (PERSISTENT | BLIND_COPIES | OWN_DEATHS)
        post.publish(binding.destination, messages, attributes, records.exchange)


def _part(stretch: Stretch, time: int) -> Records:
    records = stretch.records
    if stretch.count != records.count:
        wanted = array("i", bytes(4 * records.count))
        for at in range(stretch.index, stretch.index + stretch.count):
            wanted[at] = 1
        records = dict(split_records(records, wanted, 2))[1]
    return Records(
        records.payload,
        records.count,
        records.attributes,
        records.exchange,
        records.keys_bytes,
        records.properties_bytes,
        records.bodies_bytes,
        time,
        time,
    )
