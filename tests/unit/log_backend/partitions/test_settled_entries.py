"""Settlements of a set are the set again, and no more."""

from hypothesis import example, given
from hypothesis import strategies as st

from routelog.log_backend.journal.journal_block import Reason, Settlement
from routelog.log_backend.partitions.cursor import UNJOURNALED_MAX, Cursor
from routelog.log_backend.partitions.settled_entries import settlements_of
from routelog.log_backend.settlement.settled import SettledSet

RANGES = st.lists(st.tuples(st.integers(0, 200_000), st.integers(1, 70_000)), max_size=8)


END = 270_000


def contents(settled: SettledSet) -> list[tuple[int, int]]:
    # Chunks of equal sets may differ below the low water.
    runs, at = [(0, settled.low_water)], settled.low_water
    while (first := settled.settled_from(at, END)) < END:
        at = settled.unsettled_from(first)
        runs.append((first, at))
    return runs


@given(ranges=RANGES)
@example(ranges=[])
@example(ranges=[(0, 9)])
@example(ranges=[(0, 9), (70_000, 1)])
@example(ranges=[(9, 1)])
@example(ranges=[(1, 1), (3, 1), (0, 1)])
def test_a_set_is_what_its_settlements_settle(ranges: list[tuple[int, int]]) -> None:
    settled, again = SettledSet(), SettledSet()
    for first, count in ranges:
        settled.settle(first, first + count)
    settlements = list(settlements_of(settled, 3, Reason.EXPIRED))
    for each in settlements:
        assert (each.cursor, each.reason) == (3, Reason.EXPIRED)
        for first, end in each.ranges:
            again.settle(first, end)
    assert contents(again) == contents(settled)
    assert len(settlements) == bool(settled.low_water) + len(settled.chunks), "none settles nothing"


def test_what_is_packed_of_a_cursor_begins_with_all_below_its_low_water() -> None:
    cursor, again = Cursor(0, lambda: None), SettledSet()
    for offset in range(0, 4 * UNJOURNALED_MAX, 2):
        cursor.settle(offset, offset + 1)
    for change in cursor.take_changes():
        if isinstance(change, Settlement):
            for first, end in change.ranges:
                again.settle(first, end)
    assert cursor.low_water == 1
    assert contents(again) == contents(cursor.settled)
