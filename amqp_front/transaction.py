"""An AMQP transaction: publishes and settlements of a channel that wait for tx.commit."""

from array import array

from amqp_front.command import PublishRun, SettleRun
from amqp_front.errors import PRECONDITION_FAILED, SoftError

TRANSACTION_BYTES_MAX = 128 * 1024 * 1024  # kept in memory for one commit
ENTRY_BYTES = 1_024  # what a kept run costs beside its content, in memory and in time


class Transaction:
    """What tx.commit will carry out, in order."""

    def __init__(self) -> None:
        self._publishes: list[PublishRun] = []
        self._settlements: list[SettleRun] = []
        self._bytes = 0

    def publish(self, run: PublishRun) -> None:
        """Keep a publish: its bytes are copied out of the receive buffer.

        Raises:
            SoftError: 406, the transaction would grow beyond TRANSACTION_BYTES_MAX.
        """
        own = _own(run)
        self._grow(len(own.source) + own.rows.nbytes)
        self._publishes.append(own)

    @property
    def has_publishes(self) -> bool:
        """Whether a commit would publish something."""
        return bool(self._publishes)

    def settle(self, run: SettleRun) -> None:
        """Keep a settlement.

        Raises:
            SoftError: as for `publish`.
        """
        self._grow(0)
        self._settlements.append(run)

    def _grow(self, size: int) -> None:
        self._bytes += ENTRY_BYTES + size
        if self._bytes > TRANSACTION_BYTES_MAX:
            reason = f"a transaction holds more than {TRANSACTION_BYTES_MAX} bytes"
            raise SoftError(PRECONDITION_FAILED, reason)

    def take(self) -> tuple[list[PublishRun], list[SettleRun]]:
        """Everything kept; the transaction is empty then."""
        publishes, settlements = self._publishes, self._settlements
        self._publishes, self._settlements, self._bytes = [], [], 0
        return publishes, settlements


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
