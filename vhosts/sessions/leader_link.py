"""The way from the queues of a front to their leader: one session after another."""

from collections.abc import Callable

from routelog.vhosts.sessions.front_session import FrontSession, Write

MakeSession = Callable[[Callable[[], None]], FrontSession]


class LeaderLink:
    """Has a session at any time: one that is open, or the next one, which keeps what is sent until it opens.

    Attributes:
        session: see the class.

    Args:
        make: makes a session, with its hooks; of what it is given, the session tells that it is lost.
    """

    def __init__(self, make: MakeSession) -> None:
        self._make = make
        self._is_over = False
        self.session = make(self._replace)

    def _replace(self) -> None:
        if not self._is_over:
            self.session = self._make(self._replace)

    def open(self, write: Write, epoch: int) -> FrontSession:
        """A leader takes the next session: see `FrontSession.open`."""
        self.session.open(write, epoch)
        return self.session

    def give_up(self, reason: str) -> None:
        """No leader is known: refuse what waits for a session, and keep what comes for the next one."""
        if not self.session.is_open:
            self.session.lost(reason)

    def end(self, reason: str) -> None:
        """There is no next session: refuse what waits for it, and what comes."""
        self._is_over = True
        self.session.lost(reason)
