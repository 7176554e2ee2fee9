"""The cork of all sockets: what many writes give to one client goes out as one.

A write is a call of the system. Where one turn of the event loop has messages for a hundred consumers of a
connection, or answers to a hundred commands, these calls were most of it.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol


class Corked(Protocol):
    """A socket that keeps what it is given."""

    def uncork(self) -> None:
        """Send what was kept."""


class Cork:
    """While it is in, sockets keep what they are given, and then send it.

    Attributes:
        is_in: a socket that is written to is to keep it, and to be `add`ed.

    Args:
        loop: see `call_soon`.
    """

    __slots__ = ("_depth", "_loop", "_sockets", "is_in")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._depth = 0
        self._sockets: list[Corked] = []
        self.is_in = False

    def add(self, socket: Corked) -> None:
        """A socket has begun to keep what it is given."""
        self._sockets.append(socket)

    def call_soon(self, function: Callable[[], None]) -> None:
        """Run a function in the next turn of the loop with the cork in."""
        self._loop.call_soon(self._run, function)

    def around(self, function: Callable[[int], None]) -> Callable[[int], None]:
        """Return the same function with the cork in, of a position in the journal."""

        def corked(position: int) -> None:
            with self:
                function(position)

        return corked

    def _run(self, function: Callable[[], None]) -> None:
        with self:
            function()

    def __enter__(self) -> None:
        self._depth += 1
        self.is_in = True

    def __exit__(self, *error: object) -> None:
        self._depth -= 1
        if self._depth:
            return
        self.is_in = False
        sockets, self._sockets = self._sockets, []
        for socket in sockets:
            socket.uncork()
