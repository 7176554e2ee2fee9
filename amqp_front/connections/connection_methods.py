"""The methods of class connection: logging in by SASL, tuning, opening a vhost, closing; and the states that
they lead to.

The table `_HANDLERS` says which of them is expected in which state.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from enum import Enum, auto
from typing import Any, Protocol

from pamqp import commands

from routelog.amqp_front.connections.channel_connection import ChannelConnection
from routelog.amqp_front.connections.channel_table import ChannelTable
from routelog.amqp_front.connections.handshake import (
    RETURN_REFUSED,
    agreed_tuning,
    client_capability,
    client_identity,
    tune_frame,
)
from routelog.amqp_front.connections.receive_buffer import ReceiveBuffer
from routelog.amqp_front.sockets.heartbeat import Heartbeat, HeartbeatOwner
from routelog.amqp_front.wire.command import Frame
from routelog.amqp_front.wire.errors import (
    ACCESS_REFUSED,
    CHANNEL_ERROR,
    CONNECTION_FORCED,
    HardError,
    LoginRefused,
)
from routelog.amqp_front.wire.methods import decode_method, encode_method
from routelog.amqp_front.wire.sasl import EXTERNAL, MECHANISMS, MalformedResponse, credentials
from routelog.broker import LoginClient, Logins, ends_for
from routelog.vhosts import AuthenticationRefused, PermissionCache, User

LED_SECONDS_MAX = 5.0  # what clients ask of a node that leads fails then, too
REFUSED = "Login was refused using authentication mechanism {}. For details see the broker logfile."


def offered(logins: Logins, client: LoginClient) -> tuple[str, ...]:
    """The SASL mechanisms that a client may choose from.

    EXTERNAL is one when a user is called as the client's certificate says: many clients that have a
    certificate for the transport only, and a password to log in, would take it unasked.
    """
    return (*MECHANISMS, EXTERNAL) if logins.is_certified(client, EXTERNAL) else MECHANISMS


def log_in(
    logins: Logins, client: LoginClient, mechanism: str, response: bytes
) -> User | Coroutine[Any, Any, User]:
    """Begin to log in.

    Returns:
        The user, when the password is remembered; else a coroutine for the user, or for 403 with the same
        text whatever was wrong (LoginRefused), or for `AuthenticationBusy`: too many others are logging in;
        or for `TooManyFailedLogins`.

    Raises:
        MalformedResponse: the response is none of its mechanism, or the mechanism was not offered.
    """
    if client.certificate is not None and mechanism == EXTERNAL:
        return _in_words(logins.by_certificate(client, mechanism), mechanism)
    name, password = credentials(mechanism, response)
    user = logins.remembered(client, name, password)
    if user is not None:
        return user
    return _in_words(logins.by_password(client, mechanism, name, password), mechanism)


async def _in_words(login: Coroutine[Any, Any, User], mechanism: str) -> User:
    try:
        return await login
    except AuthenticationRefused:
        raise LoginRefused(ACCESS_REFUSED, REFUSED.format(mechanism)) from None


class State(Enum):
    """Where a connection is in its life."""

    AWAIT_HEADER = auto()
    AWAIT_START_OK = auto()
    AUTHENTICATING = auto()
    AWAIT_TUNE_OK = auto()
    AWAIT_OPEN = auto()
    OPEN = auto()
    CLOSING = auto()
    CLOSED = auto()


# Where a method out of turn gets no answer: the client does not speak the protocol.
HANDSHAKE = (
    State.AWAIT_START_OK,
    State.AUTHENTICATING,
    State.AWAIT_TUNE_OK,
    State.AWAIT_OPEN,
)


class MethodConnection(ChannelConnection, HeartbeatOwner, Protocol):
    """What these methods need of their connection."""

    refusal: str
    login: User
    state: State
    admitted: bool
    told_refusals: bool
    heartbeat: Heartbeat | None
    heartbeat_seconds: int
    channels: ChannelTable
    receive_buffer: ReceiveBuffer

    def send_method(self, kind: type[Any], **values: Any) -> None:
        """Send a method on channel 0."""

    def limit_runs(self) -> None:
        """Let no run of publishes be larger than its pace says."""

    def opened(self) -> None:
        """The client is in its vhost."""

    def release(self) -> list[Awaitable[None]]:
        """Let go of the channels, and of the vhost."""

    def drop(self, reason: str = "") -> None:
        """Close the socket."""

    def end(self, *, leaves: bool = False) -> None:
        """Both sides have said that they close."""


_OPEN_OK = encode_method(0, commands.Connection.OpenOk)

_Handler = Callable[[MethodConnection, Any], None]


def connection_method(connection: MethodConnection, frame: Frame) -> None:
    """Carry out what came on channel 0."""
    class_id, method_id = frame.payload[1], frame.payload[3]
    try:
        method = decode_method(frame.payload)
        if frame.payload[:2] != b"\x00\x0a":
            raise HardError(CHANNEL_ERROR, "a channel method on channel 0")
        if connection.state is State.CLOSING:
            _while_closing(connection, method)
            return
        handler = _HANDLERS.get((connection.state, type(method)))
        if handler is not None:
            handler(connection, method)
        elif connection.state in HANDSHAKE:
            connection.drop(f"{method.name} in the middle of the handshake")
        else:
            raise HardError(CHANNEL_ERROR, f"{method.name} is not expected here")
    except Exception as error:
        connection.fail(error, class_id, method_id)


def _while_closing(connection: MethodConnection, method: Any) -> None:
    if isinstance(method, commands.Connection.Close):
        connection.send_method(commands.Connection.CloseOk)
    elif isinstance(method, commands.Connection.CloseOk):
        connection.end()


def _start_ok(connection: MethodConnection, method: Any) -> None:
    properties = method.client_properties
    connection.told_refusals = client_capability(properties, "authentication_failure_close")
    connection.cancel_notify = client_capability(properties, "consumer_cancel_notify")
    connection.returns_refused = properties.get(RETURN_REFUSED) is True
    connection.hold.tells = client_capability(properties, "connection.blocked")
    connection.state = State.AUTHENTICATING
    if connection.refusal:
        return _tune(connection)  # nothing that it is told depends on its login
    assert connection.socket is not None
    services = connection.services
    try:
        login = log_in(services.logins, connection.socket, method.mechanism, method.response)
    except MalformedResponse as error:
        services.logins.refused(connection.socket, method.mechanism, "", str(error))
        return connection.drop("login refused")
    connection.socket.identity = client_identity(method, services.clock.now())
    if isinstance(login, User):
        return _logged_in(connection, login)
    task = services.loop.create_task(login)
    connection.wait_for(task, lambda: _logged_in(connection, task.result()))


def _logged_in(connection: MethodConnection, user: User) -> None:
    connection.user, connection.login = user.name, user
    _tune(connection)


def _tune(connection: MethodConnection) -> None:
    connection.state = State.AWAIT_TUNE_OK
    config = connection.services.config
    connection.write(tune_frame(config.channel_max, config.frame_max, config.heartbeat_seconds))


def _tune_ok(connection: MethodConnection, method: Any) -> None:
    tuning = agreed_tuning(connection.services.config, method)
    connection.receive_buffer.frame_limit = tuning.frame_max
    connection.body_frame_max = tuning.body_frame_max
    connection.channels.channel_max = tuning.channel_max
    connection.heartbeat_seconds = tuning.heartbeat
    connection.state = State.AWAIT_OPEN


def _open(connection: MethodConnection, method: Any) -> None:
    if connection.refusal:
        # Clients take connection.close for the answer, as where a vhost is missing.
        raise HardError(CONNECTION_FORCED, connection.refusal)
    led = connection.services.gate.led()
    if led is not None:  # its login, and all that is looked up here, may be of before
        connection.wait_for(_in_time(led), lambda: _open(connection, method))
        return
    _check_login(connection)
    services = connection.services
    connection.vhost = vhost = services.admission.admit(connection.user, method.virtual_host)
    connection.admitted = True
    permissions = services.users.permissions
    connection.permissions = PermissionCache(permissions, connection.user, vhost.name)
    connection.intake = services.intake.share(connection.user)
    connection.pace = services.publish_rates.pace(connection.user, vhost.name)
    connection.limit_runs()
    connection.state = State.OPEN
    assert connection.socket is not None
    connection.socket.intake = connection.intake
    connection.socket.stop()
    if connection.heartbeat_seconds:
        connection.heartbeat = Heartbeat(connection.heartbeat_seconds, connection)
        services.heartbeats.add(connection.heartbeat)
    else:
        connection.socket.keep_alive()
    connection.write(_OPEN_OK)
    connection.opened()


async def _in_time(led: Awaitable[None]) -> None:
    try:
        async with asyncio.timeout(LED_SECONDS_MAX):
            await led
    except TimeoutError:
        raise HardError(CONNECTION_FORCED, "no node that leads is known") from None


def _check_login(connection: MethodConnection) -> None:
    # Only connections that are open are closed with their user; his name may be another one's by now.
    logins, login, socket = connection.services.logins, connection.login, connection.socket
    user = connection.services.users.find(login.name)
    if user is None or user.password_hash != login.password_hash:
        assert socket is not None
        assert socket.identity is not None
        mechanism = socket.identity.mechanism
        logins.refused(socket, mechanism, login.name, "the user, or the password, is another one")
        raise LoginRefused(ACCESS_REFUSED, REFUSED.format(mechanism))


def _close(connection: MethodConnection, method: Any) -> None:
    connection.state = State.CLOSING  # what it says behind this is not heard
    ends_for(connection.socket, f"closed by the client: {method.reply_text}")
    connection.rest(lambda: _take_leave(connection))


def _take_leave(connection: MethodConnection) -> None:
    under_way = connection.release()
    if under_way:
        connection.wait_for(asyncio.gather(*under_way), lambda: _say_goodbye(connection))
    else:
        _say_goodbye(connection)


def _say_goodbye(connection: MethodConnection) -> None:
    connection.send_method(commands.Connection.CloseOk)
    connection.end(leaves=True)


def _update_secret(connection: MethodConnection, method: Any) -> None:
    # Users of our own have secrets that do not end: as in RabbitMQ, nothing changes.
    connection.send_method(commands.Connection.UpdateSecretOk)


_HANDLERS: dict[tuple[State, type[Any]], _Handler] = {
    (State.AWAIT_START_OK, commands.Connection.StartOk): _start_ok,
    (State.AWAIT_TUNE_OK, commands.Connection.TuneOk): _tune_ok,
    (State.AWAIT_OPEN, commands.Connection.Open): _open,
    (State.OPEN, commands.Connection.Close): _close,
    (State.AWAIT_TUNE_OK, commands.Connection.Close): _close,
    (State.AWAIT_OPEN, commands.Connection.Close): _close,
    (State.OPEN, commands.Connection.UpdateSecret): _update_secret,
}
