"""Which of several processes accepts a connection: they have one listening socket, and share clients evenly."""

from math import inf, nan

from routelog.broker.listeners.shared_page import SharedPage

# A process that has more than its share looks again soon, and accepts all the same when the others leave a
# client waiting for so many looks: they may stand still. If the one with the least has taken nobody meanwhile,
# it does: then this process accepts all that wait.
LOOK_SECONDS = 0.002
LOOKS_MAX = 50


class AcceptShare:
    """The share of one process.

    The first process carries out what the clients of all others do. So a connection counts there as one for
    each process: it has a third of two processes' clients, a thirteenth of four's. When the node starts, it
    leaves clients to the others, which come behind it.

    Args:
        number: of this process.
    """

    def __init__(self, page: SharedPage, number: int) -> None:
        self._page = page
        self._number = number
        self._looks = 0
        self._least = 0.0  # of the others' loads, when this process looked first

    def takes(self) -> bool:
        """Whether this process is to accept the connection that waits."""
        least = self._least_load()
        if self._load(self._number) <= least:
            self._looks = 0
            return True
        if self._looks == LOOKS_MAX:
            if least != self._least:
                self._looks = 0
            return True
        if self._looks == 0:
            self._least = least
        self._looks += 1
        return False

    def nobody_waits(self) -> None:
        """All connections are accepted."""
        self._looks = 0

    def has(self, connections: int) -> None:
        """This process has so many connections."""
        self._page.connected(self._number, connections)

    def elsewhere(self) -> int:
        """How many connections the other processes have."""
        page = self._page
        return sum(page.connections(each) for each in page.all if each != self._number)

    def _least_load(self) -> float:
        page = self._page
        if self._number == 1 and not page.has_started:
            return nan  # below every load, and never the same: nobody stands still
        ready = (each for each in page.all if each != self._number and page.is_ready(each))
        return min((self._load(each) for each in ready), default=inf)

    def _load(self, number: int) -> int:
        # With one more connection.
        weight = self._page.count if number == 1 else 1
        return weight * (self._page.connections(number) + 1)
