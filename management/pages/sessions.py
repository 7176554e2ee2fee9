"""Who has signed in to the web page: sessions, in memory."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from routelog.log_backend import Clock, random_name
from routelog.vhosts import User, UserDirectory

SESSION_SECONDS = 12 * 3_600  # a working day and some
SESSIONS_OF_USER_MAX = 16  # browsers; with one more, the oldest has to sign in again


@dataclass(slots=True)
class FailedForm:
    """A form that was refused: its page shows why beside it, with what was written.

    Attributes:
        form: its id.
        said: the fields by name, without passwords.
        is_shown: the page has the form; else the reason stands alone.
    """

    form: str
    reason: str
    said: Mapping[str, list[str]]
    is_shown: bool = False

    def said_in(self, form: str) -> Mapping[str, str] | None:
        """What was written in a form of the page, and note that it is there; None: another one failed."""
        if form != self.form:
            return None
        self.is_shown = True
        return {name: values[0] for name, values in self.said.items()}


@dataclass(slots=True)
class Session:
    """A browser in which a user has signed in.

    Attributes:
        user: as of then: a changed password or tag ends the session.
        form_token: what each form of its pages has to send along.
        end: seconds of the monotonic clock.
        notice: what the next page says on its top: how the last change went.
        failed: the form that the next page shows again.
        vhost: whose things lists show; empty: those of all.
        menu: what the menu says, for some seconds; see `frame.py`.
    """

    user: User
    form_token: str
    end: float
    notice: str = ""
    failed: FailedForm | None = None
    vhost: str = ""
    menu: object = None


class Sessions:
    """The sessions of this run of the broker, by the hash of what their cookie says.

    Their number is bounded by that of the users.
    """

    def __init__(self, users: UserDirectory, clock: Clock) -> None:
        self._users = users
        self._clock = clock
        self._sessions: dict[bytes, Session] = {}  # the oldest first

    def begin(self, user: User) -> str:
        """Begin a session, and return what its cookie says."""
        now = self._clock.monotonic()
        for key, session in list(self._sessions.items()):
            if not self._is_valid(session, now):
                del self._sessions[key]
        own = [key for key, each in self._sessions.items() if each.user.name == user.name]
        for key in own[: len(own) + 1 - SESSIONS_OF_USER_MAX]:
            del self._sessions[key]
        cookie = random_name()
        self._sessions[_key(cookie)] = Session(user, random_name(), now + SESSION_SECONDS)
        return cookie

    def find(self, cookie: str) -> Session | None:
        """The session that a cookie is of; None: it never was, or has ended."""
        session = self._sessions.get(_key(cookie))
        if session is None or self._is_valid(session, self._clock.monotonic()):
            return session
        self.end(cookie)
        return None

    def end(self, cookie: str) -> None:
        """End a session, if there is one."""
        self._sessions.pop(_key(cookie), None)

    def _is_valid(self, session: Session, now: float) -> bool:
        return now < session.end and self._users.find(session.user.name) == session.user


def _key(cookie: str) -> bytes:
    # Hashed, so that the time of a look-up says nothing of the cookies that there are.
    return hashlib.sha256(cookie.encode(errors="replace")).digest()
