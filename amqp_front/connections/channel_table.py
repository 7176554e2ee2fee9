"""The channels of a connection, by number: opening, finding and closing them. Many leave one after
the other.
"""

import asyncio
from collections.abc import Awaitable, Iterable, Iterator

from pamqp import commands

from routelog.amqp_front.connections.channel import Channel
from routelog.amqp_front.connections.channel_connection import ChannelConnection
from routelog.amqp_front.consuming.settling import LEAVING_MAX
from routelog.amqp_front.node.services import Services
from routelog.amqp_front.publishing.content import PartialContent
from routelog.amqp_front.wire.command import BegunPublish, Command, Frame, PublishRun, SettleRun
from routelog.amqp_front.wire.errors import CHANNEL_ERROR, COMMAND_INVALID, NOT_ALLOWED, HardError
from routelog.amqp_front.wire.frame_cutter import FRAME_HEADER, FRAME_METHOD
from routelog.amqp_front.wire.methods import AccessRequest, decode_method, encode_method
from routelog.broker import Gate, PublishPace
from routelog.log_backend import Lane
from routelog.vhosts import decided, then

_CLASS_CONNECTION = b"\x00\x0a"
_CHANNEL_CLOSE = b"\x00\x14\x00\x28"
_CHANNEL_CLOSE_OK = b"\x00\x14\x00\x29"
_BASIC_PUBLISH = b"\x00\x3c\x00\x28"
_TX_COMMIT = b"\x00\x5a\x00\x14"


class ChannelTable:
    """The open and closing channels of a connection.

    Attributes:
        assembling: numbers of the channels that wait for more content frames: nearly always none, never many.
        channel_max: highest channel number agreed.
    """

    __slots__ = ("_channels", "_connection", "assembling", "channel_max")

    def __init__(self, connection: ChannelConnection) -> None:
        self._connection = connection
        self._channels: dict[int, Channel] = {}
        self.assembling: tuple[int, ...] = ()
        self.channel_max = 0

    def __iter__(self) -> Iterator[Channel]:
        return iter(list(self._channels.values()))

    def __len__(self) -> int:
        return len(self._channels)

    def note(self, channel: Channel) -> None:
        """A frame has been carried out on a channel: see whether it waits for content."""
        number = channel.number
        if (channel.partial is not None) is not (number in self.assembling):
            others = tuple(each for each in self.assembling if each != number)
            self.assembling = others if channel.partial is None else (*others, number)

    def partial(self, number: int) -> PartialContent | None:
        """What a channel waits for more content frames of; None when it waits for none."""
        channel = self._channels.get(number)
        return channel.partial if channel is not None else None

    def closed_gate(self, command: Command) -> Gate | PublishPace | None:
        """Where the connection is to wait before a command is carried out; None: nowhere."""
        services = self._connection.services
        if services.gate.closed and self.publishes(command):
            return services.gate
        if services.intake.full and self._begins_content(command):
            closed = self._connection.intake.closed_gate()
            if closed is not None:
                return closed
        if services.publish_rates.are_set and self.publishes(command):
            pace = self._connection.pace
            return pace if pace.is_limited and pace.owed_seconds() else None
        return None

    def _begins_content(self, command: Command) -> bool:
        # Whether it makes the connection keep what does not come in whole, or waits for its commit.
        channel = self._channels.get(command.channel)
        if channel is None or channel.closing:
            return False
        if isinstance(command, Frame):
            return command.kind == FRAME_HEADER or command.payload[:4] == _BASIC_PUBLISH
        if isinstance(command, PublishRun):
            return channel.transactions is not None
        return isinstance(command, BegunPublish)

    def publishes(self, command: Command) -> bool:
        """Whether a command brings in messages, or a part of one."""
        channel = self._channels.get(command.channel)
        if channel is None or channel.closing:
            return False
        if not isinstance(command, Frame):
            return not isinstance(command, SettleRun)
        if command.kind != FRAME_METHOD:
            return True
        index = command.payload[:4]
        return index == _BASIC_PUBLISH or (index == _TX_COMMIT and _commits_publishes(channel))

    def for_run(self, number: int) -> Channel | None:
        """The channel that a run is for; None when it closes, and the run is to be ignored.

        Raises:
            HardError: 504, it is not open.
        """
        channel = self._channels.get(number)
        if channel is None:
            raise HardError(CHANNEL_ERROR, f"expected 'channel.open' on channel {number}")
        return None if channel.closing else channel

    def for_frame(self, frame: Frame) -> Channel | None:
        """The channel that a frame is for; None when the table has dealt with the frame.

        Raises:
            HardError: 503 a connection method, 504 the channel is not open, 530 its number.
        """
        channel = self._channels.get(frame.channel)
        if channel is not None and channel.closing:
            self._while_closing(channel, frame)
            return None
        if frame.kind == FRAME_METHOD and frame.payload[:2] == _CLASS_CONNECTION:
            raise HardError(COMMAND_INVALID, "a connection method on a channel")
        if channel is None:
            self._open(frame)
        return channel

    def closed(self, number: int) -> None:
        """A channel is closed on both sides."""
        channel = self._channels.pop(number, None)
        if channel is not None:
            channel.end()
            self._connection.services.admission.channel_closed(self._connection.user)

    def release(self) -> list[Awaitable[None]]:
        """Release all channels: the connection is gone or closing; returns what is not done at once."""
        connection, self.assembling = self._connection, ()
        channels, self._channels = self._channels, {}
        if not channels:
            return []
        open_ones = [channel for channel in channels.values() if not channel.closing]
        in_turns = are_many(len(open_ones), connection.consumers)
        under_way: list[Awaitable[None]] = []
        for channel in channels.values():
            connection.services.admission.channel_closed(connection.user)
            if channel.closing:
                channel.end()
            elif in_turns:
                channel.stop()
            else:
                if (done := channel.release()) is not None:
                    under_way.append(done)
                channel.end()
        if in_turns:
            unknown: list[asyncio.Future[None]] = []
            teardown = torn_down(open_ones, connection.services, unknown)
            done = connection.services.scheduler.run(teardown, Lane.JOBS)
            under_way.append(then(done, lambda _: decided(asyncio.gather(*unknown))))
        return under_way

    def end(self) -> None:
        """The connection is gone: nothing is left for the garbage collector."""
        del self._connection

    def _open(self, frame: Frame) -> None:
        number = frame.channel
        if frame.kind != FRAME_METHOD:
            raise HardError(CHANNEL_ERROR, f"content on channel {number}, which is not open")
        method = decode_method(frame.payload)
        if not isinstance(method, commands.Channel.Open):
            name = "access.request" if isinstance(method, AccessRequest) else method.name
            raise HardError(CHANNEL_ERROR, f"{name} on channel {number}, which is not open")
        if number > self.channel_max:
            reason = f"channel {number} is above the channel_max of {self.channel_max}"
            raise HardError(NOT_ALLOWED, reason)
        self._connection.services.admission.open_channel(self._connection.user)
        self._channels[number] = Channel(self._connection, number)
        self._connection.write(encode_method(number, commands.Channel.OpenOk))

    def _while_closing(self, channel: Channel, frame: Frame) -> None:
        index = frame.payload[:4] if frame.kind == FRAME_METHOD else b""
        if index == _CHANNEL_CLOSE:  # both sides closed at once
            self._connection.write(encode_method(channel.number, commands.Channel.CloseOk))
        elif index == _CHANNEL_CLOSE_OK:
            self.closed(channel.number)


def _commits_publishes(channel: Channel) -> bool:
    return channel.transactions is not None and channel.transactions.publishes


CHANNELS_MAX = 8  # that leave at once: some 30 us each, and a turn may have several connections


def torn_down(
    channels: Iterable[Channel], services: Services, unknown: list[asyncio.Future[None]]
) -> Iterator[None]:
    """Let the channels of one connection leave in this order; it yields when the turn is over.

    Args:
        unknown: takes what is to be awaited then: see `Settling.known`.

    Raises:
        Exception: what the first channel raised that did; all others have left nevertheless.
    """
    first_error: Exception | None = None
    for channel in channels:
        try:
            settling = channel.leave()
            services.settlings.append(settling)
            yield from settling.steps()
            if (known := settling.known()) is not None:
                unknown.append(known)
        except Exception as error:
            first_error = first_error or error
        channel.end()
        if services.scheduler.is_over():
            yield
    if first_error is not None:
        raise first_error


def are_many(channels: int, consumers: int) -> bool:
    """Whether the channels of a connection, with consumers of all, take too long for one turn."""
    return channels > CHANNELS_MAX or consumers > LEAVING_MAX
