"""Commits that the event loop makes itself, while the disk is quick."""

import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from support.waiting import until
from unit.log_backend.journal.test_journal import commit
from unit.log_backend.journal_owner import Owner, entry, offsets, recovered
from unit.log_backend.watched_disk import WatchedDisk

from routelog.log_backend.doors.disk import Buffer
from routelog.log_backend.journal import disk_pace
from routelog.log_backend.journal import journal as journal_module
from routelog.log_backend.journal.journal import JournalFailed


class AttributedDisk(WatchedDisk):
    """Notes which thread wrote each block of the journal; its syncs take as long as they are told."""

    def __init__(self, clock: "Clock") -> None:
        super().__init__()
        self.writers: list[str] = []
        self.sync_seconds = 0.0
        self.clock = clock

    def write_synced(self, file: int, position: int, buffers: Sequence[Buffer]) -> None:
        self.writers.append(threading.current_thread().name)
        self.clock.seconds += self.sync_seconds
        super().write_synced(file, position, buffers)


class Clock:
    """Time passes on the disk only."""

    seconds = 0.0

    def now(self) -> int:
        return 0

    def monotonic(self) -> float:
        return self.seconds


# A journal of a test has few pages.
QUICK_COMMITS_MIN = 5
LOOP_COMMIT_BYTES_MAX = 4_096


@pytest.fixture
def disk() -> AttributedDisk:
    return AttributedDisk(Clock())


@pytest.fixture(autouse=True)
def few_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal writes no blocks by itself."""
    monkeypatch.setattr(disk_pace, "QUICK_COMMITS_MIN", QUICK_COMMITS_MIN)
    monkeypatch.setattr(journal_module, "MARK_SECONDS", 3600)
    monkeypatch.setattr(journal_module, "LOOP_COMMIT_BYTES_MAX", LOOP_COMMIT_BYTES_MAX)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "journal").mkdir()
    return tmp_path / "journal"


@pytest.fixture
async def owner(directory: Path, disk: AttributedDisk) -> AsyncIterator[Owner]:
    """Its disk is known to be quick."""
    owner = Owner(directory, disk, disk.clock)
    owner.start()
    for number in range(QUICK_COMMITS_MIN):
        await commit(owner, entry(number))
    assert set(disk.writers) == {"journal"}
    disk.writers.clear()
    yield owner
    await owner.journal.aclose()


async def test_a_small_commit_that_somebody_waits_for_is_made_on_the_loop(
    owner: Owner, disk: AttributedDisk, directory: Path
) -> None:
    for number in range(3):
        await commit(owner, entry(QUICK_COMMITS_MIN + number))
    assert disk.writers == ["MainThread"] * 3
    assert owner.durable[-3:] == [owner.journal.durable - 2 + each for each in range(3)]
    assert offsets(await recovered(directory)) == list(range(QUICK_COMMITS_MIN + 3))


async def test_what_nobody_waits_for_is_left_to_the_thread(
    owner: Owner, disk: AttributedDisk
) -> None:
    position = owner.journal.append(entry(QUICK_COMMITS_MIN), waited=False)
    await until(lambda: owner.journal.durable >= position)
    assert disk.writers == ["journal"]


async def test_a_large_commit_is_left_to_the_thread(owner: Owner, disk: AttributedDisk) -> None:
    await commit(owner, entry(QUICK_COMMITS_MIN, LOOP_COMMIT_BYTES_MAX + 1))
    assert disk.writers == ["journal"]


@pytest.mark.parametrize(
    ("size", "writer"), [(100, "MainThread"), (LOOP_COMMIT_BYTES_MAX + 1, "journal")]
)
async def test_what_gathered_during_a_commit_of_the_thread_goes_where_its_size_says(
    owner: Owner, disk: AttributedDisk, size: int, writer: str
) -> None:
    arrived, released = disk.hold("sync", "*.journal")
    owner.journal.append(entry(1, LOOP_COMMIT_BYTES_MAX + 1), waited=True)
    await until(arrived.is_set)
    position = owner.journal.append(entry(2, size), waited=True)
    released.set()
    await until(lambda: owner.journal.durable >= position)
    assert disk.writers == ["journal", writer]


async def test_after_a_stall_the_loop_waits_for_quick_commits_of_the_thread(
    owner: Owner, disk: AttributedDisk
) -> None:
    disk.sync_seconds = 2 * disk_pace.SLOW_SECONDS
    await commit(owner, entry(1))
    disk.sync_seconds = 0.0
    for number in range(QUICK_COMMITS_MIN + 1):
        await commit(owner, entry(2 + number))
    assert disk.writers == ["MainThread"] + ["journal"] * QUICK_COMMITS_MIN + ["MainThread"]


async def test_a_disk_that_has_stalled_long_does_not_stall_the_loop_again_soon(
    owner: Owner, disk: AttributedDisk
) -> None:
    disk.sync_seconds = 2 * disk_pace.CREDIT_SECONDS_MAX
    await commit(owner, entry(1))
    disk.sync_seconds = 0.0
    for number in range(2 * QUICK_COMMITS_MIN):
        await commit(owner, entry(2 + number))
    assert disk.writers == ["MainThread"] + ["journal"] * 2 * QUICK_COMMITS_MIN
    disk.clock.seconds += disk_pace.PAUSE_SECONDS_MAX
    await commit(owner, entry(1_000))
    assert disk.writers[-1] == "MainThread"


@pytest.mark.parametrize("operation", ["write", "sync"])
async def test_a_failure_on_the_loop_is_final(
    owner: Owner, disk: AttributedDisk, directory: Path, operation: str
) -> None:
    durable = owner.journal.durable
    disk.fail(operation, "*.journal")
    owner.journal.append(entry(QUICK_COMMITS_MIN), waited=True)
    await until(lambda: owner.failures)
    assert disk.writers == ["MainThread"]
    disk.repair()
    with pytest.raises(JournalFailed):
        owner.journal.append(entry(QUICK_COMMITS_MIN + 1), waited=True)
    assert owner.journal.durable == durable
    assert len(owner.failures) == 1


@pytest.mark.parametrize("step", ["block_writer.aligned", "journal_files.JournalFiles.new"])
async def test_a_fault_of_ours_is_as_final_as_one_of_the_disk(
    directory: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def fail(*arguments: object) -> None:
        raise ValueError("made to fail")

    monkeypatch.setattr(f"routelog.log_backend.journal.{step}", fail)
    owner = Owner(directory, WatchedDisk())
    owner.start()
    with suppress(JournalFailed):
        owner.journal.append(entry(1), waited=True)
    await until(lambda: owner.failures)
    assert "made to fail" in str(owner.failures[0])
    await owner.journal.aclose()
