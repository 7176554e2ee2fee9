# cython: annotation_typing=False, wraparound=True
# mypy: allow-untyped-decorators, no-warn-return-any, disable-error-code="index,name-defined"
"""The confirms of a channel as its publisher gets them: basic.ack and basic.nack frames."""

import struct
from collections.abc import Collection

import cython

from routelog.amqp_front.publishing.confirms import Confirms
from routelog.amqp_front.publishing.publishing_channel import PublishingChannel
from routelog.broker import Gate
from routelog.log_backend.journal.receipt import Receipt

_CONFIRM = struct.Struct(">BHIIQBB")  # a whole basic.ack or basic.nack frame
_ACK = 60 << 16 | 80
_NACK = 60 << 16 | 120


@cython.final
@cython.cclass
class ConfirmSender:
    """Confirms a channel's publishes as the journal advances (`Waiter`), several in one frame where it can."""

    def __init__(self, channel: PublishingChannel) -> None:
        self._channel: PublishingChannel | None = channel
        self._progress = channel.services.progress
        self._confirms = Confirms()
        self._counters = channel.counters
        self._waits = False  # it is told when the first of its publishes can be confirmed
        self._is_held = self._is_due = False  # it was told meanwhile

    @cython.ccall
    @cython.locals(count=cython.longlong)
    def published(self, count: int, refused: Collection[int], needed: Receipt) -> None:
        """Confirm publishes when what they need is covered, after this turn at the earliest.

        Args:
            refused: indexes of those that a full queue did not take: they get basic.nack.
        """
        self._counters.expects_confirms(count)
        if refused:
            self._confirms.add_refused(count, refused, needed)
        else:
            self._confirms.add(count, needed)
        (needed.progress or self._progress).measure(needed)
        if not self._waits:
            self._waits = True
            self._progress.wait(self, needed)

    @property
    def unconfirmed(self) -> int:
        """Publishes that wait for their confirm."""
        return self._confirms.count

    def lost(self, count: int) -> None:
        """The journal has failed under these publishes: refuse them, and all that wait."""
        self._confirms.add(count, None)
        self._waits = False
        self._answer(self._confirms.take_all(), _NACK)

    def wait_at(self, gate: Gate) -> None:
        """Confirm nothing before a gate opens, unless it waits at another one."""
        if not self._is_held:
            self._is_held = True
            gate.hold(self)

    def tell_blocked(self, reason: str) -> None:
        """See `Held`: only its confirms wait."""

    def let_go(self) -> None:
        """See `Held`: confirm what could be confirmed meanwhile."""
        self._is_held = False
        if self._is_due:
            self._is_due = False
            self.journal_reached()

    def catch_up(self) -> None:
        """Confirm what can be confirmed, before something else is sent."""
        confirms = self._confirms
        self._answer(confirms.take_covered(), _ACK)
        while (refused := confirms.take_refused()) is not None:
            self._answer(refused, _NACK)
            self._answer(confirms.take_covered(), _ACK)

    def journal_reached(self) -> None:
        """See `Waiter`."""
        if self._is_held:
            self._is_due = True
            return
        self.catch_up()
        self._wait_on()

    def journal_late(self) -> None:
        """See `Waiter`."""
        self.catch_up()
        while (refused := self._confirms.take_late()) is not None:
            self._answer(refused, _NACK)
            self.catch_up()
        self._wait_on()

    def journal_failed(self) -> None:
        """See `Waiter`: what only other journals are to have waits on."""
        self.journal_late()

    @cython.cfunc
    def _wait_on(self) -> None:
        needed = self._confirms.needed()
        self._waits = needed is not None
        if needed is not None:
            self._progress.wait(self, needed)

    @cython.cfunc
    def _answer(self, taken: tuple[int, bool] | None, method: int) -> None:
        if taken is not None and self._channel is not None:
            if method == _ACK:
                self._counters.confirmed(self._confirms.answered)
            self._channel.write(_CONFIRM.pack(1, self._channel.number, 13, method, *taken, 0xCE))

    def close(self) -> None:
        """The channel closes: confirm what is known, before its close is sent, and nothing more.

        What waits for the disk stays unconfirmed, as in RabbitMQ.
        """
        self.catch_up()
        self._confirms.take_all()
        self._channel = None  # a receipt may keep the sender for long
