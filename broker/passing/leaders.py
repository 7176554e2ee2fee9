"""The leading node, as a node that passes clients on knows it."""

import asyncio
from collections.abc import Callable
from typing import Protocol

# Given a connection that reads nothing, and what was read of it: sets its protocol at once, and reads on.
TakeConnection = Callable[[asyncio.Transport, bytes], None]


class Leader(Protocol):
    """A node that leads, and which process of it: one that was started again has no clients yet.

    Two are equal when both are.
    """

    @property
    def node(self) -> str:
        """Its name."""

    @property
    def process(self) -> int:
        """The number of its process."""


class Leaders(Protocol):
    """Who leads, and the way there."""

    @property
    def leader(self) -> Leader | None:
        """The node that takes clients; None: nobody is known to lead, or this node does."""

    @property
    def trouble(self) -> str:
        """Why nobody takes clients, in words; for when that is so."""

    def watch(self, changed: Callable[[], None]) -> None:
        """Call a function whenever the leader has changed."""

    async def connect(self, node: str, process: int, take: TakeConnection) -> None:
        """Connect with a leader for one client; it knows that a node of its cluster connects.

        Raises:
            OSError: it cannot be reached, or is another process.
        """
