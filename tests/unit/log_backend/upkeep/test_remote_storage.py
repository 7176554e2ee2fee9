"""Remote storage of one leader and the next: none undoes what a later one does, and no record goes."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from support.waiting import until
from unit.log_backend.log_records import records
from unit.log_backend.open_store import SMALL, crash, flushed, open_store, start_store
from unit.log_backend.test_metadata_recovery import without_metadata

from routelog.log_backend import Change
from routelog.log_backend.doors.disk import Buffer, SystemDisk
from routelog.log_backend.log_store import LogStore
from routelog.log_backend.partitions.partition_log import PartitionLog
from routelog.log_backend.records.durability import Durability
from routelog.log_backend.remote.bucket import BucketFailed
from routelog.log_backend.remote.folder_bucket import FolderBucket, FolderObject
from routelog.log_backend.remote.remote_segment import FORMAT, OWNER, RemoteSegment
from routelog.log_backend.segments.retention import Retention
from routelog.log_backend.upkeep import remote_storage
from routelog.log_backend.upkeep.remote_storage import (
    EpochBeginning,
    RemoteStorage,
    first_unchecked,
)
from routelog.spark_bridge.logs.object_logs import ObjectLogs
from routelog.spark_bridge.logs.readable_logs import LogPartition, OffsetRange

COPIED = Retention(is_stream=True, is_remote=True)
LET_GO = replace(COPIED, local_bytes_max=0)
BODIES = [b"%05d" % number * 1_000 for number in range(100)]  # 8 segments
FOLDER = f"%2F/q-0/{1:020d}"
NEXT_NUMBER = 2
OWN_NAME = b"remote-owner"
UNCHECKED = b"remote-unchecked"


class HeldBucket(FolderBucket):
    """A bucket whose answers to one leader take long: for some names, until they are let go.

    Attributes:
        held: part of the names of objects whose writing waits.
        reached: one waits.
    """

    def __init__(self, root: Path) -> None:
        super().__init__(SystemDisk(), root)
        self.held = "nothing"
        self.reached = threading.Event()
        self.let_go = threading.Event()

    def write(self, name: str, pieces: Iterable[Buffer], size: int) -> None:
        """See `Bucket`."""
        if self.held in name:
            self.reached.set()
            self.let_go.wait(60)
        super().write(name, pieces, size)


class Share(FolderBucket):
    """A bucket on a share: without it, there is the empty folder that it is mounted on.

    Attributes:
        unmounted_at: the call that finds it unmounted: `write`, `objects`, or `remove_folder`.
        may_write: to the folder that it is mounted on.
    """

    def __init__(self, root: Path) -> None:
        super().__init__(SystemDisk(), root)
        self._away = root.with_name("share")
        self.unmounted_at = ""
        self.may_write = True

    def unmount(self) -> None:
        """Take it away."""
        self._root.rename(self._away)
        self._root.mkdir()

    def mount(self) -> None:
        """Bring it back."""
        shutil.rmtree(self._root)
        self._away.rename(self._root)

    def write(self, name: str, pieces: Iterable[Buffer], size: int) -> None:
        """See `Bucket`."""
        self._reach("write")
        if self._away.exists() and not self.may_write:
            raise BucketFailed("Permission denied")
        super().write(name, pieces, size)

    def objects(self, folder: str) -> Mapping[str, int]:
        """See `Bucket`."""
        self._reach("objects")
        return super().objects(folder)

    def remove_folder(self, folder: str) -> None:
        """See `Bucket`."""
        self._reach("remove_folder")
        super().remove_folder(folder)

    def _reach(self, call: str) -> None:
        if call == self.unmounted_at:
            self.unmounted_at = ""
            self.unmount()


class Leader:
    """A node that leads, with the log of a stream, and remote storage."""

    def __init__(
        self, data: Path, bucket: FolderBucket, epoch: int, segment_bytes: int, level: Durability
    ) -> None:
        options = replace(SMALL, segment_bytes=segment_bytes, retention_seconds=3600)
        self.store: LogStore
        self.log: PartitionLog
        self.store, (self.log,) = start_store(
            data, options=options, epoch=epoch, retention=COPIED, durabilities=[level]
        )
        self.bucket = bucket
        self.is_over = False
        self._epoch = epoch

    async def publish(self, bodies: list[bytes]) -> Leader:
        """Have some records in segments."""
        for body in bodies:
            self.log.append(records([body]), waited=True)
        await flushed(self.store)
        return self

    @property
    def segments(self) -> list[RemoteSegment]:
        """What it knows of the bucket."""
        assert self.log.remote is not None
        return self.log.remote.segments

    def begin(self, next_number: int = NEXT_NUMBER) -> RemoteStorage:
        """Begin to copy."""
        store = self.store
        self.remote = RemoteStorage(
            store.shard,
            self.bucket,
            EpochBeginning.now(self._epoch, store.partitions, next_number),
            reads=store.remote_reads,
            address="test",
            bytes_per_second=0,
        )
        self.remote.start(asyncio.get_running_loop())
        return self.remote

    async def stop(self) -> None:
        """End the run."""
        self.is_over = True
        if hasattr(self, "remote"):
            await self.remote.aclose()
        if not self.log.closed:
            await self.store.aclose()

    async def copied(self) -> None:
        """Wait until all sealed segments are in the bucket."""
        end = self.log.segments[-1].base_offset
        await until(lambda: self.log.remote is not None and self.log.remote.end >= end)


Lead = Callable[..., Leader]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "bucket"


@pytest.fixture
async def lead(tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Lead]:
    monkeypatch.setattr(remote_storage, "LOOK_SECONDS", 0.01)
    leaders: list[Leader] = []

    def lead(
        name: str,
        epoch: int,
        segment_bytes: int = 64 * 1024,
        bucket: FolderBucket | None = None,
        level: Durability = Durability.DISK,
    ) -> Leader:
        there = bucket or FolderBucket(SystemDisk(), place)
        leaders.append(Leader(tmp_path / name, there, epoch, segment_bytes, level))
        return leaders[-1]

    yield lead
    for each in leaders:
        if isinstance(each.bucket, HeldBucket):
            each.bucket.let_go.set()
        if not each.is_over:
            await each.stop()


def same_owner(*leaders: Leader) -> None:
    """They are nodes of one cluster."""
    for each in leaders:
        each.store.metadata.apply([Change(OWN_NAME, b"orders")])


def owner(leader: Leader) -> bytes:
    entry = leader.store.metadata.get(OWN_NAME)
    assert entry is not None
    return entry.value


def read(place: Path) -> list[bytes]:
    """All that the bucket has, read as Spark does."""
    logs = ObjectLogs(f"file://{place}")
    partition = LogPartition("/", "q", 0)
    extents = logs.extents(partition)
    wanted = OffsetRange(partition, extents[0].start, extents[-1].end, 0)
    return [
        bytes(batch.records.body(offset - batch.base_offset))
        for extent in extents
        for batch in logs.read(replace(wanted, start=extent.start, end=extent.end))
        for offset in range(max(batch.base_offset, extent.start), min(batch.end_offset, extent.end))
    ]


def names(place: Path) -> set[str]:
    return {path.name for path in (place / FOLDER).iterdir()}


def is_empty(place: Path) -> bool:
    return not any(place.iterdir())


async def test_the_next_leader_adds_what_is_missing_though_its_segments_begin_elsewhere(
    lead: Lead, place: Path
) -> None:
    first = await lead("a", 1).publish(BODIES[:60])
    second = await lead("b", 2, segment_bytes=50_000).publish(BODIES[:60])
    same_owner(first, second)
    first.begin()
    await first.copied()
    await first.remote.aclose()
    before, theirs = names(place), first.segments[-1].next_base
    await second.publish(BODIES[60:])
    second.begin()
    await second.copied()
    assert before < names(place), "what the first one copied counts"
    end = second.log.segments[-1].base_offset
    assert read(place) == BODIES[:end]
    added = [each for each in second.segments if each.epoch == 2]
    assert added[0].base_offset < theirs == added[0].first_offset
    second.log.retention = LET_GO
    second.log.expire()
    assert second.log.local_first == end


async def test_what_a_killed_leader_left_half_done_is_copied_again(lead: Lead, place: Path) -> None:
    bucket = HeldBucket(place)
    first, second = await lead("a", 1, bucket=bucket).publish(BODIES), lead("b", 2)
    await second.publish(BODIES)
    same_owner(first, second)
    bucket.held = ".segment"  # between content and index
    first.begin()
    await until(bucket.reached.is_set)
    (half,) = names(place)
    second.begin()
    await second.copied()
    assert half not in names(place)
    assert {each.epoch for each in second.segments} == {2}
    second.log.retention = LET_GO
    second.log.expire()
    before = names(place)
    bucket.let_go.set()  # the late index of a content that is gone
    await until(lambda: names(place) != before)
    first.remote.stop()
    assert read(place) == BODIES[: second.log.local_first]


async def test_an_upload_that_arrives_when_the_next_leader_has_let_go_changes_nothing(
    lead: Lead, place: Path
) -> None:
    bucket = HeldBucket(place)
    first, second = await lead("a", 1, bucket=bucket).publish(BODIES), lead("b", 2, 50_000)
    await second.publish(BODIES)
    same_owner(first, second)
    bucket.held = "-1-3.log"  # the third copy's content
    first.begin()
    await until(bucket.reached.is_set)
    second.begin()
    await second.copied()
    second.log.retention = LET_GO
    second.log.expire()
    end = second.log.local_first
    assert read(place) == BODIES[:end]
    bucket.let_go.set()
    await until(lambda: any("-1-3-" in name for name in names(place)))
    await until(lambda: first.remote.failure)  # it finds that it does not lead
    assert read(place) == BODIES[:end]
    third = await lead("c", 3).publish(BODIES)
    same_owner(third)
    third.begin()
    await third.copied()
    counting = {n for each in third.segments for n in (each.index_name, each.content_name)}
    assert names(place) == counting, "what adds nothing is gone"
    assert read(place) == BODIES[: third.segments[-1].next_base]


async def test_nothing_leaves_the_disk_that_the_bucket_lost_meanwhile(
    lead: Lead, place: Path
) -> None:
    class Losing(FolderBucket):
        def write(self, name: str, pieces: Iterable[Buffer], size: int) -> None:
            super().write(name, pieces, size)
            if name.endswith(".segment"):
                self.remove(name)

    leader = await lead("a", 1, bucket=Losing(SystemDisk(), place)).publish(BODIES)
    leader.log.retention = LET_GO
    leader.begin()
    await until(lambda: leader.log.remote is not None and leader.remote._copier._copies > 3)
    assert leader.log.local_first == 0


def write_segment(bucket: FolderBucket, queue: str, number: int, epoch: int) -> None:
    """Write a segment of a partition that no leader here knows."""
    stem = f"{queue}/{number:020d}/{0:020d}-{epoch}-1"
    bucket.write(f"{stem}.log", [b"x"], 1)
    bucket.write(f"{stem}-{99:020d}-{0:020d}.log.segment", [b"x"], 1)


async def test_a_leader_removes_no_folder_of_a_queue_that_was_declared_later(
    lead: Lead, place: Path
) -> None:
    bucket = FolderBucket(SystemDisk(), place)
    for number in (0, NEXT_NUMBER, NEXT_NUMBER + 5):
        bucket.write(f"%2F/other-0/{number:020d}/x.log", [b"x"], 1)
    bucket.write("%2F/other-0/notes/x.log", [b"x"], 1)
    write_segment(bucket, "%2F/other-0", 0, epoch=1)  # of a queue that was deleted
    leader = await lead("a", 2).publish(BODIES)
    leader.begin()
    await leader.copied()
    kept = [f"{NEXT_NUMBER:020d}", f"{NEXT_NUMBER + 5:020d}", "notes"]
    assert bucket.folders("%2F/other-0") == kept


@pytest.mark.parametrize("is_later", [False, True])
async def test_a_log_that_went_on_elsewhere_is_left_alone(
    lead: Lead, place: Path, is_later: bool
) -> None:
    # As after a restore: what was published behind the backup is in the bucket only.
    went_on = await lead("a", 4 if is_later else 1).publish(BODIES)
    restored = await lead("b", 3).publish(BODIES if is_later else BODIES[:30])
    same_owner(went_on, restored)
    went_on.begin()
    await went_on.copied()
    await went_on.remote.aclose()
    before = names(place)
    restored.log.retention = LET_GO
    remote = restored.begin()
    await restored.publish(BODIES[:70])
    await until(lambda: owner(restored) != b"orders")
    assert "is of a log that went on elsewhere" in remote.failure
    assert names(place) == before
    assert restored.log.local_first == 0
    await remote.aclose()
    remote = restored.begin()
    await until(lambda: remote.failure)
    assert remote.failure.startswith("it belongs to another broker")


class AwayBucket(FolderBucket):
    """A bucket that does not answer."""

    def open(self, name: str) -> FolderObject:
        """See `Bucket`."""
        raise BucketFailed("no route to the bucket")


async def grown_without_its_bucket(leader: Leader, bodies: list[bytes], *, is_set: bool) -> None:
    """Have a run that sees nothing of the bucket: it is away, or the broker has none that is set."""
    if is_set:
        leader.bucket = AwayBucket(SystemDisk(), Path("nowhere"))
        leader.begin()
        await until(lambda: leader.remote.failure)
    else:
        shard = leader.store.shard
        first_unchecked(shard, EpochBeginning.now(leader._epoch, shard.partitions, NEXT_NUMBER))
    await leader.publish(bodies)
    await leader.stop()


@pytest.mark.parametrize("is_set", [True, False])
@pytest.mark.parametrize("epoch", [2, 3])
async def test_a_log_that_grew_before_it_saw_what_went_on_elsewhere_leaves_it_alone(
    lead: Lead, place: Path, epoch: int, is_set: bool
) -> None:
    went_on = await lead("a", 2).publish(BODIES[:60])
    backup = await lead("b", 1).publish(BODIES[:5])
    same_owner(went_on, backup)
    went_on.begin()
    await went_on.copied()
    await went_on.stop()
    await backup.stop()
    before = names(place)
    own = [b"%05d" % -number * 1_000 for number in range(5, 80)]
    await grown_without_its_bucket(lead("b", epoch), own[:30], is_set=is_set)
    await grown_without_its_bucket(lead("b", epoch + 1), own[30:], is_set=is_set)
    restored = lead("b", epoch + 2)
    restored.log.retention = LET_GO
    remote = restored.begin()
    await until(lambda: owner(restored) != b"orders" or restored.log.local_first)
    assert "is of a log that went on elsewhere" in remote.failure
    assert names(place) == before
    assert restored.log.local_first == 0


@pytest.mark.parametrize("queue", ["%2F/late-0", "%2F/q-0"])
@pytest.mark.parametrize("reaches", [True, False])
@pytest.mark.parametrize("epoch", [1, 3, 7])
async def test_a_restored_broker_leaves_queues_alone_that_were_declared_behind_the_backup(
    lead: Lead, place: Path, queue: str, reaches: bool, epoch: int
) -> None:
    bucket = FolderBucket(SystemDisk(), place)
    later = NEXT_NUMBER + 3
    write_segment(bucket, queue, later, epoch)
    restored = await lead("a", 3).publish(BODIES[:5])
    same_owner(restored)
    bucket.write(OWNER, [FORMAT, b"orders"], len(FORMAT) + 6)
    if not reaches:
        await grown_without_its_bucket(restored, [], is_set=True)
        restored = lead("a", 4)
    # Queues were declared meanwhile: in the first run no number is as high
    remote = restored.begin(NEXT_NUMBER if reaches else later + 1)
    await until(lambda: remote.failure or restored.log.remote is not None)  # it begins to copy
    assert "is of a log that went on elsewhere" in remote.failure
    assert len(bucket.objects(f"{queue}/{later:020d}")) == 2


async def test_what_grew_while_the_bucket_was_away_is_copied_then(lead: Lead, place: Path) -> None:
    leader = await lead("a", 1).publish(BODIES[:40])
    leader.begin()
    await leader.copied()
    await leader.stop()
    await grown_without_its_bucket(lead("a", 2), BODIES[40:60], is_set=True)
    await grown_without_its_bucket(lead("a", 3), BODIES[60:80], is_set=False)
    for epoch in (4, 5):
        leader = lead("a", epoch)
        assert (leader.store.metadata.get(UNCHECKED) is not None) == (epoch == 4)
        leader.begin()
        await leader.publish(BODIES[80:90] if epoch == 4 else BODIES[90:])
        await leader.copied()
        assert leader.segments[-1].epoch == epoch
        assert leader.store.metadata.get(UNCHECKED) is None, "it has checked before it copied"
        await leader.stop()
    assert read(place) == BODIES[: leader.segments[-1].next_base]


async def test_copies_of_a_log_that_keeps_none_any_more_are_known(lead: Lead, place: Path) -> None:
    first = await lead("a", 1).publish(BODIES)
    first.begin()
    await first.copied()
    await first.stop()
    second = lead("a", 2)
    second.log.retain(None)  # `x-retention` was taken from the queue
    remote = second.begin()
    await until(lambda: second.log.remote is not None or remote.failure)
    assert remote.failure == ""
    assert second.segments == first.segments


async def test_of_two_brokers_that_begin_at_once_one_has_the_bucket(
    lead: Lead, place: Path
) -> None:
    class Contested(FolderBucket):
        def write(self, name: str, pieces: Iterable[Buffer], size: int) -> None:
            super().write(name, pieces, size)
            if name == OWNER:  # another broker had found none, either
                super().write(name, [b"routelog remote storage 2: another"], 34)

    leader = await lead("a", 1, bucket=Contested(SystemDisk(), place)).publish(BODIES)
    remote = leader.begin()
    await until(lambda: remote.failure)
    assert remote.failure.startswith("it belongs to another broker")
    assert leader.bucket.folders("") == []
    assert leader.store.metadata.get(b"remote-address") is None


async def test_a_bucket_of_an_unknown_format_is_not_used(lead: Lead, place: Path) -> None:
    FolderBucket(SystemDisk(), place).write(OWNER, [b"a name of format 1"], 18)
    leader = await lead("a", 1).publish(BODIES)
    remote = leader.begin()
    await until(lambda: remote.failure)
    assert remote.failure == "it is of an unknown format"
    assert list(leader.bucket.objects("")) == [OWNER]
    assert leader.bucket.folders("") == []


@pytest.mark.parametrize("may_write", [False, True])
@pytest.mark.parametrize("at", ["", "write", "objects"])
async def test_a_share_that_is_not_mounted_any_more_is_no_empty_bucket(
    lead: Lead, place: Path, at: str, may_write: bool
) -> None:
    share = Share(place)
    leader = await lead("a", 1, bucket=share).publish(BODIES[:50])
    leader.log.retention = LET_GO
    remote = leader.begin()
    await leader.copied()
    await until(lambda: len(leader.log.segments) == 1)
    before, end = leader.segments, leader.log.local_first
    share.unmounted_at, share.may_write = at, may_write
    if not at:
        share.unmount()
    await leader.publish(BODIES[50:])
    await until(lambda: leader.segments != before or OWNER in remote.failure)
    assert (leader.segments, leader.log.local_first) == (before, end)
    assert is_empty(place) or at == "write", "what comes is not written below the share"
    share.mount()
    await leader.copied()
    await until(lambda: len(leader.log.segments) == 1)
    assert read(place) == BODIES[: leader.log.local_first]


async def test_another_bucket_in_the_place_of_this_one_is_not_used(lead: Lead, place: Path) -> None:
    leader = await lead("a", 1).publish(BODIES[:50])
    remote = leader.begin()
    await leader.copied()
    before = names(place)
    (place / OWNER).write_bytes(b"routelog remote storage 2: another")
    await leader.publish(BODIES[50:])
    await until(lambda: remote.failure or leader.segments[-1].next_base > 50)
    assert f"{OWNER} is another one" in remote.failure
    assert names(place) == before


async def test_a_folder_is_removed_when_the_share_is_mounted_again(lead: Lead, place: Path) -> None:
    share = Share(place)
    leader = await lead("a", 1, bucket=share).publish(BODIES)
    leader.begin()
    await leader.copied()
    share.unmounted_at = "remove_folder"
    leader.remote.removed(leader.log)
    leader.log.retention = None  # nothing else is asked of the bucket
    await until(lambda: share.unmounted_at == "")
    await until(lambda: leader.remote.failure or not leader.remote._deleted_folders)
    share.mount()
    await until(lambda: not leader.remote._deleted_folders)
    assert not (place / FOLDER).exists()


async def test_what_retention_ends_is_removed_behind_a_commit_only(lead: Lead, place: Path) -> None:
    leader = await lead("a", 1).publish(BODIES)
    leader.begin()
    await leader.copied()
    asked = asyncio.Event()
    answer = False

    async def told() -> bool:
        asked.set()
        return answer

    leader.store.journal.told = told  # type: ignore[method-assign]
    before = names(place)
    leader.log.retention = replace(COPIED, bytes_max=200_000)
    await until(asked.is_set)
    asked.clear()
    await until(asked.is_set)
    assert names(place) == before
    answer = True
    await until(lambda: names(place) < before)


async def test_the_segment_before_one_that_a_power_cut_may_take_is_not_copied(
    lead: Lead, place: Path
) -> None:
    for level, left in ((Durability.DISK, 1), (Durability.OS, 2), (Durability.MEMORY, 2)):
        leader = await lead(level.value, 1, level=level).publish(BODIES)
        leader.bucket = FolderBucket(SystemDisk(), place / level.value)
        leader.begin()
        end = leader.log.segments[-left].base_offset
        await until(lambda: leader.log.remote is not None and leader.log.remote.end >= end)  # noqa: B023
        await leader.remote._round()
        assert leader.segments[-1].next_base == end


async def test_the_name_of_the_owner_is_in_the_journal(
    lead: Lead, place: Path, tmp_path: Path
) -> None:
    leader = await lead("a", 1).publish(BODIES)
    leader.begin()
    await leader.copied()
    await leader.remote.aclose()
    own = leader.store.metadata.get(OWN_NAME)
    with closing(leader.bucket.open(OWNER)) as found:
        assert own is not None
        assert bytes(found.read(0, found.size)).endswith(own.value)
    left = await crash(leader.store, tmp_path / "a")
    without_metadata(left)
    again = open_store(left)
    again.recover_metadata()
    found_again = again.metadata.get(OWN_NAME)
    assert found_again is not None
    assert found_again.value == own.value
    await again.aclose()
