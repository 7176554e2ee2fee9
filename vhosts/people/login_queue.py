"""Logins that wait for a thread: sources take turns, and within a source its users: nobody fills the line."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

Turn = tuple[bool, str]

QUEUE_MAX = 256  # logins that wait: about 8 s of work for one thread


@dataclass(slots=True, eq=False)
class LoginJob:
    """Work for a thread that takes 30 ms.

    Attributes:
        source: where it comes from, see `source_of`.
        is_known: the user has logged in from there: these take turns apart from the others.
        user: whom it is about; a digest, as names may be long.
        digest: of what is asked, when the answer may be known before it is its turn; None: it is never.
        answer: what `work` returns.
    """

    source: str
    is_known: bool
    user: bytes
    digest: bytes | None
    work: Callable[[], object]
    answer: asyncio.Future[object]

    @property
    def turn(self) -> Turn:
        """Who takes turns with others."""
        return self.is_known, self.source


class LoginQueue:
    """Round robin among sources, and for each of them among its users."""

    def __init__(self) -> None:
        # Whose turn is next comes first.
        self._by_turn: dict[Turn, dict[bytes, deque[LoginJob]]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, job: LoginJob) -> LoginJob | None:
        """Have a job wait; returns one that has to leave, as too many wait: of the source with most of them."""
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
        """Take the job whose turn it is; None when there is none.

        Args:
            rests: tells whether users of a source that have not logged in from there have to wait.
        """
        turn = next((each for each in self._by_turn if each[0] or not rests(each[1])), None)
        if turn is None:
            return None
        users = self._by_turn.pop(turn)
        user = next(iter(users))
        jobs = users.pop(user)
        # Both go to the end of their line, if they have more.
        self._by_turn[turn] = users
        users[user] = jobs
        job = jobs.popleft()
        self._left(turn, user)
        return job

    def take_like(self, job: LoginJob) -> list[LoginJob]:
        """Take all jobs of the same user from the same source."""
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
