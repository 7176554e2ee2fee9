"""A node on its own and its standby, on real sockets with real stores, whichever of them comes and goes."""

from __future__ import annotations

import asyncio
import errno
import shutil
from pathlib import Path

import pytest
from cluster.nodes.standby_pair import FollowingStore, LeadingStore, caught_up, options
from support.ports import free_port
from support.waiting import until
from unit.log_backend.log_records import records
from unit.log_backend.open_store import append, content, crash, durable, unsettled

from routelog.log_backend import ArrivingCopy, DirectoryLocked, SystemDisk
from routelog.log_backend.segments.damage import Damage
from routelog.mirror_cluster import NoStandby, is_standby, promote
from routelog.mirror_cluster.links.copy_stream import receive_message, send_message, stream_over
from routelog.mirror_cluster.links.given_link import connect, connect_given
from routelog.mirror_cluster.links.introduction import Opening, Purpose
from routelog.mirror_cluster.protocol.messages import Acknowledge
from routelog.mirror_cluster.standby import follow_sender
from routelog.mirror_cluster.standby.standby import mark_standby
from routelog.mirror_cluster.standby.standby_door import LEADER


@pytest.fixture
def port() -> int:
    return free_port()


async def test_a_standby_has_what_the_node_has(tmp_path: Path, port: int) -> None:
    leader = await LeadingStore(tmp_path / "a", port).start()
    queue = await leader.declare("q")
    append(queue, 5)
    follower = await FollowingStore(tmp_path / "b", port).start()
    await caught_up(leader, follower)
    queue.open_cursor().settle(1, 3)
    other = await leader.declare("r")
    append(other, 4)
    to_both = records([b"x" * 20_000])
    for each in (queue, other):
        each.append(to_both, waited=True)
    await caught_up(leader, follower)
    assert leader.lag().seconds == 0
    await follower.aclose()
    await until(lambda: not leader.lag().is_connected)
    await durable(leader.store, append(queue, 3))
    assert leader.lag().bytes > 0
    assert leader.lag().seconds > 0
    follower = await FollowingStore(tmp_path / "b", port).start()
    await caught_up(leader, follower)
    assert not (tmp_path / "b" / "aside").exists(), "it went on with what it had"
    await follower.aclose()
    await leader.aclose()


async def test_acks_that_nothing_syncs_come_soon(tmp_path: Path, port: int) -> None:
    leader = await LeadingStore(tmp_path / "a", port).start()
    queue = await leader.declare("q")
    append(queue, 5)
    follower = await FollowingStore(tmp_path / "b", port).start()
    await caught_up(leader, follower)
    cursor = queue.open_cursor()
    cursor.settle(0, 2)
    leader.store.journal.wake_later()
    await until(lambda: follower.store.partitions[1].open_cursor().low_water == 2)
    await follower.aclose()
    await leader.aclose()


async def test_a_node_that_is_killed_and_started_goes_on(tmp_path: Path, port: int) -> None:
    leader = await LeadingStore(tmp_path / "a", port).start()
    queue = await leader.declare("q")
    append(queue, 5)
    follower = await FollowingStore(tmp_path / "b", port).start()
    await caught_up(leader, follower)
    crashed = await crash(leader.store, tmp_path / "a")
    await leader.aclose()
    leader = await LeadingStore(crashed, port).start()
    append(leader.queues["q"], 3)
    await caught_up(leader, follower)
    assert not follower.standby.ended.done()
    await follower.aclose()
    await leader.aclose()


async def test_a_standby_that_lacks_the_last_block_of_a_node_goes_on(
    tmp_path: Path, port: int
) -> None:
    leader = await LeadingStore(tmp_path / "a", port).start()
    queue = await leader.declare("q")
    append(queue, 5)
    follower = await FollowingStore(tmp_path / "b", port).start()
    await caught_up(leader, follower)
    await follower.aclose()
    await durable(leader.store, append(queue, 3))
    await leader.aclose()
    leader = await LeadingStore(tmp_path / "a", port).start()
    await leader.store.checkpoints.take()  # of all that it would give back at its start
    follower = await FollowingStore(tmp_path / "b", port).start()
    await caught_up(leader, follower)
    assert not (tmp_path / "b" / "aside").exists(), "it went on with what it had"
    await follower.aclose()
    await leader.aclose()


async def test_a_node_that_is_stopped_waits_until_its_standby_has_everything(
    tmp_path: Path, port: int
) -> None:
    leader = await LeadingStore(tmp_path / "a", port).start()
    queue = await leader.declare("q")
    follower = await FollowingStore(tmp_path / "b", port).start()
    await caught_up(leader, follower)
    position = append(queue, 5)
    await durable(leader.store, position)
    await leader.door.aclose()
    assert follower.store.journal.committed >= position
    await follower.aclose()
    await leader.aclose()


async def test_a_node_stops_without_a_standby_that_stands_still(
    tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(follow_sender, "END_SECONDS_MAX", 0.1)
    leader = await LeadingStore(tmp_path / "a", port).start()
    queue = await leader.declare("q")
    follower = await FollowingStore(tmp_path / "b", port).start()
    await caught_up(leader, follower)
    monkeypatch.setattr(follower.store.journal, "store", lambda blocks: None)
    await durable(leader.store, append(queue, 5))
    await leader.aclose()
    assert "before these standbys have everything: s@test" in caplog.text
    await follower.aclose()


async def test_a_standby_that_is_killed_goes_on(tmp_path: Path, port: int) -> None:
    leader = await LeadingStore(tmp_path / "a", port).start()
    queue = await leader.declare("q")
    follower = await FollowingStore(tmp_path / "b", port).start()
    for _ in range(50):
        position = append(queue, 20)
    await durable(leader.store, position)
    crashed = await crash(follower.store, tmp_path / "b")
    await follower.aclose()
    append(queue, 3)
    follower = await FollowingStore(crashed, port).start()
    await caught_up(leader, follower)
    await follower.aclose()
    await leader.aclose()


async def test_behind_the_journal_a_copy_comes_first(tmp_path: Path, port: int) -> None:
    leader = await LeadingStore(tmp_path / "a", port).start()
    queue = await leader.declare("q")
    append(queue, 5)
    queue.open_cursor().settle(1, 3)
    await leader.recycle(queue)
    follower = await FollowingStore(tmp_path / "b", port).start()
    assert await follower.ended() == "a copy of the leader's checkpoint is here"
    assert follower.store.journal.end.position == 0, "nothing is added to data that are replaced"
    await follower.aclose()
    append(queue, 3)
    follower = await FollowingStore(tmp_path / "b", port).start()
    append(queue, 3)
    await caught_up(leader, follower)
    await until(lambda: not leader.door._copies._tasks)  # it keeps the journal no more
    await follower.aclose()
    await leader.recycle(queue, follower.store.journal.end.position)
    follower = await FollowingStore(tmp_path / "b", port).start()
    assert await follower.ended() == "a copy of the leader's checkpoint is here"
    await follower.aclose()
    await leader.aclose()


async def test_what_was_a_node_takes_a_copy_although_it_has_all_blocks(
    tmp_path: Path, port: int
) -> None:
    leader = await LeadingStore(tmp_path / "a", port).start()
    append(await leader.declare("q"), 5)
    follower = await FollowingStore(tmp_path / "b", port).start()
    await caught_up(leader, follower)
    await follower.aclose()
    await leader.aclose()
    promote(tmp_path / "b", SystemDisk())
    leader = await LeadingStore(tmp_path / "b", port).start()
    # Of records that were not journaled it has given offsets that nobody else knows.
    follower = await FollowingStore(tmp_path / "a", port).start()
    await follower.aclose()  # killed before it has the copy
    follower = await FollowingStore(tmp_path / "a", port).start()
    assert await follower.ended() == "a copy of the leader's checkpoint is here"
    await follower.aclose()
    follower = await FollowingStore(tmp_path / "a", port).start()
    await caught_up(leader, follower)
    await follower.aclose()
    await leader.aclose()


async def test_a_standby_whose_queue_is_damaged_takes_a_copy(tmp_path: Path, port: int) -> None:
    leader = await LeadingStore(tmp_path / "a", port).start()
    queue = await leader.declare("q")
    append(queue, 5)
    follower = await FollowingStore(tmp_path / "b", port).start()
    await caught_up(leader, follower)
    damage = Damage("x.log", 0, "made by a test", 2, 3)
    follower.store.partitions[1].quarantine(damage)
    assert await follower.ended() == "a queue is damaged here: the next start takes a copy"
    await follower.aclose()
    follower = await FollowingStore(tmp_path / "b", port).start()
    assert await follower.ended() == "a copy of the leader's checkpoint is here"
    await follower.aclose()
    follower = await FollowingStore(tmp_path / "b", port).start()
    await caught_up(leader, follower)
    await follower.aclose()
    await leader.aclose()


async def wiped(leader: LeadingStore, data: Path, port: int, starts: int = 1) -> LeadingStore:
    """The node has lost its disk, and begins with an empty directory, several times perhaps."""
    await leader.aclose()
    for _ in range(starts - 1):
        await (await LeadingStore(data, port).start()).aclose()
    return await LeadingStore(data, port).start()


@pytest.mark.parametrize("is_damaged", [False, True])
async def test_a_node_that_has_lost_its_data_does_not_replace_those_of_its_standby(
    tmp_path: Path, port: int, is_damaged: bool, caplog: pytest.LogCaptureFixture
) -> None:
    leader = await LeadingStore(tmp_path / "a", port).start()
    queue = await leader.declare("q")
    append(queue, 5)
    follower = await FollowingStore(tmp_path / "b", port).start()
    await caught_up(leader, follower)
    expected = await unsettled(queue)
    if is_damaged:
        follower.standby._is_replaced = True
    leader = await wiped(leader, tmp_path / "empty", port)
    await until(lambda: caplog.text.count("has less than this standby") > 1)
    assert "has it lost its data?" in caplog.text
    assert not leader.store.copies._count, "the node is not asked for a copy"
    assert not follower.standby.ended.done()
    await follower.aclose()
    await leader.aclose()
    promote(tmp_path / "b", SystemDisk())
    assert await content(tmp_path / "b") == expected


async def test_a_node_with_more_of_an_older_epoch_has_lost_its_data(
    tmp_path: Path, port: int, caplog: pytest.LogCaptureFixture
) -> None:
    leader = await wiped(await LeadingStore(tmp_path / "x", port).start(), tmp_path / "a", port, 3)
    append(await leader.declare("q"), 5)
    follower = await FollowingStore(tmp_path / "b", port).start()
    await caught_up(leader, follower)
    await follower.aclose()
    leader = await wiped(leader, tmp_path / "empty", port, 2)
    other = await leader.declare("other")
    while leader.store.journal.committed <= follower.store.journal.end.position:
        await durable(leader.store, append(other))
    follower = await FollowingStore(tmp_path / "b", port).start()
    await until(lambda: "has less than this standby" in caplog.text)
    assert not follower.standby.ended.done()
    await follower.aclose()
    await leader.aclose()


@pytest.mark.parametrize("is_recycled", [False, True])
async def test_a_node_with_other_blocks_than_its_standby_has_lost_its_data(
    tmp_path: Path, port: int, is_recycled: bool, caplog: pytest.LogCaptureFixture
) -> None:
    leader = await LeadingStore(tmp_path / "a", port).start()
    append(await leader.declare("q"), 5)
    follower = await FollowingStore(tmp_path / "b", port).start()
    await caught_up(leader, follower)
    expected = await unsettled(leader.queues["q"])
    leader = await wiped(leader, tmp_path / "empty", port, 3)
    refused = "has less than this standby"
    await until(lambda: refused in caplog.text)
    other = await leader.declare("other")
    end = follower.store.journal.end.position
    while leader.store.journal.committed <= end:
        await durable(leader.store, append(other))
    if is_recycled:
        await leader.recycle(other, end)
    caplog.clear()
    await until(lambda: caplog.text.count(refused) > 1)
    assert leader.store.journal.committed > end
    assert not follower.standby.ended.done()
    await follower.aclose()
    await leader.aclose()
    promote(tmp_path / "b", SystemDisk())
    assert await content(tmp_path / "b") == expected


async def test_a_journal_that_is_recycled_on_the_way_ends_in_a_copy(
    tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader = await LeadingStore(tmp_path / "a", port).start()
    queue = await leader.declare("q")
    follower = await FollowingStore(tmp_path / "b", port).start()
    await caught_up(leader, follower)
    with monkeypatch.context() as gone:
        gone.setattr(leader.store.journal, "read", lambda after, bytes_max: nothing())
        append(queue)
        await follower.ended()
    await follower.aclose()
    follower = await FollowingStore(tmp_path / "b", port).start()
    await caught_up(leader, follower)
    await follower.aclose()
    await leader.aclose()


async def nothing() -> list[object]:
    return []


async def test_what_another_node_wrote_is_kept_aside(tmp_path: Path, port: int) -> None:
    other = await LeadingStore(tmp_path / "b", port).start()
    append(await other.declare("elsewhere"), 50)
    await other.aclose()
    leader = await LeadingStore(tmp_path / "a", port).start()
    queue = await leader.declare("q")
    append(queue, 5)
    follower = await FollowingStore(tmp_path / "b", port).start()
    await follower.ended()
    await follower.aclose()
    follower = await FollowingStore(tmp_path / "b", port).start()
    await caught_up(leader, follower)
    assert (tmp_path / "b" / "aside" / "1" / "journal").is_dir()
    await follower.aclose()
    await leader.aclose()


async def test_under_load_a_copy_and_the_journal_behind_it_are_whole(
    tmp_path: Path, port: int
) -> None:
    leader = await LeadingStore(tmp_path / "a", port).start()
    queue = await leader.declare("q")
    await leader.recycle(queue)
    follower = await FollowingStore(tmp_path / "b", port).start()
    while not follower.standby.ended.done():
        await durable(leader.store, queue.append(records([b"x" * 1_000]), waited=True))
    await follower.aclose()
    await durable(leader.store, queue.append(records([b"x" * 1_000]), waited=True))
    follower = await FollowingStore(tmp_path / "b", port).start()
    await caught_up(leader, follower)
    await follower.aclose()
    await leader.aclose()


async def test_a_promoted_standby_begins_an_epoch_of_its_own(tmp_path: Path, port: int) -> None:
    for _ in range(3):  # which makes epochs
        leader = await LeadingStore(tmp_path / "a", port).start()
        await leader.aclose()
    leader = await LeadingStore(tmp_path / "a", port).start()
    queue = await leader.declare("q")
    append(queue, 5)
    queue.open_cursor().settle(0, 2)
    follower = await FollowingStore(tmp_path / "b", port).start()
    await caught_up(leader, follower)
    data, disk = tmp_path / "b", SystemDisk()
    with pytest.raises(DirectoryLocked):
        promote(data, disk)
    expected = await unsettled(queue)
    crashed = await crash(follower.store, data)
    await leader.aclose()
    await follower.aclose()
    assert is_standby(crashed, disk)
    end = promote(crashed, disk)
    assert end.epoch == 4
    assert not is_standby(crashed, disk)
    with pytest.raises(NoStandby):
        promote(crashed, disk)
    promoted = await LeadingStore(crashed, port).start()
    assert promoted.store.intake.leader_epoch > end.epoch
    assert await unsettled(promoted.queues["q"]) == expected
    await promoted.aclose()
    assert await content(crashed) == expected


def cannot_be_kept(copy: ArrivingCopy) -> None:
    raise OSError(errno.EIO, "the disk says no")


async def test_a_node_that_follows_is_promoted_with_a_copy_not_with_what_it_had(
    tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = await LeadingStore(tmp_path / "a", port).start()
    await durable(lost.store, append(await lost.declare("q"), 5))
    await lost.aclose()
    follower = await FollowingStore(tmp_path / "a", port).start()  # the other node is down
    await follower.aclose()
    with pytest.raises(NoStandby, match="has nothing of its node yet"):
        promote(tmp_path / "a", SystemDisk())
    assert is_standby(tmp_path / "a", SystemDisk())
    other = await LeadingStore(tmp_path / "b", port).start()
    queue = await other.declare("q")
    append(queue, 3)
    with monkeypatch.context() as patch:
        patch.setattr(ArrivingCopy, "keep", cannot_be_kept)
        follower = await FollowingStore(tmp_path / "a", port).start()
        await follower.ended()
        await follower.aclose()
    with pytest.raises(NoStandby, match="has nothing of its node yet"):
        promote(tmp_path / "a", SystemDisk())
    follower = await FollowingStore(tmp_path / "a", port).start()
    await follower.ended()
    await follower.aclose()
    killed = shutil.copytree(tmp_path / "a", tmp_path / "killed")
    mark_standby(killed, SystemDisk(), copies_first=True)  # as before it knew of its copy
    promote(killed, SystemDisk())
    follower = await FollowingStore(tmp_path / "a", port).start()
    await caught_up(other, follower)
    expected = await unsettled(queue)
    await follower.aclose()
    await other.aclose()
    promote(tmp_path / "a", SystemDisk())
    assert await content(tmp_path / "a") == expected
    assert await content(killed) == expected


async def test_who_does_not_know_the_secret_gets_nothing(
    tmp_path: Path, port: int, caplog: pytest.LogCaptureFixture
) -> None:
    leader = await LeadingStore(tmp_path / "a", port).start()
    await leader.declare("q")
    follower = await FollowingStore(tmp_path / "b", port, b"another secret here").start()
    await until(lambda: "does not know this cluster's secret" in caplog.text)
    assert leader.lag() is None
    assert follower.store.journal.end.position == 0
    await follower.aclose()
    await leader.aclose()
    with pytest.raises(NoStandby, match="has nothing of its node yet"):
        promote(tmp_path / "b", SystemDisk())
    assert is_standby(tmp_path / "b", SystemDisk())


@pytest.mark.parametrize("bad", [b"\xff" * 64, b"\x40\0\0\0" + bytes(80), None])
async def test_what_is_no_message_ends_the_connection_with_a_reason(
    tmp_path: Path, port: int, bad: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    leader = await LeadingStore(tmp_path / "a", port).start()
    streams: list = []
    opening = Opening("orders", "s", LEADER, 1, Purpose.FOLLOW, bytes(31) + b"n")
    await connect_given(
        opening,
        options(port).secret,
        None,
        lambda *given: streams.append(stream_over(*given)),
        lambda protocol: connect(f"127.0.0.1:{port}", protocol, None),
    )
    reader, writer = streams[0]
    if bad is None:
        await send_message(writer, Acknowledge(0, 0, 0, 1, 0.0))
    else:
        writer.write(bad)
    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        await receive_message(reader)
    assert "standby s is not understood" in caplog.text
    writer.close()
    await leader.aclose()
