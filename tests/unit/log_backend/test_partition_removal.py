from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from log_backend.clock import SystemClock
from log_backend.disk import SystemDisk
from log_backend.metadata import MetadataStore
from log_backend.partition_removal import REMOVED_MAX, PartitionRemoval
from log_backend.segment_removal import SegmentRemoval
from log_backend.segment_writer import SegmentWriter


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
    writer = SegmentWriter(disk, SegmentRemoval(disk, metadata))
    works: list[Callable[[], None]] = []
    removal = PartitionRemoval(data, writer, metadata, clock, works.append)
    for number, directory in enumerate(directories):
        removal.remove_directory(directory, number)
    for work in works:
        work()
    assert clock.left == [REMOVED_MAX + 1, 1]
    assert not list(data.iterdir())
