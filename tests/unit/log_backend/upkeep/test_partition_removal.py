from collections.abc import Callable, Iterator
from errno import EIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from routelog.log_backend.doors.ballast import Ballast
from routelog.log_backend.doors.clock import SystemClock
from routelog.log_backend.doors.disk import SystemDisk
from routelog.log_backend.metadata.metadata import MetadataStore
from routelog.log_backend.partitions.partition_log import PartitionLog
from routelog.log_backend.segments.segment_removal import SegmentRemoval
from routelog.log_backend.segments.segment_writer import SegmentWriter
from routelog.log_backend.upkeep.partition_removal import REMOVED_MAX, TOMBSTONES, PartitionRemoval


class RestingClock(SystemClock):
    """Notes what of the directories is left whenever the thread rests."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self.left: list[int] = []

    def pause(self, seconds: float) -> None:
        """See `Clock`."""
        self.left.append(len(list(self._data.iterdir())))


@pytest.fixture
def metadata(tmp_path: Path) -> Iterator[MetadataStore]:
    store = MetadataStore.open(tmp_path / "metadata")
    yield store
    store.close()


def test_the_event_loop_gets_its_turn_between_removals(
    tmp_path: Path, metadata: MetadataStore
) -> None:
    data = tmp_path / "data"
    directories = [data / str(number) for number in range(2 * REMOVED_MAX + 1)]
    for directory in directories:
        directory.mkdir(parents=True)
    disk, clock = SystemDisk(), RestingClock(data)
    writer = SegmentWriter(disk, SegmentRemoval(disk, metadata, Ballast(tmp_path, disk, 0)))
    works: list[Callable[[], None]] = []
    removal = PartitionRemoval(data, writer, metadata, clock, works.append)
    for number, directory in enumerate(directories):
        removal.remove_directory(directory, number)
    for work in works:
        work()
    assert clock.left == [REMOVED_MAX + 1, 1]
    assert not list(data.iterdir())


class StubbornDisk(SystemDisk):
    """Some directories cannot be removed."""

    def __init__(self, stubborn: Path) -> None:
        self._stubborn = stubborn

    def remove_tree(self, path: Path) -> None:
        """See `Disk`."""
        if path == self._stubborn:
            raise OSError(EIO, "stubborn")
        super().remove_tree(path)


async def test_one_directory_that_cannot_be_removed_keeps_no_other(
    tmp_path: Path, metadata: MetadataStore
) -> None:
    data = tmp_path / "data"
    disk = StubbornDisk(data / "logs" / "1")
    writer = SegmentWriter(disk, SegmentRemoval(disk, metadata, Ballast(tmp_path, disk, 0)))
    works: list[Callable[[], None]] = []
    removal = PartitionRemoval(data, writer, metadata, SystemClock(), works.append)
    closed = [closed_partition(number, data / "logs" / str(number)) for number in range(3)]
    metadata.apply([removal.change(partition) for partition in closed])
    removal.remove(closed)
    (work,) = works
    with pytest.raises(OSError, match="stubborn"):
        work()
    assert [each.name for each in (data / "logs").iterdir()] == ["1"]
    assert [key for key, _ in metadata.scan(TOMBSTONES)] == [TOMBSTONES + b"logs/1"]


def closed_partition(number: int, directory: Path) -> PartitionLog:
    directory.mkdir(parents=True)
    owner: Any = SimpleNamespace(intake=None, loaded_pieces=None)
    return PartitionLog(owner, number, directory, durable=True)
