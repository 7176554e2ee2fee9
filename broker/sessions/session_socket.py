"""One end of a session's connection: messages in and out, and its end when the other one is silent."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from routelog.log_backend import CallLater, Octets, Timer
from routelog.mirror_cluster import ReceiveBuffer
from routelog.vhosts import (
    ANSWERED,
    BadSessionMessage,
    SessionKind,
    SessionMessage,
    decode_session_message,
    session_message_bytes,
    session_message_pieces,
)

log = logging.getLogger(__name__)

STAMPS_PER_SECOND = 1_000_000  # of beats
BEAT_SHARE = 4  # messages of an idle end come as often in a lease
# Of a lease that a front hears nothing: it takes the session for lost before the leader does, who waits for it
# with answers to changes of definitions.
SILENCE_SHARE = 0.85


class SessionEnd(Protocol):
    """What a session's messages are for: a front's end, or a leader's."""

    def received(self, message: SessionMessage) -> None:
        """Take a message.

        Raises:
            BadSessionMessage: the peer's fault: the session ends.
        """


class SessionSocket(asyncio.BufferedProtocol):
    """A connection whose introduction is over.

    Attributes:
        end: takes the messages.
        is_silent: it is over, as nothing has come for so long.

    Args:
        transport: reads nothing; see `NodeLink.give_away`.
        peer: name of the other node.
        silence_seconds: after which the session is over.
        ended: called once, with the reason in words.
        drained: called when the system has taken most of what was to be sent.
        stamp: the number of a beat that is sent; 0: it is not to be answered.
        answered: called with the number of a beat that the peer has answered, and with its age.
        age: microseconds, told with the answer to a beat: of what this end knows.
    """

    end: SessionEnd

    def __init__(
        self,
        transport: asyncio.Transport,
        peer: str,
        silence_seconds: float,
        call_later: CallLater,
        ended: Callable[[str], None],
        drained: Callable[[], None] = lambda: None,
        stamp: Callable[[], int] = lambda: 0,
        answered: Callable[[int, int], None] = lambda number, age: None,
        age: Callable[[], int] = lambda: 0,
    ) -> None:
        self._transport = transport
        self._peer = peer
        self._loop = asyncio.get_running_loop()
        self._call_later = call_later
        self._beat_seconds = silence_seconds / BEAT_SHARE
        self._beats_max = BEAT_SHARE
        self._ended = ended
        self._drained = drained
        self._stamp = stamp
        self._answered = answered
        self._age = age
        self._buffer = ReceiveBuffer(decode_session_message, session_message_bytes)
        self._outbox: list[Octets] = []
        self._outbox_bytes = 0
        self._silent_beats = 0
        self.is_silent = False
        self._has_sent = False
        self._timer: Timer | None = None
        self._is_over = False

    def begin(self, unread: bytes) -> None:
        """Read on; `unread` came already."""
        self._transport.set_protocol(self)
        self._timer = self._call_later(self._beat_seconds, self._beat)
        self._transport.resume_reading()
        self._send_beat()
        if unread:
            self._take(self._buffer.add(unread))

    def write(self, pieces: Sequence[Octets]) -> None:
        """Send pieces of messages, with all others of this turn of the loop."""
        if self._is_over:
            return
        if not self._outbox:
            self._loop.call_soon(self._flush)
        self._outbox += pieces
        self._outbox_bytes += sum(map(len, pieces))

    @property
    def outbox_bytes(self) -> int:
        """Bytes that the system has not taken, those of this turn included."""
        return self._transport.get_write_buffer_size() + self._outbox_bytes

    def close(self, reason: str) -> None:
        """End the session."""
        if not self._is_over:
            self._is_over = True
            self._outbox.clear()
            if self._timer is not None:
                self._timer.cancel()
            self._transport.abort()
            self._ended(reason)

    def _flush(self) -> None:
        outbox, self._outbox, self._outbox_bytes = self._outbox, [], 0
        if outbox and not self._is_over:
            self._has_sent = True
            self._transport.writelines(outbox)

    def _beat(self) -> None:
        self._silent_beats += 1
        if self._silent_beats > self._beats_max:
            self.is_silent = True
            return self.close(f"node {self._peer} is silent")
        self._send_beat()
        self._has_sent = False
        self._timer = self._call_later(self._beat_seconds, self._beat)

    def _send_beat(self) -> None:
        number = self._stamp()
        if number or not self._has_sent:
            self.write(session_message_pieces(SessionMessage(SessionKind.BEAT, number=number)))

    def _beaten(self, message: SessionMessage) -> None:
        number = message.number
        if message.flags & ANSWERED:
            self._answered(number, message.first)
        elif number:
            answer = SessionMessage(SessionKind.BEAT, ANSWERED, number=number, first=self._age())
            self.write(session_message_pieces(answer))

    # -- asyncio's

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where received bytes go."""
        return self._buffer.room()

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes have come."""
        self._take(self._buffer.received(nbytes))

    def _take(self, messages: Iterator[SessionMessage]) -> None:
        self._silent_beats = 0
        try:
            for message in messages:
                if self._is_over:
                    return
                if message.kind is SessionKind.BEAT:
                    self._beaten(message)
                else:
                    self.end.received(message)
        except BadSessionMessage as error:
            log.error("the session with node %s ends: %s", self._peer, error)
            self.close(f"node {self._peer} sent what is no message: {error}")

    def pause_writing(self) -> None:
        """The system takes no more for now: see `outbox_bytes`."""

    def resume_writing(self) -> None:
        """The system has taken most of it."""
        if not self._is_over:
            self._drained()

    def connection_lost(self, error: Exception | None) -> None:
        """The connection is closed."""
        self.close(f"the connection with node {self._peer} has ended")
