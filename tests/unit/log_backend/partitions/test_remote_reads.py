"""Readers of what is in remote storage alone: nothing is missing, and who need not wait does not."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from support.waiting import WAIT_SECONDS, until
from unit.log_backend.log_records import TIME, records
from unit.log_backend.open_store import crash, flushed, open_store
from unit.log_backend.partitions.remote_world import (
    BODIES,
    COPIED,
    LET_GO,
    SECOND,
    FickleBucket,
    World,
    load,
    next_batch,
    read_from,
)
from unit.log_backend.partitions.test_quarantine import flip
from unit.log_backend.tools.test_log_repair import repair

from routelog.log_backend import Change
from routelog.log_backend.journal.journal_block import Reason
from routelog.log_backend.partitions import remote_pieces, remote_reads
from routelog.log_backend.remote import remote_piece
from routelog.log_backend.remote.remote_log import mark_change, marked_partitions
from routelog.log_backend.remote.remote_segment import OWNER
from routelog.log_backend.segments.retention import Retention
from routelog.log_backend.upkeep import remote_storage

PLAIN = Retention(is_stream=True, bytes_max=200_000)
GROUP = 3  # number of a group's cursor


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setattr(remote_storage, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(remote_reads, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(remote_reads, "RETRY_SECONDS_MAX", 0.02)
    bucket = FickleBucket(tmp_path / "bucket")
    made = World(tmp_path / "data", bucket)
    yield made
    bucket.gate.set()
    await made.stop()


async def remote_only(world: World, **options: Any) -> None:
    """All sealed segments are in the bucket alone."""
    world.start(**options)
    world.begin()
    await world.publish(BODIES)
    await world.let_go()
    assert world.log.local_first > 80


@pytest.mark.parametrize("compression", ["none", "zstd"])
async def test_a_log_is_one_wherever_it_lies(world: World, compression: str) -> None:
    world.start(compression=compression)
    await world.publish(BODIES)
    if compression != "none":
        await until(lambda: all(each.compressed_bytes for each in world.log.sealed_segments()))
    world.begin()
    await world.let_go()
    log = world.log
    assert log.first_offset == 0 < log.local_first
    assert await read_from(log, 0) == BODIES
    for offset in (1, 37, log.local_first - 1, log.local_first):
        assert await read_from(log, offset) == BODIES[offset:]


async def test_a_reader_goes_over_the_border_while_segments_leave_the_disk(world: World) -> None:
    world.start()
    await world.publish(BODIES)
    world.begin()
    await world.copied()
    log, found, offset = world.log, [], 0
    while offset < len(BODIES):
        offset, bodies = await next_batch(log, offset)
        found += bodies
        left = len(log.segments)
        if offset % 7 == 0 and left > 1:  # from under the reader, and ahead of it
            log.retention = replace(LET_GO, local_bytes_max=(left - 2) * 65_536)
            log.expire()
    assert found == BODIES
    assert log.local_first > 80


async def test_readers_of_one_place_share_its_pieces_and_the_next_one_comes_ahead(
    world: World,
) -> None:
    await remote_only(world)
    bucket: FickleBucket = world.bucket  # type: ignore[assignment]
    bucket.opened.clear()
    assert await asyncio.gather(*(read_from(world.log, 0) for _ in range(9))) == [BODIES] * 9
    segments = world.log.remote.segments if world.log.remote else []
    assert bucket.opened == [each.content_name for each in segments], "each segment once"
    bucket.opened.clear()
    world.store.remote_reads.pieces.forget(world.log.number)
    await next_batch(world.log, 0)
    await until(lambda: len(bucket.opened) == 2)
    await until(lambda: not world.store.remote_reads._reads)
    assert len(bucket.opened) == 2, "one ahead, not more"


async def test_many_readers_at_places_of_their_own_get_on_within_the_budget(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_pieces, "REQUEST_BYTES", 64 * 1024)
    monkeypatch.setattr(remote_pieces, "REQUEST_BYTES_MIN", 8 * 1024)
    await remote_only(world, memory_remote_bytes=256 * 1024)
    reads, most = world.store.remote_reads, 0
    places = {begin: begin for begin in range(0, 80, 4)}
    found: dict[int, list[bytes]] = {begin: [] for begin in places}
    while any(offset < len(BODIES) for offset in places.values()):
        for begin, offset in places.items():
            if offset < len(BODIES):
                places[begin], bodies = await next_batch(world.log, offset)
                found[begin] += bodies
                most = max(most, reads.pieces.bytes)
    assert found == {begin: BODIES[begin:] for begin in places}
    assert most <= 256 * 1024 + 64 * 1024
    batches = sum(len(BODIES) - begin for begin in places)
    assert reads.requests < batches, "a request brings more than a batch"


async def test_a_live_reader_does_not_wait_for_those_who_wait_for_the_bucket(world: World) -> None:
    await remote_only(world)
    bucket: FickleBucket = world.bucket  # type: ignore[assignment]
    bucket.gate.clear()
    lagging = [asyncio.ensure_future(read_from(world.log, at)) for at in range(0, 80, 10)]
    await until(lambda: bucket.opened)
    log = world.log
    for number in range(20):
        log.append(records([b"live %d" % number]), waited=True)
        await flushed(world.store)
        assert await read_from(log, len(BODIES) + number) == [b"live %d" % number]
    log.evict(1 << 30)
    assert (await read_from(log, log.local_first))[-1] == b"live 19", "from the disk, too"
    assert not any(each.done() for each in lagging)
    bucket.gate.set()
    for at, found in zip(range(0, 80, 10), await asyncio.gather(*lagging), strict=True):
        assert found[: len(BODIES) - at] == BODIES[at:]


async def test_readers_wait_while_the_bucket_is_away_and_one_line_says_so(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    await remote_only(world)
    reads, bucket = world.store.remote_reads, world.bucket
    assert isinstance(bucket, FickleBucket)
    with caplog.at_level(logging.INFO):
        bucket.is_away = True
        lagging = [asyncio.ensure_future(read_from(world.log, at)) for at in (0, 40)]
        await until(lambda: sum(read.is_failing for read in reads._reads.get(1, ())) == 2)
        for _ in range(20):
            await asyncio.sleep(0.01)  # some tries more
        assert reads.failure == "no route to the bucket"
        assert world.log.waits_for_remote(0)
        assert not world.log.waits_for_remote(world.log.local_first)
        bucket.is_away = False
        assert await asyncio.gather(*lagging) == [BODIES, BODIES[40:]]
    lines = [each.message for each in caplog.records if "readers" in each.message]
    assert lines == [
        "readers wait for remote storage, which is tried again: no route to the bucket",
        "remote storage answers its readers again",
    ]
    assert reads.failure == ""


async def test_a_reader_goes_on_behind_what_retention_removes_under_it(world: World) -> None:
    await remote_only(world)
    log = world.log
    offset, _ = await next_batch(log, 0)
    world.store.remote_reads.pieces.forget(log.number)
    log.retention = replace(LET_GO, bytes_max=200_000)
    await until(lambda: log.first_offset > 40)
    assert await read_from(log, offset) == BODIES[log.first_offset :]
    assert not log.is_damaged


async def test_objects_that_are_gone_are_passed_over(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    await remote_only(world)
    remote = world.log.remote
    assert remote is not None
    gone = remote.segments[2]
    world.content(2).unlink()
    left = [body for at, body in enumerate(BODIES) if not gone.base_offset <= at < gone.next_base]
    assert await read_from(world.log, 0) == left
    assert "is gone: readers go on behind it" in caplog.text


@pytest.mark.parametrize("owner", [None, b"routelog remote storage 2: another"])
async def test_what_is_not_the_bucket_it_was_loses_nothing(
    world: World, owner: bytes | None
) -> None:
    await remote_only(world)
    place = world.bucket._root
    moved = place.with_name("elsewhere")
    place.rename(moved)  # a share that is not mounted
    place.mkdir()
    if owner is not None:
        (place / OWNER).write_bytes(owner)  # another share
    reading = asyncio.ensure_future(read_from(world.log, 0))
    reads = world.store.remote_reads
    await until(lambda: reads.failure or reading.done())
    assert f"{OWNER} is {'gone' if owner is None else 'another one'}" in reads.failure
    shutil.rmtree(place)
    moved.rename(place)
    assert await reading == BODIES


async def test_a_start_without_its_bucket_waits_for_it(world: World) -> None:
    await remote_only(world)
    await world.stop()
    place = world.bucket._root
    moved = place.with_name("elsewhere")
    place.rename(moved)
    place.mkdir()
    world.start()
    world.begin()
    assert world.remote is not None
    await until(lambda: world.remote and world.remote.failure)
    assert f"{OWNER} is gone" in world.remote.failure
    assert list(place.iterdir()) == []
    reading = asyncio.ensure_future(read_from(world.log, 0))
    place.rmdir()
    moved.rename(place)
    assert await reading == BODIES


async def test_after_a_restart_nobody_takes_the_older_part_for_gone(world: World) -> None:
    # A group that has read a third, and a reader who asks before the bucket was listed.
    await remote_only(world)
    await world.stop()
    world.start(retention=LET_GO, cursors={GROUP: 0})
    group = world.log.open_cursor(GROUP)
    assert group.low_water == 0
    assert world.log.first_offset == world.log.local_first > 80
    assert world.log.lowest_offset == 0
    group.settle(0, 33)
    reading = asyncio.ensure_future(read_from(world.log, 0))
    await asyncio.sleep(0)
    assert world.store.remote_reads.failure == "it is not used so far"
    world.begin()
    assert await reading == BODIES
    assert world.log.first_offset == 0
    await world.stop()
    world.start(retention=LET_GO, cursors={GROUP: 0})
    world.begin()
    assert await read_from(world.log, world.log.open_cursor(GROUP).low_water) == BODIES[33:]


async def checkpointed_run(world: World) -> None:
    """Start a run, and have the journal forget those before."""
    world.start(cursors={GROUP: 0})
    journal = world.store.journal
    recovered = journal.durable
    await until(lambda: journal._blocks.base.position >= recovered)
    await world.store.checkpoints.take()  # those that a start has begun are over


async def only_the_bucket_has_the_beginning(world: World) -> tuple[Path, int]:
    """Make a journal begin behind the first records, which a group needs; the first two thirds are let go.

    Returns:
        The directory of the segments, and the offset where the only one begins.
    """
    world.start(cursors={GROUP: 0})
    await world.publish(BODIES[:8])
    await world.stop()
    await checkpointed_run(world)
    await world.publish(BODIES[8:15])
    world.begin()
    await world.let_go()
    assert world.log.first_kept is None, "the newest segment is not synced"
    return world._data / "logs" / "%2F" / "q-0", world.log.local_first


async def test_a_power_cut_that_takes_the_only_segment_settles_nothing_for_groups(
    world: World,
) -> None:
    directory, first = await only_the_bucket_has_the_beginning(world)
    left = await crash(world.store, world._data)
    await world.stop()
    (segment,) = (left / directory.relative_to(world._data)).glob("*.log")
    segment.write_bytes(segment.read_bytes()[:100])
    world._data = left
    world.start(retention=LET_GO, cursors={GROUP: 0})
    assert world.log.segments == []
    assert world.log.local_first == 8 < first, "the journal has what is behind"
    assert world.log.open_cursor(GROUP).low_water == 0
    assert world.log.open_cursor(0).low_water in (8, first), "as far as the journal was told"
    world.begin()
    assert await read_from(world.log, 0) == BODIES[:15]


@pytest.mark.parametrize("is_there", [True, False])
async def test_a_repair_of_the_only_segment_settles_nothing_for_groups(
    world: World, is_there: bool
) -> None:
    directory, first = await only_the_bucket_has_the_beginning(world)
    await world.stop()
    await checkpointed_run(world)
    await world.stop()
    (segment,) = directory.glob("*.log")
    if is_there:
        for at in range(100, segment.stat().st_size, 200):
            flip(segment, at)
    else:
        segment.unlink()
    world.start(cursors={GROUP: 0})
    assert world.log.blocked_from == first
    await world.stop()
    lost = {offset for step in repair(world._data) for each in step.lost for offset in range(*each)}
    assert lost == set(range(first, 15))
    world.start(retention=LET_GO, cursors={GROUP: 0})
    log = world.log
    assert (log.segments, log.next_offset) == ([], 15)
    assert log.open_cursor(GROUP).low_water == 0
    world.begin()
    assert await read_from(log, 0, first) == BODIES[:first]
    assert log.read(first) is None
    assert not log.needs_load(first)
    await world.publish(BODIES[15:20])
    assert await read_from(log, 0) == BODIES[:first] + BODIES[15:20]


async def test_a_group_waits_when_the_address_is_not_that_of_what_it_has_not_read(
    world: World, tmp_path: Path
) -> None:
    await remote_only(world, cursors={GROUP: 0})
    await world.stop()
    right, world.bucket = world.bucket, FickleBucket(tmp_path / "other")
    world.start(retention=LET_GO, cursors={GROUP: 0})
    world.begin("other")
    reading = asyncio.ensure_future(read_from(world.log, 0))
    await until(lambda: world.remote and world.remote.failure)
    assert world.remote is not None
    end = world.log.local_first
    assert (
        f"not read what only test has, the address of before, of %2F/q-0/{1:020d} below offset {end}:"
        in (world.remote.failure)
    )
    assert not (world.bucket._root / OWNER).exists()
    assert world.store.remote_reads.failure
    reading.cancel()
    await world.stop()
    # The address is given back
    other, world.bucket = world.bucket, right
    world.start(retention=LET_GO, cursors={GROUP: 0})
    world.begin()
    assert await read_from(world.log, world.log.open_cursor(GROUP).low_water) == BODIES
    await world.stop()
    # Or an operator moves the group
    world.bucket = other
    world.start(retention=LET_GO, cursors={GROUP: 0})
    world.begin("other")
    await until(lambda: world.remote and world.remote.failure)
    world.log.open_cursor(GROUP + 1).settle(0, end, Reason.ACKED)
    world.log.close_cursor(GROUP)
    await until(lambda: world.remote and not world.remote.failure)
    assert await read_from(world.log, 0) == BODIES[end:]


async def test_a_log_that_was_never_copied_has_nothing_to_ask_for(world: World) -> None:
    world.start(retention=PLAIN)
    world.begin()
    await world.publish(BODIES)
    world.log.expire()
    await until(lambda: (world.bucket._root / OWNER).exists())
    await world.stop()
    (world.bucket._root / OWNER).write_bytes(b"routelog remote storage 2: another")
    world.start(retention=PLAIN)
    world.begin()
    await until(lambda: world.remote and world.remote.failure)
    first = world.log.local_first
    assert 0 < first == world.log.lowest_offset
    assert await read_from(world.log, 0) == BODIES[first:]
    assert world.log.when_located(TIME) is None


async def test_whoever_comes_to_lead_knows_which_logs_were_copied(world: World) -> None:
    world.start()
    await world.stop()
    store = open_store(world._data)
    log = store.open_partition(1, "/", "q", 0, durable=True, retention=COPIED)
    store.recover()
    store.follow()
    store.metadata.apply([mark_change(1)])  # as the leader's journal says
    assert not log.is_unlisted
    store.start(2)
    assert log.is_unlisted
    await store.aclose()
    world.start(retention=replace(LET_GO, is_remote=False))  # switched off by a policy
    assert world.log.is_unlisted
    gone = world.store.close_partitions(world.log)
    world.store.metadata.apply(gone)
    world.store.remove_files(world.log)
    await until(lambda: not list(marked_partitions(world.store.metadata)))
    world.log.close()


async def test_a_group_keeps_objects_but_not_the_disk(world: World) -> None:
    world.start(cursors={GROUP: 0})
    world.begin()
    await world.publish(BODIES)
    await world.let_go()
    log, group = world.log, world.log.open_cursor(GROUP)
    assert log.local_first > 80
    assert log.remote is not None
    before = log.bytes_from(group.low_water)
    log.retention = replace(LET_GO, bytes_max=1)
    assert world.remote is not None
    await world.remote._round()
    assert log.first_offset == 0
    group.settle(0, 50, Reason.ACKED)
    await until(lambda: log.first_offset > 30)
    assert log.first_offset <= 50
    assert 0 < log.bytes_from(group.low_water) < before
    passed: list[int] = []
    log.overtaken[GROUP] = passed.append
    log.retention = replace(LET_GO, bytes_max=1, is_forced=True)
    await until(lambda: passed)
    assert passed[-1] == log.remote.end


async def test_damage_is_read_from_the_next_copy(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.start()
    await world.publish(BODIES[:60])
    world.begin()
    await world.copied()
    await world.stop()
    first = world.log.remote
    assert first is not None
    # Another node's log of the same records, whose segments begin elsewhere
    other = World(world._data.with_name("other"), world.bucket)
    other.epoch = world.epoch
    other.start()
    other.store.segment_bytes = 50_000
    name = world.bucket._root
    own = (name / OWNER).read_bytes().rpartition(b" ")[2]
    other.store.metadata.apply([Change(b"remote-owner", own)])
    await other.publish(BODIES)
    other.begin()
    await other.let_go()
    log = other.log
    assert log.remote is not None
    at = next(
        number
        for number, (one, two) in enumerate(pairwise(log.remote.segments))
        if two.base_offset < one.next_base
    )
    overlapping = log.remote.segments[at + 1]
    content = bytearray(other.content(at).read_bytes())
    content[-10] ^= 1  # of its last record, which the other copy has
    other.content(at).write_bytes(content)
    assert await read_from(log, 0) == BODIES
    assert "is damaged at byte" in caplog.text
    assert not log.is_damaged
    assert overlapping in log.remote.segments
    await other.stop()
    world.start()


async def test_a_range_that_no_copy_gives_is_quarantined_and_nothing_else(world: World) -> None:
    await remote_only(world)
    log = world.log
    assert log.remote is not None
    segment = log.remote.segments[3]
    whole = world.content(3).read_bytes()
    broken = bytearray(whole)
    broken[len(broken) // 2 + 2_000] ^= 1  # in a body
    world.content(3).write_bytes(broken)
    before = await read_from(log, 0, segment.base_offset)
    assert before == BODIES[: segment.base_offset]
    offset = segment.base_offset
    while not log.is_blocked(offset):
        if log.read(offset) is None:
            await load(log, offset)
        else:
            offset, _ = await next_batch(log, offset)
    assert segment.base_offset < offset < segment.next_base
    assert log.is_damaged
    assert log.first_blocked == offset
    assert log.read(offset) is None
    assert not log.needs_load(offset)
    ((_, end),) = log.remote.damaged
    assert end == offset + 1
    assert await read_from(log, end) == BODIES[end:], "behind it, all is well"
    world.content(3).write_bytes(whole)
    log.read_again()
    assert await read_from(log, offset) == BODIES[offset:]


async def test_a_damaged_index_is_built_again(world: World) -> None:
    await remote_only(world)
    remote = world.log.remote
    assert remote is not None
    path = world.content(2).with_name(remote.segments[2].index_name)
    path.write_bytes(path.read_bytes()[:-1])
    offset = remote.segments[2].base_offset + 5
    assert await read_from(world.log, offset) == BODIES[offset:]


async def test_a_time_leads_into_a_segment_of_the_bucket(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_piece, "INDEX_STEP_BYTES", 12_000)  # two or three messages
    await remote_only(world)
    await world.stop()
    world.start(retention=LET_GO)
    log = world.log
    times = [TIME + offset * SECOND for offset in range(len(BODIES))]
    assert log.offset_at(times[50]) == 0, "nobody knows yet"
    located = log.when_located(times[50])
    assert located is not None
    assert log.when_located(times[-1]) is None, "it is on the disk"
    world.begin()
    await located
    for offset in (50, 0, 13, 37, 79):
        assert log.remote is not None
        segment = log.remote.segment_of(offset)
        assert segment is not None
        assert log.offset_at(times[offset]) == segment.first_offset
        located = log.when_located(times[offset])
        assert located is not None
        await located
        assert log.when_located(times[offset]) is None
        assert max(segment.first_offset, offset - 3) <= log.offset_at(times[offset]) <= offset
        assert log.time_at(offset) == segment.last_time
    assert log.when_located(2**62) is None
    assert log.offset_at(2**62) == log.next_offset


async def test_indexes_have_a_limit_of_memory(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_reads, "INDEXES_BYTES_MAX", 1_200)
    await remote_only(world)
    reads = world.store.remote_reads
    assert await read_from(world.log, 0) == BODIES
    assert 0 < reads._indexes_bytes <= 1_200
    assert len(reads._indexes) == 2


async def test_a_closed_log_asks_for_nothing_more_and_says_so(world: World) -> None:
    await remote_only(world)
    bucket = world.bucket
    assert isinstance(bucket, FickleBucket)
    bucket.is_away = True
    told = asyncio.Event()
    world.log.load(0, told.set)
    await until(lambda: world.store.remote_reads.failure)
    world.store.close_partitions(world.log)
    assert world.store.remote_reads.failure == ""
    assert not told.is_set()  # not within the change that closes it
    async with asyncio.timeout(30):
        await told.wait()
    assert not world.log.needs_load(0)


async def test_a_reader_before_a_gap_is_told_of_the_damage_behind_it(world: World) -> None:
    world.start()
    await world.publish(BODIES[:36])
    await world.stop()
    world.start()
    world.log.skip_to(50)
    await world.publish(BODIES[50:])
    world.begin()
    await world.let_go()
    log = world.log
    assert log.remote is not None
    at = next(n for n, each in enumerate(log.remote.segments) if each.base_offset == 50)
    broken = bytearray(world.content(at).read_bytes())
    broken[200] ^= 1
    world.content(at).write_bytes(broken)
    offset = 0
    while offset < 36:
        offset, _ = await next_batch(log, offset)
    while log.needs_load(offset):
        await load(log, offset)
    assert log.remote.damaged == [(50, 51)]
    assert log.is_blocked(offset)
    assert not log.is_blocked(35)


async def test_all_who_ask_where_a_time_lies_share_one_read(world: World) -> None:
    await remote_only(world)
    bucket, reads = world.bucket, world.store.remote_reads
    assert isinstance(bucket, FickleBucket)
    bucket.is_away = True
    time = TIME + 5 * SECOND
    asked = [world.log.when_located(time) for _ in range(50)]
    assert sum(map(len, reads._reads.values())) == 1
    await until(lambda: reads.failure)
    for each in asked[1:]:
        assert each is not None
        each.cancel()  # its client has gone
    assert asked[0] is not None
    bucket.is_away = False
    await asked[0]
    assert world.log.when_located(time) is None
    assert reads.failure == ""


async def test_who_asks_where_a_time_lies_hears_that_the_log_is_closed(world: World) -> None:
    await remote_only(world)
    await world.stop()
    world.start(retention=LET_GO)
    asked = world.log.when_located(TIME)
    assert asked is not None
    await asyncio.sleep(0)
    world.store.close_partitions(world.log)
    await asyncio.wait([asked], timeout=WAIT_SECONDS)
    assert asked.cancelled()
    assert world.log.when_located(TIME) is None
    assert not world.store.remote_reads._reads


async def test_offsets_that_nobody_stored_lead_to_what_follows(world: World) -> None:
    world.start()
    await world.publish(BODIES[:40])
    await world.stop()
    # The end of a segment was never promised: the next run goes on behind it
    world.start()
    world.log.skip_to(50)
    await world.publish(BODIES[50:])
    world.begin()
    await world.let_go()
    assert await read_from(world.log, 0) == BODIES[:40] + BODIES[50:]
    assert (await next_batch(world.log, 45))[1][0] == BODIES[50]
