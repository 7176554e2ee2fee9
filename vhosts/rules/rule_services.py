"""What the rules of a queue need: of the queue, and of its node, as delayed exchanges do."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from routelog.log_backend import (
    CallLater,
    Lane,
    LogStore,
    PartitionLog,
    Scheduler,
    Segment,
    Settlement,
    StoredRecord,
)
from routelog.vhosts.counters.counters import MessageCounters
from routelog.vhosts.partitions.queue_partition import QueuePartition
from routelog.vhosts.publishing.internal_publish import Posted
from routelog.vhosts.publishing.internal_publisher import InternalPublisher
from routelog.vhosts.rules.awaited_consumers import AwaitedConsumers
from routelog.vhosts.rules.death import DeadLetterPublisher

# Of a vhost: messages that full queues refused and that wait to be dead letters. Refusing one takes a twentieth
# of the time of its letter, so a publisher that does not stop would fill the memory.
REFUSED_BYTES_MAX = 67_108_864

log = logging.getLogger(__name__)


class RuledQueue(Protocol):
    """A queue, as its rules see it."""

    name: str
    partitions: list[QueuePartition]
    deleted: bool
    counters: MessageCounters

    @property
    def consumer_count(self) -> int:
        """Consumers of all kinds; they use the queue as long as they are there."""

    @property
    def ready(self) -> int:
        """Messages that wait for a consumer."""

    @property
    def coming(self) -> int:
        """Messages that may not be handed out yet."""

    def credit(self, wanted: int) -> int:
        """How many messages its consumers would take at once; more than are wanted need not be counted."""

    @property
    def has_turn(self) -> bool:
        """Whether the queue dispatches after this turn of the event loop."""


class RuleServices:
    """Clock, timers, log and internal publishing, for rules and delayed exchanges of one vhost.

    Attributes:
        post: publishes messages of the vhost itself.
        letters: publishes dead letters.
        scheduler: of the node.
        now: microseconds since 1970.
        monotonic: seconds of a clock that is never set; it starts anew with each run.
        call_later: runs a function after some seconds.
        awaited: consumers of other nodes.
        refused_bytes: of refused messages that wait to be dead letters.
        has_begun: what the exchanges and queues of the vhost remember is loaded: what moves finds duplicates.

    Args:
        remove: deletes a queue whose lease ended, by its name.
    """

    def __init__(
        self,
        logs: LogStore,
        post: InternalPublisher,
        remove: Callable[[str], None],
        scheduler: Scheduler,
        call_later: CallLater,
        awaited: AwaitedConsumers,
    ) -> None:
        self._logs = logs
        self.post = post
        self.letters = DeadLetterPublisher(post)
        self.remove = remove
        self.scheduler = scheduler
        self.now = logs.now
        self.monotonic = logs.clock.monotonic
        self.call_later = call_later
        self.awaited = awaited
        self.refused_bytes = 0
        self._drops_refused = False
        self.has_begun = False

    def call_soon(self, call: Callable[[], None]) -> None:
        """Run a function after this turn of the event loop."""
        self.scheduler.call(Lane.FRESH, call)

    def is_pressed(self) -> bool:
        """Whether messages have to wait: disk or memory is short, or the node is still opening its queues."""
        if not (self._logs.takes_entries and self.has_begun):
            return True
        return bool(self._logs.pressures.reasons)

    def keep_refused(self, size: int) -> bool:
        """Count refused messages that are to wait; returns False when there are too many already."""
        if self.refused_bytes and self.refused_bytes + size > REFUSED_BYTES_MAX:
            if not self._drops_refused:  # said once, until none waits
                log.warning(
                    "dead letters of refused messages are dropped: %d bytes wait",
                    self.refused_bytes,
                )
            self._drops_refused = True
            return False
        self._hold_refused(size)
        return True

    def let_go_refused(self, size: int) -> None:
        """Count refused messages that wait no more."""
        self._hold_refused(-size)
        self._drops_refused = self._drops_refused and self.refused_bytes > 0

    def _hold_refused(self, size: int) -> None:
        self.refused_bytes += size
        self._logs.memory.hold(size)

    def fetch(
        self,
        segment: Segment,
        offsets: Sequence[int],
        bytes_max: int,
        done: Callable[[Mapping[int, StoredRecord] | None], None],
    ) -> None:
        """Call `done` with records of a segment, see `ColdReads.fetch`; with None when that failed."""

        def fetched(future: asyncio.Future[Mapping[int, StoredRecord]]) -> None:
            if not future.cancelled():
                done(None if future.exception() is not None else future.result())

        self._logs.reads.fetch(segment, offsets, bytes_max).add_done_callback(fetched)

    def when_moved(
        self,
        posted: Posted,
        settled: Iterable[tuple[PartitionLog, Settlement]],
        done: Callable[[], None],
    ) -> None:
        """Journal the settlements of moved messages, and call `done` when a crash takes them back no more.

        Until then no cursor may know of them, or a snapshot or a removed segment would be ahead of the copies.
        `done` is called at once if the journal has nothing of the copies, which do not survive a crash then, or
        if they are duplicates of messages that are safe.

        Args:
            posted: the copies; the settlements join the block that gathers, which has the copies.
            settled: with their partitions.
            done: settles them in memory.

        Raises:
            JournalFailed: the disk failed before; `done` is not called.
        """
        needed = posted.needed
        if not needed.is_covered():
            for log, settlement in settled:
                position = log.journal_settlement(settlement)
                durable = position if log.synced else 0
                needed = needed.joined(log.progress.receipt(position, durable))
        needed.when_covered(done)
