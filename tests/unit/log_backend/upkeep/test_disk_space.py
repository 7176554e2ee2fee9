"""The reserve: when publishers wait, and how soon that is noticed."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.waiting import until
from unit.passing_time import pass_time

from routelog.log_backend.doors.ballast import METADATA_BYTES, MIB, Ballast
from routelog.log_backend.doors.disk import DiskFull, SystemDisk
from routelog.log_backend.upkeep.disk_space import (
    FILL_RATE,
    LOOK_SECONDS_MAX,
    LOOK_SECONDS_MIN,
    DiskSpace,
    Reserve,
)

TOTAL = 800 * MIB
RESERVE = 100 * MIB


class Gauge(SystemDisk):
    """A disk whose free space is what the test says."""

    def __init__(self) -> None:
        self.free: int | OSError = TOTAL
        self.looks = 0
        self.asked, self.answers = threading.Event(), threading.Event()
        self.answers.set()

    def total_bytes(self, path: Path) -> int:
        return TOTAL

    def free_bytes(self, path: Path) -> int:
        self.looks += 1
        if not self.answers.is_set():
            self.asked.set()
            assert self.answers.wait(60)
        if isinstance(self.free, OSError):
            raise self.free
        return self.free


class Watch:
    """A monitor and what its owner sees."""

    def __init__(self, reserve: int = RESERVE) -> None:
        self.disk = Gauge()
        self.promised = 0
        self.seen: list[bool] = []
        self.space = DiskSpace(
            Path("/"),
            self.disk,
            asyncio.get_running_loop(),
            reserve,
            Ballast(Path("/"), self.disk, 0),
            promised=lambda: self.promised,
            on_look=lambda: self.seen.append(self.space.low),
        )


@pytest.fixture
async def watch() -> AsyncIterator[Watch]:
    watch = Watch()
    yield watch
    watch.space.stop()


def test_the_reserve_is_at_most_an_eighth_of_the_file_system() -> None:
    assert Reserve.of(256 * MIB, 64 * MIB).size == 8 * MIB
    assert Reserve.of(256 * MIB, 1024 * 1024 * MIB).size == 256 * MIB
    assert Reserve.of(0, 64 * MIB).size == 0


@pytest.mark.parametrize(
    ("free", "promised", "was_low", "low"),
    [
        (RESERVE, 0, False, False),
        (RESERVE - 1, 0, False, True),
        (RESERVE + 5, 6, False, True),
        (RESERVE + 6, 6, False, False),
        (RESERVE * 5 // 4 - 1, 0, True, True),
        (RESERVE * 5 // 4, 0, True, False),
    ],
)
def test_what_was_promised_counts_and_publishers_go_on_with_some_to_spare(
    free: int, promised: int, was_low: bool, low: bool
) -> None:
    assert Reserve(RESERVE).is_low(free, promised, was_low=was_low) is low


def test_a_reserve_of_nothing_still_keeps_what_was_promised() -> None:
    assert Reserve(0).is_low(10, 11, was_low=False)
    assert not Reserve(0).is_low(10, 10, was_low=True)


def test_a_look_comes_before_the_rest_can_be_written() -> None:
    look = Reserve(RESERVE).next_look
    assert look(-1, low=False) == look(0, low=False) == LOOK_SECONDS_MIN
    assert look(FILL_RATE // 2, low=False) == 0.25
    assert look(10 * FILL_RATE, low=False) == LOOK_SECONDS_MAX < 1
    assert look(10 * FILL_RATE, low=True) == LOOK_SECONDS_MIN


async def test_a_disk_at_the_reserve_is_low_from_the_start(watch: Watch) -> None:
    watch.disk.free = RESERVE - 1
    watch.space.start()
    assert watch.seen == [True]


async def test_what_others_write_and_remove_is_noticed(
    watch: Watch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    watch.space.start()
    watch.disk.free = RESERVE - 1
    await until(lambda: watch.space.low)
    watch.disk.free = RESERVE  # not clearly more
    looks = watch.disk.looks
    await until(lambda: watch.disk.looks >= looks + 2)
    assert watch.space.low
    watch.disk.free = TOTAL
    await until(lambda: not watch.space.low)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


async def test_what_this_node_writes_is_looked_at_without_waiting(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("routelog.log_backend.upkeep.disk_space.LOOK_SECONDS_MIN", 3600)
    monkeypatch.setattr("routelog.log_backend.upkeep.disk_space.LOOK_SECONDS_MAX", 3600)
    watch.space.start()
    assert watch.space.room == TOTAL - RESERVE
    watch.disk.free = watch.promised = RESERVE
    watch.space.hurry()
    await until(lambda: watch.space.low)


async def test_space_that_cannot_be_asked_for_is_said_once_and_asked_for_again(
    watch: Watch, caplog: pytest.LogCaptureFixture
) -> None:
    watch.space.start()
    watch.disk.free = OSError("made to fail")
    looks = watch.disk.looks
    await until(lambda: watch.disk.looks >= looks + 3)
    watch.disk.free = 0
    await until(lambda: watch.space.low)
    assert len([record for record in caplog.records if "made to fail" in record.message]) == 1


async def test_segments_are_not_begun_without_room_for_the_metadata_that_follows(
    watch: Watch,
) -> None:
    watch.disk.free = METADATA_BYTES + 10
    watch.space.check_segment(10)
    with pytest.raises(DiskFull):
        watch.space.check_segment(11)


async def test_nothing_is_looked_at_after_the_end(watch: Watch) -> None:
    faults: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, fault: faults.append(fault))
    watch.space.start()
    looks = watch.disk.looks
    watch.space.stop()
    watch.space.hurry()
    await pass_time(60)
    assert watch.disk.looks == looks
    assert faults == []  # a look that was tried finds its thread gone


async def test_a_look_that_ends_after_the_end_is_not_told(watch: Watch) -> None:
    watch.space.start()
    seen = len(watch.seen)
    watch.disk.answers.clear()
    await pass_time(1)
    await asyncio.to_thread(watch.disk.asked.wait, 60)
    watch.space.stop()
    watch.disk.answers.set()
    await asyncio.to_thread(watch.space._thread.shutdown)
    await pass_time(60)
    assert len(watch.seen) == seen
