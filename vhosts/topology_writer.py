"""Where topology goes to become durable, as the objects of this package see it."""

from collections.abc import Awaitable, Sequence
from typing import Protocol

from log_backend import Change


class TopologyWriter(Protocol):
    """Takes changes of users, permissions, exchanges, queues and bindings.

    A method that changes topology calls `submit` first (it raises at once when nothing can be
    written, and nothing has happened yet), then changes memory without an await in between, so
    that memory and store see all changes in one order, and awaits the result last, so that a
    client hears of success when the change is durable.
    """

    def submit(self, changes: Sequence[Change]) -> Awaitable[int]:
        """Queue one atomic batch.

        Returns:
            Resolves to the revision of the batch when it is durable.

        Raises:
            MetadataUnavailable: nothing more can be written; nothing was queued.
        """
        ...
