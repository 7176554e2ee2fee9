"""Ranges of offsets against a set."""

from hypothesis import given, settings
from hypothesis import strategies as st
from support.sampling import examples

from routelog.vhosts.sessions import offset_ranges
from routelog.vhosts.sessions.offset_ranges import OffsetRanges

OFFSETS = st.integers(0, 40)
STEPS = st.lists(st.tuples(st.booleans(), OFFSETS, st.integers(1, 6)), max_size=120)


def ranges_of(offsets: set[int]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for offset in sorted(offsets):
        if found and found[-1][1] == offset:
            found[-1] = found[-1][0], offset + 1
        else:
            found.append((offset, offset + 1))
    return found


@settings(max_examples=examples(500), deadline=None)
@given(STEPS)
def test_ranges_are_those_of_a_set(steps: list[tuple[bool, int, int]]) -> None:
    ranges, model = OffsetRanges(), set[int]()
    for adds, first, count in steps:
        offsets = {*range(first, first + count)}
        if adds:
            for offset in sorted(offsets - model):
                ranges.add(offset, offset + 1)
            model |= offsets
        else:
            taken = ranges.take(first, first + count)
            assert taken is (offsets <= model)
            if taken:
                model -= offsets
        assert [*ranges] == ranges_of(model)
        assert len(ranges) == len(ranges_of(model))


def test_room_of_what_was_taken_is_given_back() -> None:
    ranges = OffsetRanges()
    for offset in range(0, 10_000, 2):
        ranges.add(offset, offset + 1)
    for offset in range(0, 9_000, 2):
        assert ranges.take(offset, offset + 1)
    assert len(ranges) == 500
    assert len(ranges._firsts) < 500 + offset_ranges.TAKEN_MIN


def test_an_empty_range_is_not_there() -> None:
    ranges = OffsetRanges()
    ranges.add(3, 5)
    assert not ranges.take(4, 4)
    assert not ranges.take(4, 3)
    assert not ranges.take(5, 6)
    assert [*ranges] == [(3, 5)]
