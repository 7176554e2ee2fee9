"""Transactions of clients of other nodes, carried out here as those of this node's own clients."""

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any

from routelog.amqp_front.consuming.settling import Settling
from routelog.amqp_front.consuming.unacked import UnackedRun
from routelog.amqp_front.node.services import Services
from routelog.amqp_front.transactions.commit import Commit, CommitEnd
from routelog.amqp_front.transactions.commit_plan import CommitPlan
from routelog.amqp_front.wire.errors import PRECONDITION_FAILED, AmqpError
from routelog.log_backend import Lane
from routelog.vhosts import MessageCounters, SettledRange, TransactionParts, TransactionRefused


class HostedCommits:
    """See `CommitParts`."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def __call__(
        self, parts: TransactionParts, counters: MessageCounters
    ) -> "asyncio.Future[None]":
        """See `CommitParts`."""
        return _HostedCommit(self._services, parts, counters).reached


class _HostedCommit:
    """One of them. Its front tells its client, counts publishes, and returns messages.

    Attributes:
        reached: see `CommitParts`.
        vhost, counters: see `Holdings`.
    """

    def __init__(
        self, services: Services, parts: TransactionParts, counters: MessageCounters
    ) -> None:
        self.reached: asyncio.Future[None] = services.loop.create_future()
        self.vhost = parts.vhost
        self.counters = counters
        self._services = services
        self._batches = parts.batches
        self._settlings = [
            Settling(self, list(_runs(ranges)), reason, services)
            for reason, ranges in parts.settled.items()
        ]
        steps = self._steps()
        if next(steps, self) is not self:
            services.scheduler.run(steps, Lane.JOBS)

    def begin_turn(self) -> None:
        """See `Holdings`."""

    def let_go(self, holder: Any, count: int) -> None:
        """See `Holdings`; it is a consumer of a session."""
        holder.let_go(count)

    def _steps(self) -> Iterator[None]:
        is_over = self._services.scheduler.is_over
        plan = CommitPlan(0)
        try:
            while True:
                for _ in self._plan(plan):
                    if is_over():
                        yield
                while not (is_stale := any(queue.deleted for queue in plan.recipients)):
                    if self._is_current(plan):
                        break
                    yield
                if not is_stale:
                    break
                plan = CommitPlan(0)
            self._batches = []
            plan.needed = self.vhost.unrouted  # some of them may have been for a queue that is gone
            transaction = self.vhost.hosted.logs.transaction()
            end: CommitEnd = Commit(self._services, transaction, plan, self._settlings)
        except Exception as error:
            end = CommitEnd(self._services, plan, self._settlings)
            end.fail(error)
        end.reached.add_done_callback(self._reached)

    def _plan(self, plan: CommitPlan) -> Iterator[None]:
        for records, queue in self._batches:
            if not queue.deleted:
                plan.add(records, (queue,))
            yield
        for settling in self._settlings:
            while settling.prepare_some():
                yield

    def _is_current(self, plan: CommitPlan) -> bool:
        # Whether it can be carried out in this turn.
        logs = self.vhost.hosted.logs
        plan.check(logs.progress)
        for settling in self._settlings:
            if not settling.is_prepared():
                while settling.prepare_some():
                    pass
        return not (logs.is_committing and plan.takes_turns)

    def _reached(self, reached: "asyncio.Future[None]") -> None:
        error = reached.exception()
        if isinstance(error, AmqpError) and error.code == PRECONDITION_FAILED:
            error = TransactionRefused(error.reason)
        if error is None:
            self.reached.set_result(None)
        else:
            self.reached.set_exception(error)


def _runs(ranges: Iterable[SettledRange]) -> Iterator[UnackedRun]:
    tag = 1
    for each in ranges:
        count = each.end - each.first
        holder: Any = each.consumer
        yield UnackedRun(tag, tag + count, each.source, each.first, holder)
        tag += count
