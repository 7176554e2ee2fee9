"""A leader that commits nothing, as too few others have what it has: its copy is what brings them back."""

import asyncio
import errno
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from support.queue_samples import declare_queue, delete_queue, got, records
from support.waiting import until
from unit.log_backend.compacted_log import compact_here, idle, read_from
from unit.log_backend.copies.test_copies import materialized
from unit.log_backend.open_store import flushed, unsettled
from unit.log_backend.watched_disk import WatchedDisk
from unit.vhosts import replicated_nodes
from unit.vhosts.replicated_nodes import ReplicatedNode, replicated_node

from routelog.log_backend import JournalExtent, SystemDisk
from routelog.log_backend.journal import journal
from routelog.log_backend.partitions.partition_log import PartitionLog
from routelog.log_backend.segments.damage import Damage, load_damage
from routelog.log_backend.upkeep.flush_plan import FlushPlan
from routelog.vhosts import Policy, QueueProperties


async def declared(node: ReplicatedNode, name: str, *, durable: bool = True) -> None:
    _, stored = declare_queue(node.vhost, QueueProperties(name, durable=durable), None)
    assert stored is not None
    await stored


async def left(node: ReplicatedNode, name: str) -> list[bytes]:
    log = node.vhost.queues[name].partitions[0].log
    return [bytes(body) for _, body in await unsettled(log)]


async def with_settled_segments(leader: ReplicatedNode) -> Path:
    """Lead with a queue in segments; from then on nothing is committed, not even what settles the first ones.

    Returns:
        The first one.
    """
    await leader.lead(1)
    await declared(leader, "q")
    queue = leader.vhost.queues["q"]
    for number in range(8):
        queue.publish(records(b"%d" % number * 30_000), waited=True)
    await flushed(leader.logs)
    await leader.logs.checkpoints.take()
    first = queue.partitions[0].log.segments[0].path
    leader.connected = False
    for _ in range(4):
        delivery = got(queue)
        assert delivery is not None
        delivery.partition.settle(delivery.offset, delivery.offset + 1)
    return first


async def test_its_copy_has_what_is_committed_and_waits_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "TOLD_SECONDS_MAX", 0.02)
    async with replicated_node(tmp_path / "leader") as leader:
        await leader.lead(1)
        for name in ("kept", "deleted"):
            await declared(leader, name)
            leader.vhost.queues[name].publish(records("a", "b"), waited=True)
        await flushed(leader.logs)
        leader.vhost.queues["deleted"].publish(records("c"), waited=True)  # in the journal only
        await leader.drained()
        leader.connected = False
        deleted = delete_queue(leader.vhost, leader.vhost.queues["deleted"])
        assert deleted is not None
        leader.vhost.queues["kept"].publish(records("unknown"), waited=True)
        await leader.drained()
        copy = leader.logs.copies.begin()
        async with asyncio.timeout(5):
            await copy.taken
        assert copy.position == leader.logs.journal.committed
        data = materialized(copy, tmp_path / "follower")
    (data / "logs").mkdir(exist_ok=True)
    async with replicated_node(data) as follower:
        await follower.lead(2)
        assert await left(follower, "kept") == [b"a", b"b"]
        assert await left(follower, "deleted") == [b"a", b"b", b"c"]


async def test_a_checkpoint_that_was_given_up_loses_nothing_for_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "TOLD_SECONDS_MAX", 0.02)
    async with replicated_node(tmp_path / "leader") as leader:
        await leader.lead(1)
        for name in ("q", "long"):
            await declared(leader, name)
        queue = leader.vhost.queues["q"]
        partition = queue.partitions[0]
        queue.publish(records(*"abcd"), waited=True)
        await flushed(leader.logs)
        leader.connected = False
        for _ in range(3):
            delivery = got(queue)
            assert delivery is not None
            if delivery.offset:
                partition.settle(delivery.offset, delivery.offset + 1)
        await leader.logs.checkpoints.take()  # it waits in vain for what the journal was told
        leader.connected = True
        leader.logs.journal.commit(leader.logs.journal.durable)
        position = leader.logs.journal.committed
        while leader.logs.journal.mark(position) is not None:  # until no file has it any more
            leader.vhost.queues["long"].publish(records(bytes(300_000)), waited=True)
            await leader.drained()
            leader.vhost.queues["long"].purge()
            await leader.logs.checkpoints.take()
        data = await leader.killed("killed")
    async with replicated_node(data) as again:
        await again.lead(2)
        assert await left(again, "q") == [b"a", b"d"]


async def test_a_segment_goes_when_its_begin_is_stored_though_a_checkpoint_was_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(journal, "TOLD_SECONDS_MAX", 0.02)
    small = replace(replicated_nodes.OPTIONS, segment_bytes=64 * 1024)
    monkeypatch.setattr(replicated_nodes, "OPTIONS", small)
    async with replicated_node(tmp_path / "leader") as leader:
        first = await with_settled_segments(leader)
        await leader.logs.checkpoints.take()
        copy = leader.logs.copies.begin()
        await copy.taken
        copied = materialized(copy, tmp_path / "copied")
        leader.connected = True
        leader.logs.journal.commit(leader.logs.journal.durable)
        await until(lambda: not first.exists())
        data = await leader.killed("killed")
    for directory, expected in ((copied, b"01234567"), (data, b"4567")):
        async with replicated_node(directory) as again:
            await again.lead(2)
            assert b"".join(each[:1] for each in await left(again, "q")) == expected
    assert not [each for each in caplog.messages if "quarantined" in each]


async def test_a_leader_that_has_filled_its_journal_goes_on_when_more_is_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with replicated_node(tmp_path / "leader") as leader:
        await leader.lead(1)
        await declared(leader, "q")
        queue, logs = leader.vhost.queues["q"], leader.logs
        log = logs.journal

        def has_no_file() -> bool:
            return log._has_no_room() and not (log.supply.making or logs.checkpoints.lock.locked())

        def is_written() -> bool:
            return log.durable == log.end.position and not log.groups.has_more

        leader.connected = False
        monkeypatch.setattr(journal, "TOLD_SECONDS_MAX", 0.00001)  # no checkpoint is told in time
        for _ in range(200):
            queue.publish(records(bytes(300_000)), waited=True)
            await until(lambda: is_written() or has_no_file())
            if has_no_file():
                break
            log.commit(log.durable)
        monkeypatch.setattr(journal, "TOLD_SECONDS_MAX", 10.0)
        leader.connected = True
        log.commit(log.durable)
        queue.publish(records("last"), waited=True)
        await until(lambda: is_written() and log.committed == log.durable)


async def with_an_empty_segment(leader: ReplicatedNode) -> PartitionLog:
    """Lead with a queue whose only segment leaves it, as soon as that is committed; "b" is in memory."""
    await leader.lead(1)
    await declared(leader, "q")
    queue = leader.vhost.queues["q"]
    log = queue.partitions[0].log
    queue.publish(records("a"), waited=True)
    await flushed(leader.logs)
    queue.publish(records("b"), waited=True)
    await leader.drained()
    leader.connected = False
    delivery = queue.get()
    assert delivery is not None
    delivery.partition.settle(delivery.offset, delivery.offset + 1)
    assert log.remove_settled_segments()
    assert not log.segments
    return log


async def test_no_segment_lacks_a_message_before_it_is_committed_that_it_is_settled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with replicated_node(tmp_path / "leader") as leader:
        await leader.lead(1)
        await declared(leader, "q")
        queue = leader.vhost.queues["q"]
        for body in "abc":
            queue.publish(records(body), waited=True)
            await leader.drained()
        leader.connected = False
        for _ in range(2):
            delivery = got(queue)
            assert delivery is not None
        delivery.partition.settle(delivery.offset, delivery.offset + 1)
        with monkeypatch.context() as patch:
            patch.setattr(journal, "TOLD_SECONDS_MAX", 0.02)
            await leader.logs.checkpoints.flush()
        copy = leader.logs.copies.begin()
        await copy.taken
        copied = materialized(copy, tmp_path / "copied")
        await leader.drained()
        committed, data = leader.logs.journal.committed, await leader.killed("killed")
        leader.connected = True
        leader.logs.journal.commit(leader.logs.journal.durable)
        await leader.logs.checkpoints.flush()
        assert queue.partitions[0].log.segments
        settled = await leader.killed("settled")
    for directory, expected in ((copied, "abc"), (data, "abc"), (settled, "ac")):
        async with replicated_node(directory) as again:
            if directory != settled:
                await again.cut(committed)
            await again.lead(2)
            assert await left(again, "q") == [each.encode() for each in expected]


async def test_a_queue_that_is_deleted_before_its_flush_is_written_can_be_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with replicated_node(tmp_path / "leader") as leader:
        await leader.lead(1)
        await declared(leader, "q")
        queue = leader.vhost.queues["q"]
        queue.publish(records("a"), waited=True)
        await flushed(leader.logs)
        queue.publish(records("b"), waited=True)
        await leader.drained()
        its_journal, told = leader.logs.journal, leader.logs.journal.told

        async def deleted_meanwhile() -> bool:
            is_told = await told()
            monkeypatch.setattr(its_journal, "told", told)
            leader.connected = False
            delete_queue(leader.vhost, queue)
            return is_told

        monkeypatch.setattr(its_journal, "told", deleted_meanwhile)
        await leader.logs.checkpoints.flush()
        monkeypatch.setattr(journal, "TOLD_SECONDS_MAX", 0.02)
        copy = leader.logs.copies.begin()
        await copy.taken
        copied = materialized(copy, tmp_path / "copied")
    async with replicated_node(copied) as again:
        await again.lead(2)
        assert await left(again, "q") == [b"a", b"b"]


async def test_without_others_a_transient_queue_is_still_written_when_memory_is_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = replace(replicated_nodes.OPTIONS, memory_tail_bytes=256 * 1024)
    monkeypatch.setattr(replicated_nodes, "OPTIONS", small)
    monkeypatch.setattr(journal, "TOLD_SECONDS_MAX", 0.02)
    async with replicated_node(tmp_path / "leader") as leader:
        await leader.lead(1)
        await declared(leader, "q")
        await declared(leader, "transient", durable=False)
        leader.vhost.queues["q"].publish(records("a"), waited=True)
        await leader.drained()
        leader.connected = False
        delivery = got(leader.vhost.queues["q"])
        assert delivery is not None
        delivery.partition.settle(delivery.offset, delivery.offset + 1)
        leader.vhost.queues["q"].publish(records("b"), waited=True)
        await leader.drained()
        await leader.logs.checkpoints.take()  # it waits in vain, and is given up
        for _ in range(4):
            leader.vhost.queues["transient"].publish(records(bytes(100_000)), waited=False)
        await leader.logs.checkpoints.flush()
        assert leader.vhost.queues["transient"].partitions[0].log.segments
        assert not leader.vhost.queues["q"].partitions[0].log.segments


async def test_a_flush_that_is_given_up_does_not_say_that_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = WatchedDisk()
    monkeypatch.setattr(replicated_nodes, "SystemDisk", lambda: disk)
    monkeypatch.setattr(journal, "TOLD_SECONDS_MAX", 0.02)
    async with replicated_node(tmp_path / "leader") as leader:
        await leader.lead(1)
        await declared(leader, "q")
        leader.vhost.queues["q"].publish(records("a"), waited=True)
        await leader.drained()
        disk.fail("allocate", "*.log", errno.ENOSPC)
        await leader.logs.checkpoints.flush()
        assert leader.logs.checkpoints.refused is not None
        leader.connected = False
        leader.vhost.queues["q"].publish(records("b"), waited=True)
        await leader.drained()
        for _ in range(2):  # the first one waits in vain
            await leader.logs.checkpoints.flush()
        assert leader.logs.checkpoints.refused is not None
        disk.repair()
        leader.connected = True
        leader.logs.journal.commit(leader.logs.journal.durable)
        monkeypatch.setattr(journal, "TOLD_SECONDS_MAX", 30.0)
        await leader.logs.checkpoints.flush()
        assert leader.logs.checkpoints.refused is None


async def test_a_leader_whose_disk_was_full_goes_on_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = WatchedDisk()
    monkeypatch.setattr(replicated_nodes, "SystemDisk", lambda: disk)
    small = replace(replicated_nodes.OPTIONS, journal_files_max=2, disk_reserve_bytes=0)
    monkeypatch.setattr(replicated_nodes, "OPTIONS", small)
    monkeypatch.setattr(journal, "TOLD_SECONDS_MAX", 0.1)
    async with replicated_node(tmp_path / "leader") as leader:
        await leader.lead(1)
        await declared(leader, "q")
        queue, logs = leader.vhost.queues["q"], leader.logs
        log = logs.journal

        def is_written() -> bool:
            return log.durable == log.end.position and not log.groups.has_more

        def is_stalled() -> bool:
            return log._has_no_room() and not log.supply.making

        disk.fail("allocate", "*.log", errno.ENOSPC)
        while not is_stalled():
            queue.publish(records(bytes(300_000)), waited=True)
            await until(lambda: is_written() or is_stalled())
            if log.supply._count > small.journal_files_max:
                disk.fail("allocate", "*", errno.ENOSPC)
        await until(lambda: not logs.checkpoints.lock.locked())
        await logs.checkpoints.flush()  # it waits in vain until the journal has room
        disk.repair()
        await until(lambda: is_written() and log.committed == log.durable)


async def test_a_segment_that_goes_before_the_next_one_is_written_does_not_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with replicated_node(tmp_path / "leader") as leader:
        log = await with_an_empty_segment(leader)
        sync = FlushPlan.sync

        async def commit(plan: FlushPlan, partitions: Iterable[PartitionLog]) -> None:
            leader.connected = True
            leader.vhost.queues["q"].publish(records("c"), waited=True)
            await leader.drained()
            await until(lambda: not log.leaving)
            await sync(plan, partitions)

        monkeypatch.setattr(FlushPlan, "sync", commit)
        await leader.logs.checkpoints.flush()
        names = sorted(each.name for each in log.directory.iterdir())
        assert names == [log.segments[0].path.name, "PARTITION"]


async def test_a_checkpoint_does_not_say_that_a_segment_is_gone_whose_settlement_is_not_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = replace(replicated_nodes.OPTIONS, segment_bytes=64 * 1024)
    monkeypatch.setattr(replicated_nodes, "OPTIONS", small)
    async with replicated_node(tmp_path / "leader") as leader:
        its_journal, writer = leader.logs.journal, leader.logs.metadata_writer
        applied = writer.applied

        async def settled_meanwhile() -> None:
            await applied()
            monkeypatch.setattr(writer, "applied", applied)
            leader.connected = False
            for _ in range(4):
                delivery = queue.get()
                assert delivery is not None
                delivery.partition.settle(delivery.offset, delivery.offset + 1)

        await leader.lead(1)
        await declared(leader, "q")
        queue = leader.vhost.queues["q"]
        for number in range(8):
            queue.publish(records(b"%d" % number * 30_000), waited=True)
        await flushed(leader.logs)
        monkeypatch.setattr(writer, "applied", settled_meanwhile)
        await leader.logs.checkpoints.take()
        assert queue.partitions[0].log.leaving
        await leader.drained()
        committed, data = its_journal.committed, await leader.killed("killed")
    async with replicated_node(data) as again:
        await again.cut(committed)
        await again.lead(2)
        assert b"".join(each[:1] for each in await left(again, "q")) == b"01234567"


async def test_its_copy_has_the_journal_of_a_queue_whose_deletion_is_not_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with replicated_node(tmp_path / "leader") as leader:
        writer = leader.logs.metadata_writer
        applied = writer.applied

        async def deleted_meanwhile() -> None:
            await applied()
            monkeypatch.setattr(writer, "applied", applied)
            leader.connected = False
            delete_queue(leader.vhost, leader.vhost.queues["q"])

        await leader.lead(1)
        for name in ("q", "long"):
            await declared(leader, name)
        queue = leader.vhost.queues["q"]
        queue.publish(records("a", "b"), waited=True)
        delivery = got(queue)
        assert delivery is not None
        delivery.partition.settle(delivery.offset, delivery.offset + 1)
        await leader.drained()
        monkeypatch.setattr(writer, "applied", deleted_meanwhile)
        while JournalExtent(leader.logs.metadata).beginning.number == 1:
            leader.vhost.queues["long"].publish(records(bytes(300_000)), waited=True)
            await leader.drained()
        monkeypatch.setattr(journal, "TOLD_SECONDS_MAX", 0.02)
        copy = leader.logs.copies.begin()
        await copy.taken
        data = materialized(copy, tmp_path / "follower")
    async with replicated_node(data) as follower:
        await follower.lead(2)
        assert await left(follower, "q") == [b"b"]


async def test_nothing_is_compacted_by_a_rule_that_is_not_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = replace(replicated_nodes.OPTIONS, segment_bytes=64 * 1024)
    monkeypatch.setattr(replicated_nodes, "OPTIONS", small)
    async with replicated_node(tmp_path / "leader") as leader:
        compact_here(leader.logs, SystemDisk())
        await leader.lead(1)
        properties = QueueProperties("q", durable=True, arguments={"x-queue-type": "stream"})
        _, stored = declare_queue(leader.vhost, properties, None)
        assert stored is not None
        await stored
        queue = leader.vhost.queues["q"]
        log = queue.partitions[0].log
        for number in range(8):
            queue.publish(records(b"%d" % number * 30_000), waited=True)
        await flushed(leader.logs)
        leader.connected = False
        put = asyncio.create_task(
            leader.vhost.policies.put(Policy("p", ".*", {"cleanup-policy": "compact"}))
        )
        await until(lambda: log.compaction)
        monkeypatch.setattr(journal, "TOLD_SECONDS_MAX", 0.02)
        leader.logs.compactor.look(log)
        await idle(leader.logs)
        await leader.drained()
        committed, data = leader.logs.journal.committed, await leader.killed("killed")
        leader.connected = True
        leader.logs.journal.commit(leader.logs.journal.durable)
        await put
        leader.turns.clock.microseconds += 61_000_000  # then it tries again
        leader.logs.compactor.look(log)
        await until(lambda: leader.logs.compactor.passes)
    async with replicated_node(data) as again:
        await again.cut(committed)
        await again.lead(2)
        left = await read_from(again.vhost.queues["q"].partitions[0].log, 0)
        assert b"".join(each.body[:1] for each in left) == b"01234567"


async def test_damage_is_known_until_it_is_committed_that_nobody_needs_what_is_damaged(
    tmp_path: Path,
) -> None:
    async with replicated_node(tmp_path / "leader") as leader:
        await leader.lead(1)
        await declared(leader, "q")
        queue, metadata = leader.vhost.queues["q"], leader.logs.metadata
        log = queue.partitions[0].log
        queue.publish(records("a", "b"), waited=True)
        await flushed(leader.logs)
        delivery = got(queue)
        assert delivery is not None
        log.quarantine(Damage(log.segments[0].path.name, 0, "a test", 0, 1))
        await until(lambda: load_damage(metadata, log.number).found)
        leader.connected = False
        delivery.partition.settle(delivery.offset, delivery.offset + 1)
        log.release()
        assert not log.is_damaged
        await leader.drained()
        committed, data = leader.logs.journal.committed, await leader.killed("killed")
        leader.connected = True
        leader.logs.journal.commit(leader.logs.journal.durable)
        await until(lambda: not load_damage(metadata, log.number).found)
    async with replicated_node(data) as again:
        await again.cut(committed)
        await again.lead(2)
        assert again.logs.is_damaged
