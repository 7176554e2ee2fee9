"""Where topology goes to become durable, as the objects of this package see it."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from routelog.log_backend import Change


class TopologyWriter(Protocol):
    """Takes changes of users, permissions, exchanges, queues and bindings.

    A method that changes topology calls `submit`, or `check`, before it changes memory, or takes back the
    change when that raises, with no await in between, so that memory and store see all changes in one
    order, and a refusal leaves memory as it was. It awaits the result last, so that a client hears of
    success when the change is durable.
    """

    def check(self) -> None:
        """See whether anything can be written.

        Raises:
            MetadataUnavailable: nothing can; until the next await, `submit` says so exactly when this does.
        """
        ...

    def submit(self, changes: Sequence[Change]) -> asyncio.Future[int]:
        """Add one atomic change to the journal.

        Returns:
            Resolves to the position in the journal when it is durable there.

        Raises:
            MetadataUnavailable: nothing more can be written; nothing was added.
        """
        ...
