"""The cluster that a broker belongs to, as the broker sees it."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from routelog.broker.listeners.certificate_renewal import Certificates
from routelog.broker.passing.leaders import Leaders, TakeConnection
from routelog.log_backend import LogStore, PartitionRecords


class Mirror(Leaders, Protocol):
    """A node of a cluster: it follows with the broker's store, until it is to lead.

    Attributes:
        on_serve: set by the broker; called with the epoch in which this node leads from now on.
        on_stop_serving: the same; called with the reason, in words, when it takes no clients for a while or for
            good.
        ended: resolves with the reason why the process has to end and start again.
    """

    on_serve: Callable[[int], None]
    on_stop_serving: Callable[[str], None]
    ended: asyncio.Future[str]

    @property
    def certificates(self) -> Certificates | None:
        """Of connections with other nodes; None: these have no TLS."""

    async def start(self, logs: LogStore, records: PartitionRecords) -> bool:
        """Follow, with a store that is open and has recovered nothing.

        Args:
            records: of the store's metadata.

        Returns:
            False: nothing was begun, the process starts again first, as `ended` says.
        """
        ...

    def take_clients(self, take: TakeConnection | None) -> None:
        """Take the clients that other nodes pass on; None: close them."""

    def end(self, reason: str) -> None:
        """Resolve `ended`."""

    async def drain(self) -> None:
        """Have another node lead, as this one is about to stop; returns when it does, or none can."""

    async def aclose(self) -> None:
        """End: other nodes hear of it at once."""

    async def part(self, *, starts_again: bool) -> None:
        """What outlives the node ends, or goes on for the program that takes the place of this one."""
