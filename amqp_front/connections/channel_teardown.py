"""The channels of a connection that has ended leave one after the other, when they are many."""

from collections.abc import Iterable, Iterator
from typing import Protocol

from routelog.amqp_front.consuming.settling import LEAVING_MAX, Settling
from routelog.amqp_front.node.services import Services

CHANNELS_MAX = 8  # that leave at once: some 30 us each, and a turn may have several connections


class StoppedChannel(Protocol):
    """A channel that was stopped: it delivers and confirms nothing more."""

    def leave(self) -> Settling:
        """End its consumers; what it held comes back as this goes on."""

    def end(self) -> None:
        """All is done."""


def torn_down(channels: Iterable[StoppedChannel], services: Services) -> Iterator[None]:
    """Let the channels of one connection leave in this order; it yields when the turn is over.

    Raises:
        Exception: what the first channel raised that did; all others have left nevertheless.
    """
    first_error: Exception | None = None
    for channel in channels:
        try:
            settling = channel.leave()
            services.settlings.append(settling)
            yield from settling.steps()
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
