"""An AMQP transaction: publishes and settlements of a channel that wait for tx.commit."""

from routelog.amqp_front.consuming.unacked import Taken, UnackedRun, messages_of
from routelog.amqp_front.transactions.transaction_buffer import TransactionBuffer
from routelog.amqp_front.wire.command import LaidOutRun, PublishRun
from routelog.amqp_front.wire.errors import PRECONDITION_FAILED, SoftError
from routelog.broker import Charge, IntakeShare
from routelog.log_backend import Reason
from routelog.vhosts import ReturnReason

TRANSACTION_BYTES_MAX = 128 * 1024 * 1024  # kept in memory for one commit
TRANSACTION_TURN_MAX = 256  # messages kept in one turn of the loop: 3 to 7 us each
# What messages that are no neighbours cost beside their content, in memory or in time.
ENTRY_BYTES = 1_024

Kept = TransactionBuffer | LaidOutRun


class Transaction:
    """What tx.commit will carry out, in order.

    Attributes:
        kept: what is to be published, in order; nothing can be added any more when it is planned.
        taken: deliveries that are settled or returned with the commit, by how; until then their consumers
            hold them.
        messages, settlements: how many are published, and how many settled or returned.

    Args:
        intake: what it is charged to.
    """

    def __init__(self, intake: IntakeShare) -> None:
        self._intake = intake
        self._charge: Charge | None = None
        self.taken: dict[Reason | ReturnReason, list[UnackedRun]] = {}
        self.kept: list[Kept] = []
        self.messages = 0
        self.settlements = 0
        self._bytes = 0

    @property
    def publishes(self) -> bool:
        """There is something to publish."""
        return bool(self.kept)

    def publish(self, run: PublishRun) -> None:
        """Keep a publish: its bytes are copied out of the receive buffer, unless it has its own.

        Raises:
            SoftError: 406, it grows beyond TRANSACTION_BYTES_MAX.
            IntakeFull: the connection, its user or the node keeps too much.
        """
        self.messages += run.count
        if isinstance(run, LaidOutRun):
            self._grow(ENTRY_BYTES + len(run.source) + run.rows.nbytes)
            self.kept.append(run)
            return
        last = self.kept[-1] if self.kept else None
        if not isinstance(last, TransactionBuffer) or not last.takes(run):
            last = TransactionBuffer()
            self.kept.append(last)
        before, stretches = last.bytes, last.stretches
        last.add(run)
        self._grow(last.bytes - before + ENTRY_BYTES * (last.stretches - stretches))

    def settle(self, taken: Taken) -> None:
        """Keep a settlement.

        Raises:
            SoftError, IntakeFull: as for `publish`.
        """
        self.settlements += messages_of(taken.runs)
        self.taken.setdefault(taken.outcome, []).extend(taken.runs)
        self._grow(ENTRY_BYTES * (1 + len(taken.runs)))

    def _grow(self, size: int) -> None:
        self._bytes += size
        if self._bytes > TRANSACTION_BYTES_MAX:
            reason = f"a transaction holds more than {TRANSACTION_BYTES_MAX} bytes"
            raise SoftError(PRECONDITION_FAILED, reason)
        if self._charge is None:
            self._charge = self._intake.charge(size)
        else:
            self._charge.grow(size)
