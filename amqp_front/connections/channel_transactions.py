"""Class tx on a channel: what it publishes and settles is kept until tx.commit, or given up by tx.rollback."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from pamqp import commands

from routelog.amqp_front.connections.channel_connection import ChannelConnection
from routelog.amqp_front.connections.topology_methods import TopologyChannel
from routelog.amqp_front.consuming.consumption import Consumption
from routelog.amqp_front.consuming.settling import Settling
from routelog.amqp_front.consuming.unacked import UnackedRun
from routelog.amqp_front.publishing.publisher import Publisher
from routelog.amqp_front.publishing.publishing_channel import PublishingChannel
from routelog.amqp_front.transactions.commit import Commit, CommitEnd
from routelog.amqp_front.transactions.commit_plan import CommitPlan
from routelog.amqp_front.transactions.commit_planning import CommitPlanning
from routelog.amqp_front.transactions.remote_commit import RemoteCommit
from routelog.amqp_front.transactions.rollback import Rollback, rolled_back
from routelog.amqp_front.transactions.transaction import TRANSACTION_TURN_MAX, Transaction
from routelog.amqp_front.wire.command import PublishRun, SettleRun
from routelog.amqp_front.wire.errors import PRECONDITION_FAILED, SoftError
from routelog.vhosts import ReturnReason


class TransactionalChannel(PublishingChannel, TopologyChannel, Protocol):
    """What transactions need of their channel."""

    connection: ChannelConnection
    publisher: Publisher
    consumption: Consumption
    transactions: "ChannelTransactions | None"

    def again(self, handle: Callable[[Any], None], method: Any) -> None:
        """Go on with a method, in another turn of the loop."""


class ChannelTransactions:
    """The transactions of a channel for which tx.select was called, one after the other."""

    def __init__(self, channel: TransactionalChannel) -> None:
        self._channel = channel
        self._transaction = Transaction(channel.connection.intake)
        self._rollback: Rollback | None = None

    @property
    def publishes(self) -> bool:
        """tx.commit would publish something."""
        return self._transaction.publishes

    @property
    def uncommitted(self) -> tuple[int, int]:
        """How many messages are published, and how many settled, in the transaction that is open."""
        return self._transaction.messages, self._transaction.settlements

    def publish(self, run: PublishRun) -> int:
        """Keep a run of publishes; returns how many, as `Publisher.carry`."""
        if run.count > TRANSACTION_TURN_MAX:
            run = run.part(0, TRANSACTION_TURN_MAX)
        for checked in self._channel.publisher.check(run):
            self._transaction.publish(checked)
        return run.count

    def settle(self, run: SettleRun) -> None:
        """Keep a run of settlements."""
        self._transaction.settle(self._channel.consumption.take(run))

    def commit(self, method: Any) -> None:
        """Begin to carry out what was kept, when it is known which node does that."""
        channel, transaction = self._channel, self._transaction
        led = channel.vhost.definitions.until_led()
        if led is not None:
            channel.when(led, lambda _: self.commit(method), method)
            return
        settlings = [
            Settling(channel.consumption, runs, outcome, channel.services)
            for outcome, runs in transaction.taken.items()
        ]
        returns = channel.publisher.returns
        self._plan(CommitPlanning(channel, returns, transaction.kept, settlings), method)

    def _plan(self, planning: CommitPlanning, method: Any) -> None:
        plan = planning.go_on()
        if plan is not None:
            self._carry_out(plan, planning.settlings, method)
            return
        again = partial(self._plan, planning)
        self._channel.connection.rest(lambda: self._channel.again(again, method))

    def _carry_out(self, plan: CommitPlan, settlings: Sequence[Settling], method: Any) -> None:
        channel, commit = self._channel, self._begun(plan, settlings)
        returns = any(isinstance(outcome, ReturnReason) for outcome in self._transaction.taken)
        self._transaction = Transaction(channel.connection.intake)
        reached = commit.reached
        answer = reached.result() if reached.done() else reached

        def committed(_: None) -> None:
            back = channel.vhost.definitions.carried_out() if returns else None
            channel.reply(back, False, commands.Tx.CommitOk)

        channel.when(answer, committed, method)

    def _begun(self, plan: CommitPlan, settlings: Sequence[Settling]) -> CommitEnd:
        services, vhost = self._channel.services, self._channel.vhost
        remote = vhost.definitions.remote_transaction()
        if remote is None:
            return Commit(services, vhost.hosted.logs.transaction(), plan, settlings)
        return RemoteCommit(services, remote, plan, settlings)

    def roll_back(self) -> None:
        """Forget what was to be published, and hold what was settled again."""
        channel, taken = self._channel, self._transaction.taken.values()
        self._transaction = Transaction(channel.connection.intake)
        done = None
        begun = rolled_back(channel.consumption.unacked, taken, channel.services)
        if begun is not None:
            self._rollback, done = begun
        channel.reply(done, False, commands.Tx.RollbackOk)

    def all_taken(self) -> list[list[UnackedRun]]:
        """What is settled in the transaction, or on its way back from the one before: its channel closes."""
        taken = [] if self._rollback is None else self._rollback.take_all()
        return [*taken, *self._transaction.taken.values()]


def _select(channel: TransactionalChannel, method: Any) -> None:
    if channel.publisher.confirming:
        raise SoftError(PRECONDITION_FAILED, "cannot switch from confirm to tx mode")
    if channel.transactions is None:
        channel.transactions = ChannelTransactions(channel)
    channel.reply(None, False, commands.Tx.SelectOk)


def _commit(channel: TransactionalChannel, method: Any) -> None:
    _selected(channel).commit(method)


def _rollback(channel: TransactionalChannel, method: Any) -> None:
    _selected(channel).roll_back()


def _selected(channel: TransactionalChannel) -> ChannelTransactions:
    if channel.transactions is None:
        raise SoftError(PRECONDITION_FAILED, "channel is not transactional")
    return channel.transactions


HANDLERS: Mapping[type[Any], Callable[[TransactionalChannel, Any], None]] = {
    commands.Tx.Select: _select,
    commands.Tx.Commit: _commit,
    commands.Tx.Rollback: _rollback,
}
