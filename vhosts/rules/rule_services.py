"""The services of a node that rules and delayed exchanges use."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from routelog.log_backend import Lane, LogStore, Scheduler, Segment, StoredRecord
from routelog.vhosts.posting.internal_publish import Posted
from routelog.vhosts.posting.internal_publisher import InternalPublisher
from routelog.vhosts.rules.dead_letter_publisher import DeadLetterPublisher
from routelog.vhosts.timer import CallLater


class RuleServices:
    """Clock, timers, log and internal publishing, for rules and delayed exchanges of one vhost.

    Attributes:
        post: publishes messages of the vhost itself.
        letters: publishes dead letters.
        scheduler: of the node.
        now: microseconds since 1970.
        monotonic: seconds of a clock that is never set; it starts anew with each run.
        call_later: runs a function after some seconds.

    Args:
        remove: deletes a queue whose lease ended, by its name.
    """

    def __init__(
        self,
        logs: LogStore,
        post: InternalPublisher,
        remove: Callable[[str], None],
        scheduler: Scheduler,
        call_later: CallLater,
    ) -> None:
        self._logs = logs
        self.post = post
        self.letters = DeadLetterPublisher(post)
        self.remove = remove
        self.scheduler = scheduler
        self.now = logs.now
        self.monotonic = logs.clock.monotonic
        self.call_later = call_later

    def call_soon(self, call: Callable[[], None]) -> None:
        """Run a function after this turn of the event loop."""
        self.scheduler.call(Lane.FRESH, call)

    def is_pressed(self) -> bool:
        """Whether publishers are held back: the disk or the memory is short."""
        return bool(self._logs.pressures.reasons)

    def fetch(
        self,
        segment: Segment,
        offsets: Sequence[int],
        bytes_max: int,
        done: Callable[[Mapping[int, StoredRecord] | None], None],
    ) -> None:
        """Call `done` with records of a segment, see `ColdReads.fetch`; with None when that failed."""

        def fetched(future: asyncio.Future[Mapping[int, StoredRecord]]) -> None:
            if not future.cancelled():
                done(None if future.exception() is not None else future.result())

        self._logs.reads.fetch(segment, offsets, bytes_max).add_done_callback(fetched)

    def when_reached(self, posted: Posted, done: Callable[[], None]) -> None:
        """Call `done` when the journal has reached the positions of published copies; maybe at once."""
        journal = self._logs.journal
        # A duplicate waits for an older position, which no later commit may announce again.
        needed = [(posted.written, False)] if posted.written > journal.written else []
        if posted.durable > journal.committed:
            needed.append((posted.durable, True))
        left = len(needed)

        def one_reached() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                done()

        for position, committed in needed:
            journal.waiters.wait(position, one_reached, committed=committed)
        if not needed:
            done()
