"""The broker's journal as a replica's storage: what is called, in which order, and what is applied."""

import asyncio
import errno
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from support.waiting import until
from unit.mirror_cluster.journals import SHARD, blocks

from routelog.log_backend import START, ShardBlock, SystemDisk
from routelog.mirror_cluster.node import journal_storage
from routelog.mirror_cluster.node.copy_receiver import CopyError, CopyReceiver
from routelog.mirror_cluster.node.journal_storage import (
    BlockUnreadable,
    CopyWaits,
    JournalStorage,
    KeptPromise,
    Notice,
    PromiseUnreadable,
)
from routelog.mirror_cluster.protocol.promise import Promise
from routelog.mirror_cluster.replica.chain import Chain
from routelog.mirror_cluster.replica.events import (
    Appended,
    Durable,
    Promised,
    Recycled,
    Truncated,
)


class FailingDisk(SystemDisk):
    """A disk that cannot sync."""

    def sync(self, file: int) -> None:
        raise OSError("broken")


class FullDisk(SystemDisk):
    """A disk that has no room for a while.

    Attributes:
        refuses: so many syncs yet.
    """

    refuses = 2

    def sync(self, file: int) -> None:
        if self.refuses:
            self.refuses -= 1
            raise OSError(errno.ENOSPC, "full")


class Shard:
    """A journal that says what it is told, and a store that says what is applied."""

    def __init__(
        self, directory: Path, stored: Sequence[ShardBlock] = (), committed: int = 0
    ) -> None:
        self.committed = committed
        self.has_room = True
        self.calls: list[tuple[object, ...]] = []
        self.notices: list[Notice] = []
        self.failures: list[BaseException] = []
        self.stored = stored
        self.readable = list(stored)
        self.directory = directory
        self.disk = SystemDisk()

    async def storage(self) -> JournalStorage:
        storage = JournalStorage(
            SHARD,
            5,
            self,
            KeptPromise(self.directory, self.disk),
            lambda block: self.calls.append(("apply", block.position)),
            lambda: self.has_room,
            lambda given_up: self.calls.append(("aside", *(each.position for each in given_up))),
            self.failures.append,
        )
        await storage.open(
            [(START, 0), *((block.mark, len(block.payload)) for block in self.stored)]
        )
        return storage

    def store(self, given: Sequence[ShardBlock]) -> None:
        self.calls.append(("store", *(block.position for block in given)))

    def lead(self, epoch: int) -> None:
        self.calls.append(("lead", epoch))

    def truncate(self, position: int) -> None:
        self.calls.append(("truncate", position))

    def commit(self, position: int) -> None:
        self.committed = position
        self.calls.append(("commit", position))

    async def read(self, after: int, bytes_max: int) -> Sequence[ShardBlock]:
        await asyncio.sleep(0)
        return self.readable[after : after + 2]


async def test_what_was_stored_before_a_restart_is_applied_when_it_is_committed(
    tmp_path: Path,
) -> None:
    chain = Chain()
    shard = Shard(tmp_path, blocks(1, 1, 1, 2, 2, 2, after=chain), committed=1)
    storage = await shard.storage()
    found = storage.start(shard.notices.append)
    assert (found.shard, found.incarnation, found.promise, found.applied) == (
        SHARD,
        5,
        Promise(),
        1,
    )
    assert found.chain.epoch_ends() == chain.epoch_ends()
    storage.commit(3)
    storage.store(blocks(2, after=chain))
    storage.commit(7)
    applied = [("apply", position) for position in range(2, 8)]
    wanted = [*applied[:2], ("commit", 3), ("store", 7), *applied[2:], ("commit", 7)]
    assert shard.calls == wanted, "a block is applied before it is told committed"


async def test_who_waits_for_a_position_is_told_when_it_is_applied(tmp_path: Path) -> None:
    shard = Shard(tmp_path, blocks(1, 1, 1, 1, after=Chain()), committed=1)
    storage = await shard.storage()
    storage.start(shard.notices.append)
    told: list[str] = []

    def tell(name: str) -> Callable[[], None]:
        return lambda: told.append(name)

    def again() -> None:
        told.append("again")
        storage.when_applied(2, tell("behind"))

    storage.when_applied(1, tell("at once"))
    assert (told, storage.applied) == (["at once"], 1)
    storage.when_applied(3, tell("3"))
    storage.when_applied(2, again)
    storage.commit(2)
    assert (told, storage.applied) == (["at once", "again", "behind"], 2)
    shard.has_room = False
    storage.commit(3)
    assert "3" not in told, "it is committed, and not applied"
    shard.has_room = True
    storage.apply_more()
    assert (told[3:], storage.applied) == (["3"], 3)


async def test_blocks_that_take_long_to_apply_go_in_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_storage, "APPLY_SECONDS", 0.0)  # not one in the turn of the commit
    shard = Shard(tmp_path, blocks(1, 1, 1, 1, after=Chain()))
    storage = await shard.storage()
    storage.start(shard.notices.append)
    storage.commit(2)
    storage.commit(3)
    assert shard.calls == [], "nothing is told committed that is not applied"
    monkeypatch.setattr(journal_storage, "APPLY_SECONDS", 30.0)
    await until(lambda: ("commit", 3) in shard.calls)
    assert shard.calls == [("apply", 1), ("apply", 2), ("apply", 3), ("commit", 3)]


async def test_a_node_that_is_to_lead_applies_all_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_storage, "APPLY_SECONDS", 0.0)
    shard = Shard(tmp_path, blocks(1, 1, after=Chain()))
    storage = await shard.storage()
    storage.start(shard.notices.append)
    storage.commit(2)
    storage.begin_epoch(2)
    assert shard.calls == [("apply", 1), ("apply", 2), ("commit", 2), ("lead", 2)]


async def test_a_block_that_cannot_be_applied_in_a_later_turn_ends_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shard = Shard(tmp_path, blocks(1, after=Chain()))
    storage = await shard.storage()
    storage.start(shard.notices.append)
    monkeypatch.setattr(journal_storage, "APPLY_SECONDS", 0.0)
    storage.commit(1)
    monkeypatch.setattr(journal_storage, "APPLY_SECONDS", 30.0)
    shard.calls = cast(Any, None)  # `append` of it fails
    await until(lambda: shard.failures)


async def test_a_block_that_cannot_be_read_any_more_is_an_error(tmp_path: Path) -> None:
    shard = Shard(tmp_path, blocks(1, 1, 1, after=Chain()), committed=1)
    opened = shard.storage()
    del shard.readable[2:]
    with pytest.raises(BlockUnreadable, match="block 3 cannot"):
        await opened


async def test_what_is_cut_is_never_applied_and_kept_aside_when_it_is_to_be(tmp_path: Path) -> None:
    chain = Chain()
    shard = Shard(tmp_path, blocks(1, 1, 1, 1, after=chain), committed=1)
    storage = await shard.storage()
    storage.start(shard.notices.append)
    storage.truncate(3, keep=False)
    storage.truncate(2, keep=True)
    chain.truncate(2)
    storage.store(blocks(3, after=chain))
    storage.commit(3)
    assert shard.calls == [
        ("truncate", 3),
        ("aside", 3),
        ("truncate", 2),
        ("store", 3),
        ("apply", 2),
        ("apply", 3),
        ("commit", 3),
    ]


async def test_what_the_journal_tells_reaches_the_replica(tmp_path: Path) -> None:
    shard = Shard(tmp_path)
    storage = await shard.storage()
    storage.start(shard.notices.append)
    (block,) = blocks(1)
    storage.on_block(block)
    storage.on_durable(block.mark)
    storage.on_truncated(0)
    storage.on_recycled(block.mark)
    assert shard.notices == [Appended(block), Durable(block.mark), Truncated(0), Recycled(1)]


async def test_a_promise_outlives_the_process_and_the_newest_is_the_last(tmp_path: Path) -> None:
    shard = Shard(tmp_path)
    storage = await shard.storage()
    storage.start(shard.notices.append)
    promises = [Promise(12, 1, epoch, 99, epoch + 3) for epoch in (4, 7)]
    for each in promises:
        storage.save_promise(each)
    await until(lambda: len(shard.notices) == 2)
    assert shard.notices == [Promised(each) for each in promises]
    later = Shard(tmp_path)
    assert (await later.storage()).start(later.notices.append).promise == promises[1]


async def test_a_promise_that_cannot_be_read_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "promise").write_bytes(b"\x00" * 100)
    with pytest.raises(PromiseUnreadable, match=r"promise: .* found"):
        await Shard(tmp_path).storage()


def test_a_promise_keeps_the_in_sync_set_and_one_of_an_earlier_version_knows_none(
    tmp_path: Path,
) -> None:
    kept = KeptPromise(tmp_path, SystemDisk())
    for in_sync in ("ac", ""):
        kept.write(Promise(7, epoch=3, incarnation=5, in_sync=frozenset(in_sync)))
        assert kept.read().in_sync == frozenset(in_sync)
    file = tmp_path / "promise"
    earlier = json.loads(file.read_text())
    del earlier["in_sync"]
    file.write_text(json.dumps(earlier))
    found = kept.read()
    assert (found.incarnation, found.in_sync) == (5, frozenset())


async def test_a_promise_that_cannot_be_kept_ends_the_node(tmp_path: Path) -> None:
    shard = Shard(tmp_path)
    shard.disk = FailingDisk()
    storage = await shard.storage()
    storage.start(shard.notices.append)
    storage.save_promise(Promise(epoch=4))
    await until(lambda: shard.failures)
    assert not shard.notices


async def test_a_promise_waits_for_room_on_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_storage, "FULL_PAUSE_SECONDS", 0.0)
    shard = Shard(tmp_path)
    shard.disk = FullDisk()
    storage = await shard.storage()
    storage.start(shard.notices.append)
    storage.save_promise(Promise(epoch=4))
    await until(lambda: shard.notices)
    assert shard.notices == [Promised(Promise(epoch=4))]
    assert not shard.failures


async def test_a_follower_without_room_applies_later_and_a_leader_does_not_wait(
    tmp_path: Path,
) -> None:
    chain = Chain()
    shard = Shard(tmp_path, blocks(1, 1, 1, 1, after=chain), committed=1)
    storage = await shard.storage()
    shard.has_room = False
    storage.commit(3)
    assert shard.calls == []
    shard.has_room = True
    storage.apply_more()
    assert shard.calls == [("apply", 2), ("apply", 3), ("commit", 3)]
    shard.has_room, shard.committed = False, 3
    storage.commit(4)
    storage.begin_epoch(2)
    assert shard.calls[3:] == [("apply", 4), ("commit", 4), ("lead", 2)]


class Receiver:
    """A copy that is here, on a disk that keeps it or not."""

    def __init__(self, error: OSError | None = None) -> None:
        self.kept = False
        self._error = error

    async def fetch(self, leader: str, *, heals: bool) -> "Receiver":
        return self

    def keep(self) -> None:
        self.kept = True
        if self._error is not None:
            raise self._error


@pytest.mark.parametrize("error", [None, OSError("broken")])
async def test_a_copy_that_is_kept_or_may_be_waits_for_the_next_start(
    tmp_path: Path, error: OSError | None
) -> None:
    storage = await Shard(tmp_path).storage()
    with pytest.raises(CopyError, match="takes no copies"):
        await storage.copy("b")
    receiver = Receiver(error)
    storage.receiver = cast(CopyReceiver, receiver)
    with pytest.raises(
        CopyWaits, match="b's checkpoint may be here: broken" if error else "is here"
    ):
        await storage.copy("b")
    assert receiver.kept
