"""Repair: what is whole stays, and what is lost is said."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from support.waiting import until
from unit.log_backend.open_store import (
    append,
    crash,
    durable,
    flushed,
    numbered,
    start_store,
    unsettled,
)
from unit.log_backend.partitions.test_quarantine import SMALL_SEGMENTS, flip, readable, segments

from routelog.log_backend.doors.disk import Disk, SystemDisk
from routelog.log_backend.tools.data_directory import DataDirectory, open_metadata
from routelog.log_backend.tools.log_repair import Repair, Repaired
from routelog.log_backend.tools.log_verification import Finding, Verification

NAMES = {1: ("/", "q", 0)}


def repair(data: Path, disk: Disk | None = None, *, is_dry: bool = False) -> list[Repaired]:
    disk = disk or SystemDisk()
    with open_metadata(data, disk, read_only=is_dry) as metadata:
        directory = DataDirectory(data, disk, metadata, NAMES)
        return list(Repair(directory, data / "quarantine" / "x", is_dry=is_dry).run())


def verify(data: Path) -> list[Finding]:
    disk = SystemDisk()
    with open_metadata(data, disk, read_only=True) as metadata:
        return list(Verification(DataDirectory(data, disk, metadata, NAMES)).run())


def lost_offsets(steps: Sequence[Repaired]) -> set[int]:
    return {offset for step in steps for first, end in step.lost for offset in range(first, end)}


async def remaining(data: Path) -> set[int]:
    store, (partition,) = start_store(data, epoch=7)
    assert partition.damage.found == []
    found = await unsettled(partition)
    assert found == numbered(*(offset for offset, _ in found))
    assert partition.next_offset == 48
    await store.aclose()
    return {offset for offset, _ in found}


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def misname(path: Path) -> None:
    path.rename(path.with_stem(f"{int(path.stem) + 1:020d}"))


def double(path: Path) -> None:
    shutil.copyfile(path, path.with_stem(f"{int(path.stem) + 1:020d}"))


def swap(path: Path) -> None:
    other = sorted(path.parent.glob("*.log"))[1]
    content = path.read_bytes()
    path.write_bytes(other.read_bytes())
    other.write_bytes(content)


def lose_owner(path: Path) -> None:
    path.with_name("PARTITION").unlink()


def spoil_owner(path: Path) -> None:
    flip(path.with_name("PARTITION"), 9)


def lose_index(path: Path) -> None:
    path.with_suffix(".index").unlink(missing_ok=True)


DAMAGES: dict[str, tuple[Callable[[Path], object], int, int]] = {
    # what is done to the third of four segments or the newest, offsets lost at least and at most
    "payload": (lambda path: flip(path, 100), 4, 4),
    "header": (lambda path: flip(path, 30), 4, 4),
    "second header": (lambda path: flip(path, 150), 4, 4),
    "cut": (cut, 4, 4),
    "empty": (empty, 12, 12),
    "removed": (Path.unlink, 12, 12),
    "misnamed": (misname, 0, 0),
    "doubled": (double, 0, 0),
    "swapped": (swap, 0, 0),
    "no owner": (lose_owner, 0, 0),
    "damaged owner": (spoil_owner, 0, 0),
    "no index": (lose_index, 0, 0),
}


# Nothing follows the newest segment: under another name it would be a segment behind.
NAMED = ("misnamed", "doubled")


@pytest.mark.parametrize(
    ("damage", "which"),
    [
        (damage, which)
        for damage in DAMAGES
        for which in (2, 3)
        if which == 2 or damage not in NAMED
    ],
)
async def test_a_repair_keeps_what_is_whole_and_says_what_is_lost(
    data: Path, damage: str, which: int
) -> None:
    path = (await segments(data))[which]
    spoil, least, most = DAMAGES[damage]
    spoil(path)
    planned = repair(data, is_dry=True)
    steps = repair(data)
    lost = lost_offsets(steps)
    assert least <= len(lost) <= most
    if damage not in (*NAMED, "swapped"):
        assert lost_offsets(planned) == lost
    assert [each for each in verify(data) if each.severity == "damage"] == []
    assert repair(data) == []
    assert await remaining(data) == set(range(48)) - lost


@pytest.mark.parametrize("damage", ["payload", "cut", "empty", "swapped"])
async def test_a_quarantine_ends_with_the_repair(data: Path, damage: str) -> None:
    path = (await segments(data))[3]
    DAMAGES[damage][0](path)
    store, (partition,) = start_store(data, epoch=2)
    if damage != "payload":
        assert partition.blocked_from <= 47
    await durable(store, append(partition, 3))
    await flushed(store)
    await store.aclose()
    steps = repair(data)
    lost = lost_offsets(steps)
    store, (partition,) = start_store(data, epoch=3)
    assert partition.blocked_from > partition.next_offset == 51
    found = {offset for offset, _ in await unsettled(partition)}
    assert found == set(range(51)) - lost
    assert len(lost) == DAMAGES[damage][1]
    await store.aclose()


async def damaged_journal(data: Path) -> None:
    store, (partition,) = start_store(data, options=SMALL_SEGMENTS)
    for _ in range(12):
        await durable(store, append(partition, 4))
    left = await crash(store, data)
    await store.aclose()
    shutil.rmtree(data)
    left.rename(data)
    path = sorted((data / "journal").iterdir())[0]
    flip(path, 3 * 4096 + 50)


async def test_a_damaged_journal_keeps_its_whole_commits(data: Path) -> None:
    await damaged_journal(data)
    assert [each.severity for each in verify(data)] == ["damage"]
    (step,) = repair(data)
    assert step.what == "commits 4 to 4 are missing; the whole commits are kept"
    assert verify(data) == []
    assert repair(data) == []
    assert await remaining(data) == set(range(48)) - {12, 13, 14, 15}


async def test_files_of_a_deleted_queue_are_no_damage(data: Path) -> None:
    paths = await segments(data)
    disk = SystemDisk()
    with open_metadata(data, disk, read_only=True) as metadata:
        findings = list(Verification(DataDirectory(data, disk, metadata, {})).run())
    assert [each.severity for each in findings] == ["notice"]
    assert paths[0].exists()


async def compressed(data: Path) -> list[Path]:
    """A partition whose sealed segments have their compressed form."""
    store, (partition,) = start_store(data, options=replace(SMALL_SEGMENTS, compression="zstd"))
    for _ in range(12):
        append(partition, 4)
        await flushed(store)
    await until(lambda: len(list((data / "logs").rglob("*.zlog"))) == 3)
    await store.aclose()
    return sorted((data / "logs").rglob("*.zlog"))


@pytest.mark.parametrize("place", [0.0, 0.5, 0.9])
async def test_a_damaged_compressed_segment_is_quarantined_and_repaired(
    data: Path, place: float
) -> None:
    path = (await compressed(data))[1]
    assert verify(data) == []
    flip(path, int(path.stat().st_size * place))
    store, (partition,) = start_store(data, epoch=2)
    found = await readable(partition)
    assert found == numbered(*range(len(found)))
    assert partition.blocked_from == len(found) == 12
    await store.aclose()
    steps = repair(data)
    assert lost_offsets(steps) == set(range(12, 24))
    assert [each for each in verify(data) if each.severity == "damage"] == []
    assert await remaining(data) == set(range(48)) - set(range(12, 24))


@pytest.mark.parametrize("is_synced", [False, True])
async def test_a_segment_that_an_emptied_log_keeps_is_whole_and_may_be_gone_unless_it_was_synced(
    data: Path, is_synced: bool
) -> None:
    store, (partition,) = start_store(data)
    await durable(store, append(partition, 3))
    await flushed(store)
    if is_synced:
        await store.checkpoints.take()
    partition.open_cursor().settle(0, 3)
    partition.release()
    await store.checkpoints.take()
    left = await crash(store, data)
    await store.aclose()
    (kept,) = (left / "logs").rglob("*.log")
    assert verify(left) == []
    assert repair(left) == []
    kept.write_bytes(kept.read_bytes()[:-1])  # a power cut
    found = {each.severity for each in verify(left)}
    assert found == ({"damage"} if is_synced else {"notice"})
    again, (opened,) = start_store(left, epoch=2)
    assert opened.damage.found == []  # what is settled is not missed
    assert await unsettled(opened) == []
    await durable(again, append(opened, 2))
    await flushed(again)
    await again.aclose()
    assert verify(left) == []
