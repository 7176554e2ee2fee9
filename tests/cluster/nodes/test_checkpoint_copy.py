"""A follower before the base of the leader's journal: it takes a copy, starts again, and follows on."""

from __future__ import annotations

from pathlib import Path

import pytest
from cluster.nodes.memory_coordinator import Held
from cluster.nodes.store_node import SHARD, StoreNode
from support.waiting import until
from unit.log_backend.log_records import records
from unit.log_backend.open_store import append, durable, fill_journal_file, flushed, unsettled

from routelog.log_backend import PartitionLog


async def recycled(node: StoreNode, partition: PartitionLog) -> None:
    """Publish until the first files of the journal are given back."""
    base = node.replica_log.chain.base.position
    while node.replica_log.chain.base.position == base:
        await fill_journal_file(node.store, partition)


async def same(leader: StoreNode, follower: StoreNode, end: int) -> None:
    """The follower has applied what the leader has, up to a position, and they are equal."""
    await until(lambda: follower.follower.applied >= end)
    await until(lambda: follower.name in leader.node.view.records[SHARD].in_sync)
    ours, theirs = leader.replica_log.chain, follower.replica_log.chain
    first = max(ours.base.position, theirs.base.position)
    compared = range(first, end + 1)
    assert len(compared) > 1
    assert [ours.mark(each) for each in compared] == [theirs.mark(each) for each in compared]
    assert leader.store.partitions.keys() == follower.store.partitions.keys()
    for number, partition in leader.store.partitions.items():
        found = await unsettled(follower.store.partitions[number])
        assert found == await unsettled(partition)


@pytest.fixture
def held() -> Held:
    return Held()


async def test_an_empty_follower_takes_a_copy_and_follows_on(tmp_path: Path, held: Held) -> None:
    a = await StoreNode("a", tmp_path / "a", held).start()
    await a.lead_alone("a", "b")
    queue = await a.declare("q")
    append(queue, 5)
    queue.open_cursor().settle(1, 3)
    await recycled(a, queue)
    b = await StoreNode("b", tmp_path / "b", held).start()
    await until(lambda: b.ended)
    assert b.ended == "a copy of a's checkpoint is here"
    assert b.store.journal.end.position == 0, "nothing is added to data that are replaced"
    await b.aclose()
    append(queue, 3)  # while it is away
    b = await StoreNode("b", tmp_path / "b", held).start()
    assert b.took_copy
    (base, _), (first, _), *_ = b.marks
    assert base.position > 0
    assert first.position == base.position + 1
    await same(a, b, append(queue, 2))
    other = await a.declare("r")
    await same(a, b, position := append(other, 4))
    assert not b.ended
    assert not (tmp_path / "b" / "aside").exists(), "it had nothing"
    await b.aclose()
    b = await StoreNode("b", tmp_path / "b", held).start()
    assert not b.took_copy
    await same(a, b, position)
    await b.aclose()
    await a.aclose()


async def test_a_follower_that_was_away_for_long_takes_a_copy(tmp_path: Path, held: Held) -> None:
    a = await StoreNode("a", tmp_path / "a", held).start()
    await a.lead_alone("a", "b")
    b = await StoreNode("b", tmp_path / "b", held).start()
    queue = await a.declare("q")
    await same(a, b, append(queue, 5))
    await b.aclose()
    append(queue)
    await until(lambda: held.records[SHARD].in_sync == {"a"})
    queue.open_cursor().settle(0, 2)
    await recycled(a, queue)
    b = await StoreNode("b", tmp_path / "b", held).start()
    await until(lambda: b.ended)
    await b.aclose()
    b = await StoreNode("b", tmp_path / "b", held).start()
    assert b.took_copy
    await same(a, b, append(queue))
    await b.aclose()
    await a.aclose()


async def test_a_copy_under_load_is_whole(tmp_path: Path, held: Held) -> None:
    a = await StoreNode("a", tmp_path / "a", held).start()
    await a.lead_alone("a", "b")
    queue = await a.declare("q")
    await recycled(a, queue)
    b = await StoreNode("b", tmp_path / "b", held).start()
    while not b.ended:
        position = queue.append(records([b"x" * 1_000]), waited=True)
        await durable(a.store, position)
    await b.aclose()
    b = await StoreNode("b", tmp_path / "b", held).start()
    await same(a, b, position)
    await flushed(a.store)
    await b.aclose()
    await a.aclose()
