"""A channel: the methods of its classes, over a publisher and a consumption.

Life: open -> (server refused something) closing -> closed. While closing, everything but close and
close-ok is read and thrown away, content included.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from pamqp import commands

from routelog.amqp_front.connections import topology_methods
from routelog.amqp_front.connections.channel_connection import ChannelConnection
from routelog.amqp_front.connections.client_socket import ends_name
from routelog.amqp_front.connections.login import PROTOCOL
from routelog.amqp_front.consuming.consumption import Consumption
from routelog.amqp_front.consuming.redelivery import Redelivery
from routelog.amqp_front.consuming.settling import Settling
from routelog.amqp_front.consuming.unacked import UnackedRun
from routelog.amqp_front.node.direct_reply import PSEUDO_QUEUE
from routelog.amqp_front.publishing.content import PartialContent
from routelog.amqp_front.publishing.publisher import Publisher
from routelog.amqp_front.transactions.commit import Commit
from routelog.amqp_front.transactions.commit_plan import CommitPlan
from routelog.amqp_front.transactions.commit_planning import CommitPlanning
from routelog.amqp_front.transactions.rollback import Rollback, all_taken, rolled_back
from routelog.amqp_front.transactions.transaction import TRANSACTION_TURN_MAX, Transaction
from routelog.amqp_front.wire.command import (
    ACK,
    DISCARD,
    REFUSE,
    REQUEUE,
    BegunPublish,
    Frame,
    PublishRun,
    SettleRun,
)
from routelog.amqp_front.wire.errors import (
    CHANNEL_ERROR,
    COMMAND_INVALID,
    NOT_IMPLEMENTED,
    PRECONDITION_FAILED,
    UNEXPECTED_FRAME,
    HardError,
    SoftError,
    reply_text,
)
from routelog.amqp_front.wire.frame_cutter import FRAME_METHOD
from routelog.amqp_front.wire.methods import (
    ACCESS_REQUEST_OK,
    AccessRequest,
    decode_method,
    encode_method,
)
from routelog.log_backend import Octets
from routelog.vhosts import Actor, Queue, ResourceKind, Verb, acts


class Channel:
    """One channel of a connection.

    Attributes:
        number: 1 to the negotiated channel-max.
        closing: we sent channel.close and wait for close-ok.
        partial: a publish whose content is not complete.
        last_queue: the queue last declared, which an empty name means.
    """

    def __init__(self, connection: ChannelConnection, number: int) -> None:
        self.connection: ChannelConnection = connection
        self.connection_id: object = connection
        self.number = number
        self.services = connection.services
        self.vhost = connection.vhost
        self.user = connection.user
        self.permissions = connection.permissions
        self.body_frame_max = connection.body_frame_max
        self.cancel_notify = connection.cancel_notify
        self.closing = False
        self.flow_active = True
        self.partial: PartialContent | None = None
        self.last_queue = ""
        self.reply_address: str | None = None
        self.publisher = Publisher(self)
        self.consumption = Consumption(self)
        self._transaction: Transaction | None = None
        self._rollback: Rollback | None = None
        self._cancels = b""  # basic.cancel frames that follow the next reply
        self._cancels_behind = False

    @property
    def connection_name(self) -> str:
        """What its connection is called."""
        return ends_name(self.connection.socket)

    @property
    def impersonates(self) -> bool:
        """Its user may publish in another's name."""
        return self.services.users.impersonates(self.user)

    @property
    def stalled(self) -> bool:
        """The client does not read what we send."""
        return self.connection.stalled

    @property
    def outbox_full(self) -> bool:
        """The client has not read for long."""
        return self.connection.outbox_full

    def write(self, frames: bytes | bytearray) -> None:
        """Send frames to the client."""
        self.connection.write(frames)

    def cancelled(self, frame: bytes) -> None:
        """Tell the client that a consumer has ended."""
        if self._cancels_behind:
            self._cancels += frame
        else:
            self.write(frame)

    @contextmanager
    def cancels_behind_reply(self) -> Iterator[None]:
        """See `TopologyChannel`: a client that deletes its queue awaits the answer first."""
        self._cancels_behind = True
        try:
            yield
        finally:
            self._cancels_behind = False

    def write_parts(self, parts: Sequence[Octets]) -> None:
        """Send frames that lie in parts."""
        self.connection.write_parts(parts)

    def reached(self, weight: int, arrived: Awaitable[None] | None) -> None:
        """See `PublishingChannel`."""
        self.connection.reached(weight, arrived)

    def fail(self, error: Exception) -> None:
        """Close the connection because of a fault of ours."""
        self.connection.fail(error)

    def refuse_consume(self, error: Exception) -> None:
        """Answer an error that a consumer met later."""
        self.connection.fail(error, 60, 20, self)

    def reply(
        self, durable: Awaitable[object] | None, nowait: bool, kind: type[Any], **values: Any
    ) -> None:
        """Answer when a change is durable."""
        frame = b"" if nowait else encode_method(self.number, kind, **values)
        frame, self._cancels = frame + self._cancels, b""
        if durable is None:
            self._answer(frame)
        else:
            self.connection.wait_for(durable, lambda: self._answer(frame))

    def again_behind(self, done: Awaitable[None], method: Any) -> None:
        """See `TopologyChannel`."""
        self.connection.wait_for(done, lambda: self._again(self._method, method))

    def end_turn(self) -> None:
        """See `TopologyChannel`."""
        self.connection.end_turn()

    def _answer(self, frame: bytes) -> None:
        if frame and not self.closing:
            self.write(frame)

    # -- commands

    def publish(self, run: PublishRun) -> int:
        """Carry out a run of publishes.

        Returns:
            How many, at least 1: the others are for another turn of the loop.

        Raises:
            AmqpError, or an error of the refusals table.
        """
        if self._transaction is None:
            return self.publisher.carry(run)
        if run.count > TRANSACTION_TURN_MAX:
            run = run.part(0, TRANSACTION_TURN_MAX)
        for checked in self.publisher.check(run):
            self._transaction.publish(checked)
        return run.count

    @property
    def transactional(self) -> bool:
        """tx.select was called."""
        return self._transaction is not None

    @property
    def commits_publishes(self) -> bool:
        """tx.commit would publish something."""
        return self._transaction is not None and self._transaction.publishes

    def settle(self, run: SettleRun) -> None:
        """Carry out a run of settlements."""
        if self._transaction is not None:
            self._transaction.settle(self.consumption.take(run))
        else:
            done = self.consumption.settle(run)
            if done is not None:
                self.connection.wait_for(done)

    def frame(self, frame: Frame) -> None:
        """Carry out a single frame: a method, or a piece of content."""
        if self.partial is not None:
            if frame.kind == FRAME_METHOD:
                raise HardError(UNEXPECTED_FRAME, "expected content, got a method")
            self._content(self.partial, frame)
        elif frame.kind != FRAME_METHOD:
            raise HardError(
                UNEXPECTED_FRAME, "expected a method, got content without basic.publish"
            )
        else:
            self._method(decode_method(frame.payload))

    def _content(self, partial: PartialContent, frame: Frame) -> None:
        run = partial.add(frame)
        if run is not None:
            self.partial = None
            self.publish(run)

    def _method(self, method: Any) -> None:
        if isinstance(method, AccessRequest):
            size = len(ACCESS_REQUEST_OK).to_bytes(4, "big")
            number = self.number.to_bytes(2, "big")
            self.write(b"\x01" + number + size + ACCESS_REQUEST_OK + b"\xce")
            return
        topology = topology_methods.HANDLERS.get(type(method))
        if topology is not None:
            with acts(Actor(self.user, self.connection.name, PROTOCOL)):
                topology(self, method)
            return
        handler = _HANDLERS.get(type(method))
        if handler is None:
            raise HardError(COMMAND_INVALID, f"{method.name} is not expected on a channel")
        handler(self, method)

    def begin(self, publish: BegunPublish) -> None:
        """Wait for the body of a publish that may be."""
        self.publisher.begin(publish.exchange, bool(publish.flags & 2))
        self.partial = PartialContent.begun(publish, self.connection.intake)

    def _publish(self, method: Any) -> None:
        self.publisher.begin(method.exchange.encode(), method.immediate)
        bytes_max = self.services.config.message_bytes_max
        self.partial = PartialContent.of_method(method, bytes_max, self.connection.intake)

    # -- class channel

    def _open_again(self, method: Any) -> None:
        raise HardError(CHANNEL_ERROR, "second 'channel.open' seen")

    def _flow(self, method: Any) -> None:
        if not (method.active or self.services.config.amqp_extensions):
            raise HardError(NOT_IMPLEMENTED, "active=false")
        self.flow_active = method.active
        self.reply(None, False, commands.Channel.FlowOk, active=method.active)
        if method.active:
            self.consumption.wake()

    def _close(self, method: Any) -> None:
        done = self.release()
        if done is None:
            self._closed()
        else:
            self.closing = True
            self.connection.wait_for(done, self._closed)

    def _closed(self) -> None:
        self.write(encode_method(self.number, commands.Channel.CloseOk))
        self.connection.channel_closed(self.number)

    # -- class basic

    def _qos(self, method: Any) -> None:
        if method.prefetch_size:
            raise HardError(NOT_IMPLEMENTED, f"prefetch_size!=0 ({method.prefetch_size})")
        if method.global_:
            self.consumption.channel_prefetch = method.prefetch_count
            self.consumption.wake()
        else:
            self.consumption.prefetch = method.prefetch_count
        self.reply(None, False, commands.Basic.QosOk)

    def _consume(self, method: Any) -> None:
        tag = self.consumption.free_tag(method.consumer_tag)  # before anything else, as RabbitMQ
        name = topology_methods.queue_name(self, method.queue)
        if name == PSEUDO_QUEUE:
            self.consumption.consume_replies(tag, no_ack=method.no_ack)
            self.reply(None, method.nowait, commands.Basic.ConsumeOk, consumer_tag=tag)
            return
        queue = self._readable(name)
        consumer = self.consumption.consume(
            queue,
            tag,
            method.arguments,
            no_ack=method.no_ack,
            exclusive=method.exclusive,
        )
        group, made = self.consumption.join_group(queue, method.arguments)
        if made is not None:
            self.connection.wait_for(made, lambda: self._again(self._consume, method))
            return
        self.consumption.start(consumer, method.arguments, group)
        self.reply(None, method.nowait, commands.Basic.ConsumeOk, consumer_tag=consumer.tag)

    def _readable(self, name: str) -> Queue:
        # In this order: who may not read it is not told whether it is there.
        self.permissions.authorize(ResourceKind.QUEUE, name, Verb.READ)
        return self.vhost.queue(name, self.connection_id)

    def _cancel(self, method: Any) -> None:
        consumer = self.consumption.consumers.get(method.consumer_tag)
        if consumer is not None:
            consumer.queue.serve_due()  # to this one too
        self.consumption.cancel(method.consumer_tag)
        done = self.vhost.remove_consumer(consumer.queue, consumer) if consumer else None
        self.reply(done, method.nowait, commands.Basic.CancelOk, consumer_tag=method.consumer_tag)

    def _ignore(self, method: Any) -> None:
        """The client's answer to our basic.cancel or channel.flow."""

    def _get(self, method: Any) -> None:
        name = topology_methods.queue_name(self, method.queue)
        queue = self._readable(name)
        if queue.is_stream:
            raise HardError(NOT_IMPLEMENTED, f"basic.get from stream '{name}'")
        loaded = self.services.loop.create_future()

        def when_loaded() -> None:
            if not loaded.done():
                loaded.set_result(None)

        if not self.consumption.get(queue, no_ack=method.no_ack, when_loaded=when_loaded):
            self.connection.wait_for(loaded, lambda: self._again(self._get, method))

    def _again(self, handle: Callable[[Any], None], method: Any) -> None:
        if self.closing:
            return
        try:
            handle(method)
        except Exception as error:
            self.connection.fail(error, method.index >> 16, method.index & 0xFFFF, self)

    def _recover(self, method: Any) -> None:
        if method.requeue:
            done = self.consumption.recover()
            if done is None:
                self._recovered(method)
            else:
                self.connection.wait_for(done, lambda: self._recovered(method))
        elif self.services.config.amqp_extensions:
            self._redeliver(self.consumption.redeliver(), method)
        else:
            raise HardError(NOT_IMPLEMENTED, "requeue=false")

    def _redeliver(self, redelivery: Redelivery, method: Any) -> None:
        waiting = redelivery.go_on()
        if waiting is None:
            self._recovered(method)
        else:
            again = partial(self._redeliver, redelivery)
            self.connection.wait_for(waiting, lambda: self._again(again, method))

    def _recovered(self, method: Any) -> None:
        if isinstance(method, commands.Basic.Recover):
            self.reply(None, False, commands.Basic.RecoverOk)

    def _settle_single(self, method: Any) -> None:
        # A settlement that did not qualify for a run: content of this connection is in pieces.
        tag = method.delivery_tag
        requeue = getattr(method, "requeue", None)
        again = REFUSE if isinstance(method, commands.Basic.Reject) else REQUEUE
        outcome = ACK if requeue is None else again if requeue else DISCARD
        self.settle(SettleRun(self.number, outcome, tag, tag, getattr(method, "multiple", False)))

    # -- classes confirm and tx

    def _confirm_select(self, method: Any) -> None:
        if self._transaction is not None:
            raise SoftError(PRECONDITION_FAILED, "cannot switch from tx to confirm mode")
        self.publisher.confirming = True
        self.reply(None, method.nowait, commands.Confirm.SelectOk)

    def _tx_select(self, method: Any) -> None:
        if self.publisher.confirming:
            raise SoftError(PRECONDITION_FAILED, "cannot switch from confirm to tx mode")
        if self._transaction is None:
            self._transaction = Transaction(self.connection.intake)
        self.reply(None, False, commands.Tx.SelectOk)

    def _tx_commit(self, method: Any) -> None:
        transaction, services = self._selected(), self.services
        settlings = [
            Settling(self.consumption, runs, outcome, services)
            for outcome, runs in transaction.taken.items()
        ]
        returns, clock = self.publisher.returns, services.clock
        self._plan_commit(CommitPlanning(self, returns, transaction.kept, clock, settlings), method)

    def _plan_commit(self, planning: CommitPlanning, method: Any) -> None:
        plan = planning.go_on()
        if plan is not None:
            self._carry_out(plan, planning.settlings)
            return
        again = partial(self._plan_commit, planning)
        self.connection.rest(lambda: self._again(again, method))

    def _carry_out(self, plan: CommitPlan, settlings: Sequence[Settling]) -> None:
        commit = Commit(self.services, self.vhost.transaction(), plan, settlings)
        self._transaction = Transaction(self.connection.intake)
        frame = encode_method(self.number, commands.Tx.CommitOk)
        if commit.reached.done():
            commit.reached.result()
            self._answer(frame)
        else:
            self.connection.wait_for(commit.reached, lambda: self._answer(frame))

    def _tx_rollback(self, method: Any) -> None:
        taken = self._selected().taken.values()
        self._transaction = Transaction(self.connection.intake)
        done = None
        if (begun := rolled_back(self.consumption.unacked, taken, self.services)) is not None:
            self._rollback, done = begun[0], begun[1].done
        self.reply(done, False, commands.Tx.RollbackOk)

    def _selected(self) -> Transaction:
        if self._transaction is None:
            raise SoftError(PRECONDITION_FAILED, "channel is not transactional")
        return self._transaction

    # -- the end

    def refuse(self, error: SoftError, class_id: int, method_id: int) -> None:
        """Close the channel from our side; what follows on its connection finds all back in its queues."""
        done = self.release()
        if done is not None:
            self.connection.wait_for(done)
        self.closing = True
        self.write(
            encode_method(
                self.number,
                commands.Channel.Close,
                reply_code=error.code,
                reply_text=reply_text(error.code, error.reason),
                class_id=class_id,
                method_id=method_id,
            )
        )

    def release(self) -> Awaitable[None] | None:
        """Return what is unsettled, end consumers and confirms; None: all is done, else it is when this is."""
        self.publisher.close()
        self.partial = None
        return self.consumption.close(self._all_taken())

    def stop(self) -> None:
        """Confirm and deliver nothing more: its connection has ended, and it is to `leave` in a later turn."""
        self.closing = True
        self.partial = None
        self.publisher.close()
        self.consumption.stop()

    def leave(self) -> Settling:
        """See `StoppedChannel`."""
        return self.consumption.leave(self._all_taken())

    def _all_taken(self) -> list[list[UnackedRun]]:
        transaction, self._transaction = self._transaction, None
        return all_taken(transaction, self._rollback)

    def end(self) -> None:
        """It is closed on both sides: nothing is left for the garbage collector."""
        self.closing = True  # whoever waited for something finds nobody to tell
        del self.publisher, self.consumption


_HANDLERS: Mapping[type[Any], Callable[[Channel, Any], None]] = {
    commands.Channel.Open: Channel._open_again,
    commands.Channel.Flow: Channel._flow,
    commands.Channel.FlowOk: Channel._ignore,
    commands.Channel.Close: Channel._close,
    commands.Basic.Publish: Channel._publish,
    commands.Basic.Qos: Channel._qos,
    commands.Basic.Consume: Channel._consume,
    commands.Basic.Cancel: Channel._cancel,
    commands.Basic.CancelOk: Channel._ignore,
    commands.Basic.Get: Channel._get,
    commands.Basic.Ack: Channel._settle_single,
    commands.Basic.Nack: Channel._settle_single,
    commands.Basic.Reject: Channel._settle_single,
    commands.Basic.Recover: Channel._recover,
    commands.Basic.RecoverAsync: Channel._recover,
    commands.Confirm.Select: Channel._confirm_select,
    commands.Tx.Select: Channel._tx_select,
    commands.Tx.Commit: Channel._tx_commit,
    commands.Tx.Rollback: Channel._tx_rollback,
}
