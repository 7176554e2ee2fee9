"""How long clients wait for a replicated journal that does not advance: too few nodes have what is new.

A confirm that comes due is basic.nack, another answer is an error; either says that nobody knows: what was
published or changed is in the journal, and is committed when enough nodes are there again.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial

from routelog.log_backend import CallLater, NotReplicated, Progress, Timer

log = logging.getLogger(__name__)

LOOKS = 10  # within the deadline: nobody waits longer than a tenth more


class ConfirmDeadline:
    """One timer for everybody: it notes where the journal's blocks end, and what that was so long ago.

    It counts looks, not seconds, so that a process that was stopped for a while refuses nothing for that.

    Args:
        end: position of the replicated journal's last block, committed or not.
        seconds: that a confirm is waited for.
        call_later: its calls write to many clients.
    """

    def __init__(
        self,
        progress: Progress,
        end: Callable[[], int],
        seconds: float,
        call_later: CallLater,
    ) -> None:
        self._progress = progress
        self._end = end
        self._seconds = seconds
        self._call_later = call_later
        self._timer: Timer | None = None
        self._looks = 0
        self._refuses = False
        # By look: nothing needs a block up to here that was published behind it
        self._ends: deque[int] = deque()
        # Of each, the look that it was asked behind
        self._answers: dict[asyncio.Future[object], int] = {}

    def start(self) -> None:
        """Begin to look."""
        self._timer = self._call_later(self._seconds / LOOKS, self._look)

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self.start()
        self._looks += 1
        self._ends.append(self._end())
        if len(self._ends) <= LOOKS:
            return
        end = self._ends.popleft()
        before, self._refuses = self._refuses, end > self._progress.durable
        if self._refuses:
            self._progress.refuse(end)
            self._refuse_answers()
        if self._refuses != before:
            now = "get basic.nack" if self._refuses else "are confirmed again"
            log.warning("publishes %s: the limit is %g s", now, self._seconds)

    def in_time(self, done: Awaitable[object]) -> Awaitable[object]:
        """What is done, or fails when the deadline is over; it goes on then. Who gives up ends it."""
        work = asyncio.ensure_future(done)
        answer: asyncio.Future[object] = work.get_loop().create_future()
        self._answers[answer] = self._looks
        work.add_done_callback(partial(self._done, answer))
        answer.add_done_callback(lambda given_up: given_up.cancelled() and work.cancel())
        return answer

    def _done(self, answer: "asyncio.Future[object]", work: "asyncio.Future[object]") -> None:
        self._answers.pop(answer, None)
        if work.cancelled():
            answer.cancel()
            return
        error = work.exception()  # looked at: nobody else does, behind the deadline
        if answer.done():
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(work.result())

    def _refuse_answers(self) -> None:
        text = f"too few nodes have stored it in {self._seconds:g} s; they may store it yet"
        for answer, look in list(self._answers.items()):
            if look + LOOKS >= self._looks:
                return
            del self._answers[answer]
            answer.set_exception(NotReplicated(text))
