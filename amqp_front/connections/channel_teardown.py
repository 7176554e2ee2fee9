"""The channels of a connection that has ended leave one after the other, when they are many."""

from collections.abc import Sequence
from typing import Protocol

from routelog.amqp_front.consuming.settling import LEAVING_MAX, Settling
from routelog.amqp_front.node.services import Services
from routelog.log_backend import PIECE_SECONDS

CHANNELS_MAX = 8  # that leave at once: some 30 us each, and a turn may have several connections


class StoppedChannel(Protocol):
    """A channel that was stopped: it delivers and confirms nothing more."""

    def leave(self) -> Settling:
        """End its consumers; what it held comes back as this goes on."""

    def end(self) -> None:
        """All is done."""


class ChannelTeardown:
    """The channels of one connection on their way out, in the order of their numbers; see `Work`."""

    def __init__(self, channels: Sequence[StoppedChannel], services: Services) -> None:
        self._services = services
        self._channels = list(reversed(channels))
        self._settling: Settling | None = None
        self._error: Exception | None = None

    def go_on(self, whole: bool) -> bool:
        """See `Work`.

        Raises:
            Exception: what the first channel raised that did; all others have left nevertheless.
        """
        clock = self._services.clock
        until = clock.monotonic() + PIECE_SECONDS
        while self._channels:
            if not self._next_step(whole):
                return False
            if not whole and clock.monotonic() >= until:
                break
        if self._channels:
            return False
        if self._error is not None:
            raise self._error
        return True

    def _next_step(self, whole: bool) -> bool:
        channel = self._channels[-1]
        try:
            if self._settling is None:
                self._settling = channel.leave()
                self._services.settlings.append(self._settling)
            if not self._settling.go_on(whole):
                return False
        except Exception as error:
            self._error = self._error or error
        self._settling = None
        self._channels.pop()
        channel.end()
        return True


def are_many(channels: int, consumers: int) -> bool:
    """Whether the channels of a connection, with consumers of all, take too long for one turn."""
    return channels > CHANNELS_MAX or consumers > LEAVING_MAX
