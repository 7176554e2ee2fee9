"""A client's connection: bytes in, commands carried out in order, frames out.

States: the table `_CONNECTION_METHODS` says which class-10 method is expected where.

    AWAIT_HEADER -> AWAIT_START_OK -> AUTHENTICATING -> AWAIT_TUNE_OK -> AWAIT_OPEN -> OPEN
    any -> CLOSING (we sent connection.close) -> CLOSED

Reads go to the receive buffer that all connections share, so a read is handled whole before control
returns to the event loop; only a command that must wait (for a disk, a thread) ends it early, and then
the connection reads nothing more until that is done.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from typing import Any, cast

from pamqp import commands

from amqp_front.channel import Channel
from amqp_front.channel_table import ChannelTable
from amqp_front.command import Frame, PublishRun, SettleRun
from amqp_front.connection_state import HANDSHAKE, State
from amqp_front.errors import (
    CHANNEL_ERROR,
    INTERNAL_ERROR,
    NOT_ALLOWED,
    UNEXPECTED_FRAME,
    AmqpError,
    HardError,
    SoftError,
    reply_text,
)
from amqp_front.frame_cutter import FRAME_HEARTBEAT, FRAME_METHOD
from amqp_front.handshake import (
    ACCEPTED_HEADERS,
    FRAME_BEFORE_TUNE,
    PROTOCOL_HEADER,
    agreed_tuning,
    client_capability,
    start_frame,
    tune_frame,
)
from amqp_front.heartbeat import Heartbeat
from amqp_front.login import log_in
from amqp_front.methods import decode_method, encode_method
from amqp_front.refusals import refusal
from amqp_front.sasl import MalformedResponse, credentials
from amqp_front.services import Services
from vhosts import PermissionCache, User, VirtualHost

log = logging.getLogger(__name__)

OUTBOX_BYTES_HIGH = 1_048_576  # unsent: no more deliveries; about 8 ms at 1 Gbit/s
OUTBOX_BYTES_MAX = 64 * 1024 * 1024  # unsent: the client reads nothing; no more commands either
CLOSE_SECONDS_MAX = 30.0  # for the client to answer connection.close


class Connection(asyncio.BufferedProtocol):
    """The protocol of one client socket."""

    __slots__ = (
        "_cancel_deadline",
        "_channels",
        "_cutter",
        "_frame_limit",
        "_heartbeat",
        "_heartbeat_seconds",
        "_holding",
        "_on_closed",
        "_on_opened",
        "_peer",
        "_state",
        "_told_refusals",
        "_transport",
        "_unread",
        "_waiting",
        "body_frame_max",
        "cancel_notify",
        "name",
        "permissions",
        "services",
        "stalled",
        "user",
        "vhost",
    )

    vhost: VirtualHost
    permissions: PermissionCache

    def __init__(
        self,
        services: Services,
        on_opened: Callable[["Connection"], None],
        on_closed: Callable[["Connection"], None],
    ) -> None:
        self.services = services
        self._on_opened = on_opened
        self._on_closed = on_closed
        self._cutter = services.cutter
        self._state = State.AWAIT_HEADER
        self._transport: asyncio.Transport | None = None
        self._unread = b""
        self._waiting = False
        self._holding = False
        self._frame_limit = FRAME_BEFORE_TUNE
        self._channels = ChannelTable(self)
        self._heartbeat: Heartbeat | None = None
        self._heartbeat_seconds = 0
        self._cancel_deadline: asyncio.TimerHandle | None = None
        self._told_refusals = False
        self._peer: str | None = None
        self.body_frame_max = FRAME_BEFORE_TUNE - 8
        self.cancel_notify = False
        self.stalled = False
        self.user = ""
        self.name = ""

    # -- transport (asyncio.BufferedProtocol)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is connected."""
        # uvloop's transport is one in all but its base class.
        self._transport = transport = cast(asyncio.Transport, transport)
        transport.set_write_buffer_limits(high=OUTBOX_BYTES_HIGH)
        address = transport.get_extra_info("peername")
        self._peer = address[0] if isinstance(address, tuple) else None
        self.name = f"{address[0]}:{address[1]}" if isinstance(address, tuple) else "local"
        handle = transport.get_extra_info("socket")
        if handle is not None and handle.family in (socket.AF_INET, socket.AF_INET6):
            handle.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._deadline(self.services.config.handshake_seconds)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next read goes."""
        return self._cutter.receive_into(self._unread)

    def buffer_updated(self, nbytes: int) -> None:
        """A read is in the buffer."""
        self._cutter.received(nbytes, self._frame_limit)
        if self._heartbeat is not None:
            self._heartbeat.received = True
        self._process()

    def eof_received(self) -> bool:
        """The client has ended its side: so do we."""
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """The socket is gone."""
        self._state = State.CLOSED
        self._unread = b""
        self._release()
        self._stop_deadline()
        if self._heartbeat is not None:
            self._heartbeat.stop()
        self.services.gate.forget(self)
        self._on_closed(self)

    def pause_writing(self) -> None:
        """The client does not read: deliver nothing more."""
        self.stalled = True

    def resume_writing(self) -> None:
        """The client reads again."""
        self.stalled = False
        for channel in self._channels:
            channel.consumption.wake()
        if self._unread and not self._waiting:
            self._process_unread()
        self._update_reading()

    # -- sending

    def write(self, frames: bytes | bytearray) -> None:
        """Send frames to the client."""
        if self._transport is not None and self._state is not State.CLOSED:
            self._transport.write(frames)
            if self._heartbeat is not None:
                self._heartbeat.sent = True

    def _method(self, kind: type[Any], **values: Any) -> None:
        self.write(encode_method(0, kind, **values))

    # -- reading

    def _process(self) -> None:
        try:
            if self._state is State.AWAIT_HEADER and not self._protocol_header():
                return
            self._commands()
        except Exception as error:
            self._failed(error, 0, 0)
        if self._state is State.CLOSED:
            return
        self._unread = self._cutter.unread()
        self._update_reading()

    def _commands(self) -> None:
        cutter = self._cutter
        while not self._waiting and self._state is not State.CLOSED:
            if self.stalled and self._outbox_is_full():
                return
            command = cutter.next(self._channels.is_assembling())
            if command is None:
                return
            if isinstance(command, PublishRun):
                self._publish(command)
            elif isinstance(command, SettleRun):
                self._settle(command)
            else:
                self._frame(command)

    def _outbox_is_full(self) -> bool:
        transport = self._transport
        return transport is not None and transport.get_write_buffer_size() > OUTBOX_BYTES_MAX

    def _process_unread(self) -> None:
        self._cutter.receive_into(self._unread)
        self._cutter.received(0, self._frame_limit)
        self._process()

    def _update_reading(self) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        if self._waiting or self._holding or (self.stalled and self._outbox_is_full()):
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def wait_for(self, done: Awaitable[object], then: Callable[[], None]) -> None:
        """Read no further commands until `done`, then call `then`."""
        self._waiting = True
        future = asyncio.ensure_future(done)
        future.add_done_callback(lambda finished: self._done_waiting(finished, then))

    def _done_waiting(self, finished: "asyncio.Future[Any]", then: Callable[[], None]) -> None:
        self._waiting = False
        if self._state is State.CLOSED or finished.cancelled():
            return
        error = finished.exception()
        try:
            if error is not None:
                raise error
            then()
        except Exception as failure:
            self._failed(failure, 0, 0)
        if not self._waiting:
            self._process_unread()

    def let_go(self) -> None:
        """The gate for publishers is open again."""
        self._holding = False
        self._update_reading()

    # -- commands

    def _protocol_header(self) -> bool:
        header = self._cutter.take_header()
        if header is None:
            self._unread = self._cutter.unread()
            if not PROTOCOL_HEADER.startswith(self._unread[:4]):
                self._refuse_protocol()
            return False
        if header not in ACCEPTED_HEADERS:
            self._refuse_protocol()
            return False
        self._state = State.AWAIT_START_OK
        self.write(start_frame(self.services.cluster_name))
        return True

    def _refuse_protocol(self) -> None:
        log.info("%s speaks another protocol", self.name)
        self.write(PROTOCOL_HEADER)
        self._drop()

    def _publish(self, run: PublishRun) -> None:
        channel = self._channel_of(run.channel)
        if channel is None:
            return
        try:
            channel.publish(run)
        except Exception as error:
            self._failed(error, 60, 40, channel)
        if self.services.gate.closed and not self._holding:
            self._holding = True
            self.services.gate.hold(self)

    def _settle(self, run: SettleRun) -> None:
        channel = self._channel_of(run.channel)
        if channel is None:
            return
        try:
            channel.settle(run)
        except Exception as error:
            self._failed(error, 60, (80, 120, 120)[run.outcome], channel)

    def _channel_of(self, number: int) -> Channel | None:
        # None when what is said on the channel is not looked at any more.
        if self._state is State.CLOSING:
            return None
        self._check_open()
        return self._channels.for_run(number)

    def _check_open(self) -> None:
        if self._state is not State.OPEN:
            raise HardError(UNEXPECTED_FRAME, "a channel frame before connection.open")

    def _frame(self, frame: Frame) -> None:
        if frame.kind == FRAME_HEARTBEAT:
            return
        if frame.channel == 0:
            self._connection_method(frame)
        elif self._state is not State.CLOSING:
            self._check_open()
            self._channel_frame(frame)

    def _channel_frame(self, frame: Frame) -> None:
        index = int.from_bytes(frame.payload[:4], "big") if frame.kind == FRAME_METHOD else 0
        channel: Channel | None = None
        try:
            channel = self._channels.for_frame(frame)
            if channel is not None:
                channel.frame(frame)
        except Exception as error:
            self._failed(error, index >> 16, index & 0xFFFF, channel)

    def channel_closed(self, number: int) -> None:
        """The channel is closed on both sides."""
        self._channels.closed(number)

    # -- class connection

    def _connection_method(self, frame: Frame) -> None:
        class_id, method_id = frame.payload[1], frame.payload[3]
        try:
            method = decode_method(frame.payload)
            if frame.payload[:2] != b"\x00\x0a":
                raise HardError(CHANNEL_ERROR, "a channel method on channel 0")
            if self._state is State.CLOSING:
                self._while_connection_closes(method)
                return
            handler = _CONNECTION_METHODS.get((self._state, type(method)))
            if handler is not None:
                handler(self, method)
            elif self._state in HANDSHAKE:
                log.warning("%s: %s in the middle of the handshake", self.name, method.name)
                self._drop()
            else:
                raise HardError(CHANNEL_ERROR, f"{method.name} is not expected here")
        except Exception as error:
            self._failed(error, class_id, method_id)

    def _while_connection_closes(self, method: Any) -> None:
        if isinstance(method, commands.Connection.Close):
            self._method(commands.Connection.CloseOk)
        elif isinstance(method, commands.Connection.CloseOk):
            self._drop()

    def _start_ok(self, method: Any) -> None:
        properties = method.client_properties
        self._told_refusals = client_capability(properties, "authentication_failure_close")
        self.cancel_notify = client_capability(properties, "consumer_cancel_notify")
        self._state = State.AUTHENTICATING
        try:
            name, password = credentials(method.mechanism, method.response)
        except MalformedResponse as error:
            log.warning("%s: login refused: %s", self.name, error)
            self._drop()
            return
        login = log_in(self.services, self._peer, method.mechanism, name, password)
        task = self.services.loop.create_task(login)
        self.wait_for(task, lambda: self._logged_in(task.result()))

    def _logged_in(self, user: User) -> None:
        self.user = user.name
        self._state = State.AWAIT_TUNE_OK
        self.write(tune_frame(self.services.config))

    def _tune_ok(self, method: Any) -> None:
        tuning = agreed_tuning(self.services.config, method)
        self._frame_limit = tuning.frame_max
        self.body_frame_max = tuning.frame_max - 8
        self._channels.channel_max = tuning.channel_max
        self._heartbeat_seconds = tuning.heartbeat
        self._state = State.AWAIT_OPEN

    def _open_vhost(self, method: Any) -> None:
        vhost = self.services.vhosts.get(method.virtual_host)
        self.services.users.permissions.authorize_vhost(self.user, vhost.name)
        self.vhost = vhost
        self.permissions = PermissionCache(self.services.users.permissions, self.user, vhost.name)
        self._state = State.OPEN
        self._stop_deadline()
        if self._heartbeat_seconds:
            self._heartbeat = Heartbeat(self.services.loop, self._heartbeat_seconds, self)
        else:
            self._keep_alive()
        self._method(commands.Connection.OpenOk)
        self._on_opened(self)

    def _keep_alive(self) -> None:
        handle = self._transport.get_extra_info("socket") if self._transport else None
        if handle is not None:
            handle.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def _close_ok(self, method: Any) -> None:
        self._release()
        self._method(commands.Connection.CloseOk)
        self._drop()

    def _update_secret(self, method: Any) -> None:
        raise HardError(NOT_ALLOWED, "credentials of this user cannot be updated")

    # -- heartbeat (HeartbeatOwner)

    def send_heartbeat(self) -> None:
        """See `HeartbeatOwner`."""
        self.write(b"\x08\x00\x00\x00\x00\x00\x00\xce")

    def missed_heartbeats(self) -> None:
        """See `HeartbeatOwner`."""
        log.warning("%s: missed heartbeats from the client", self.name)
        if self._transport is not None:
            self._transport.abort()

    # -- the end

    def _failed(
        self, error: Exception, class_id: int, method_id: int, channel: Channel | None = None
    ) -> None:
        answer = refusal(error)
        if answer is None:
            log.error("%s: an error of the broker", self.name, exc_info=error)
            answer = HardError(INTERNAL_ERROR, "the broker failed; see its log")
        if isinstance(answer, SoftError) and channel is not None:
            channel.refuse(answer, class_id, method_id)
            return
        log.warning("%s: %s", self.name, answer)
        untold = self._state is State.AUTHENTICATING and not self._told_refusals
        if untold or self._state in (State.AWAIT_START_OK, State.AWAIT_HEADER):
            self._drop()
        else:
            self._close(answer, class_id, method_id)

    def _close(self, error: AmqpError, class_id: int, method_id: int) -> None:
        if self._state in (State.CLOSING, State.CLOSED):
            self._drop()
            return
        self._release()
        self._state = State.CLOSING
        self._method(
            commands.Connection.Close,
            reply_code=error.code,
            reply_text=reply_text(error.code, error.reason),
            class_id=class_id,
            method_id=method_id,
        )
        self._deadline(CLOSE_SECONDS_MAX)

    def fail(self, error: Exception) -> None:
        """Close because of a fault of ours."""
        self._failed(error, 0, 0)

    def shut_down(self, error: HardError) -> None:
        """Close from our side because the broker stops."""
        if self._state is State.OPEN:
            self._close(error, 0, 0)
        elif self._state is not State.CLOSING:
            self._drop()

    def abort(self) -> None:
        """Drop the socket and what is unsent."""
        if self._transport is not None:
            self._transport.abort()

    def _release(self) -> None:
        self._channels.release()
        if self.user and hasattr(self, "vhost"):
            self.vhost.connection_closed(self)

    def _drop(self) -> None:
        self._state = State.CLOSED
        self._unread = b""
        if self._transport is not None:
            self._transport.close()

    def _deadline(self, seconds: float) -> None:
        self._stop_deadline()
        self._cancel_deadline = self.services.loop.call_later(seconds, self.abort)

    def _stop_deadline(self) -> None:
        if self._cancel_deadline is not None:
            self._cancel_deadline.cancel()
            self._cancel_deadline = None


_CONNECTION_METHODS: dict[tuple[State, type[Any]], Callable[[Connection, Any], None]] = {
    (State.AWAIT_START_OK, commands.Connection.StartOk): Connection._start_ok,
    (State.AWAIT_TUNE_OK, commands.Connection.TuneOk): Connection._tune_ok,
    (State.AWAIT_OPEN, commands.Connection.Open): Connection._open_vhost,
    (State.OPEN, commands.Connection.Close): Connection._close_ok,
    (State.AWAIT_TUNE_OK, commands.Connection.Close): Connection._close_ok,
    (State.AWAIT_OPEN, commands.Connection.Close): Connection._close_ok,
    (State.OPEN, commands.Connection.UpdateSecret): Connection._update_secret,
}
