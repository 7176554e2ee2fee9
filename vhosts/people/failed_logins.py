"""Rate limit of failed logins: after too many, logins wait, or are refused without a check of the password.

A level rises by one with each failure, up to FAILURES_MAX, and falls with time. There are three levels:

    user from a source   at its limit: refused, whether the user exists or not
    user, from anywhere  at its limit: a source that has failed with the user is refused until its level is 0
    source               at its limit: its logins wait, except those of users who have logged in from there

So an attacker cannot lock out a user at another address, one client with a wrong password behind a proxy does
not lock out the others there, and a source that tries many names is slowed down.
"""

from collections.abc import Callable

# More than a person mistypes, or the instances of an application after a change of password
FAILURES_MAX = 10
USER_SECONDS = 6.0  # until the level of a user falls by one: 14,400 guesses a day from one source
SOURCE_SECONDS = 1.0  # until the level of a source falls by one: ten logins in a handshake timeout
ENTRIES_MAX = 4_096  # levels of each kind, about 200 bytes each; each failure has cost a hash
KNOWN_MAX = 4_096  # pairs of user and source with a successful login


class _Levels:
    """Failures by key, each of which is forgiven after some seconds."""

    def __init__(self, now: Callable[[], float], seconds: float) -> None:
        self._now = now
        self._seconds = seconds
        # When the level is 0 again; the last raised is last
        self._empty_at: dict[bytes, float] = {}

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
    """The levels of failed logins.

    Args:
        now: a monotonic clock, in seconds.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._of_pairs = _Levels(now, USER_SECONDS)
        self._of_users = _Levels(now, USER_SECONDS)
        self._of_sources = _Levels(now, SOURCE_SECONDS)
        self._known_pairs: dict[bytes, None] = {}

    def may_try(self, source: str, user: bytes) -> bool:
        """Whether a password of a user from a source is to be checked.

        Args:
            user: a digest of the name, of fixed length.
        """
        pair = user + source.encode()
        if self._of_pairs.is_full(pair):
            return False
        return not (self._of_users.is_full(user) and self._of_pairs.level(pair) > 0)

    def is_known(self, source: str, user: bytes) -> bool:
        """Whether the user has logged in from this source."""
        return user + source.encode() in self._known_pairs

    def rests(self, source: str) -> bool:
        """Whether logins of a source must wait."""
        return self._of_sources.is_full(source.encode())

    def failed(self, source: str, user: bytes) -> None:
        """Note that a login failed."""
        self._of_pairs.rise(user + source.encode())
        self._of_users.rise(user)
        self._of_sources.rise(source.encode())

    def succeeded(self, source: str, user: bytes) -> None:
        """Note that a login succeeded."""
        pair = user + source.encode()
        self._of_pairs.clear(pair)
        self._known_pairs.pop(pair, None)
        while len(self._known_pairs) >= KNOWN_MAX:
            del self._known_pairs[next(iter(self._known_pairs))]
        self._known_pairs[pair] = None
