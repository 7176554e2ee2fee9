"""The random operations of `test_log` on a disk that is full now and then."""

from __future__ import annotations

import errno
import os

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule
from property.test_log import LIMITS, QUEUES, SIZES, LogMachine
from unit.log_backend.open_store import open_store
from unit.log_backend.watched_disk import WatchedDisk

EXAMPLES = int(os.environ.get("ROUTELOG_TEST_EXAMPLES", "20"))


class NarrowDisk(WatchedDisk):
    """A disk that has room for a number of writes to segments, then for none; None: for all."""

    def __init__(self, writes: int | None) -> None:
        super().__init__()
        self.writes = writes

    def allocate(self, file: int, position: int, size: int) -> None:
        """See `Disk`."""
        if self.writes is not None and self._paths[file].suffix == ".log":
            if self.writes == 0:
                self.truncate(file, position + size // 2)
                raise OSError(errno.ENOSPC, "the simulated disk is full")
            self.writes -= 1
        super().allocate(file, position, size)


class FullLogMachine(LogMachine):
    """A store whose segments find no room now and then, and its model."""

    @initialize()
    def begin(self) -> None:
        """Open a store on an empty directory."""
        self.writes: int | None = None
        super().begin()

    def _open(self) -> None:
        async def opened() -> None:
            self.disk = NarrowDisk(self.writes)
            self.store = open_store(self.data, LIMITS, self.disk)
            self.partitions = [
                self.store.open_partition(model.number, "/", queue, 0, durable=True)
                for queue, model in zip(QUEUES, self.models, strict=True)
            ]
            self.store.recover()
            self.epoch += 1
            self.store.start(self.epoch)

        self._run(opened())

    @rule(writes=st.integers(0, 2), sizes=SIZES, persistent=st.booleans())
    def fill_up(self, writes: int, sizes: list[int], persistent: bool) -> None:
        """The disk is full after some more writes, also after a restart."""
        self.writes = self.disk.writes = writes
        for partition in range(len(QUEUES)):
            self.append(partition, sizes, persistent, False, True, 1)
        self.flush()

    @rule()
    def make_room(self) -> None:
        """There is room again, and the store uses it."""
        self.writes = self.disk.writes = None
        self._run(self._all_durable())  # only what is visible goes to segments
        self._run(self.store.checkpoints.flush())
        assert not self.store.checkpoints.refused
        assert all(not log.unflushed_bytes for log in self.partitions)

    @rule()
    def restart(self) -> None:
        """Stop in order, and start again."""
        self._run(self._all_durable())
        super().restart()

    async def _all_durable(self) -> None:
        # With all its files waiting for checkpoints, the journal makes nothing more durable.
        self.disk.writes = None
        await self.store.checkpoints.take()
        await super()._all_durable()
        self.disk.writes = self.writes


FullLogMachine.TestCase.settings = settings(
    max_examples=EXAMPLES, stateful_step_count=40, deadline=None
)
TestFullLog = FullLogMachine.TestCase
