"""The schedule of a log: in order, bounded in memory, and behind the log after a crash."""

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.queue_samples import Turns
from unit.passing_time import take_turns

from routelog.log_backend import (
    OF_THIS_RUN,
    Change,
    MetadataStore,
    Schedule,
    ScheduledRecord,
    ScheduleStore,
)
from routelog.log_backend.metadata import schedule
from routelog.log_backend.metadata.metadata import MetadataCorrupt

NOWHEN = 2**63 - 1


class Book:
    """A store, and schedules on it as a node opens them."""

    def __init__(self, path: Path) -> None:
        self.metadata = MetadataStore.open(path)
        self.turns = Turns()
        self.store = ScheduleStore(self.metadata, asyncio.get_running_loop())
        self.near = 0
        self.committed = [NOWHEN, NOWHEN]  # by part

    def open(self, number: int = 1, parts: int = 2) -> Schedule:
        ends = self.store.ends(number)
        known = [ends.get(part, 0) for part in range(parts)]
        return Schedule(
            number,
            self.store,
            known,
            lambda part: self.committed[part],
            self.turns.call_later,
            self._came_near,
        )

    def _came_near(self) -> None:
        self.near += 1

    async def settle(self, of: Schedule) -> None:
        """Wait until nothing is written or read any more."""
        for _ in range(3):
            await of.page(schedule.FIRST, 1)

    async def close(self) -> None:
        await self.store.aclose()
        self.metadata.close()


@pytest.fixture
async def book(tmp_path: Path) -> AsyncIterator[Book]:
    book = Book(tmp_path / "metadata")
    yield book
    await book.close()


def entries(*dues: int, part: int = 0, first: int = 0) -> list[ScheduledRecord]:
    return [ScheduledRecord(due, part, first + at) for at, due in enumerate(dues)]


async def test_records_are_taken_in_the_order_in_which_they_are_due(book: Book) -> None:
    one = book.open()
    one.read_ahead()
    one.add(entries(30, 10, 20), 0, 3)
    one.add(entries(15, part=1), 1, 1)
    await book.settle(one)
    assert one.next_due == 10
    assert [each.due for each in one.take_due(20, 10)] == [10, 15, 20]
    assert [each.due for each in one.take_due(29, 10)] == []
    assert one.next_due == 30


async def test_what_was_entered_and_not_struck_out_is_there_after_a_restart(
    tmp_path: Path,
) -> None:
    before = Book(tmp_path / "metadata")
    one = before.open()
    one.add(entries(30, 10, 20), 0, 3)
    one.strike_out(entries(30)[:1])
    await before.close()
    after = Book(tmp_path / "metadata")
    two = after.open()
    assert two.ends == [3, 0]
    two.read_ahead()
    await after.settle(two)
    assert after.near == 1
    assert [each.due for each in two.take_due(NOWHEN, 10)] == [10, 20]
    await after.close()


async def test_schedules_do_not_see_each_other_and_end_alone(book: Book) -> None:
    one, two, three = book.open(1), book.open(2), book.open(3)
    for each in (one, two, three):
        each.add(entries(each.number), 0, 1)
        each.flush()
    two.delete()
    book.store.keep_only([1])
    for number, expected in ((1, [1]), (2, []), (3, [])):
        found = await book.store.read(number, schedule.FIRST, 10)
        assert [each.due for each in found] == expected
        assert dict(book.store.ends(number)) == ({0: 1} if expected else {})


async def test_what_is_not_committed_is_in_memory_only(book: Book) -> None:
    one = book.open()
    one.read_ahead()
    await book.settle(one)
    book.committed = [2, 0]
    one.add(entries(30, 10, 20), 0, 3)
    one.add(entries(15, part=1), 1, 1)
    book.turns.pass_seconds(1)
    assert [each.due for each in await book.store.read(1, schedule.FIRST, 9)] == [10, 30]
    assert dict(book.store.ends(1)) == {0: 2}
    assert [each.due for each in await one.page(schedule.FIRST, 3)] == [10, 15, 20]
    assert [each.due for each in one.take_due(20, 9)] == [10, 15, 20]
    book.committed = [3, 1]
    book.turns.pass_seconds(schedule.WRITE_SECONDS)
    assert [each.due for each in await book.store.read(1, schedule.FIRST, 9)] == [10, 15, 20, 30]
    assert dict(book.store.ends(1)) == {0: 3, 1: 1}
    assert book.turns.waiting == 0


async def test_a_schedule_of_more_than_its_log_has_is_forgotten_durably(book: Book) -> None:
    one = book.open()
    one.add(entries(1, 2, 3), 0, 3)
    one.add(entries(4, part=1), 1, 1)
    one.flush()
    await book.settle(one)
    two = book.open()
    two.check_ends([3, 1])
    assert two.ends == [3, 1]
    two.check_ends([2, 1])
    assert two.ends == [0, 0]
    assert dict(book.store.ends(1)) == {}
    two.read_ahead()
    two.add(entries(1, 2), 0, 2)
    await book.settle(two)
    assert [each.due for each in two.take_due(NOWHEN, 9)] == [1, 2]
    assert dict(book.store.ends(1)) == {0: 2}


async def test_all_below_an_offset_of_each_part_are_struck_out_but_those_that_are_kept(
    book: Book,
) -> None:
    one = book.open()
    one.add(entries(1, 2, 3), 0, 3)
    one.add(entries(4, 5, part=1), 1, 2)
    one.strike_out_below([2, 1], entries(1))
    assert [each.due for each in await one.page(schedule.FIRST, 9)] == [1, 3, 5]
    assert dict(book.store.ends(1)) == {0: 3, 1: 2}


async def test_what_ends_with_the_run_is_gone_at_the_start(book: Book) -> None:
    of_the_run = OF_THIS_RUN + 1
    for number in (1, of_the_run):
        one = book.open(number)
        one.add(entries(1), 0, 1)
        one.flush()
    book.store.keep_only([1])
    assert len(await book.store.read(1, schedule.FIRST, 9)) == 1
    assert await book.store.read(of_the_run, schedule.FIRST, 9) == []


async def test_a_page_begins_at_an_entry(book: Book) -> None:
    one = book.open()
    one.add(entries(5, 6, 7, 8), 0, 4)
    page = await one.page(ScheduledRecord(6, 0, 1), 2)
    assert [each.due for each in page] == [6, 7]


async def test_changes_are_written_soon_and_at_once_when_they_are_many(book: Book) -> None:
    one = book.open()
    one.add(entries(1), 0, 1)
    assert await book.store.read(1, schedule.FIRST, 9) == []
    book.turns.pass_seconds(schedule.WRITE_SECONDS)
    assert len(await book.store.read(1, schedule.FIRST, 9)) == 1
    one.add(entries(*range(schedule.CHANGES_MAX), part=1), 1, schedule.CHANGES_MAX)
    assert len(await book.store.read(1, schedule.FIRST, 2_000)) == 1 + schedule.CHANGES_MAX


async def test_memory_holds_the_near_ones_only_and_none_is_missed(
    book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule, "PAGE_RECORDS", 24)
    monkeypatch.setattr(schedule, "RECENT_MAX", 30)
    monkeypatch.setattr(schedule, "CHANGES_MAX", 40)
    chance = random.Random(7)
    one = book.open(parts=1)
    one.read_ahead()
    expected: list[ScheduledRecord] = []
    taken: list[ScheduledRecord] = []
    now = offset = 0
    for _ in range(600):
        kind = chance.random()
        if kind < 0.6:
            count = chance.randrange(1, 12)
            new = [
                ScheduledRecord(now + 1 + chance.randrange(400), 0, offset + at)
                for at in range(count)
            ]
            offset += count
            one.add(new, 0, offset)
            expected += new
        elif kind < 0.9:
            now += chance.randrange(12)
            some = one.take_due(now, chance.randrange(1, 30))
            taken += some
            one.strike_out(some)
        elif kind < 0.95:
            await asyncio.sleep(0.001)
        else:
            await book.settle(one)
            one.add([added := ScheduledRecord(now + 500, 0, offset)], 0, offset + 1)
            offset += 1
            expected.append(added)
            assert len(one._known) <= 24 + 30 + 2 * (
                40 + 12
            )  # what gathers, and again while a page is read
    while len(taken) < len(expected):
        some = one.take_due(NOWHEN, 1_000)
        taken += some
        one.strike_out(some)
        await book.settle(one)
        assert some or len(one._known), (len(taken), len(expected))
    assert sorted(taken) == sorted(expected)
    await book.settle(one)
    assert await one.page(schedule.FIRST, 10) == []


async def test_the_bytes_of_an_entry_and_of_an_end_are_these(book: Book) -> None:
    one = book.open(number=0x0102)
    one.add([ScheduledRecord(0x03040506, 1, 0x0708)], 1, 0x0709)
    one.flush()
    await book.settle(one)
    stored = {key: entry.value for key, entry in book.metadata.scan(b"schedule")}
    entry_key = "7363686564756c65732f 0000000000000102 0000000003040506 01 0000000000000708"
    end_key = "7363686564756c652d656e64732f 0000000000000102 01"
    assert stored == {
        bytes.fromhex(entry_key): b"",
        bytes.fromhex(end_key): bytes.fromhex("0000000000000709"),
    }


async def test_an_end_that_is_none_is_damage(book: Book) -> None:
    one = book.open()
    one.add(entries(1), 0, 1)
    one.flush()
    await book.settle(one)
    key = next(key for key, _ in book.metadata.scan(b"schedule-ends/"))
    book.metadata.apply([Change(key, b"x")])
    with pytest.raises(MetadataCorrupt):
        book.store.ends(1)


async def test_after_the_end_nothing_is_written_and_nothing_raises(tmp_path: Path) -> None:
    book = Book(tmp_path / "metadata")
    one = book.open()
    await book.close()
    one.add(entries(1), 0, 1)
    one.flush()
    one.read_ahead()
    book.store.delete(1)
    assert (await asyncio.gather(one.page(schedule.FIRST, 1), return_exceptions=True))[
        0
    ].__class__ is (asyncio.CancelledError)


async def test_a_store_that_fails_is_told_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    book = Book(tmp_path / "metadata")
    one = book.open()
    book.metadata.close()
    for count in (2, 1):  # two before the loop hears of the first failure, one behind it
        for at in range(count):
            one.add(entries(1, first=at), 0, at + 1)
            one.flush()
        await asyncio.get_running_loop().run_in_executor(book.store._thread, str)
        await take_turns()
    assert caplog.text.count("schedules are not written any more") == 1
    await book.store.aclose()
