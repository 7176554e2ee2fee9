"""A copy of damaged logs becomes whole by the logs of the node that takes it, or is refused."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from unit.log_backend.open_store import append, flushed, numbered, start_store, unsettled
from unit.log_backend.partitions.test_quarantine import SMALL_SEGMENTS, flip, segments
from unit.log_backend.tools.test_log_repair import DAMAGES, NAMED

from routelog.log_backend.doors.disk import SystemDisk
from routelog.log_backend.tools.copy_repair import CopyBeyondRepair, OwnLogs, repair_copy

COUNT = 48
DIRECTORY = Path("logs/%2F/q-0")


async def repaired(copy: Path, own: Path) -> list[str]:
    """Repair a copy by a node that runs on its own data."""
    store, _ = start_store(own, options=SMALL_SEGMENTS)
    try:
        return repair_copy(copy, SystemDisk(), OwnLogs.of(own, SystemDisk(), store.partitions))
    finally:
        await store.aclose()


async def bodies(data: Path) -> list[tuple[int, bytes]]:
    store, (partition,) = start_store(data, options=SMALL_SEGMENTS, epoch=7)
    assert partition.damage.found == []
    found = await unsettled(partition)
    await store.aclose()
    return found


async def notice(data: Path) -> None:
    """Have a start note the damage."""
    store, _ = start_store(data, options=SMALL_SEGMENTS)
    await store.aclose()


@pytest.fixture
async def own(tmp_path: Path) -> Path:
    own = tmp_path / "own"
    own.mkdir()
    await segments(own)
    return own


@pytest.fixture
def copy(own: Path, tmp_path: Path) -> Path:
    shutil.copytree(own, copy := tmp_path / "copy")
    return copy


@pytest.mark.parametrize("is_noted", [False, True])
@pytest.mark.parametrize(
    ("damage", "which"),
    [
        (damage, which)
        for damage in DAMAGES
        if damage not in ("no owner", "damaged owner", "no index")
        for which in (2, 3)
        if which == 2 or damage not in NAMED
    ],
)
async def test_what_is_damaged_comes_from_the_own_log(
    own: Path, copy: Path, damage: str, which: int, is_noted: bool
) -> None:
    DAMAGES[damage][0](sorted((copy / DIRECTORY).glob("*.log"))[which])
    if is_noted:
        await notice(copy)
    assert await repaired(copy, own)
    assert await repaired(copy, own) == []
    assert await bodies(copy) == numbered(*range(COUNT))
    assert await bodies(own) == numbered(*range(COUNT))


async def test_batches_of_another_cut_are_taken_in_part(tmp_path: Path) -> None:
    options = replace(SMALL_SEGMENTS, segment_bytes=64 * 1024)
    for name, sizes in (("copy", [6, 6, 6]), ("own", [4, 8, 4, 2])):
        (tmp_path / name).mkdir()
        store, (partition,) = start_store(tmp_path / name, options=options)
        for size in sizes:
            append(partition, size)
        await flushed(store)
        await store.aclose()
    (path,) = (tmp_path / "copy" / DIRECTORY).glob("*.log")
    content = path.read_bytes()
    flip(path, content.index(numbered(7)[0][1]))
    await repaired(tmp_path / "copy", tmp_path / "own")
    assert await bodies(tmp_path / "copy") == numbered(*range(18))


async def test_a_copy_that_is_whole_is_left_as_it_is(own: Path, copy: Path) -> None:
    before = {path: path.read_bytes() for path in (copy / "logs").rglob("*") if path.is_file()}
    assert await repaired(copy, own) == []
    assert {path: path.read_bytes() for path in before} == before


async def test_damage_elsewhere_in_the_own_log_is_no_matter(own: Path, copy: Path) -> None:
    flip(sorted((copy / DIRECTORY).glob("*.log"))[2], 100)
    flip(sorted((own / DIRECTORY).glob("*.log"))[1], 100)
    assert await repaired(copy, own)
    assert await bodies(copy) == numbered(*range(COUNT))


@pytest.mark.parametrize("is_noted", [False, True])
async def test_damage_of_both_at_one_place_is_refused(
    own: Path, copy: Path, is_noted: bool
) -> None:
    flip(sorted((copy / DIRECTORY).glob("*.log"))[2], 100)
    path = sorted((own / DIRECTORY).glob("*.log"))[2]
    flip(path, 100)
    if is_noted:
        await notice(own)
        path.unlink()  # without it, only the note says that something was there
    with pytest.raises(CopyBeyondRepair, match="cannot be read here"):
        await repaired(copy, own)


async def test_an_own_log_that_does_not_reach_is_no_source(tmp_path: Path, own: Path) -> None:
    short = tmp_path / "short"
    short.mkdir()
    await segments(short, count=3)
    shutil.copytree(own, copy := tmp_path / "copy")
    flip(sorted((copy / DIRECTORY).glob("*.log"))[3], 100)
    with pytest.raises(CopyBeyondRepair, match="cannot be read here"):
        await repaired(copy, short)


async def test_a_partition_without_a_number_is_refused(own: Path, copy: Path) -> None:
    (copy / DIRECTORY / "PARTITION").unlink()
    with pytest.raises(CopyBeyondRepair, match="has no number"):
        await repaired(copy, own)


async def test_what_was_settled_before_it_was_written_here_is_not_needed(tmp_path: Path) -> None:
    for name, is_early in (("copy", True), ("own", False)):
        (tmp_path / name).mkdir()
        store, (partition,) = start_store(tmp_path / name, options=SMALL_SEGMENTS)
        for number in range(6):
            append(partition, 4)
            if number == 2:
                if is_early:
                    await flushed(store)
                partition.open_cursor().settle(4, 12)
        await flushed(store)
        await store.aclose()
    kept = numbered(*range(4), *range(12, 24))
    path = sorted((tmp_path / "copy" / DIRECTORY).glob("*.log"))[0]
    flip(path, path.read_bytes().index(b"4567"))
    await repaired(tmp_path / "copy", tmp_path / "own")
    assert await bodies(tmp_path / "own") == kept
    assert await bodies(tmp_path / "copy") == kept
