"""The queue of logins that wait for a thread: round robin over sources, and over the users of each source."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

Turn = tuple[bool, str]

QUEUE_MAX = 256  # logins that wait: about 8 s of work for one thread


@dataclass(slots=True, eq=False)
class LoginJob:
    """A login to verify, 30 ms of work for a thread.

    Attributes:
        source: of the client, see `source_of`.
        is_known: the user has logged in from this source: such logins take turns apart from the others.
        user: a digest of the name, which may be long.
        digest: of user and password, to share the answer with equal logins; None: not shared.
        answer: the result of `work`.
    """

    source: str
    is_known: bool
    user: bytes
    digest: bytes | None
    work: Callable[[], object]
    answer: asyncio.Future[object]

    @property
    def turn(self) -> Turn:
        """The key of the round robin over sources."""
        return self.is_known, self.source


class LoginQueue:
    """Round robin among sources, and for each of them among its users."""

    def __init__(self) -> None:
        # By turn and user; the next in turn is first.
        self._by_turn: dict[Turn, dict[bytes, deque[LoginJob]]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, job: LoginJob) -> LoginJob | None:
        """Add a job. When too many wait, remove and return one, of the source with the most jobs."""
        self._by_turn.setdefault(job.turn, {}).setdefault(job.user, deque()).append(job)
        self._count += 1
        if self._count <= QUEUE_MAX:
            return None
        turn = max(self._by_turn, key=self._waiting)
        users = self._by_turn[turn]
        user = max(users, key=lambda each: len(users[each]))
        leaving = users[user].pop()
        self._left(turn, user)
        return leaving

    def next(self, rests: Callable[[str], bool] = lambda source: False) -> LoginJob | None:
        """Remove and return the next job; None: no job may run.

        Args:
            rests: whether logins of a source must wait, but those of its known users.
        """
        turn = next((each for each in self._by_turn if each[0] or not rests(each[1])), None)
        if turn is None:
            return None
        users = self._by_turn.pop(turn)
        user = next(iter(users))
        jobs = users.pop(user)
        # Source and user go to the end of their round, if they have more jobs.
        self._by_turn[turn] = users
        users[user] = jobs
        job = jobs.popleft()
        self._left(turn, user)
        return job

    def take_like(self, job: LoginJob) -> list[LoginJob]:
        """Remove and return all jobs of the same user from the same source."""
        taken = self._by_turn.get(job.turn, {}).get(job.user)
        if taken is None:
            return []
        jobs = list(taken)
        taken.clear()
        self._count -= len(jobs) - 1
        self._left(job.turn, job.user)
        return jobs

    def _waiting(self, turn: Turn) -> int:
        return sum(map(len, self._by_turn[turn].values()))

    def _left(self, turn: Turn, user: bytes) -> None:
        self._count -= 1
        users = self._by_turn[turn]
        if not users[user]:
            del users[user]
        if not users:
            del self._by_turn[turn]
