"""Failed logins of the last time: who has had too many waits, or is refused without a look at the password.

A level rises by one with each failure, to FAILURES_MAX, and sinks with time. There are three:

    user from a source   at its limit: refused, whoever the user is
    user, from anywhere  at its limit: a source that has failed with the user is refused until that is forgiven
    source               at its limit: its logins wait, but those of users that have logged in from there

So nobody locks out a user who comes from another address. One client with a wrong password behind a proxy locks
out nobody else there, and a source that tries many names is slowed down.
"""

from collections.abc import Callable

FAILURES_MAX = (
    10  # at once: more than a person mistypes, and an application's instances after a change
)
USER_SECONDS = 6.0  # until a user may fail once more: 14,400 guesses a day from one source
SOURCE_SECONDS = (
    1.0  # until a source may: of its logins ten are answered within the time of a handshake
)
ENTRIES_MAX = 4_096  # of each kind, about 200 bytes each; each failure has cost a hash
KNOWN_MAX = 4_096  # users that have logged in from a source: those of some thousand clients


class _Levels:
    """Failures by key, each of which is forgiven after some seconds."""

    def __init__(self, now: Callable[[], float], seconds: float) -> None:
        self._now = now
        self._seconds = seconds
        self._empty_at: dict[bytes, float] = {}  # when all are forgiven; raised the latest is last

    def level(self, key: bytes) -> float:
        return max(0.0, (self._empty_at.get(key, 0.0) - self._now()) / self._seconds)

    def is_full(self, key: bytes) -> bool:
        return self.level(key) > FAILURES_MAX - 1

    def rise(self, key: bytes) -> None:
        level = min(self.level(key) + 1, FAILURES_MAX)
        self._empty_at.pop(key, None)
        while len(self._empty_at) >= ENTRIES_MAX:
            del self._empty_at[next(iter(self._empty_at))]
        self._empty_at[key] = self._now() + level * self._seconds

    def clear(self, key: bytes) -> None:
        self._empty_at.pop(key, None)


class FailedLogins:
    """Who has failed too often.

    Args:
        now: a clock that does not go back, in seconds.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._of_pairs = _Levels(now, USER_SECONDS)
        self._of_users = _Levels(now, USER_SECONDS)
        self._of_sources = _Levels(now, SOURCE_SECONDS)
        self._known: dict[bytes, None] = {}

    def may_try(self, source: str, user: bytes) -> bool:
        """Whether a user's password from a source is looked at.

        Args:
            user: a digest of the name, of a length that is always the same.
        """
        pair = user + source.encode()
        if self._of_pairs.is_full(pair):
            return False
        return not (self._of_users.is_full(user) and self._of_pairs.level(pair) > 0)

    def is_known(self, source: str, user: bytes) -> bool:
        """Whether the user has logged in from there."""
        return user + source.encode() in self._known

    def rests(self, source: str) -> bool:
        """Whether logins of a source have to wait."""
        return self._of_sources.is_full(source.encode())

    def failed(self, source: str, user: bytes) -> None:
        """The password was wrong, or there is no such user."""
        self._of_pairs.rise(user + source.encode())
        self._of_users.rise(user)
        self._of_sources.rise(source.encode())

    def succeeded(self, source: str, user: bytes) -> None:
        """The password was right."""
        pair = user + source.encode()
        self._of_pairs.clear(pair)
        self._known.pop(pair, None)
        while len(self._known) >= KNOWN_MAX:
            del self._known[next(iter(self._known))]
        self._known[pair] = None
