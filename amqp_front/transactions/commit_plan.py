"""What tx.commit will publish: records and their queues, checked before the first one is appended."""

import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from routelog.amqp_front.wire.errors import (
    NOT_IMPLEMENTED,
    PRECONDITION_FAILED,
    HardError,
    SoftError,
)
from routelog.log_backend import NOTHING, Progress, Receipt, Records, Scheduler
from routelog.vhosts import Appending, Recipient, StatefulRoute

# Of all queues together: one block of the journal, built in memory.
COMMIT_BYTES_MAX = 256 * 1024 * 1024
# Queues between two looks at the clock: 1 us each, more where one drops its oldest messages
TOLD_AT_ONCE = 16
AT_ONCE_MAX = 64  # batches, counted for each queue: with more it is appended in several turns

log = logging.getLogger(__name__)

Queues = tuple[Recipient, ...]
Batch = tuple[Records, Queues, Sequence[int]]


class CommitPlan:
    """The routed publishes of one transaction.

    Attributes:
        batches: records, the queues that get them, and their indexes; of those that are not appended.
        exchanges: what is published to.
        passages: of what came through exchanges that remember.
        remembering: called when they are appended, with what they wait for: exchanges append what they keep of
            them, and return what remembers them.
        remembered: called in the turn that has appended all of it: exchanges remember, and counters count.
        told: called, one by one, when they are appended: returns, direct replies, and the firehose.
        undecided: what exchanges will remember of them.
        needed: covered when what was dropped as a duplicate is safe.

    Args:
        version: of the topology that its routes are of.
    """

    def __init__(self, version: int) -> None:
        self.version = version
        self.batches: list[Batch] = []
        self.exchanges: set[str] = set()
        self.passages: list[StatefulRoute] = []
        self.remembering: list[Callable[[Receipt], list[Callable[[], None]]]] = []
        self.remembered: list[Callable[[], None]] = []
        self.told: list[Callable[[], object]] = []
        self.undecided: set[tuple[str, bytes]] = set()
        self.needed: Receipt = NOTHING
        self._appending: Appending | None = None
        self._appends = 0
        self._may_refuse = False
        self._bytes = 0
        self._wanted: dict[Recipient, tuple[int, int]] = {}  # messages and bytes of their bodies
        self._untold: Iterator[Recipient] | None = None
        self._told_count = 0

    @property
    def recipients(self) -> Sequence[Recipient]:
        """All queues that get something."""
        return list(self._wanted)

    def add(self, records: Records, queues: Queues) -> None:
        """Let queues get records: as much as can be is done beforehand.

        Raises:
            SoftError: 406, the commit would write more than COMMIT_BYTES_MAX.
        """
        self._bytes += len(queues) * records.batch_bytes
        if self._bytes > COMMIT_BYTES_MAX:
            reason = f"a transaction writes more than {COMMIT_BYTES_MAX} bytes to its queues"
            raise SoftError(PRECONDITION_FAILED, reason)
        if records.persistent:
            records.payload_crc()  # kept with them
        wanted = self._wanted
        for queue in queues:
            count, body_bytes = wanted.get(queue, (0, 0))
            wanted[queue] = count + records.count, body_bytes + records.bodies_bytes
        self._appends += len(queues)
        self.batches.append((records, queues, range(records.count)))

    @property
    def takes_turns(self) -> bool:
        """Checked, it is appended in several turns of the event loop: it is much, and none is refused later."""
        return self._appends > AT_ONCE_MAX and not self.passages and not self._may_refuse

    def carry_out(self, scheduler: Scheduler, *, whole: bool = True) -> bool:
        """Append all of it in the turn that found it current, or begin to; then go on.

        Args:
            whole: not only as much as a turn is to bear.

        Returns:
            Whether that was all; then see `ended`.

        Raises:
            JournalFailed: the disk failed before.
            HardError: 406, a queue that was given a limit since the first turn has no room for some of it.
        """
        if self._appending is None:
            self._appending = Appending(scheduler)
            self._appending.begin(True)
            needed: Receipt = self._appending.append(self.take(), whole)
        else:
            needed = self._appending.go_on()
        if self._appending.refused:
            reason = "transaction refused, a queue that was limited meanwhile is full"
            raise HardError(PRECONDITION_FAILED, reason)
        if self._appending.is_under_way:
            return False
        for remember in self.remembering:
            self.remembered += remember(needed)
        return True

    def tell_some(self, *, failed: bool = False) -> bool:
        """Tell some queues, when all of it is shown, or is gone; returns whether there are more.

        An error of one keeps nothing from the others.
        """
        if self._untold is None:
            self._untold = iter(self._wanted)
        for queue in islice(self._untold, TOLD_AT_ONCE):
            try:
                queue.transaction_ended(failed=failed)
            except Exception as error:
                log.error("an error of the broker, behind a tx.commit", exc_info=error)
        self._told_count += TOLD_AT_ONCE
        return self._told_count < len(self._wanted)

    def take(self) -> Iterator[Batch]:
        """Yield all batches; each is let go of when the next one is wanted: 50,000 at once take 5 ms."""
        batches = self.batches
        batches.reverse()
        while batches:
            yield batches.pop()

    def check(self, progress: Progress) -> None:
        """Refuse the whole transaction when a queue would refuse a part of it.

        Args:
            progress: of the journal whose block it will be, or of the session with the node that has that.

        Raises:
            SoftError: 406, a queue is full.
            HardError: 540, another node leads a queue.
        """
        for queue, (count, body_bytes) in self._wanted.items():
            if queue.progress is not progress:
                reason = f"transaction with {queue}, which another node leads"
                raise HardError(NOT_IMPLEMENTED, reason)
            if queue.may_refuse:
                self._may_refuse = True
                if not queue.takes(count, body_bytes):
                    reason = f"transaction refused, {queue} is full"
                    raise SoftError(PRECONDITION_FAILED, reason)
