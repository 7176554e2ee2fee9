"""A tx.commit that the node that leads carries out: it is sent; nothing happens here before the answer."""

from collections.abc import Iterator, Sequence

from routelog.amqp_front.consuming.settling import Settling
from routelog.amqp_front.node.services import Services
from routelog.amqp_front.transactions.commit import CommitEnd, carry_out
from routelog.amqp_front.transactions.commit_plan import CommitPlan
from routelog.amqp_front.wire.errors import NOT_IMPLEMENTED, HardError
from routelog.log_backend import Lane
from routelog.vhosts import RemoteTransaction


class RemoteCommit(CommitEnd):
    """A transaction from the turn in which its plan is made, whether its channel is still there or not.

    Args:
        transaction: nothing is in it.
        settlings: see `CommitEnd`.

    Raises:
        HardError: 540, an exchange delays or remembers what it publishes; nothing has happened.
    """

    def __init__(
        self,
        services: Services,
        transaction: RemoteTransaction,
        plan: CommitPlan,
        settlings: Sequence[Settling],
    ) -> None:
        super().__init__(services, plan, settlings)
        if plan.passages or not all(map(transaction.publishes_to, plan.recipients)):
            reason = (
                "transaction with an exchange that delays or remembers, which another node leads"
            )
            raise HardError(NOT_IMPLEMENTED, reason)
        self._transaction = transaction
        steps = self._steps()
        if next(steps, self) is not self:
            services.scheduler.run(steps, Lane.JOBS)

    def _steps(self) -> Iterator[None]:
        is_over = self._services.scheduler.is_over
        try:
            for _ in self._parts():
                if is_over():
                    yield
        except Exception as error:
            self.fail(error)
            return
        self._transaction.send(self._committed, self.fail)

    def _parts(self) -> Iterator[None]:
        for records, queues, _ in self._plan.take():
            for queue in queues:
                self._transaction.publish(queue, records)
                yield
        for settling in self._settlings:
            yield from settling.send(self._transaction)

    def _committed(self) -> None:
        self._waits = False
        for remember in self._plan.remembered:
            carry_out(remember)
        self._settle()
        self._tell()
