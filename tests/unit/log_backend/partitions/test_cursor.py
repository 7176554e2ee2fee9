import random
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routelog.log_backend.journal.journal_block import (
    HandedOut,
    Reason,
    Redelivered,
    Settlement,
    StateChange,
)
from routelog.log_backend.metadata.metadata import Change
from routelog.log_backend.partitions.cursor import REDELIVERED_MAX, UNJOURNALED_MAX, Cursor
from routelog.log_backend.partitions.settled_entries import SettledPart
from routelog.log_backend.settlement.cursor_snapshot import Marks, cursor_number, partition_prefix

RANGES = st.lists(st.tuples(st.integers(0, 200_000), st.integers(1, 70_000)), max_size=8)


class Calls:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


def apply(stored: dict[bytes, bytes], changes: list[Change]) -> None:
    for change in changes:
        if change.value is None:
            stored.pop(change.key, None)
        else:
            stored[change.key] = change.value


@given(first_part=RANGES, second_part=RANGES)
def test_a_cursor_is_restored_from_its_snapshots(
    first_part: list[tuple[int, int]], second_part: list[tuple[int, int]]
) -> None:
    cursor, stored = Cursor(3, None), dict[bytes, bytes]()
    for ranges in (first_part, second_part):
        for first, count in ranges:
            cursor.settle(first, first + count)
        apply(stored, cursor.snapshot(5, 400_000, 300_000))
    restored = Cursor(3, None)
    marks = restored.restore(sorted(stored.items()))
    assert marks == Marks(cursor.low_water, 400_000, 300_000)
    assert restored.low_water == cursor.low_water
    assert contents(restored) == contents(cursor)
    assert restored.take_changes() == []


def contents(cursor: Cursor) -> dict[int, bytes]:
    return {number: chunk.encode() for number, chunk in cursor.settled.chunks.items()}


def test_a_cursor_without_a_snapshot_starts_at_the_beginning() -> None:
    cursor = Cursor(0, None)
    assert cursor.restore([]) == Marks()
    assert cursor.low_water == 0


def test_a_snapshot_without_changes_is_the_marks_alone() -> None:
    cursor = Cursor(0, None)
    cursor.settle(5, 6)
    assert len(cursor.snapshot(1, 10, 0)) == 2
    assert [cursor_number(change.key) for change in cursor.snapshot(1, 10, 0)] == [0]


def test_keys_of_a_cursor_are_below_those_of_its_partition_only() -> None:
    cursor = Cursor(7, None)
    cursor.settle(1, 2)
    keys = [change.key for change in cursor.snapshot(0x0102, 9, 9)]
    assert all(key.startswith(partition_prefix(0x0102)) for key in keys)
    assert not any(key.startswith(partition_prefix(0x01)) for key in keys)
    assert {cursor_number(key) for key in keys} == {7}


def plain(changes: list[StateChange]) -> list[tuple[object, ...]]:
    """What the journal would be told, as tuples."""
    found: list[tuple[object, ...]] = []
    for change in changes:
        if isinstance(change, Settlement):
            found.append((change.reason, *change.ranges))
        elif isinstance(change, HandedOut):
            found.append(("handed out", change.end))
        else:
            found.append(("redelivered", *change.counts))
    return found


def test_settled_ranges_wait_for_the_journal_once() -> None:
    calls = Calls()
    cursor = Cursor(0, calls)
    assert cursor.settle(0, 5) == 5
    assert calls.count == 1
    cursor.settle(5, 7)
    cursor.settle(20, 30)
    assert calls.count == 1
    assert plain(cursor.take_changes()) == [(Reason.ACKED, (0, 7), (20, 30))]
    assert cursor.take_changes() == []


def test_ranges_are_journaled_with_the_reason_why_they_are_settled() -> None:
    cursor = Cursor(0, Calls())
    cursor.settle(0, 5, Reason.PURGED)
    cursor.settle(5, 7)
    cursor.settle(7, 8, Reason.REJECTED)
    cursor.settle(8, 9, Reason.PURGED)
    cursor.settle(9, 12, Reason.PURGED)
    assert plain(cursor.take_changes()) == [
        (Reason.ACKED, (5, 7)),
        (Reason.PURGED, (0, 5), (8, 12)),
        (Reason.REJECTED, (7, 8)),
    ]


def test_what_is_settled_already_does_not_go_to_the_journal_again() -> None:
    calls = Calls()
    cursor = Cursor(0, calls)
    cursor.settle(0, 5)
    cursor.take_changes()
    assert cursor.settle(1, 4) == 0
    assert cursor.take_changes() == []
    assert calls.count == 1


def test_a_cursor_that_nobody_journals_keeps_nothing_for_the_journal() -> None:
    cursor = Cursor(0, None)
    cursor.hand_out(9)
    cursor.redeliver(5, 6)
    cursor.settle(0, 5)
    cursor.settle(8, 9, Reason.REJECTED)
    assert [type(change) for change in cursor.take_changes()] == [HandedOut]


def test_ranges_settled_after_the_journal_took_the_others_are_announced_again() -> None:
    calls = Calls()
    cursor = Cursor(0, calls)
    cursor.settle(0, 1)
    cursor.take_changes()
    cursor.settle(5, 6)
    assert calls.count == 2


def test_many_deliveries_are_one_mark_for_the_journal() -> None:
    calls = Calls()
    cursor = Cursor(0, calls)
    for end in range(1, 1000):
        cursor.hand_out(end)
    assert calls.count == 1
    assert plain(cursor.take_changes()) == [("handed out", 999)]
    assert cursor.take_changes() == []
    cursor.hand_out(50)
    assert calls.count == 1
    assert cursor.handed_out == 999


def test_what_is_delivered_and_settled_at_once_needs_no_mark() -> None:
    cursor = Cursor(0, Calls())
    cursor.hand_out(10)
    cursor.settle(0, 10)
    assert plain(cursor.take_changes()) == [(Reason.ACKED, (0, 10))]
    cursor.hand_out(12)
    cursor.settle(11, 12)
    assert plain(cursor.take_changes()) == [(Reason.ACKED, (11, 12)), ("handed out", 12)]


def test_counts_are_journaled_as_they_are_not_as_they_changed() -> None:
    calls = Calls()
    cursor = Cursor(0, calls)
    cursor.hand_out(10)
    cursor.take_changes()
    cursor.redeliver(2, 6)
    cursor.redeliver(4, 8)
    assert calls.count == 2
    assert plain(cursor.take_changes()) == [("redelivered", (2, 6, 1), (4, 6, 2), (6, 8, 1))]
    cursor.redeliver(5, 6)
    assert plain(cursor.take_changes()) == [("redelivered", (5, 6, 3))]
    assert [cursor.delivery_counts[offset] for offset in range(9)] == [0, 0, 1, 1, 2, 3, 1, 1, 0]


def test_counts_of_settled_messages_are_forgotten() -> None:
    cursor = Cursor(0, None)
    cursor.redeliver(5, 8)
    cursor.settle(6, 8)
    cursor.settle(5, 6)
    assert not cursor.delivery_counts.chunks


WORK = st.lists(
    st.one_of(
        st.tuples(st.just("settle"), st.integers(0, 40), st.integers(1, 9)),
        st.tuples(st.just("redeliver"), st.integers(0, 40), st.integers(1, 3)),
        st.tuples(st.just("hand out"), st.integers(0, 50), st.just(0)),
        st.tuples(st.just("commit"), st.just(0), st.just(0)),
        st.tuples(st.just("checkpoint"), st.just(0), st.just(0)),
    ),
    max_size=30,
)


@given(work=WORK)
def test_a_replay_over_a_later_snapshot_changes_nothing(work: list[tuple[str, int, int]]) -> None:
    cursor, stored, journal = Cursor(0, Calls()), dict[bytes, bytes](), list[StateChange]()
    for what, first, length in [*work, ("commit", 0, 0)]:
        if what == "settle":
            cursor.settle(first, first + length)
        elif what == "hand out":
            cursor.hand_out(first)
        elif what == "redeliver":
            first = cursor.settled.unsettled_from(first)
            cursor.redeliver(first, cursor.settled.settled_from(first, first + length))
        elif what == "commit":
            journal += cursor.take_changes()
        else:
            apply(stored, cursor.snapshot(5, 100, 0))
    restored = Cursor(0, Calls())
    restored.restore(sorted(stored.items()))
    for change in [*journal, *journal[len(journal) // 2 :]]:
        restored.replay(change)
    assert state(restored) == state(cursor)


def state(cursor: Cursor) -> tuple[int, list[bool], list[int]]:
    offsets = range(60)
    settled = [offset in cursor.settled for offset in offsets]
    counts = [0 if settled[o] else cursor.delivery_counts[o] for o in offsets]
    return max(cursor.handed_out, cursor.low_water), settled, counts


def test_a_replay_tells_which_offsets_were_spoken_of() -> None:
    cursor = Cursor(0, Calls())
    assert cursor.replay(Settlement(0, [(4, 9), (1, 2)], Reason.PURGED)) == 9
    assert cursor.replay(HandedOut(0, 12)) == 12
    assert cursor.replay(Redelivered(0, [(10, 11, 2)])) == 11
    assert cursor.replay(Settlement(0, [])) == 0
    assert cursor.replay(Redelivered(0, [])) == 0


def test_what_is_replayed_goes_to_the_journal_again() -> None:
    # The file that it was read from is given back to the journal.
    calls = Calls()
    cursor = Cursor(0, calls)
    changes = [Redelivered(0, [(10, 11, 2)]), HandedOut(0, 12), Settlement(0, [(4, 9)])]
    for change in changes:
        cursor.replay(change)
    assert calls.count == 1
    assert plain(cursor.take_changes()) == [
        ("redelivered", (10, 11, 2)),
        (Reason.ACKED, (4, 9)),
        ("handed out", 12),
    ]


@pytest.mark.parametrize("settled_before", [0, 2])
def test_a_snapshot_knows_what_a_transaction_will_settle(settled_before: int) -> None:
    calls, ranges = Calls(), [(0, 3), (5, 7), (9, 10)]
    cursor, stored = Cursor(0, calls), dict[bytes, bytes]()
    parts = [SettledPart(4, Settlement(0, ranges[:2])), SettledPart(4, Settlement(0, ranges[2:]))]
    cursor.will_settle(parts)
    assert calls.count == 1  # or no checkpoint would look at it
    for each in ranges[:settled_before]:
        cursor.settle(*each)
    apply(stored, cursor.snapshot(4, 20, 0))
    restored = Cursor(0, None)
    restored.restore(sorted(stored.items()))
    assert [n for n in range(20) if n in restored.settled] == [0, 1, 2, 5, 6, 9]
    assert [cursor.settle(*each) for each in ranges] == [0, 0, 0]


def test_what_has_come_of_it_is_forgotten() -> None:
    cursor = Cursor(0, None)
    first = [SettledPart(4, Settlement(0, [(0, 3)]))]
    second = [SettledPart(4, Settlement(0, [(5, 6)]))]
    cursor.will_settle(first)
    cursor.will_settle(second)
    cursor.has_settled(first)
    cursor.snapshot(4, 20, 0)
    assert [n for n in range(20) if n in cursor.settled] == [5]


def test_scattered_acks_are_journaled_as_bits_and_replayed_at_once() -> None:
    cursor = Cursor(0, Calls())
    for offset in range(100_001, 104_000, 2):
        cursor.settle(offset, offset + 1)
    cursor.settle(100_000, 100_001)
    (change,) = cursor.take_changes()
    assert isinstance(change, Settlement)
    assert len(change.encode()) < 4_000 // 8 + 40
    assert list(change.ranges)[-1] == (100_000, 100_001)
    read = Settlement.decode(change.encode())
    assert read.encode() == change.encode()
    assert [*read.ranges][:2] == [(100_000, 100_002), (100_003, 100_004)]
    calls = Calls()
    restored = Cursor(0, calls)
    assert restored.replay(read) == 104_000
    assert contents_at(restored, 99_990) == contents_at(cursor, 99_990)
    assert calls.count == 1
    (again,) = restored.take_changes()
    assert again.encode() == change.encode()
    assert restored.replay(read) == 104_000
    assert restored.take_changes() == []


def contents_at(cursor: Cursor, first: int) -> list[bool]:
    return [offset in cursor.settled for offset in range(first, 140_100)]


def test_deliveries_again_that_nobody_journals_take_no_more_memory_than_their_counts() -> None:
    cursor = Cursor(0, Calls())
    for _ in range(3 * REDELIVERED_MAX):
        cursor.redeliver(3, 5)
    cursor.redeliver(9, 10)
    assert len(cursor._redelivered) <= REDELIVERED_MAX + 1
    replayed = Cursor(0, None)
    for change in cursor.take_changes():
        replayed.replay(change)
    assert replayed.delivery_counts.chunks == cursor.delivery_counts.chunks


@pytest.mark.parametrize("step", [2, 3, 70])
def test_scattered_acks_that_wait_for_the_journal_take_at_most_a_bit_an_offset(step: int) -> None:
    cursor, replayed, end = Cursor(4, Calls()), Cursor(4, Calls()), 100_000
    offsets = list(range(1, end, step))
    random.Random(step).shuffle(offsets)
    tracemalloc.start()
    for offset in offsets:
        cursor.settle(offset, offset + 1)
    # Threads that other tests have left allocate, too.
    ours = [tracemalloc.Filter(True, each) for each in (__file__, "*/log_backend/*")]
    snapshot = tracemalloc.take_snapshot().filter_traces(ours)
    tracemalloc.stop()
    taken = sum(each.size for each in snapshot.traces)
    assert 0 < taken < 2 * end // 8 + 150 * UNJOURNALED_MAX
    changes = cursor.take_changes()
    assert all(isinstance(each, Settlement) for each in changes)
    for each in changes:
        replayed.replay(type(each).decode(each.encode()))
    for one in (replayed, cursor):
        one.settled.shrink()
    assert contents(replayed) == contents(cursor)
    assert cursor.take_changes() == []


def test_each_reason_is_kept_of_very_many() -> None:
    cursor = Cursor(4, Calls())
    for offset in range(1, 8 * UNJOURNALED_MAX, 4):
        cursor.settle(offset, offset + 1)
        cursor.settle(offset + 2, offset + 3, Reason.EXPIRED)
    cursor.settle(0, 1)
    settled = {Reason.ACKED: 0, Reason.EXPIRED: 0}
    for each in cursor.take_changes():
        assert isinstance(each, Settlement)
        settled[each.reason] += sum(end - first for first, end in each.ranges)
    assert settled == {Reason.ACKED: 2 * UNJOURNALED_MAX + 1, Reason.EXPIRED: 2 * UNJOURNALED_MAX}
