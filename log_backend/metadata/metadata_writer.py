"""Group commit of metadata: one sync covers all that the event loop submitted meanwhile."""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from routelog.log_backend.metadata.metadata import Change, MetadataStore, MetadataUnavailable

log = logging.getLogger(__name__)

RESOLVED_MAX = 8  # submissions of one turn of the loop: whoever waits for one does 100 us of work


@dataclass(frozen=True, slots=True)
class _Submission:
    changes: tuple[Change, ...]
    durable: asyncio.Future[int]


@dataclass(frozen=True, slots=True)
class _Committed:
    # Submissions, at least one, that one sync has covered, and what became of each.
    group: deque[_Submission]
    outcomes: Iterator[int | Exception]


class MetadataWriter:
    """Applies changes in the order in which they were submitted, in a thread of its own.

    While one sync runs, submissions gather; the next sync covers all of them, without a timer.
    Nobody limits how much gathers: whoever accepts changes without awaiting them watches
    `pending_changes` and stops reading from its clients.
    """

    def __init__(self, store: MetadataStore, loop: asyncio.AbstractEventLoop) -> None:
        self._store = store
        self._loop = loop
        self._pending: deque[_Submission] = deque()
        self._arrived = threading.Condition()  # guards _pending and _is_closing
        self._is_closing = False  # set on the loop
        self._failure: MetadataUnavailable | None = None  # only touched on the loop
        self._committed: deque[_Committed] = deque()  # only touched on the loop
        self.pending_changes = 0  # submitted, not yet resolved; only touched on the loop
        self._thread = threading.Thread(target=self._run, name="metadata-writer", daemon=True)
        self._thread.start()

    def submit(self, changes: Sequence[Change]) -> asyncio.Future[int]:
        """Queue one atomic batch; call it on the loop only.

        Returns:
            Resolves to the batch's revision once it is durable, or raises `RevisionConflict`
            (nothing of it was written) or `MetadataUnavailable` (it may come back after a
            restart). Cancelling it does not take the changes back.

        Raises:
            MetadataUnavailable: closed, or an earlier write or sync failed; nothing was queued.

        Guarantees:
            Futures are resolved in the order of submission, and conditions are compared with
            what all earlier submissions have left.
        """
        self.check()
        submission = _Submission(tuple(changes), self._loop.create_future())
        with self._arrived:
            self._pending.append(submission)
            self._arrived.notify()
        self.pending_changes += len(submission.changes)
        return submission.durable

    def check(self) -> None:
        """See whether anything can be submitted; call it on the loop only.

        Raises:
            MetadataUnavailable: closed, or an earlier write or sync failed.
        """
        if self._failure is not None:
            raise MetadataUnavailable(str(self._failure))
        if self._is_closing:
            raise MetadataUnavailable("the metadata writer is closed")

    async def aclose(self) -> None:
        """Refuse further submissions, finish the pending ones and end the thread."""
        with self._arrived:
            self._is_closing = True
            self._arrived.notify()
        await asyncio.to_thread(self._thread.join)
        while self._committed:
            self._resolve()

    def _run(self) -> None:
        while group := self._take():
            outcomes = self._commit(group)
            self._loop.call_soon_threadsafe(self._ended, group, outcomes)

    def _take(self) -> deque[_Submission]:
        """Wait for submissions and take them all; none means that the writer is closing."""
        with self._arrived:
            while not self._pending and not self._is_closing:
                self._arrived.wait()
            group, self._pending = self._pending, deque()
            return group

    def _commit(self, group: deque[_Submission]) -> list[int | Exception]:
        try:
            outcomes = self._store.apply_each(submission.changes for submission in group)
            self._store.sync()
        except Exception as error:
            # A conflict may have been with a change that is lost as well, so it is no answer.
            return [error] * len(group)
        return outcomes

    def _ended(self, group: deque[_Submission], outcomes: list[int | Exception]) -> None:
        for outcome in outcomes:
            if isinstance(outcome, MetadataUnavailable) and self._failure is None:
                self._failure = outcome
                log.error("%s; changes of topology are refused until a restart", outcome)
        is_resolving = bool(self._committed)
        self._committed.append(_Committed(group, iter(outcomes)))
        if not is_resolving:
            self._resolve()

    def _resolve(self) -> None:
        # Some thousand waiters at once would hold the loop, as would letting go of them.
        for _ in range(RESOLVED_MAX):
            if not self._committed:
                return
            committed = self._committed[0]
            submission, outcome = committed.group.popleft(), next(committed.outcomes)
            if not committed.group:
                self._committed.popleft()
            self._tell(submission, outcome)
        if self._committed:
            self._loop.call_soon(self._resolve)

    def _tell(self, submission: _Submission, outcome: int | Exception) -> None:
        self.pending_changes -= len(submission.changes)
        if submission.durable.done():  # its waiter was cancelled
            return
        if isinstance(outcome, Exception):
            submission.durable.set_exception(outcome)
            if isinstance(outcome, MetadataUnavailable):
                unawaited(submission.durable)
        else:
            submission.durable.set_result(outcome)


def unawaited(change: asyncio.Future[int]) -> asyncio.Future[int]:
    """Nobody need wait for this change: the writer tells of its failure. Whoever waits gets it all the same."""
    change.add_done_callback(_retrieve)
    return change


def _retrieve(change: asyncio.Future[int]) -> None:
    error = None if change.cancelled() else change.exception()
    if error is not None and not isinstance(error, MetadataUnavailable):
        log.error("a change of the topology failed", exc_info=error)
