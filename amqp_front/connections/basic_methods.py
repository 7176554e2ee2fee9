"""The methods of the classes basic and confirm."""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

from pamqp import commands

from routelog.amqp_front.connections.channel_transactions import TransactionalChannel
from routelog.amqp_front.connections.topology_methods import queue_name, with_readable
from routelog.amqp_front.consuming.redelivery import Redelivery
from routelog.amqp_front.publishing.content import PartialContent
from routelog.amqp_front.wire.command import ACK, DISCARD, REFUSE, REQUEUE, SettleRun
from routelog.amqp_front.wire.errors import (
    NOT_IMPLEMENTED,
    PRECONDITION_FAILED,
    HardError,
    SoftError,
)
from routelog.broker import PSEUDO_QUEUE
from routelog.vhosts import QueueHandle, ResourceKind, SessionLost, Verb, after


class BasicChannel(TransactionalChannel, Protocol):
    """What basic methods need of their channel."""

    partial: PartialContent | None

    def settle(self, run: SettleRun) -> None:
        """Carry out a run of settlements."""


def _publish(channel: BasicChannel, method: Any) -> None:
    channel.publisher.begin(method.exchange.encode(), method.immediate)
    bytes_max = channel.services.config.message_bytes_max
    channel.partial = PartialContent.of_method(method, bytes_max, channel.connection.intake)


def _qos(channel: BasicChannel, method: Any) -> None:
    if method.prefetch_size:
        raise HardError(NOT_IMPLEMENTED, f"prefetch_size!=0 ({method.prefetch_size})")
    if method.global_:
        channel.consumption.limit_channel(method.prefetch_count)
    else:
        channel.consumption.prefetch = method.prefetch_count
    channel.reply(None, False, commands.Basic.QosOk)


def _consume(channel: BasicChannel, method: Any) -> None:
    tag = channel.consumption.free_tag(method.consumer_tag)  # before anything else, as RabbitMQ
    name = queue_name(channel, method.queue)
    if name == PSEUDO_QUEUE:
        channel.consumption.consume_replies(tag, no_ack=method.no_ack)
        _consume_ok(channel, method, tag)
        return
    _consume_from(channel, method, name, tag)


# No functions within each other here: those that name each other are garbage that only the collector finds.
def _consume_from(channel: BasicChannel, method: Any, name: str, tag: str) -> None:
    with_readable(channel, name, partial(_attach, channel, method, name, tag), method)


def _attach(channel: BasicChannel, method: Any, name: str, tag: str, queue: QueueHandle) -> None:
    options = {"no_ack": method.no_ack, "exclusive": method.exclusive}
    begun = partial(channel.again, partial(_begun, channel, method, name, tag), method)
    attached = channel.consumption.consume(queue, tag, method.arguments, begun, **options)
    is_lost = asyncio.ensure_future(_is_lost(attached)) if asyncio.isfuture(attached) else False
    channel.when(is_lost, partial(_attached, channel, method, name, tag), method)


def _begun(channel: BasicChannel, method: Any, name: str, tag: str, _: Any) -> None:
    # The queue may have waited: for other nodes, for the journal, or for remote storage. A refusal closes the
    # channel, and the consumer goes with it.
    channel.permissions.authorize(ResourceKind.QUEUE, name, Verb.READ)
    _consume_ok(channel, method, tag)


def _consume_ok(channel: BasicChannel, method: Any, tag: str) -> None:
    channel.reply(None, method.nowait, commands.Basic.ConsumeOk, consumer_tag=tag)


def _attached(channel: BasicChannel, method: Any, name: str, tag: str, is_lost: bool) -> None:
    if is_lost:  # the next leader is asked, if the client may read then
        _consume_from(channel, method, name, tag)


async def _is_lost(attached: asyncio.Future[None]) -> bool:
    try:
        await attached
    except SessionLost:
        return True
    return False


def _said(_: None) -> None:
    """The reply was sent where the queue's answer was known: there is nothing left to do."""


def _cancel(channel: BasicChannel, method: Any) -> None:
    consumer = channel.consumption.consumers.get(method.consumer_tag)
    done = None if consumer is None else consumer.queue.cancel(consumer)
    channel.when(done, partial(_cancel_done, channel, method), method)


def _cancel_done(channel: BasicChannel, method: Any, _: None) -> None:
    consumer = channel.consumption.cancel(method.consumer_tag)
    done = channel.vhost.definitions.delete_left(consumer.queue.name) if consumer else None
    channel.reply(done, method.nowait, commands.Basic.CancelOk, consumer_tag=method.consumer_tag)


def _cancelled(channel: BasicChannel, method: Any) -> None:
    """The client's answer to our basic.cancel."""


def _get(channel: BasicChannel, method: Any) -> None:
    name = queue_name(channel, method.queue)
    with_readable(channel, name, partial(_get_from, channel, method), method)


def _get_from(channel: BasicChannel, method: Any, queue: QueueHandle) -> None:
    if queue.is_stream:
        raise HardError(NOT_IMPLEMENTED, f"basic.get from stream '{queue.name}'")
    channel.when(channel.consumption.get(queue, no_ack=method.no_ack), _said, method)


def _recover(channel: BasicChannel, method: Any) -> None:
    if method.requeue:
        _recovered(channel, channel.consumption.recover(), method)
    elif channel.services.config.amqp_extensions:
        _redeliver(channel, channel.consumption.redeliver(), method)
    else:
        raise HardError(NOT_IMPLEMENTED, "requeue=false")


def _redeliver(channel: BasicChannel, redelivery: Redelivery, method: Any) -> None:
    waiting = redelivery.go_on()
    if waiting is None:
        _recovered(channel, None, method)
    else:
        again = partial(_redeliver, channel, redelivery)
        channel.connection.wait_for(waiting, lambda: channel.again(again, method))


def _recovered(channel: BasicChannel, done: asyncio.Future[None] | None, method: Any) -> None:
    if isinstance(method, commands.Basic.Recover):
        definitions = channel.vhost.definitions
        back = after(done, lambda _: definitions.carried_out())
        channel.reply(back, False, commands.Basic.RecoverOk)
    elif done is not None:
        channel.connection.wait_for(done)


def _settle(channel: BasicChannel, method: Any) -> None:
    # A settlement that did not qualify for a run: content of this connection is in pieces.
    tag = method.delivery_tag
    requeue = getattr(method, "requeue", None)
    again = REFUSE if isinstance(method, commands.Basic.Reject) else REQUEUE
    outcome = ACK if requeue is None else again if requeue else DISCARD
    is_multiple = getattr(method, "multiple", False)
    channel.settle(SettleRun(channel.number, outcome, tag, tag, is_multiple))


def _confirm_select(channel: BasicChannel, method: Any) -> None:
    if channel.transactions is not None:
        raise SoftError(PRECONDITION_FAILED, "cannot switch from tx to confirm mode")
    channel.publisher.confirming = True
    channel.reply(None, method.nowait, commands.Confirm.SelectOk)


HANDLERS: Mapping[type[Any], Callable[[BasicChannel, Any], None]] = {
    commands.Basic.Publish: _publish,
    commands.Basic.Qos: _qos,
    commands.Basic.Consume: _consume,
    commands.Basic.Cancel: _cancel,
    commands.Basic.CancelOk: _cancelled,
    commands.Basic.Get: _get,
    commands.Basic.Ack: _settle,
    commands.Basic.Nack: _settle,
    commands.Basic.Reject: _settle,
    commands.Basic.Recover: _recover,
    commands.Basic.RecoverAsync: _recover,
    commands.Confirm.Select: _confirm_select,
}
