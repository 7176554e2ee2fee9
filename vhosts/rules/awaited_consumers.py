"""Whether a node that leads knows the consumers of its queues: other nodes bring theirs with their sessions.

Until then nothing is judged by who consumes: no queue ends as unused, and no consumer is taken that comes for
the first time: it could be exclusive, or stand in the way of one that is.
"""

import asyncio
from collections.abc import Callable


class AwaitedConsumers:
    """Consumers of other nodes that are to come back; a node on its own never awaits any.

    Args:
        is_ending: whether other processes of this node let theirs go, as all end: these do not come back.
    """

    def __init__(self, is_ending: Callable[[], bool]) -> None:
        self._is_ending = is_ending
        self._back: asyncio.Future[None] | None = None

    def begin(self) -> None:
        """This node begins to lead, is about to stop, or a node's session was lost: consumers are not known."""
        if self._back is None:
            self._back = asyncio.get_running_loop().create_future()

    def end(self) -> None:
        """All consumers are back that will be."""
        back, self._back = self._back, None
        if back is not None:
            back.set_result(None)

    def until_back(self) -> "asyncio.Future[None] | None":
        """What a judgement waits for; None: it is made at once."""
        return None if self._back is None else asyncio.shield(self._back)

    @property
    def are_away(self) -> bool:
        """Whether nothing may be judged by who consumes."""
        return self._back is not None or self._is_ending()
