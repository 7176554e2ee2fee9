"""A broker whose journal is replicated, and committed by nobody as long as a file says so: run as a program.

`ROUTELOG_TEST_FAULTS` names a folder. While it holds a file `alone`, the other nodes of the cluster, of which
there are none, store nothing.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from routelog.__main__ import main
from routelog.broker.process import data_directory
from routelog.log_backend import LogStore
from routelog.log_backend.journal.journal import Journal
from routelog.log_backend.journal.journal_chain import Mark, ShardBlock

ALONE = Path(os.environ["ROUTELOG_TEST_FAULTS"]) / "alone"
LOOK_SECONDS = 0.005
ALL = 2**63 - 1  # no block of a journal has this position


class Owner:
    """What says what is committed."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._durable = 0

    def on_block(self, block: ShardBlock) -> None:
        """See `ReplicaEvents`."""

    def on_durable(self, end: Mark) -> None:
        """See `ReplicaEvents`."""
        self._durable = end.position
        self._commit()

    def on_truncated(self, position: int) -> None:
        """See `ReplicaEvents`."""

    def on_recycled(self, base: Mark) -> None:
        """See `ReplicaEvents`."""

    def _commit(self) -> None:
        if not ALONE.exists():
            self._journal.commit(self._durable)

    def look(self, loop: asyncio.AbstractEventLoop) -> None:
        """Commit what may be, from here on."""
        self._commit()
        loop.call_later(LOOK_SECONDS, self.look, loop)


class LeadingStore(LogStore):
    """A store that leads from its start on, behind what earlier runs left."""

    def recover_metadata(self) -> None:
        """See `LogStore`."""
        self._owner = Owner(self.journal)
        self.journal.replicate(1, self._owner, committed=ALL)
        super().recover_metadata()

    def start(self, leader_epoch: int) -> None:
        """See `LogStore`."""
        self.journal.committed = self.journal.durable
        self.journal.follow()
        self.journal.lead(leader_epoch)
        super().start(leader_epoch)
        self._owner.look(asyncio.get_running_loop())


if __name__ == "__main__":
    data_directory.LogStore = LeadingStore  # type: ignore[attr-defined]
    main()
