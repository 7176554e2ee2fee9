"""A repair that dies at any of its changes loses no more than one that goes through."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.sampling import sampled
from unit.log_backend.partitions.test_quarantine import segments
from unit.log_backend.tools.test_log_repair import (
    DAMAGES,
    damaged_journal,
    lost_offsets,
    remaining,
    repair,
)

from routelog.log_backend.doors.disk import Buffer, SystemDisk

pytestmark = pytest.mark.crash


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory that is not there yet."""
    return tmp_path / "data"


class StoppingDisk(SystemDisk):
    """Dies at the n-th change."""

    def __init__(self, changes_left: int) -> None:
        self.changes_left = changes_left

    def _change(self) -> None:
        self.changes_left -= 1
        if self.changes_left < 0:
            raise KeyboardInterrupt

    def write(self, file: int, position: int, buffers: Sequence[Buffer]) -> int:
        """See `Disk`."""
        self._change()
        return super().write(file, position, buffers)

    def truncate(self, file: int, size: int) -> None:
        """See `Disk`."""
        self._change()
        super().truncate(file, size)

    def rename(self, source: Path, target: Path) -> None:
        """See `Disk`."""
        self._change()
        super().rename(source, target)

    def remove(self, path: Path) -> None:
        """See `Disk`."""
        self._change()
        super().remove(path)


@pytest.mark.parametrize(
    "damage", sampled(["header", "cut", "empty", "swapped", "damaged owner"], 3)
)
async def test_an_interrupted_repair_loses_no_more(data: Path, damage: str) -> None:
    path = (await segments(data))[2]
    DAMAGES[damage][0](path)
    original = shutil.copytree(data, data.parent / "original")
    expected = set(range(48)) - lost_offsets(repair(data))
    for changes in range(200):
        copy = shutil.copytree(original, data.parent / f"copy-{changes}")
        try:
            repair(copy, StoppingDisk(changes))
        except KeyboardInterrupt:
            repair(copy)
            assert await remaining(copy) == expected, changes
            shutil.rmtree(copy)
        else:
            assert changes > 3
            return
    raise AssertionError("the repair has no end")


async def test_an_interrupted_repair_of_the_journal_loses_no_more(data: Path) -> None:
    await damaged_journal(data)
    for changes in range(50):
        copy = shutil.copytree(data, data.parent / f"copy-{changes}")
        try:
            repair(copy, StoppingDisk(changes))
        except KeyboardInterrupt:
            repair(copy)
            assert await remaining(copy) == set(range(48)) - {12, 13, 14, 15}, changes
            shutil.rmtree(copy)
        else:
            return
    raise AssertionError("the repair has no end")
