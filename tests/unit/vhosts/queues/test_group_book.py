"""Consumer groups: where they begin, what a restart leaves of them, and what does not come back."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest
from support.queue_samples import (
    Node,
    SlowDisk,
    Taker,
    declare_queue,
    delete_queue,
    fill,
    numbered,
    records,
    running_node,
    settle,
)
from support.waiting import until
from unit.log_backend.open_store import crash, fill_journal_file

from routelog.log_backend import LogOptions, MetadataUnavailable
from routelog.vhosts import (
    ConsumerGroup,
    ConsumptionRefused,
    GroupInUse,
    GroupOptions,
    InvalidStreamOffset,
    NotReadable,
    PlaceUnknown,
    Queue,
    QueueProperties,
    TooManyGroups,
)
from routelog.vhosts.queues import group_book

STREAM = {"x-queue-type": "stream"}
KEPT = {"x-retention": "1h"}
OPTIONS = LogOptions(journal_file_bytes=1024 * 1024, flush_seconds=3600)


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    async with running_node(tmp_path, OPTIONS) as running:
        yield running


async def declare(node: Node, name: str = "q", **arguments: object) -> Queue:
    properties = QueueProperties(name, durable=True, arguments=arguments)
    queue, durable = declare_queue(node.vhost, properties, object())
    if durable is not None:
        await durable
    return queue


async def join(node: Node, queue: Queue, name: str, wanted: object = "first") -> ConsumerGroup:
    group, durable = node.vhost.hosted.groups.join(queue, GroupOptions(name), wanted, 0)
    if durable is not None:
        await durable
    return group


def consume(queue: Queue, group: ConsumerGroup, prefetch: int | None = None) -> Taker:
    taker = Taker(prefetch)
    queue.join_group(group, taker)
    return taker


def settle_offsets(taker: Taker, *offsets: int) -> None:
    for delivery in taker.take():
        for offset in range(delivery.offset, delivery.offset + delivery.count):
            if offset in offsets:
                delivery.partition.settle(offset, offset + 1)


async def test_a_group_does_not_wait_for_ever_to_hear_where_a_time_lies(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_book, "LOCATE_SECONDS", 0.01)
    queue = await declare(node, **STREAM)
    (partition,) = queue.partitions
    partition.log.skip_to(10)  # as a disk that has let go of what was copied
    partition.log.has_copies = True
    groups = node.vhost.hosted.groups
    located = groups.located(queue, datetime.fromtimestamp(1, UTC), 0)
    assert located is not None
    with pytest.raises(PlaceUnknown, match="does not answer: where in queue 'q'"):
        await located
    for place in ("first", "last", "next", 5, -5):
        assert groups.located(queue, place, 0) is None


@pytest.mark.parametrize("arguments", [STREAM, KEPT])
async def test_each_group_has_a_cursor_of_its_own(node: Node, arguments: dict[str, str]) -> None:
    queue = await declare(node, **arguments)
    fill(queue, 10, batch=3)
    await node.logs.journal.drain()
    one, two = await join(node, queue, "one"), await join(node, queue, "two")
    first, second = consume(queue, one), consume(queue, two)
    fill(queue, 2)
    await node.logs.journal.drain()
    node.turns.run()
    everything = numbered(0, 10) + numbered(0, 2)
    assert first.bodies() == second.bodies() == everything
    for delivery in first.take():
        settle(delivery)
    assert [(group.ready, group.unacked) for group in (one, two)] == [(0, 0), (0, 12)]
    assert (queue.ready, queue.consumer_count, queue.had_consumer) == (12, 2, True)


@pytest.mark.parametrize(
    ("wanted", "begin"),
    [("first", 0), ("next", 10), ("last", 9), (4, 4), (10, 10), (99, 10), (-3, 7), (-99, 0)],
)
async def test_a_new_group_begins_where_it_is_told(node: Node, wanted: object, begin: int) -> None:
    queue = await declare(node, **STREAM)
    fill(queue, 10, batch=3)
    await node.logs.journal.drain()
    group = await join(node, queue, "g", wanted)
    assert group.record.begins == [begin]
    assert group.ready == 10 - begin


async def test_a_group_that_exists_goes_on_where_it_is(node: Node) -> None:
    queue = await declare(node, **STREAM)
    fill(queue, 10)
    await node.logs.journal.drain()
    group = await join(node, queue, "g", "next")
    again, made = node.vhost.hosted.groups.join(queue, GroupOptions("g", None), "first", 0)
    assert (again, made) == (group, None)
    assert (group.ready, group.record.expires) == (0, GroupOptions("g").expires)
    with pytest.raises(InvalidStreamOffset):
        node.vhost.hosted.groups.join(queue, GroupOptions("g"), "somewhere", 0)


async def test_two_that_make_a_group_at_once_wait_for_the_same(node: Node) -> None:
    queue = await declare(node, **STREAM)
    made = [node.vhost.hosted.groups.join(queue, GroupOptions("g"), "first", 0) for _ in range(2)]
    assert made[0] == made[1]
    assert made[0][1] is not None
    await made[0][1]
    assert node.vhost.hosted.groups.join(queue, GroupOptions("g"), "first", 0)[1] is None


async def test_a_group_that_cannot_be_stored_is_not_there(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = await declare(node, **STREAM)
    log = queue.partitions[0].log

    def fail(*_: object, **__: object) -> int:
        raise MetadataUnavailable("full")

    monkeypatch.setattr(node.logs.metadata, "apply_each", fail)
    with pytest.raises(MetadataUnavailable):
        await join(node, queue, "g")
    assert (queue.groups, node.vhost.hosted.groups.queues, list(log.cursors)) == ({}, {}, [0])
    with pytest.raises(MetadataUnavailable):
        node.vhost.hosted.groups.join(queue, GroupOptions("g"), "first", 0)
    assert (queue.groups, list(log.cursors)) == ({}, [0])


async def test_a_queue_that_keeps_no_log_has_none(node: Node) -> None:
    queue = await declare(node)
    with pytest.raises(NotReadable):
        node.vhost.hosted.groups.join(queue, GroupOptions("g"), "first", 0)


async def test_a_queue_has_so_many_and_no_more(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_book, "GROUPS_MAX", 2)
    queue, other = await declare(node, **KEPT), await declare(node, "other", **KEPT)
    for name in ("a", "b", "a"):
        await join(node, queue, name)
    with pytest.raises(TooManyGroups, match="2 consumer groups"):
        node.vhost.hosted.groups.join(queue, GroupOptions("c"), "first", 0)
    await join(node, other, "c")
    await delete(node, queue.groups["a"])
    await join(node, queue, "c")


async def delete(node: Node, group: ConsumerGroup) -> None:
    durable = node.vhost.hosted.groups.delete(group)
    if durable is not None:
        await durable


async def test_an_exclusive_consumer_is_alone_in_its_group_only(node: Node) -> None:
    queue = await declare(node, **KEPT)
    group, other = await join(node, queue, "g"), await join(node, queue, "other")
    queue.join_group(group, Taker(exclusive=True))
    with pytest.raises(ConsumptionRefused):
        queue.join_group(group, Taker())
    queue.join_group(other, Taker())
    queue.add_consumer(Taker())


async def test_a_queue_that_is_not_stored_has_groups_for_the_run(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        properties = QueueProperties("q", arguments=KEPT)
        queue, _ = declare_queue(node.vhost, properties, object())
        fill(queue, 3)
        await node.logs.journal.drain()
        group, made = node.vhost.hosted.groups.join(queue, GroupOptions("g"), "first", 0)
        assert made is None
        taker = consume(queue, group)
        node.turns.run()
        assert taker.bodies() == numbered(0, 3)
        assert node.vhost.hosted.groups.delete(group) is None
        assert list(node.logs.metadata.scan(b"groups/")) == []


async def test_members_are_told_of_the_end_of_their_queue_or_group(node: Node) -> None:
    queue = await declare(node, **STREAM)
    takers = [consume(queue, await join(node, queue, name)) for name in ("a", "b")]
    await delete(node, queue.groups["a"])
    assert [taker.deleted for taker in takers] == [1, 0]
    durable = delete_queue(node.vhost, queue)
    assert durable is not None
    await durable
    assert [taker.deleted for taker in takers] == [1, 1]
    assert node.vhost.hosted.groups.queues == {}
    left = [key for key, _ in node.logs.metadata.scan(b"") if b"group" in key or b"cursor" in key]
    assert left == []


async def test_a_group_has_a_cursor_in_each_partition_of_its_queue(node: Node) -> None:
    properties = QueueProperties("q", durable=True, arguments=STREAM)
    logs = node.vhost.hosted.open_logs(properties, [101, 102])
    queue = node.vhost._add_queue(properties, None, logs)
    logs = [partition.log for partition in queue.partitions]
    for log, count in zip(logs, (5, 8), strict=True):
        log.append(records(*numbered(0, count)))
    await node.logs.journal.drain()
    group = await join(node, queue, "g", 6)
    assert group.record.begins == [5, 6]
    assert group.ready == 2
    taker = consume(queue, group)
    logs[0].append(records("later"))
    await node.logs.journal.drain()
    group.wake()
    node.turns.run()
    assert sorted(taker.bodies()) == ["later", "m6", "m7"]
    for delivery in taker.take():
        settle(delivery)
    assert [log.cursors[1].low_water for log in logs] == [6, 8]
    queue.detach([taker])
    await delete(node, group)
    assert [list(log.cursors) for log in logs] == [[0], [0]]


# -- restarts


async def delivered(node: Node, taker: Taker, count: int) -> list[str]:
    """The bodies of this many messages, which may have to be loaded."""
    async with asyncio.timeout(60):
        while len(taker.bodies()) < count:
            node.turns.run()
            await asyncio.sleep(0)
    node.turns.run()
    return taker.bodies()


@pytest.mark.parametrize("checkpoint", [False, True])
async def test_progress_survives_a_restart(tmp_path: Path, checkpoint: bool) -> None:
    async with running_node(tmp_path, OPTIONS) as node:
        queue = await declare(node, **KEPT)
        fill(queue, 10)
        await node.logs.journal.drain()
        for name, done in (("a", (0, 1, 5)), ("b", range(10)), ("c", ())):
            taker = consume(queue, await join(node, queue, name))
            node.turns.run()
            settle_offsets(taker, *done)
            if checkpoint:
                await node.logs.checkpoints.take()
    async with running_node(tmp_path, OPTIONS) as node:
        queue = node.vhost.queues["q"]
        ready = {name: group.ready for name, group in queue.groups.items()}
        assert ready == {"a": 7, "b": 0, "c": 10}
        for name, left in (("a", (2, 3, 4, 6, 7, 8, 9)), ("c", range(10))):
            taker = consume(queue, queue.groups[name])
            assert await delivered(node, taker, len(left)) == [f"m{number}" for number in left]


async def test_what_the_journal_says_of_a_deleted_group_is_no_group(tmp_path: Path) -> None:
    async with running_node(tmp_path, OPTIONS) as node:
        queue = await declare(node, **KEPT)
        fill(queue, 10)
        await node.logs.journal.drain()
        taker = consume(queue, await join(node, queue, "g"))
        node.turns.run()
        settle_offsets(taker, 0, 1, 2)
        queue.publish(records("synced"), waited=True)
        await node.logs.journal.drain()  # the settlements are in the journal
        queue.detach([taker])
        for delivery in taker.deliveries:
            settle(delivery)
        await asyncio.sleep(0)
        old = queue.groups["g"].record.cursor
        await delete(node, queue.groups["g"])
        assert list(queue.partitions[0].log.cursors) == [0]
        again = await join(node, queue, "g")
        assert again.record.cursor > old
        assert again.ready == 11
        await delete(node, again)
        # A checkpoint that was under way writes a snapshot behind the deletion.
        log = queue.partitions[0].log
        log.cursors[old] = type(log.cursors[0])(old, None)
        await node.logs.checkpoints.take()
        del log.cursors[old]
    async with running_node(tmp_path, OPTIONS) as node:
        queue = node.vhost.queues["q"]
        assert list(queue.partitions[0].log.cursors) == [0]
        assert queue.groups == {}
        assert len(list(node.logs.metadata.scan(b"cursors/"))) == 1
        third = await join(node, queue, "g")
        assert third.record.cursor > again.record.cursor
        assert third.ready == 11


async def test_a_deletion_that_a_crash_takes_back_has_taken_nothing_from_the_group(
    tmp_path: Path,
) -> None:
    async with running_node(tmp_path / "data", OPTIONS) as node:
        queue = await declare(node, **KEPT)
        fill(queue, 10)
        await node.logs.journal.drain()
        group = await join(node, queue, "g")
        taker = consume(queue, group)
        node.turns.run()
        settle_offsets(taker, *range(4))
        queue.detach([taker])
        slow = SlowDisk()
        node.vhost.hosted.groups._writer = cast(Any, slow)
        deletion = node.vhost.hosted.groups.delete(group)
        assert deletion is not None
        log = queue.partitions[0].log
        journal = tmp_path / "data" / "journal"
        await until(lambda: list(journal.glob("*0001-*.journal")))
        (first_file,) = journal.glob("*0001-*.journal")
        await fill_journal_file(node.logs, log)
        await node.logs.checkpoints.take()
        await until(lambda: not first_file.exists())  # its settlements are nowhere else
        left = await crash(node.logs, tmp_path / "data")
        (submitted,) = slow.futures
        submitted.set_result(1)
        await until(lambda: list(log.cursors) == [0])
    async with running_node(left, OPTIONS) as node:
        queue = node.vhost.queues["q"]
        taker = consume(queue, queue.groups["g"])
        await until(lambda: node.turns.run() or len(taker.bodies()) >= 6)
        assert taker.bodies()[:6] == [f"m{number}" for number in range(4, 10)]


async def test_a_group_whose_deletion_failed_holds_what_it_needs(node: Node) -> None:
    queue = await declare(node, **KEPT)
    group = await join(node, queue, "g")
    slow = SlowDisk()
    node.vhost.hosted.groups._writer = cast(Any, slow)
    deletion = node.vhost.hosted.groups.delete(group)
    assert deletion is not None
    slow.futures[0].set_exception(MetadataUnavailable("made to fail"))
    with pytest.raises(MetadataUnavailable):
        await deletion
    assert list(queue.partitions[0].log.cursors) == [0, group.record.cursor]


@pytest.mark.parametrize("persistent", [True, False])
async def test_a_group_begins_after_a_crash_where_it_was_told(
    tmp_path: Path, persistent: bool
) -> None:
    async with running_node(tmp_path / "data", OPTIONS) as node:
        queue = await declare(node, **KEPT)
        for _ in range(2):
            queue.publish(records(*numbered(0, 5), persistent=persistent), waited=False)
            await node.logs.journal.drain()
        _, made = node.vhost.hosted.groups.join(queue, GroupOptions("g"), "next", 0)
        # Only the record of the group is stored, nothing of its cursor.
        queue.partitions[0].log.cursors[1].take_changes()
        assert made is not None
        await made
        left = await crash(node.logs, tmp_path / "data")
    async with running_node(left, OPTIONS) as node:
        queue = node.vhost.queues["q"]
        group = queue.groups["g"]
        taker = consume(queue, group)
        assert (group.ready, queue.partitions[0].log.next_offset) == (0, 10)
        fill(queue, 2)
        await node.logs.journal.drain()
        node.turns.run()
        assert taker.bodies() == numbered(0, 2)


async def test_the_journal_hears_nothing_of_a_group_that_a_crash_may_take_back(node: Node) -> None:
    """Its cursor's number may be the next group's then, and old entries would settle that one's."""
    queue = await declare(node, **STREAM)
    fill(queue, 10)
    await node.logs.journal.drain()
    group, durable = node.vhost.hosted.groups.join(queue, GroupOptions("g"), "next", 0)
    assert (group.record.begins, group.ready) == ([10], 0)
    assert queue.partitions[0].log.cursors[group.record.cursor].take_changes() == []
    assert durable is not None
    await durable


@pytest.mark.parametrize("checkpoint", [False, True])
@pytest.mark.parametrize(("wanted", "left"), [("first", 10), (4, 6), ("next", 0)])
async def test_a_moved_group_goes_on_there_after_a_restart_too(
    tmp_path: Path, wanted: object, left: int, checkpoint: bool
) -> None:
    async with running_node(tmp_path, OPTIONS) as node:
        queue = await declare(node, **KEPT)
        fill(queue, 10)
        await node.logs.journal.drain()
        group = await join(node, queue, "g")
        taker = consume(queue, group)
        node.turns.run()
        with pytest.raises(GroupInUse):
            node.vhost.hosted.groups.move(group, wanted, 0)
        queue.detach([taker])
        with pytest.raises(GroupInUse):
            node.vhost.hosted.groups.move(group, wanted, 0)
        for delivery in taker.take():
            settle(delivery)
        moved = node.vhost.hosted.groups.move(group, wanted, 0)
        assert moved is not None
        await moved
        assert (group.deleted, queue.groups["g"].ready) == (True, left)
        if checkpoint:
            await node.logs.checkpoints.take()
    async with running_node(tmp_path, OPTIONS) as node:
        queue = node.vhost.queues["q"]
        taker = consume(queue, queue.groups["g"])
        expected = [f"m{number}" for number in range(10 - left, 10)]
        assert await delivered(node, taker, left) == expected
        assert list(queue.partitions[0].log.cursors) == [0, queue.groups["g"].record.cursor]


async def test_a_move_to_nowhere_changes_nothing(node: Node) -> None:
    queue = await declare(node, **STREAM)
    fill(queue, 3)
    await node.logs.journal.drain()
    group = await join(node, queue, "g", 1)
    with pytest.raises(InvalidStreamOffset):
        node.vhost.hosted.groups.move(group, "somewhere", 0)
    assert (queue.groups["g"], group.ready, group.deleted) == (group, 2, False)


async def test_a_group_is_given_what_is_durable_as_soon_as_it_is(node: Node) -> None:
    queue = await declare(node, **KEPT)
    journal = node.logs.journal
    fill(queue, 3)
    await journal.drain()
    early = await join(node, queue, "early")
    first = consume(queue, early)
    node.turns.run()
    journal.hold()
    fill(queue, 2)
    joining = [
        asyncio.ensure_future(join(node, queue, name, wanted))
        for name, wanted in (("late", "next"), ("beyond", 99))
    ]
    await asyncio.sleep(0)
    assert [queue.groups[name].record.begins for name in ("late", "beyond")] == [[3], [3]]
    node.turns.run()
    assert early.ready == 0
    assert first.bodies() == numbered(0, 3)
    for delivery in first.take():
        delivery.partition.give_back(delivery.offset, delivery.offset + delivery.count)
    early.wake()
    node.turns.run()
    assert first.bodies() == numbered(0, 3), "what comes back does not wait"
    journal.let_go()  # the groups themselves are in the block, too
    late, _ = await asyncio.gather(*joining)
    second = consume(queue, late)
    node.turns.run()
    assert first.bodies() == [*numbered(0, 3), *numbered(0, 2)]
    assert second.bodies() == numbered(0, 2)
