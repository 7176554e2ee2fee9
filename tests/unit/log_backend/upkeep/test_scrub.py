import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from support.waiting import until
from unit.log_backend.log_records import records
from unit.log_backend.open_store import MIB, start_store
from unit.log_backend.watched_disk import WatchedDisk

from routelog.log_backend.log_store import LogOptions
from routelog.log_backend.upkeep.scrub import Scrub

OPTIONS = LogOptions(
    journal_file_bytes=MIB,
    segment_bytes=20_000,
    flush_seconds=3600,
    scrub_bytes_per_second=1 << 40,
    scrub_interval_seconds=3600,
)


async def fill(data: Path) -> list[Path]:
    """Sealed segments and an active one."""
    store, (partition,) = start_store(data, options=replace(OPTIONS, scrub_bytes_per_second=0))
    for number in range(40):
        partition.append(records([b"%d" % number + b"x" * 2_000]))
    await store.aclose()
    paths = sorted((data / "logs").rglob("*.log"))
    assert len(paths) > 3
    return paths


async def test_a_round_reads_every_sealed_segment(data: Path) -> None:
    paths = await fill(data)
    store, _ = start_store(data, options=OPTIONS, epoch=2)
    await until(lambda: store.scrub.rounds == 1)
    assert store.scrub.segments == len(paths) - 1
    assert store.scrub.bytes == sum(path.stat().st_size for path in paths[:-1])
    assert store.scrub.damages == 0
    await store.aclose()


async def test_damage_is_found_without_a_reader_and_quarantined(
    data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    paths = await fill(data)
    content = bytearray(paths[1].read_bytes())
    content[300] ^= 4
    paths[1].write_bytes(content)
    store, (partition,) = start_store(data, options=OPTIONS, epoch=2)
    await until(lambda: store.scrub.rounds == 1)
    assert store.scrub.damages == 1
    assert partition.blocked_from == int(paths[1].stem)
    assert f"quarantined: {paths[1].name} is damaged at byte 0" in caplog.text
    await store.aclose()


async def test_a_segment_that_cannot_be_read_is_passed_over(
    data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    paths = await fill(data)
    disk = WatchedDisk()
    store, (partition,) = start_store(data, options=OPTIONS, disk=disk, epoch=2)
    disk.fail("open", paths[1].name)
    await until(lambda: store.scrub.rounds == 1)
    assert store.scrub.segments == len(paths) - 2
    assert partition.damage.found == []
    assert f"{paths[1].name} cannot be read" in caplog.text
    await store.aclose()


async def test_the_next_round_begins_after_the_interval(data: Path) -> None:
    await fill(data)
    store, _ = start_store(data, options=replace(OPTIONS, scrub_interval_seconds=0.01), epoch=2)
    await until(lambda: store.scrub.rounds >= 3)
    await store.aclose()


async def test_rate_0_never_reads(data: Path) -> None:
    await fill(data)
    store, _ = start_store(data, options=replace(OPTIONS, scrub_bytes_per_second=0), epoch=2)
    assert store.scrub._task is None
    await store.aclose()


async def test_the_rate_is_kept(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = await fill(data)
    waits: list[float] = []

    async def wait(scrub: Scrub, seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(Scrub, "_wait", wait)
    store, _ = start_store(data, options=replace(OPTIONS, scrub_bytes_per_second=1000), epoch=2)
    await until(lambda: store.scrub.rounds == 1)
    size = sum(path.stat().st_size for path in paths[:-1])
    assert sum(waits) == pytest.approx(size / 1000)
    await store.aclose()


async def test_it_stops_with_the_store(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await fill(data)

    async def wait(scrub: Scrub, seconds: float) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(Scrub, "_wait", wait)
    store, _ = start_store(data, options=OPTIONS, epoch=2)
    await until(lambda: store.scrub.bytes)
    assert (store.scrub.segments, store.scrub.rounds) == (0, 0)
    await store.aclose()


async def test_segments_that_go_meanwhile_are_no_damage(data: Path) -> None:
    await fill(data)
    store, (partition,) = start_store(
        data, options=replace(OPTIONS, scrub_bytes_per_second=1_000_000), epoch=2
    )
    partition.open_cursor().settle(0, partition.next_offset)
    partition.release()
    await until(lambda: store.scrub.rounds == 1)
    assert store.scrub.damages == 0
    await store.aclose()
