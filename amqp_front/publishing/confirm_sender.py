# cython: annotation_typing=False, wraparound=True
# mypy: allow-untyped-decorators, no-warn-return-any, disable-error-code="index,name-defined"
"""The confirms of a channel as its publisher gets them: basic.ack and basic.nack frames."""

import struct
from collections.abc import Collection

import cython

from routelog.amqp_front.publishing.confirms import Confirms
from routelog.amqp_front.publishing.publishing_channel import PublishingChannel
from routelog.log_backend import NOTHING, JournalPositions

_CONFIRM = struct.Struct(">BHIIQBB")  # a whole basic.ack or basic.nack frame
_ACK = 60 << 16 | 80
_NACK = 60 << 16 | 120


@cython.final
@cython.cclass
class ConfirmSender:
    """Confirms a channel's publishes as the journal advances (`Waiter`), several in one frame where it can."""

    def __init__(self, channel: PublishingChannel) -> None:
        self._channel = channel
        self._board = channel.services.confirms
        self._confirms = Confirms()
        self._counters = channel.counters

    @cython.ccall
    @cython.locals(count=cython.longlong)
    def published(self, count: int, refused: Collection[int], needed: JournalPositions) -> None:
        """Confirm publishes when the journal covers what they need, after this turn at the earliest.

        Args:
            refused: indexes of those that a full queue did not take: they get basic.nack.
        """
        self._counters.expects_confirms(count)
        if refused:
            self._confirms.add_refused(count, refused, needed)
        else:
            self._confirms.add(count, needed)
        self._board.wait(self, needed)

    @property
    def unconfirmed(self) -> int:
        """Publishes that wait for their confirm."""
        return self._confirms.count

    def lost(self, count: int) -> None:
        """The journal has failed under these publishes: refuse them, and all that wait."""
        self._confirms.add(count, NOTHING)
        self.journal_failed()

    def catch_up(self) -> None:
        """Confirm what can be confirmed, before something else is sent."""
        self.journal_reached(self._board.reached)

    def journal_reached(self, reached: JournalPositions) -> bool:
        """See `Waiter`."""
        confirms = self._confirms
        self._answer(confirms.take_covered(reached), _ACK)
        if not confirms.waits():
            return False
        while (refused := confirms.take_refused()) is not None:
            self._answer(refused, _NACK)
            self._answer(confirms.take_covered(reached), _ACK)
        return confirms.waits()

    def journal_late(self, late: JournalPositions) -> bool:
        """See `Waiter`."""
        self.catch_up()
        while (refused := self._confirms.take_late(self._board.reached, late)) is not None:
            self._answer(refused, _NACK)
            self.catch_up()
        return self._confirms.waits()

    def journal_failed(self) -> None:
        """See `Waiter`."""
        self._answer(self._confirms.take_all(), _NACK)

    @cython.cfunc
    def _answer(self, taken: tuple[int, bool] | None, method: int) -> None:
        if taken is not None:
            if method == _ACK:
                self._counters.confirmed(self._confirms.answered)
            self._channel.write(_CONFIRM.pack(1, self._channel.number, 13, method, *taken, 0xCE))

    def close(self) -> None:
        """The channel closes: confirm what is known, before its close is sent, and nothing more.

        What waits for the disk stays unconfirmed, as in RabbitMQ.
        """
        self.catch_up()
        self._board.forget(self)
