"""A client's connection: bytes in, commands carried out in order, frames out.

States: `connection_methods.py` says which class-10 method is expected where.

    AWAIT_HEADER -> AWAIT_START_OK -> AUTHENTICATING -> AWAIT_TUNE_OK -> AWAIT_OPEN -> OPEN
    any -> CLOSING (we sent connection.close, or shall answer one) -> CLOSED (what comes is thrown away)

Reads go to the receive buffer that all connections share, so a read is handled whole before control
returns to the event loop; only the end of its turn, or a command that must wait (for a disk, a thread), ends
it early, and then the connection reads nothing more until it has another, or until that is done.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, cast

from pamqp import commands

from routelog.amqp_front.connections.channel import Channel
from routelog.amqp_front.connections.channel_table import ChannelTable
from routelog.amqp_front.connections.connection_methods import State, connection_method, offered
from routelog.amqp_front.connections.handshake import (
    ACCEPTED_HEADERS,
    FRAME_BEFORE_TUNE,
    PROTOCOL_HEADER,
    start_frame,
)
from routelog.amqp_front.connections.publishing_hold import PublishingHold
from routelog.amqp_front.connections.receive_buffer import ReceiveBuffer
from routelog.amqp_front.consuming.client_channel import RefusingChannel
from routelog.amqp_front.node.services import PROTOCOL, Services
from routelog.amqp_front.sockets.heartbeat import Heartbeat
from routelog.amqp_front.wire.command import (
    RUN_RECORDS_MAX,
    BegunPublish,
    Frame,
    PublishRun,
    SettleRun,
)
from routelog.amqp_front.wire.errors import (
    UNEXPECTED_FRAME,
    AmqpError,
    HardError,
    LoginRefused,
    SoftError,
    reply_text,
)
from routelog.amqp_front.wire.frame_cutter import FRAME_HEARTBEAT, FRAME_METHOD
from routelog.amqp_front.wire.methods import encode_method
from routelog.amqp_front.wire.refusals import broker_failure, refusal
from routelog.broker import (
    CLOSE_SECONDS_MAX,
    AcceptedSocket,
    ClientSocket,
    Endpoint,
    IntakeShare,
    PublishPace,
    ends_for,
)
from routelog.log_backend import CLIENT_SECONDS, Lane, Octets
from routelog.vhosts import Actor, PermissionCache, User, VirtualHost, acts, decided


class ConnectionKeeper(Protocol):
    """Who has all connections; those told of are `Connection`s."""

    def opened(self, connection: Any) -> None:
        """It is in its vhost."""

    def closed(self, connection: Any) -> None:
        """It is gone."""


LITTLE_BYTES = 4_096  # of one read that comes late: less is little to say, and is heard first
LATE_BYTES_MAX = 16_777_216  # kept of all that come late, as long as each has at least so few
# To look into an enum takes 0.07 us, and each read asks ten times.
_AWAIT_HEADER, _OPEN, _CLOSING, _CLOSED = (
    State.AWAIT_HEADER,
    State.OPEN,
    State.CLOSING,
    State.CLOSED,
)


class Connection(asyncio.BufferedProtocol):
    """The protocol of one client socket; `traffic` counts.

    Args:
        proxied: the client, when a proxy speaks for it.
        refusal: why it is closed at `connection.open`; empty: it is served.
    """

    __slots__ = (
        "_choked",
        "_is_late",
        "_keeper",
        "_left",
        "_proxied",
        "_waiting",
        "accepted",
        "admitted",
        "body_frame_max",
        "cancel_notify",
        "channels",
        "consumers",
        "heartbeat",
        "heartbeat_seconds",
        "hold",
        "intake",
        "login",
        "name",
        "pace",
        "permissions",
        "receive_buffer",
        "refusal",
        "returns_refused",
        "services",
        "socket",
        "stalled",
        "state",
        "told_refusals",
        "traffic",
        "user",
        "vhost",
    )

    login: User
    vhost: VirtualHost
    permissions: PermissionCache
    intake: IntakeShare
    pace: PublishPace

    def __init__(
        self,
        services: Services,
        keeper: ConnectionKeeper,
        proxied: Endpoint | None = None,
        refusal: str = "",
    ) -> None:
        self.services = services
        self._proxied = proxied
        self.refusal = refusal
        self._keeper = keeper
        self.state = _AWAIT_HEADER
        self.socket: ClientSocket | None = None
        self.accepted: AcceptedSocket | None = None  # where its socket is counted
        self._is_late = False  # it was read too late for this pass of the loop
        self._waiting = False
        self._left = False  # nobody counts it any more
        self._choked = False  # nothing is read until the client has read of what is unsent
        self.hold = PublishingHold(self)
        self.channels = ChannelTable(self)
        self.traffic = services.vhosts.counters.connection()
        self.receive_buffer = ReceiveBuffer(services, self.channels, self.traffic)
        self.heartbeat: Heartbeat | None = None
        self.heartbeat_seconds = 0
        self.told_refusals = False
        self.body_frame_max = FRAME_BEFORE_TUNE - 8
        self.cancel_notify = False
        self.returns_refused = False
        self.consumers = 0
        self.stalled = False
        self.admitted = False  # into a vhost
        self.user = ""
        self.name = ""

    # -- transport (asyncio.BufferedProtocol)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is connected."""
        services = self.services
        # uvloop's transport is one in all but its base class.
        transport = cast(asyncio.Transport, transport)
        self.socket = ClientSocket(transport, services, self, self._proxied)
        self.name = self.socket.name
        if self.state is _CLOSED:  # refused before it was connected
            self.socket.abort()
        else:
            self.socket.abort_after(self.services.config.handshake_seconds)
            self.services.vhosts.events.note("connection.accepted", address=self.name)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next read goes."""
        room: memoryview = self.receive_buffer.room()
        scheduler = self.services.scheduler
        self._is_late = scheduler.is_late()
        if self._is_late:
            waiting = scheduler.waiting(Lane.LATE) + scheduler.waiting(Lane.CLIENTS)
            return room[: max(LITTLE_BYTES, LATE_BYTES_MAX // (waiting + 1))]
        return room

    def buffer_updated(self, nbytes: int) -> None:
        """A read is in the buffer."""
        if self.state is _CLOSED:
            return
        if self.heartbeat is not None:
            self.heartbeat.received = True
        has_commands = self.receive_buffer.received(nbytes)
        if self._is_late:
            if has_commands:
                self.receive_buffer.keep()
            self.rest(lane=Lane.LATE if nbytes < LITTLE_BYTES else Lane.CLIENTS)
            self._update_reading()
        elif has_commands:
            self.services.cork.run(self._process)

    def eof_received(self) -> bool:
        """The client has ended its side: so do we; without TLS, the socket stays until then."""
        self.state = _CLOSED
        self.stalled = True  # nothing more is delivered
        self.services.scheduler.call(Lane.CLIENTS, self._dropped)
        return self.socket is not None and self.socket.half_closes

    def _dropped(self) -> None:
        if not self._left:
            self.release()
        self.drop()

    def connection_lost(self, error: Exception | None) -> None:
        """The socket is gone."""
        if self.accepted is not None:
            self.accepted.closed()
            self.accepted = None
        if self.socket is not None:
            self.socket.lost()
        self.state = _CLOSED
        if self._left:
            self.socket = None
        else:
            self.services.scheduler.call(Lane.CLIENTS, self._lost)

    def never_connected(self) -> None:
        """See `ServedSocket`."""
        self._keeper.closed(self)

    def _lost(self) -> None:
        self._leave()
        self.socket = None

    def pause_writing(self) -> None:
        """The client does not read: deliver nothing more."""
        self.stalled = True
        if self.socket is not None:
            self.socket.stall()

    def resume_writing(self) -> None:
        """The client reads again."""
        if self.socket is not None and not self.socket.resumed():
            return
        if self.state is _CLOSED:
            return
        self.stalled = False
        for channel in self.channels:
            channel.consumption.wake()
        self._go_on()

    # -- sending

    def write(self, frames: bytes | bytearray) -> None:
        """Send frames to the client."""
        if self.socket is not None and self.state is not _CLOSED:
            self.socket.write((frames,))
            if self.heartbeat is not None:
                self.heartbeat.sent = True

    def write_parts(self, parts: Sequence[Octets]) -> None:
        """Send frames to the client that lie in parts; none of them changes any more."""
        if self.socket is not None and self.state is not _CLOSED:
            self.socket.write(parts)
            if self.heartbeat is not None:
                self.heartbeat.sent = True

    def send_method(self, kind: type[Any], **values: Any) -> None:
        """Send a method on channel 0."""
        self.write(encode_method(0, kind, **values))

    # -- reading

    def _process(self) -> None:
        services = self.services
        now = services.clock.monotonic()
        services.scheduler.deadline = now + CLIENT_SECONDS
        if now >= services.gate.lapses_at:  # a call for each read is saved
            services.gate.look(now)
        try:
            if self.state is not _AWAIT_HEADER or self._protocol_header():
                self._commands()
        except Exception as error:
            self.fail(error)
        if self.state is _CLOSED:
            return
        self.receive_buffer.keep()
        self._update_reading()

    def _commands(self) -> None:
        services, channels = self.services, self.channels
        cutter, gate, intake = services.cutter, services.gate, services.intake
        rates = services.publish_rates
        now, until = services.clock.monotonic, services.scheduler.deadline
        hold = self.hold
        while not (self._waiting or hold.active) and self.state is not _CLOSED:
            if self.stalled and self.outbox_full:
                return
            command = cutter.next(channels.assembling != ())
            if command is None:
                return
            is_limited = gate.closed or intake.full or rates.are_set
            if is_limited and (closed := channels.closed_gate(command)):
                cutter.give_back()
                hold.begin(closed)
            elif isinstance(command, Frame):
                self._frame(command)
            else:
                self._run(command)
            # Not `is_over`: a queue that was served meanwhile had a time of its own.
            if now() >= until and not (self._waiting or hold.active):
                return self.rest()

    def limit_runs(self) -> None:
        """See `MethodConnection`."""
        if self.pace.is_limited and self.pace.run_messages:
            most = min(self.pace.run_messages, self.receive_buffer.run_limit)
            self.receive_buffer.run_limit = most

    def opened(self) -> None:
        """The client is in its vhost."""
        if self.accepted is not None:
            self.accepted.authenticated()
        self._keeper.opened(self)

    @property
    def outbox_full(self) -> bool:
        """The client has not read for long, or it does not when memory is short: it is told no more."""
        return self.socket is not None and self.socket.outbox_full

    def rest(self, then: Callable[[], None] | None = None, lane: Lane = Lane.CLIENTS) -> None:
        """Carry out no further commands until others had their turns, then call `then`."""
        self._waiting = True
        self.services.scheduler.call(lane, lambda: self._wake(None, then, self.fail))

    def _go_on(self) -> None:
        # After a pause: first what was read before it.
        if self._waiting or self.state is _CLOSED:
            return
        if self.heartbeat is not None:
            self.heartbeat.received = True  # nobody could have been heard
        self.receive_buffer.again()
        self.services.cork.run(self._process)

    def _update_reading(self) -> None:
        if self.socket is not None:
            self._choked = self.stalled and self.outbox_full
            reading = not (self._waiting or self.hold.active or self._choked)
            if reading is not self.socket.reading:
                self.socket.set_reading(reading)

    def wait_for(
        self,
        done: Awaitable[object],
        then: Callable[[], None] | None = None,
        failed: Callable[[Exception], None] | None = None,
    ) -> None:
        """Read no further commands until `done`, then call `then`, or `failed` (`fail`) with its error."""
        self._waiting = True

        def wake(finished: "asyncio.Future[Any]") -> None:
            self._waiting = False
            if not finished.cancelled():
                self._wake(finished.exception(), then, failed or self.fail)

        asyncio.ensure_future(done).add_done_callback(wake)

    def _wake(
        self,
        error: BaseException | None,
        then: Callable[[], None] | None,
        failed: Callable[[Exception], None],
    ) -> None:
        self._waiting = False
        if self.state is _CLOSED:
            return
        try:
            if error is not None:
                raise error
            if then is not None:
                then()
        except Exception as failure:
            failed(failure)
        self._go_on()

    def hold_changed(self) -> None:
        """See `HoldOwner`."""
        if not self.hold.active:
            # Not here: a command may be under way in the buffer that all share.
            self.services.scheduler.call(Lane.CLIENTS, self._go_on)

    # -- commands

    def _protocol_header(self) -> bool:
        header = (cutter := self.services.cutter).take_header()
        if header in ACCEPTED_HEADERS:
            self.state = State.AWAIT_START_OK
            assert self.socket is not None
            offers = offered(self.services.logins, self.socket)
            self.write(start_frame(self.services.cluster_name(), offers))
            return True
        if header is not None or not PROTOCOL_HEADER.startswith(cutter.unread()[:4]):
            self.write(PROTOCOL_HEADER)
            self.drop("it speaks another protocol")
        return False

    def _run(self, run: PublishRun | BegunPublish | SettleRun) -> None:
        if self.state is _CLOSING:
            return
        if self.state is not _OPEN:
            self._check_open()
        if (channel := self.channels.for_run(run.channel)) is None:
            return
        try:
            if isinstance(run, PublishRun):
                carried = channel.publish(run)
                if carried < run.count:
                    self.services.cutter.give_back(run.begin(carried))
                    self.receive_buffer.run_limit = 2 * carried
                elif self.receive_buffer.run_limit < RUN_RECORDS_MAX:
                    self.receive_buffer.run_limit = RUN_RECORDS_MAX
                if self.services.publish_rates.are_set:
                    self.limit_runs()
            elif isinstance(run, SettleRun):
                channel.settle(run)
            else:
                channel.begin(run)
                self.channels.note(channel)
        except Exception as error:
            self.fail(error, 60, run.method_id, channel)

    def _check_open(self) -> None:
        if self.state is not _OPEN:
            raise HardError(UNEXPECTED_FRAME, "a channel frame before connection.open")

    def _frame(self, frame: Frame) -> None:
        if frame.kind == FRAME_HEARTBEAT:
            return
        if frame.channel == 0:
            connection_method(self, frame)
        elif self.state is not _CLOSING:
            self._check_open()
            self._channel_frame(frame)

    def _channel_frame(self, frame: Frame) -> None:
        index = int.from_bytes(frame.payload[:4], "big") if frame.kind == FRAME_METHOD else 0
        channel: Channel | None = None
        try:
            channel = self.channels.for_frame(frame)
            if channel is not None:
                channel.frame(frame)
        except Exception as error:
            self.fail(error, index >> 16, index & 0xFFFF, channel)
        if channel is not None:
            self.channels.note(channel)

    def channel_closed(self, number: int) -> None:
        """The channel is closed on both sides."""
        self.channels.closed(number)

    # -- heartbeat (HeartbeatOwner)

    def send_heartbeat(self) -> None:
        """See `HeartbeatOwner`."""
        self.write(b"\x08\x00\x00\x00\x00\x00\x00\xce")

    def missed_heartbeats(self) -> None:
        """See `HeartbeatOwner`."""
        if self._waiting or self.hold.active or self._choked:
            return  # it is the broker that does not listen
        self.abort("missed heartbeats from the client")

    # -- the end

    def fail(
        self,
        error: Exception,
        class_id: int = 0,
        method_id: int = 0,
        channel: RefusingChannel | None = None,
    ) -> None:
        """Answer an error: close the channel, the connection, or just drop it."""
        answer = refusal(error) or broker_failure(error, self.name)
        self._note_refusal(answer, class_id << 16 | method_id, channel)
        if isinstance(answer, SoftError) and channel is not None:
            return channel.refuse(answer, class_id, method_id)
        untold = self.state is State.AUTHENTICATING and not self.told_refusals
        if untold or self.state in (State.AWAIT_START_OK, _AWAIT_HEADER):
            self.drop(str(answer))
        else:
            self._close(answer, class_id, method_id)

    def _note_refusal(self, answer: AmqpError, index: int, channel: RefusingChannel | None) -> None:
        # Say in the log that a channel, or the connection, ends with an error: a class and a method, or 0.
        if isinstance(answer, LoginRefused):
            return
        method: Any = commands.INDEX_MAPPING.get(index)
        number = channel.number if channel is not None and isinstance(answer, SoftError) else None
        self.services.vhosts.events.note(
            "connection.refused" if number is None else "channel.refused",
            connection=self.name,
            channel=number,
            user=self.user,
            vhost=self.vhost.name if self.admitted else None,
            code=answer.code,
            reason=answer.reason,
            method=None if method is None else method.name,
        )

    def _close(self, error: AmqpError, class_id: int, method_id: int) -> None:
        if self.state in (_CLOSING, _CLOSED):
            return self.end()  # what comes is not read, and must not cost the client our close
        self.release()
        self.state = _CLOSING
        ends_for(self.socket, str(error))
        self.send_method(
            commands.Connection.Close,
            reply_code=error.code,
            reply_text=reply_text(error.code, error.reason),
            class_id=class_id,
            method_id=method_id,
        )
        if self.socket is not None:
            self.socket.abort_after(CLOSE_SECONDS_MAX)
        self.hold.leave()  # close-ok is behind what was not read

    def shut_down(self, error: HardError) -> None:
        """Close from our side because the broker stops."""
        if self.state is _OPEN:
            self._close(error, 0, 0)
        elif self.state is not _CLOSING:
            self.drop(str(error))

    def abort(self, reason: str = "dropped by the broker") -> None:
        """Drop the socket and what is unsent, at the latest when it is connected."""
        ends_for(self.socket, reason)
        if self.socket is not None:
            self.socket.abort()
        else:
            self.state = _CLOSED

    def release(self) -> list[Awaitable[None]]:
        """Let go of the channels, and of the vhost; returns what is not done at once."""
        under_way = self.channels.release()
        if self.admitted:
            with acts(Actor(self.user, self.name, PROTOCOL)):
                gone = self.vhost.definitions.connection_closed(self)
            if gone is not None:  # without enough nodes it takes as long as they are away
                under_way.append(decided(self.services.in_time(gone)))
        return under_way

    def end(self, *, leaves: bool = False) -> None:
        """Both sides have said that they close: send what is unsent, and let the client end its side.

        Nobody counts the socket meanwhile, so that of a client who was not let in is closed at once.

        Args:
            leaves: see `ClientSocket.end`.
        """
        if self._left:
            return
        self._leave()
        if not self.admitted:
            self.drop()
        elif self.socket is not None:
            self.socket.end(leaves=leaves)

    def _leave(self) -> None:
        if self._left:
            return
        self._left = True
        self.state = _CLOSED
        self.receive_buffer.clear()
        if self.heartbeat is not None:
            self.heartbeat.stop()
        self._keeper.closed(self)
        self.release()
        self.hold.end()
        self.channels.end()

    def drop(self, reason: str = "") -> None:
        """Send what is unsent, then close the socket."""
        ends_for(self.socket, reason)
        self.state = _CLOSED
        self.receive_buffer.clear()
        if self.socket is not None:
            self.socket.close()
