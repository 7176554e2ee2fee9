"""Where a log begins is durable before the files below go."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.waiting import until
from unit.log_backend.watched_disk import WatchedDisk

from routelog.log_backend.doors.ballast import CHANGE_BYTES, Ballast
from routelog.log_backend.doors.disk import DiskFull
from routelog.log_backend.metadata.metadata import MetadataStore, MetadataUnavailable
from routelog.log_backend.segments.first_kept import first_kept_change, load_first_kept
from routelog.log_backend.segments.log_directory import segment_path
from routelog.log_backend.segments.segment import Segment
from routelog.log_backend.segments.segment_removal import SegmentRemoval, Unneeded
from routelog.log_backend.upkeep.flusher import Flusher


@pytest.fixture
def metadata(tmp_path: Path) -> Iterator[MetadataStore]:
    store = MetadataStore.open(tmp_path / "metadata")
    yield store
    store.close()


def segment(directory: Path, base: int) -> Segment:
    """A segment with a file."""
    directory.mkdir(exist_ok=True)
    path = segment_path(directory, base)
    path.write_bytes(b"x")
    return Segment(path, base)


class WatchedRemoval:
    """How many syncs the metadata had when each file went."""

    def __init__(self, metadata: MetadataStore) -> None:
        self.syncs = 0
        self._sync = metadata.sync
        metadata.sync = self.sync  # type: ignore[method-assign]

    def sync(self) -> None:
        self.syncs += 1
        self._sync()


def test_it_is_stored_once_for_all_before_a_file_goes(
    tmp_path: Path, metadata: MetadataStore
) -> None:
    watched, disk = WatchedRemoval(metadata), WatchedDisk()
    going, go = disk.hold("remove", "*")
    removal = SegmentRemoval(disk, metadata, Ballast(tmp_path, disk, 0))
    unneeded = [
        Unneeded(tmp_path / name, [segment(tmp_path / name, 3)], first_kept_change(number, 8))
        for number, name in enumerate("abc", 1)
    ]

    async def remove() -> None:
        work = asyncio.to_thread(removal.remove, unneeded)
        task = asyncio.ensure_future(work)
        await until(going.is_set)
        assert watched.syncs == 1
        assert [load_first_kept(metadata, number) for number in (1, 2, 3)] == [8, 8, 8]
        go.set()
        await task

    asyncio.run(remove())
    assert watched.syncs == 1
    assert not [path for name in "abc" for path in (tmp_path / name).iterdir()]


def test_nothing_goes_when_it_cannot_be_stored(tmp_path: Path, metadata: MetadataStore) -> None:
    def fail() -> None:
        raise MetadataUnavailable("made to fail")

    sync, metadata.sync = metadata.sync, fail  # type: ignore[method-assign]
    removal = SegmentRemoval(WatchedDisk(), metadata, Ballast(tmp_path, WatchedDisk(), 0))
    directory = tmp_path / "q"
    removal.remove([Unneeded(directory, [segment(directory, 0)], first_kept_change(1, 5))])
    assert list(directory.iterdir())
    with pytest.raises(MetadataUnavailable):
        removal.finish(directory)
    assert list(directory.iterdir())
    metadata.sync = sync  # type: ignore[method-assign]
    removal.finish(directory)
    assert not list(directory.iterdir())


def test_what_finds_no_room_to_be_stored_waits_for_it(
    tmp_path: Path, metadata: MetadataStore, caplog: pytest.LogCaptureFixture
) -> None:
    disk = WatchedDisk()
    removal = SegmentRemoval(disk, metadata, Ballast(tmp_path, disk, 0))
    disk.capacity = CHANGE_BYTES - 1
    for number, name in enumerate("ab", 1):
        directory = tmp_path / name
        removal.remove([Unneeded(directory, [segment(directory, 0)], first_kept_change(number, 5))])
        with pytest.raises(DiskFull):
            removal.finish(directory)
    assert removal.waits_for_room
    assert metadata.revision == 0, "nothing was written"
    assert len(list(tmp_path.glob("?/*.log"))) == 2
    assert len(caplog.messages) == 1
    disk.capacity = CHANGE_BYTES
    removal.remove([])
    assert not removal.waits_for_room
    assert [load_first_kept(metadata, number) for number in (1, 2)] == [5, 5]
    assert not list(tmp_path.glob("?/*.log"))


def test_what_goes_as_a_whole_is_not_left(tmp_path: Path, metadata: MetadataStore) -> None:
    disk = WatchedDisk()
    removal = SegmentRemoval(disk, metadata, Ballast(tmp_path, disk, 0))
    directory = tmp_path / "q"
    disk.fail("remove", "*.log")
    removal.remove([Unneeded(directory, [segment(directory, 0)], None)])
    removal.forget(directory)
    removal.finish(directory)
    assert list(directory.iterdir())


def test_where_a_forgotten_log_begins_is_not_stored_any_more(
    tmp_path: Path, metadata: MetadataStore
) -> None:
    disk, directory = WatchedDisk(), tmp_path / "q"
    removal = SegmentRemoval(disk, metadata, Ballast(tmp_path, disk, 0))
    disk.capacity = CHANGE_BYTES - 1
    removal.remove([Unneeded(directory, [segment(directory, 0)], first_kept_change(1, 5))])
    removal.forget(directory)
    disk.capacity = CHANGE_BYTES
    removal.remove([Unneeded(directory, [segment(directory, 0)], None)])
    assert not list(directory.iterdir())
    assert metadata.revision == 0, "the metadata of a partition that goes as a whole is gone"


async def test_removals_of_a_turn_come_before_what_is_submitted_next(
    tmp_path: Path, metadata: MetadataStore
) -> None:
    disk = WatchedDisk()
    flusher = Flusher(asyncio.get_running_loop(), disk, metadata, Ballast(tmp_path, disk, 0))
    unneeded = Unneeded(tmp_path / "q", [segment(tmp_path / "q", 0)], None)
    flusher._unneeded.append(unneeded)
    removed = await asyncio.get_running_loop().run_in_executor(
        flusher, lambda: disk.count("remove", "*")
    )
    assert removed
    flusher.shutdown()
