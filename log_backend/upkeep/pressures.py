"""The reasons why publishers should wait: one set for the whole node."""

from collections.abc import Callable


class Pressures:
    """The current reasons, of "disk", "files", "journal" and "memory".

    Attributes:
        reasons: if there are none, publishers may go on.
        on_change: set by the owner; called with the reasons when they change.
    """

    def __init__(self) -> None:
        self.reasons: frozenset[str] = frozenset()
        self.on_change: Callable[[frozenset[str]], None] = lambda reasons: None

    def press(self, reason: str, pressed: bool) -> None:
        """Add or remove a reason."""
        if pressed != (reason in self.reasons):
            self.reasons ^= {reason}
            self.on_change(self.reasons)
