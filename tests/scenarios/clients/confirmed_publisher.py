"""A publisher that never stops: it notes what was confirmed, and when it was blocked and unblocked."""

from __future__ import annotations

import threading
import time

from pamqp import commands
from scenarios.clients.raw_client import Dropped, RawClient, Silent, message

PERSISTENT = b"\x10\x00\x02"  # property flags: delivery mode; its value

WINDOW = 16  # messages that wait for their confirms


class ConfirmedPublisher:
    """A thread that publishes numbered messages with confirms, a few at a time.

    Attributes:
        sent: numbers published so far.
        confirmed: numbers that the broker acknowledged.
        refused: numbers that it answered with basic.nack.
        blocked_at, unblocked_at: monotonic times of the notifications, in order.
        reasons: of the blocked notifications.
    """

    def __init__(
        self, host: str, port: int, queue: str, *, first: int = 0, body_bytes: int = 16_384
    ) -> None:
        self.sent = first
        self.confirmed: set[int] = set()
        self.refused: set[int] = set()
        self.blocked_at: list[float] = []
        self.unblocked_at: list[float] = []
        self.reasons: list[str] = []
        self._first = first
        self._queue = queue
        self._body_bytes = body_bytes
        self._next_tag = 1
        self._stop = threading.Event()
        self._client = RawClient(host, port)
        self._client.open()
        self._client.open_channel()
        self._client.call(commands.Confirm.Select(), commands.Confirm.SelectOk)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def blocked(self) -> bool:
        """The last notification said so."""
        return len(self.blocked_at) > len(self.unblocked_at)

    def stop(self) -> None:
        """End the thread, whatever waits for a confirm, and the connection."""
        self._stop.set()
        self._thread.join(60)
        self._client.socket.close()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                if self._outstanding() < WINDOW and not self.blocked:
                    self._publish()
                    self._receive(0)
                else:
                    self._receive(0.02)
        except (Dropped, OSError):
            return  # the broker was killed

    def _outstanding(self) -> int:
        return self.sent - self._first - len(self.confirmed) - len(self.refused)

    def _publish(self) -> None:
        payload = (b"%d " % self.sent).ljust(self._body_bytes, b"x")
        self._client.send_bytes(message(self._queue, payload, PERSISTENT))
        self.sent += 1

    def _receive(self, seconds: float) -> None:
        try:
            while True:
                _, value = self._client.receive(seconds)
                self._take(value)
                seconds = 0
        except Silent:
            return

    def _take(self, value: object) -> None:
        if isinstance(value, commands.Connection.Blocked):
            self.blocked_at.append(time.monotonic())
            self.reasons.append(value.reason)
        elif isinstance(value, commands.Connection.Unblocked):
            self.unblocked_at.append(time.monotonic())
        elif isinstance(value, commands.Basic.Ack | commands.Basic.Nack):
            answered = self.confirmed if isinstance(value, commands.Basic.Ack) else self.refused
            first = self._next_tag if value.multiple else value.delivery_tag
            answered.update(self._first + tag - 1 for tag in range(first, value.delivery_tag + 1))
            self._next_tag = value.delivery_tag + 1


def number_of(body: bytes) -> int:
    """The number of a message."""
    return int(body.split(b" ", 1)[0])
