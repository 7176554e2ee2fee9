"""A channel: the methods of its classes, over a publisher and a consumption.

Life: open -> (server refused something) closing -> closed. While closing, everything but close and
close-ok is read and thrown away, content included.
"""

from asyncio import Future
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from pamqp import commands

from routelog.amqp_front.connections import (
    basic_methods,
    channel_transactions,
    topology_methods,
)
from routelog.amqp_front.connections.channel_connection import ChannelConnection
from routelog.amqp_front.connections.channel_transactions import ChannelTransactions
from routelog.amqp_front.consuming.consumption import Consumption
from routelog.amqp_front.consuming.settling import Settling
from routelog.amqp_front.consuming.unacked import UnackedRun
from routelog.amqp_front.node.services import PROTOCOL
from routelog.amqp_front.publishing.content import PartialContent
from routelog.amqp_front.publishing.publisher import Publisher
from routelog.amqp_front.wire.command import (
    BegunPublish,
    Frame,
    PublishRun,
    SettleRun,
)
from routelog.amqp_front.wire.errors import (
    CHANNEL_ERROR,
    COMMAND_INVALID,
    NOT_IMPLEMENTED,
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
from routelog.broker import ends_name
from routelog.vhosts import Actor, Answer, Recipient, acts

_Value = TypeVar("_Value")


class Channel:
    """One channel of a connection.

    Attributes:
        number: 1 to the negotiated channel-max.
        closing: we sent channel.close and wait for close-ok.
        partial: a publish whose content is not complete.
        last_queue: the queue last declared, which an empty name means.
        counters: of its messages.
    """

    def __init__(self, connection: ChannelConnection, number: int) -> None:
        self.connection: ChannelConnection = connection
        self.number = number
        self.services = connection.services
        self.vhost = connection.vhost
        self.counters = connection.vhost.counters.channel()
        self.user = connection.user
        self.permissions = connection.permissions
        self.body_frame_max = connection.body_frame_max
        self.cancel_notify = connection.cancel_notify
        self.returns_refused = connection.returns_refused
        self.closing = False
        self.flow_active = True
        self.partial: PartialContent | None = None
        self.last_queue = ""
        self.reply_address: str | None = None
        self.publisher = Publisher(self)
        self.consumption = Consumption(self)
        self.transactions: ChannelTransactions | None = None
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

    def write(self, frames: bytes | bytearray) -> None:
        """Send frames to the client."""
        self.connection.write(frames)

    def cancelled(self, frame: bytes) -> None:
        """Tell the client that a consumer has ended."""
        if self._cancels_behind:
            self._cancels += frame
        else:
            self.write(frame)

    def hold_cancels(self) -> None:
        """See `TopologyChannel`: a client that deletes its queue awaits the answer first."""
        self._cancels_behind = True

    def wait_for(self, arrived: Awaitable[None]) -> None:
        """See `PublishingChannel`."""
        self.connection.wait_for(arrived)

    def wait_for_consumers(self, queue: Recipient) -> None:
        """See `PublishingChannel`; a connection that consumes, too, is read on: it may be what all wait for."""
        if not self.connection.consumers:
            self.connection.hold.begin(self.services.consumer_gates.of(queue))

    def reply(
        self, durable: Awaitable[object] | None, nowait: bool, kind: type[Any], **values: Any
    ) -> None:
        """Answer when a change is durable."""
        frame = b"" if nowait else encode_method(self.number, kind, **values)
        frame, self._cancels, self._cancels_behind = frame + self._cancels, b"", False
        if durable is None:
            self._answer(frame)
        else:
            done = self.services.in_time(durable)
            self.connection.wait_for(done, lambda: self._answer(frame))

    def when(self, answer: Answer[_Value], then: Callable[[_Value], None], method: Any) -> None:
        """See `TopologyChannel`."""
        if isinstance(answer, Future):
            carry_on = partial(self.again, lambda _: then(answer.result()), method)
            done = self.services.in_time(answer)
            self.connection.wait_for(done, carry_on, partial(self._failed, method))
        else:
            then(answer)

    def _failed(self, method: Any, error: Exception) -> None:
        if not self.closing:
            self.connection.fail(error, method.index >> 16, method.index & 0xFFFF, self)

    def again_behind(self, done: Awaitable[object], method: Any) -> None:
        """See `TopologyChannel`."""
        done = self.services.in_time(done)
        self.connection.wait_for(done, lambda: self.again(self._method, method))

    def again(self, handle: Callable[[Any], None], method: Any) -> None:
        """See `TransactionalChannel`."""
        if self.closing:
            return
        try:
            handle(method)
        except Exception as error:
            self._failed(method, error)

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
        carry = self.publisher.carry if self.transactions is None else self.transactions.publish
        carried: int = run.count  # also if one is refused, behind others that are published
        try:
            carried = carry(run)
        finally:
            if self.services.publish_rates.are_set and self.connection.pace.is_limited:
                self.connection.pace.published(carried, run.bodies_bytes(carried))
        return carried

    def settle(self, run: SettleRun) -> None:
        """Carry out a run of settlements."""
        if self.transactions is not None:
            self.transactions.settle(run)
        elif (done := self.consumption.settle(run)) is not None:
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

    def _flow_changed(self, method: Any) -> None:
        """The client's answer to our channel.flow."""

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
        transactions, self.transactions = self.transactions, None
        return [] if transactions is None else transactions.all_taken()

    def end(self) -> None:
        """It is closed on both sides: nothing is left for the garbage collector."""
        self.closing = True  # whoever waited for something finds nobody to tell
        del self.publisher, self.consumption


_HANDLERS: Mapping[type[Any], Callable[[Channel, Any], None]] = {
    commands.Channel.Open: Channel._open_again,
    commands.Channel.Flow: Channel._flow,
    commands.Channel.FlowOk: Channel._flow_changed,
    commands.Channel.Close: Channel._close,
    **basic_methods.HANDLERS,
    **channel_transactions.HANDLERS,
}
