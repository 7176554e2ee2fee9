"""A log that moves to a bucket while it is read, restarts included: readers get each message once, in order."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from unit.log_backend.partitions.remote_world import COPIED, LET_GO, FickleBucket, World, next_batch

from routelog.log_backend.journal.journal_block import Reason
from routelog.log_backend.partitions import remote_pieces
from routelog.log_backend.upkeep import remote_storage

EXAMPLES = int(os.environ.get("ROUTELOG_TEST_EXAMPLES", "15"))
GROUP = 1
Result = TypeVar("Result")


class RemoteLogMachine(RuleBasedStateMachine):
    """A store with a bucket, a group, and plain readers, who begin anywhere."""

    @initialize(compression=st.sampled_from(["none", "zstd"]))
    def begin(self, compression: str) -> None:
        """Begin with an empty log."""
        self.loop = asyncio.new_event_loop()
        self.root = Path(tempfile.mkdtemp(prefix="remote-"))
        self.compression = compression
        self.bodies: list[bytes] = []
        self.read = 0  # by the group, and settled
        self.world = World(self.root / "data", FickleBucket(self.root / "bucket"))
        self._await(self._start())

    def teardown(self) -> None:
        """Close what is open."""
        if hasattr(self, "world"):
            self._await(self.world.stop())
            self.loop.close()
            shutil.rmtree(self.root)

    def _await(self, work: Coroutine[object, object, Result]) -> Result:
        return self.loop.run_until_complete(asyncio.wait_for(work, 120))

    async def _start(self) -> None:
        self.world.start(
            retention=LET_GO,
            compression=self.compression,
            cursors={GROUP: 0},
            memory_remote_bytes=256 * 1024,
        )
        self.world.begin()

    @rule(sizes=st.lists(st.integers(0, 30_000), min_size=1, max_size=12))
    def publish(self, sizes: list[int]) -> None:
        """Publish some messages; a stretch that compresses, and one that does not."""
        first = len(self.bodies)
        more = [
            b"%d " % (first + at) + os.urandom(size // 2) + bytes(size // 2)
            for at, size in enumerate(sizes)
        ]
        self.bodies += more
        self._await(self.world.publish(more))

    @rule(kept=st.integers(0, 3))
    def let_go(self, kept: int) -> None:
        """Have all but some segments in the bucket alone."""
        if self.world.log.segments:
            self._await(self.world.copied())
            self.world.log.retention = replace(COPIED, local_bytes_max=kept * 65_536)
            self.world.log.expire()

    @rule(count=st.integers(1, 40))
    def read_in_group(self, count: int) -> None:
        """Read on with the group."""
        log, cursor = self.world.log, self.world.log.open_cursor(GROUP)
        end = min(self.read + count, len(self.bodies))
        while self.read < end:
            behind, bodies = self._await(next_batch(log, self.read))
            assert bodies == self.bodies[self.read : behind]
            cursor.settle(self.read, behind, Reason.ACKED)
            self.read = behind
        log.release()

    @rule(place=st.floats(0, 1), count=st.integers(1, 10))
    def read_anywhere(self, place: float, count: int) -> None:
        """Read some batches with another reader."""
        offset = int(place * len(self.bodies))
        for _ in range(count):
            if offset < len(self.bodies):
                behind, bodies = self._await(next_batch(self.world.log, offset))
                assert bodies == self.bodies[offset:behind]
                offset = behind

    @rule()
    def restart(self) -> None:
        """Stop, and start again; nobody has listed the bucket then."""
        self._await(self.world.stop())
        self._await(self._start())
        assert self.world.log.open_cursor(GROUP).low_water == self.read


RemoteLogMachine.TestCase.settings = settings(
    max_examples=EXAMPLES, stateful_step_count=15, deadline=None
)


class TestRemoteLog(RemoteLogMachine.TestCase):  # type: ignore[misc, valid-type]
    """Requests are small, so that a segment takes several."""

    def setUp(self) -> None:
        self._before = (
            remote_pieces.REQUEST_BYTES,
            remote_pieces.REQUEST_BYTES_MIN,
            remote_storage.LOOK_SECONDS,
        )
        remote_pieces.REQUEST_BYTES, remote_pieces.REQUEST_BYTES_MIN = 32_768, 8_192
        remote_storage.LOOK_SECONDS = 0.005

    def tearDown(self) -> None:
        (
            remote_pieces.REQUEST_BYTES,
            remote_pieces.REQUEST_BYTES_MIN,
            remote_storage.LOOK_SECONDS,
        ) = self._before
