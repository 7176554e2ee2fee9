"""The cork of all sockets: many writes to one client in a turn become two, the first one and all others.

A write is a system call. When one turn of the event loop has deliveries for a hundred consumers of a
connection, or answers to a hundred commands, these calls would take most of the turn.
"""

from collections.abc import Callable
from typing import Protocol


class Corked(Protocol):
    """A socket that buffers writes while the cork is in."""

    def uncork(self) -> None:
        """Send the buffered writes."""


class Cork:
    """While the cork is in, sockets send their first write, and buffer further ones until it is out.

    Attributes:
        is_in: a socket that is written to a second time keeps that, and is to be among `sockets`.
        number: of this cork, or the last one; counted from 1.
        sockets: those that keep something.
    """

    __slots__ = ("is_in", "number", "sockets")

    def __init__(self) -> None:
        self.is_in = False
        self.number = 0
        self.sockets: list[Corked] = []

    def run(self, function: Callable[[], None]) -> None:
        """Run a function with the cork in; one inside another leaves it in."""
        if self.is_in:
            function()
            return
        self.is_in = True
        self.number += 1
        try:
            function()
        finally:
            self.is_in = False
            if self.sockets:
                self._uncork()

    def _uncork(self) -> None:
        try:
            while self.sockets:
                self.sockets.pop().uncork()
        finally:
            if self.sockets:  # the sockets behind one that failed
                self._uncork()
