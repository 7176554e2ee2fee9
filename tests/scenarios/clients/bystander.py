"""A connection that only wants to be left alone, and notices when it is not."""

from __future__ import annotations

import os
import threading
import time

from pamqp import commands
from scenarios.clients.raw_client import RawClient, message

PAUSE_SECONDS = 0.002  # about 400 messages/s: always busy, never a load
PROGRESS_SECONDS_MAX = 60.0
# What others may cost it. On a quiet machine it is 100; here others may have the processors.
WAIT_MILLISECONDS_MAX = float(os.environ.get("ROUTELOG_TEST_WAIT_MS", "5000"))


class Bystander:
    """Publishes numbers to its own queue and consumes them, one after another, in a thread.

    Attributes:
        longest_wait: of a round, in seconds.

    Invariant: `rounds` grows as long as every message came back once and in order.
    """

    def __init__(self, host: str, port: int) -> None:
        self.rounds = 0
        self.longest_wait = 0.0
        self.failure: BaseException | None = None
        self._client = RawClient(host, port).open()
        self._client.open_channel()
        self._queue = self._client.declare()
        self._client.call(
            commands.Basic.Consume(queue=self._queue, no_ack=True), commands.Basic.ConsumeOk
        )
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def assert_undisturbed(self) -> None:
        """Wait until two more rounds, begun after this call, are through."""
        wanted = self.rounds + 2
        deadline = time.monotonic() + PROGRESS_SECONDS_MAX
        while self.rounds < wanted:
            assert self.failure is None, f"the bystander was disturbed: {self.failure!r}"
            assert time.monotonic() < deadline, "the bystander got no answer"
            time.sleep(PAUSE_SECONDS)
        waited = self.longest_wait * 1_000
        assert waited < WAIT_MILLISECONDS_MAX, f"the bystander waited for {waited:.0f} ms"

    def stop(self) -> None:
        """End the thread and close the connection."""
        self._stopping.set()
        self._thread.join(PROGRESS_SECONDS_MAX * 2)
        self._client.socket.close()

    def _run(self) -> None:
        try:
            while not self._stopping.wait(PAUSE_SECONDS):
                self._round()
        except BaseException as failure:
            self.failure = failure

    def _round(self) -> None:
        payload = str(self.rounds).encode()
        begun = time.monotonic()
        self._client.send_bytes(message(self._queue, payload))
        self._client.expect(commands.Basic.Deliver)
        _, received = self._client.receive_content()
        assert received == payload, f"sent {payload!r}, received {received!r}"
        self.longest_wait = max(self.longest_wait, time.monotonic() - begun)
        self.rounds += 1
