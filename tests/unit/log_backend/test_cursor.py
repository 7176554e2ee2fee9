from hypothesis import given
from hypothesis import strategies as st

from log_backend.cursor import Cursor, cursor_number, partition_prefix
from log_backend.metadata import Change

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
    assert restored.restore(sorted(stored.items())) == (400_000, 300_000)
    assert restored.low_water == cursor.low_water
    assert restored.settled.chunks == cursor.settled.chunks
    assert restored.take_unjournaled() == []


def test_a_cursor_without_a_snapshot_starts_at_the_beginning() -> None:
    cursor = Cursor(0, None)
    assert cursor.restore([]) == (0, 0)
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


def test_settled_ranges_wait_for_the_journal_once() -> None:
    calls = Calls()
    cursor = Cursor(0, calls)
    assert cursor.settle(0, 5) == 5
    assert calls.count == 1
    cursor.settle(5, 7)
    cursor.settle(20, 30)
    assert cursor.take_unjournaled() == [(0, 7), (20, 30)]
    assert cursor.take_unjournaled() == []


def test_what_is_settled_already_does_not_go_to_the_journal_again() -> None:
    calls = Calls()
    cursor = Cursor(0, calls)
    cursor.settle(0, 5)
    cursor.take_unjournaled()
    assert cursor.settle(1, 4) == 0
    assert cursor.take_unjournaled() == []
    assert calls.count == 1


def test_a_cursor_that_nobody_journals_keeps_no_ranges() -> None:
    cursor = Cursor(0, None)
    cursor.settle(0, 5)
    assert cursor.take_unjournaled() == []


def test_ranges_settled_after_the_journal_took_the_others_are_announced_again() -> None:
    calls = Calls()
    cursor = Cursor(0, calls)
    cursor.settle(0, 1)
    cursor.take_unjournaled()
    cursor.settle(5, 6)
    assert calls.count == 2
