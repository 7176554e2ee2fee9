"""How far a standby is behind."""

from collections import deque
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StandbyLag:
    """One standby, as the node that it follows knows it.

    Attributes:
        bytes: of the journal that is committed and that it has not applied, as far as that is still here.
        seconds: since the oldest of that was committed; while it is not connected, since it was heard last.
    """

    name: str
    is_connected: bool
    bytes: int
    seconds: float


class LagTimes:
    """When positions of the journal were committed that a standby has not applied."""

    def __init__(self) -> None:
        # Position, and when it was seen committed
        self._commits: deque[tuple[int, float]] = deque()

    def committed(self, position: int, now: float) -> None:
        """The journal is committed up to a position; call it once a second at least."""
        if not self._commits or position > self._commits[-1][0]:
            self._commits.append((position, now))

    def applied(self, position: int) -> None:
        """The standby has applied everything up to a position."""
        while self._commits and self._commits[0][0] <= position:
            self._commits.popleft()

    def seconds(self, now: float) -> float:
        """Age of the oldest commit that it lacks; 0.0: it has all."""
        return now - self._commits[0][1] if self._commits else 0.0
