"""What tx.commit will publish: records and their queues, checked before the first one is appended."""

from collections.abc import Callable, Sequence

from amqp_front.errors import PRECONDITION_FAILED, SoftError
from amqp_front.journal_positions import JournalPositions
from log_backend import Records
from vhosts import Recipient

COMMIT_BYTES_MAX = (
    256 * 1024 * 1024
)  # of all queues together: one block of the journal, built in memory

Batch = tuple[Records, Sequence[Recipient], Sequence[int]]


class CommitPlan:
    """The routed publishes of one transaction.

    Attributes:
        batches: records, the queues that get them, and the indexes of the records in their run.
        remembering: called when they are appended, with what they wait for: exchanges remember them.
        undecided: what exchanges will remember of them.
        durable: how far the journal has to come until what was dropped as a duplicate is safe.
    """

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.remembering: list[Callable[[JournalPositions], None]] = []
        self.undecided: set[tuple[str, bytes]] = set()
        self.durable = 0

    def check(self) -> None:
        """Refuse the whole transaction when a queue would refuse a part of it.

        Raises:
            SoftError: 406, a queue is full, or the commit would write more than COMMIT_BYTES_MAX.
        """
        size = 0
        wanted: dict[Recipient, tuple[int, int]] = {}
        for records, queues, _ in self.batches:
            size += len(queues) * records.batch_bytes
            for queue in queues:
                count, body_bytes = wanted.get(queue, (0, 0))
                wanted[queue] = count + records.count, body_bytes + records.bodies_bytes
        if size > COMMIT_BYTES_MAX:
            reason = f"a transaction writes more than {COMMIT_BYTES_MAX} bytes to its queues"
            raise SoftError(PRECONDITION_FAILED, reason)
        for queue, (count, body_bytes) in wanted.items():
            if not queue.takes(count, body_bytes):
                reason = f"transaction refused, {queue} is full"
                raise SoftError(PRECONDITION_FAILED, reason)
