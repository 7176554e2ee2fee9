"""A journal of a replica: it stores, cuts, leads, reads, and promises nothing before it is told."""

import asyncio
import errno
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from crash.disks.powered_disk import DiskStill, PoweredDisk
from support.sampling import examples
from support.waiting import until
from unit.log_backend.journal_owner import entry
from unit.log_backend.journal_replica import SHARD, Replica, history, marks_of
from unit.log_backend.watched_disk import WatchedDisk

from routelog.log_backend.journal.journal import Journal
from routelog.log_backend.journal.journal_chain import START, Mark, ShardBlock

SIZE = 9_000  # of a message: a file holds 5 such blocks


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    path = tmp_path / "journal"
    path.mkdir()
    return path


@pytest.fixture
async def replica(directory: Path) -> AsyncIterator[Replica]:
    owner = Replica(directory, WatchedDisk()).open()
    yield owner
    await owner.close()


async def opened(directory: Path, committed: int = 0) -> Replica:
    """What a start finds, closed again."""
    found = Replica(directory, WatchedDisk()).open(committed)
    await found.close()
    return found


# Leading


async def test_a_leader_begins_with_an_empty_block_and_tells_of_each_when_it_is_written(
    replica: Replica,
) -> None:
    arrived, released = replica.disk.hold("sync", "*.journal")
    replica.journal.lead(7)
    await until(arrived.is_set)
    assert [(each.epoch, each.position, each.payload) for each in replica.made] == [(7, 1, b"")]
    assert replica.synced == []
    released.set()
    await replica.add(5)
    first, second = replica.made
    assert second.payload == entry(5).encode()
    assert second.follows(first.mark)
    assert second.is_intact
    assert second.shard == SHARD
    assert replica.synced == marks_of(replica.made)


async def test_nothing_is_promised_before_it_is_committed(replica: Replica) -> None:
    journal = replica.journal
    journal.lead(1)
    position = journal.append(entry(0), waited=True, synced=False)
    called: list[str] = []
    journal.progress.receipt(position, 0).when_covered(lambda: called.append("written"))
    journal.progress.receipt(0, position).when_covered(lambda: called.append("committed"))
    await until(lambda: journal.durable == position)  # each block is synced
    pending = journal.groups.pending_bytes
    assert (journal.committed, journal.groups.promised) == (0, 0)
    assert (replica.durable, journal.progress.written, called) == ([], 0, [])
    assert pending > 0
    assert not journal.groups.is_idle
    journal.commit(1)
    assert (journal.committed, replica.durable, called) == (1, [1], [])
    journal.commit(position)
    assert (journal.groups.promised, replica.durable) == (position, [1, position])
    assert (called, journal.groups.pending_bytes) == (["written", "committed"], 0)
    assert journal.groups.is_idle


async def test_a_leader_that_begins_tells_a_checkpoint_without_another_entry(
    replica: Replica,
) -> None:
    journal = replica.journal
    journal.lead(1)
    called: list[int] = []
    journal.when_told(lambda: called.append(journal.committed))
    await until(lambda: journal.durable == 2)
    journal.commit(2)
    assert called == [2]


async def test_a_block_tells_what_was_committed_when_it_was_written(
    replica: Replica, directory: Path
) -> None:
    replica.journal.lead(1)
    await replica.add(0)
    replica.journal.commit(1)
    await replica.add(1)
    await replica.close()
    found = await opened(directory)
    assert (found.journal.committed, found.recovered) == (1, [1])
    assert found.marks == [START, *marks_of(replica.made)]
    found = await opened(directory, committed=2)
    assert (found.journal.committed, found.recovered) == (2, [1, 2])
    assert found.journal.durable == 3


def all_files_wait(journal: Journal) -> bool:
    """No file has room, and none is being made."""
    return journal._stalled and not journal.supply.makes_more


async def stored_or_stuck(journal: Journal, position: int) -> None:
    await until(lambda: journal.durable >= position or all_files_wait(journal))


async def test_what_a_checkpoint_waits_for_is_told_when_all_files_wait_for_the_checkpoint(
    replica: Replica, directory: Path
) -> None:
    journal = replica.journal
    for _ in range(3):  # what was made for it is not there for ever
        journal.lead(1)
        while not all_files_wait(journal):
            await stored_or_stuck(journal, journal.append(entry(0, SIZE), waited=True))
            journal.commit(journal.durable)
        assert len(replica.full) == 3
        replica.to_collect.append(entry(1))
        told = asyncio.create_task(journal.told())
        while not told.done():
            await asyncio.sleep(0.001)
            journal.commit(journal.durable)
        assert await told
        assert not replica.to_collect
        read = asyncio.create_task(journal.read(replica.full[0].first - 1, 1))
        for _ in range(len(replica.full)):
            journal.recycle(replica.full.pop(0))
        assert len(await read) <= 1, "or not any more"
        # The last full one is kept for followers.
        await until(lambda: len(list(directory.glob("*.journal"))) == 5)
    assert not replica.failures


async def test_a_file_with_blocks_that_are_not_committed_is_not_given_to_a_checkpoint(
    replica: Replica,
) -> None:
    replica.journal.lead(1)
    while len(replica.made) < 12:
        await replica.add(len(replica.made), SIZE)
    assert replica.full == []
    replica.journal.commit(2)
    assert replica.full == []
    replica.journal.commit(11)
    assert replica.full
    assert all(each.end.position <= 11 for each in replica.full)


async def test_a_replica_that_is_started_again_still_has_the_blocks_of_its_last_full_file(
    replica: Replica, directory: Path
) -> None:
    replica.journal.lead(1)
    while not replica.full:
        await replica.add(len(replica.made), SIZE)
        replica.journal.commit(replica.journal.durable)
    end = replica.journal.durable
    await replica.close()
    again = Replica(directory, WatchedDisk()).open(end)
    assert end not in [each.end.position for each in again.full]
    assert await again.journal.read(end - 1, 1)
    await again.close()


async def test_all_that_a_node_on_its_own_has_written_is_committed(
    replica: Replica, directory: Path
) -> None:
    replica.journal.lead(3)
    await replica.add(5)
    await replica.close()
    for alone, committed in ((0, 0), (2, 0), (3, 2)):
        again = Replica(directory, WatchedDisk()).open(alone=alone)
        assert again.journal.committed == committed
        assert again.recovered == [*range(1, committed + 1)]
        await again.close()


async def test_what_cursors_know_is_told_when_a_block_with_all_of_it_is_committed(
    replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = replica.journal
    assert await journal.told()  # a follower knows nothing of its own
    journal.lead(1)
    await until(lambda: journal.durable == 1)
    monkeypatch.setattr("routelog.log_backend.journal.journal.TOLD_SECONDS_MAX", 0.05)
    assert not await journal.told()
    monkeypatch.undo()
    called: list[int] = []
    replica.to_collect.append(entry(5))
    journal.when_told(lambda: called.append(journal.committed))
    await until(lambda: journal.durable == 3)
    assert called == []
    assert replica.made[-1].payload == entry(5).encode()
    journal.commit(2)
    assert called == []
    journal.commit(3)
    assert called == [3]
    journal.when_told(lambda: called.append(4))  # nothing is there to collect: an empty block
    await until(lambda: journal.durable == 4)
    journal.commit(4)
    assert called == [3, 4]


async def test_a_block_that_found_no_room_is_told_of_once(replica: Replica) -> None:
    replica.journal.lead(1)
    await until(lambda: replica.journal.durable == 1)
    await until(lambda: len(replica.journal.supply.ready) == 1)
    replica.disk.fail("allocate", "*.journal", errno.ENOSPC)
    replica.journal.append(entry(0, 200_000), waited=True)
    await until(lambda: replica.journal.refused)
    assert len(replica.made) == 2
    replica.disk.repair()
    replica.journal.go_on()
    await until(lambda: replica.journal.durable == 2)
    assert replica.synced == marks_of(replica.made)


# Following


async def test_a_follower_stores_what_the_leader_made_and_both_have_the_same(
    replica: Replica, directory: Path, tmp_path: Path
) -> None:
    (tmp_path / "leader").mkdir()
    leader = Replica(tmp_path / "leader", WatchedDisk()).open()
    leader.journal.lead(1)
    for number in range(5):
        await leader.add(number, SIZE)
    await replica.stored(leader.made[:2])
    await replica.stored(leader.made[2:])
    assert replica.made == []
    assert replica.durable == []
    for owner, place in ((leader, tmp_path / "leader"), (replica, directory)):
        await owner.close()
        found = await opened(place)
        assert found.marks == [START, *marks_of(leader.made)]
        assert found.payload_bytes == [len(block.payload) for block in leader.made]


async def test_blocks_that_come_together_share_a_sync(replica: Replica) -> None:
    await replica.stored(history(1))
    await until(lambda: len(replica.journal.supply.ready) == 1)
    before = replica.disk.count("sync", "*.journal")
    await replica.stored(history(5)[1:])
    assert replica.disk.count("sync", "*.journal") == before + 1


@pytest.mark.parametrize(
    "block",
    [
        ShardBlock.following(Mark(2, 1, 0), SHARD, 1, b""),
        ShardBlock.following(Mark(1, 1, 99), SHARD, 1, b""),
        ShardBlock.following(history(1)[0].mark, SHARD, 0, b""),
    ],
)
async def test_a_block_that_does_not_follow_is_refused(replica: Replica, block: ShardBlock) -> None:
    await replica.stored(history(1))
    with pytest.raises(ValueError, match="does not follow"):
        replica.journal.store([block])
    assert replica.journal.end == history(1)[-1].mark


async def test_a_follower_takes_no_entries_until_it_leads(
    replica: Replica, directory: Path
) -> None:
    with pytest.raises(RuntimeError, match="not started"):
        replica.journal.append(entry(0), waited=True)
    blocks = history(3)
    replica.journal.store(blocks)
    replica.journal.lead(4)  # what was stored goes first
    await replica.add(9)
    begin, last = replica.made
    assert (begin.epoch, begin.position, begin.payload) == (4, 4, b"")
    assert begin.follows(blocks[-1].mark)
    replica.journal.commit(5)
    await replica.close()
    found = await opened(directory, 5)
    assert found.marks == [START, *marks_of(blocks), begin.mark, last.mark]
    assert found.recovered == [1, 2, 3, 4, 5]


# Cutting


@pytest.mark.parametrize("position", [1, 2, 5, 6, 7, 12, 13])
async def test_what_is_cut_is_gone_and_others_take_its_place(
    replica: Replica, directory: Path, position: int
) -> None:
    old = history(13, size=SIZE)
    await replica.stored(old)
    await replica.cut(position)
    assert (replica.journal.durable, replica.journal.end) == (position, old[position - 1].mark)
    new = history(9, old[position - 1].mark, epoch=2, size=SIZE)
    await replica.stored(new)
    expected = [*old[:position], *new]
    assert await replica.journal.read(0, 1 << 30) == expected
    await replica.close()
    found = await opened(directory)
    assert found.marks == [START, *marks_of(expected)]


async def test_a_journal_of_earlier_runs_is_cut_too(replica: Replica, directory: Path) -> None:
    old = history(13, size=SIZE)
    await replica.stored(old)
    await replica.close()
    found = Replica(directory, WatchedDisk()).open()
    await found.cut(3)
    new = history(4, old[2].mark, epoch=2)
    await found.stored(new)
    assert await found.journal.read(1, 1 << 30) == [*old[1:3], *new]
    await found.close()
    assert (await opened(directory)).marks == [START, *marks_of(old[:3]), *marks_of(new)]


async def test_cuts_and_blocks_are_carried_out_in_the_order_of_the_calls(
    replica: Replica, directory: Path
) -> None:
    old = history(6, size=SIZE)
    await replica.stored(old[:3])
    arrived, released = replica.disk.hold("write", "*.journal")
    replica.journal.store(old[3:])
    await until(arrived.is_set)  # the fourth is being written, two wait
    second = history(5, old[1].mark, epoch=2)
    third = history(2, second[2].mark, epoch=3)
    replica.journal.truncate(5)
    replica.journal.truncate(2)
    replica.journal.store(second)
    replica.journal.truncate(5)  # of which nothing is written
    replica.journal.store(third)
    released.set()
    await until(lambda: replica.synced[-1:] == [third[-1].mark])
    assert replica.truncated == [5, 2, 5]
    expected = [*old[:2], *second[:3], *third]
    assert await replica.journal.read(0, 1 << 30) == expected
    await replica.close()
    assert (await opened(directory)).marks == [START, *marks_of(expected)]


async def test_nothing_committed_is_cut(replica: Replica) -> None:
    await replica.stored(history(3))
    replica.journal.commit(2)
    for position in (1, 4):
        with pytest.raises(ValueError, match=f"cannot be cut at {position}"):
            replica.journal.truncate(position)
    await replica.cut(2)


async def test_a_cut_outlives_a_power_cut_and_one_in_its_midst_leaves_a_journal(
    tmp_path: Path,
) -> None:
    for seed in range(examples(20)):
        choice = random.Random(seed)
        root = tmp_path / f"disk-{seed}"
        (root / "journal").mkdir(parents=True)
        disk = PoweredDisk(root, choice)
        replica = Replica(root / "journal", disk).open()
        old = history(13, size=SIZE)
        await replica.stored(old)
        position = choice.randrange(1, 13)
        replica.journal.commit(choice.randrange(position + 1))
        stills: list[DiskStill] = []

        def take(disk: PoweredDisk = disk, stills: list[DiskStill] = stills) -> None:
            stills.append(disk.still_after_power_cut())

        disk.before_operation = take
        await replica.cut(position)
        before = len(stills)
        new = history(3, old[position - 1].mark, epoch=2)
        await replica.stored(new)
        take()
        disk.before_operation = None
        await replica.close()
        for number, still in enumerate(stills):
            place = tmp_path / f"still-{seed}-{number}"
            left = Replica(place / "journal", still.place(place, choice)).open()
            await left.close()
            stored = left.marks[1:]
            if number < before:
                assert stored == marks_of(old[: len(stored)])
                assert len(stored) >= position
            else:
                assert stored == marks_of([*old[:position], *new])[: len(stored)]
                assert len(stored) >= position
        assert stored == marks_of([*old[:position], *new])


# Reading


async def test_blocks_are_read_from_the_files_as_many_as_fit(replica: Replica) -> None:
    blocks = history(8, size=SIZE)
    await replica.stored(blocks)
    read = replica.journal.read
    assert await read(0, 1 << 30) == blocks
    assert await read(3, 1) == blocks[3:4]
    assert await read(3, 2 * 12_288) == blocks[3:5]
    assert await read(8, 1 << 30) == []
    await replica.close()


async def test_blocks_of_files_that_were_given_back_are_not_there(replica: Replica) -> None:
    blocks = history(13, size=SIZE)
    await replica.stored(blocks)
    replica.journal.commit(13)
    file = replica.full[0]
    base = file.end
    replica.journal.recycle(file)
    assert replica.recycled == [base]
    assert await replica.journal.read(0, 1 << 30) == []
    assert await replica.journal.read(base.position, 1 << 30) == blocks[base.position :]
