"""An AMQP transaction: publishes and settlements of a channel that wait for tx.commit."""

from array import array

from amqp_front.command import PublishRun
from amqp_front.errors import PRECONDITION_FAILED, SoftError
from amqp_front.unacked import Taken

TRANSACTION_BYTES_MAX = 128 * 1024 * 1024  # kept in memory for one commit
TRANSACTION_TURN_MAX = 1_024  # messages kept in one turn of the loop: 1 to 2 us each
ENTRY_BYTES = 1_024  # what a kept run costs beside its content, in memory and in time


class Transaction:
    """What tx.commit will carry out, in order.

    Attributes:
        publishes: runs, with bytes of their own.
        taken: deliveries that are settled or returned with the commit; until then their consumers hold them.
    """

    def __init__(self) -> None:
        self.publishes: list[PublishRun] = []
        self.taken: list[Taken] = []
        self._bytes = 0

    def publish(self, run: PublishRun) -> None:
        """Keep a publish: its bytes are copied out of the receive buffer.

        Raises:
            SoftError: 406, the transaction would grow beyond TRANSACTION_BYTES_MAX.
        """
        own = _own(run)
        self._grow(len(own.source) + own.rows.nbytes)
        self.publishes.append(own)

    def settle(self, taken: Taken) -> None:
        """Keep a settlement.

        Raises:
            SoftError: as for `publish`.
        """
        self.taken.append(taken)
        self._grow(ENTRY_BYTES * len(taken.runs))

    def _grow(self, size: int) -> None:
        self._bytes += ENTRY_BYTES + size
        if self._bytes > TRANSACTION_BYTES_MAX:
            reason = f"a transaction holds more than {TRANSACTION_BYTES_MAX} bytes"
            raise SoftError(PRECONDITION_FAILED, reason)


def _own(run: PublishRun) -> PublishRun:
    source = bytearray()
    rows = array("i")
    keys = run.keys()
    for at in range(run.count):
        for part in (keys[at], run.properties(at), run.body(at)):
            rows.extend((len(source), len(part)))
            source += part
    return PublishRun(
        run.channel,
        memoryview(source),
        memoryview(rows),
        run.count,
        run.exchange,
        run.routing_key,
        run.mandatory | run.immediate << 1,
        run.property_flags,
        run.persistent,
    )
