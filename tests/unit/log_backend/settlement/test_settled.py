import itertools
import re
from bisect import bisect_left

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routelog.log_backend.settlement.settled import SettledSet
from routelog.log_backend.settlement.settled_chunk import CHUNK_OFFSETS, FULL, Chunk

# Around the borders of chunks and bytes, where mistakes live.
EDGES = [0, 1, 7, 8, 9, 63, 64, 65_527, 65_528, 65_535, 65_536, 65_537, 131_071, 131_072, 196_608]
OFFSETS = st.one_of(st.sampled_from(EDGES), st.integers(0, 200_000))
END = 10**6  # beyond all of them
RANGES = st.tuples(
    OFFSETS, st.one_of(st.integers(0, 20), st.sampled_from([65_535, 65_536, 131_073]))
)


@settings(deadline=None, max_examples=25)
@given(ranges=st.lists(RANGES, max_size=12), probes=st.lists(OFFSETS, max_size=6))
def test_it_agrees_with_a_naive_set(ranges: list[tuple[int, int]], probes: list[int]) -> None:
    settled, naive = SettledSet(), set[int]()
    for first, count in ranges:
        before = len(naive)
        naive.update(range(first, first + count))
        assert settled.settle(first, first + count) == len(naive) - before
        assert settled.low_water == first_beyond(naive, 0)
    for probe in [*probes, *EDGES]:
        assert (probe in settled) == (probe in naive)
        assert settled.unsettled_from(probe) == first_beyond(naive, probe)
    check_ranges(settled, naive, [*probes, *EDGES])


def first_beyond(naive: set[int], offset: int) -> int:
    return next(place for place in itertools.count(offset) if place not in naive)


def check_ranges(settled: SettledSet, naive: set[int], probes: list[int]) -> None:
    in_order = sorted(naive)
    for first, end in itertools.pairwise(probes):
        inside = in_order[bisect_left(in_order, first) : bisect_left(in_order, end)]
        assert settled.count_from(first, end) == len(inside)
        if first >= settled.low_water and first < end:
            assert settled.settled_from(first, end) == (inside[0] if inside else end)


@settings(deadline=None)
@given(ranges=st.lists(RANGES, max_size=8), more=st.lists(RANGES, max_size=8))
def test_a_snapshot_of_mark_and_dirty_chunks_is_enough(
    ranges: list[tuple[int, int]], more: list[tuple[int, int]]
) -> None:
    settled, stored = SettledSet(), dict[int, Chunk]()
    for part in (ranges, more):
        for first, count in part:
            settled.settle(first, first + count)
        settled.shrink()
        for number in settled.dirty_chunks:
            chunk = settled.chunks.get(number)
            if chunk is None:
                stored.pop(number, None)
            else:
                stored[number] = type(chunk).decode(chunk.encode())
        settled.dirty_chunks.clear()
    restored = SettledSet(settled.low_water)
    for number, chunk in stored.items():
        restored.restore_chunk(number, chunk)
    assert restored.low_water == settled.low_water
    assert contents(restored) == contents(settled)
    assert restored.settle(settled.low_water, settled.low_water + 1) == 1
    settled.settle(settled.low_water, settled.low_water + 1)
    assert restored.low_water == settled.low_water


def contents(settled: SettledSet) -> dict[int, bytes]:
    return {number: chunk.encode() for number, chunk in settled.chunks.items()}


@pytest.mark.parametrize("step", [2, 3, 100])
def test_scattered_offsets_settle_to_the_same_set_in_any_order(step: int) -> None:
    # Through every form of a chunk: a few runs, a bitmap, runs again, no hole.
    settled, naive = SettledSet(), set[int]()
    count = 2 * CHUNK_OFFSETS
    for start in (*range(1, step), 0):
        for offset in range(start, count, step):
            assert settled.settle(offset, offset + 1) == 1
            naive.add(offset)
        for probe in (0, 1, CHUNK_OFFSETS - 1, CHUNK_OFFSETS, count - 1):
            assert (probe in settled) == (probe in naive)
        assert settled.count_from(0, count) == len(naive)
    assert settled.low_water == count
    assert not settled.chunks


@settings(deadline=None, max_examples=25)
@given(
    ranges=st.lists(RANGES, max_size=4),
    pieces=st.lists(
        st.tuples(OFFSETS, st.one_of(st.binary(max_size=40), st.just(b"\xff" * 9_000))), max_size=5
    ),
)
def test_bits_are_settled_as_their_offsets_are(
    ranges: list[tuple[int, int]], pieces: list[tuple[int, bytes]]
) -> None:
    one, other = SettledSet(), SettledSet()
    for settled in (one, other):
        for first, count in ranges:
            settled.settle(first, first + count)
    for first, bitmap in pieces:
        added = sum(one.settle(first + low, first + high) for low, high in set_bits(bitmap))
        assert other.settle_bits(first, bitmap) == added
        assert other.low_water == one.low_water
    assert runs_of(other) == runs_of(one)
    assert other.chunks.keys() == one.chunks.keys()


def set_bits(bitmap: bytes) -> list[tuple[int, int]]:
    """The runs of ones, from the lowest bit of the first byte on."""
    bits = "".join(f"{byte:08b}"[::-1] for byte in bitmap)
    return [found.span() for found in re.finditer("1+", bits)]


def runs_of(settled: SettledSet) -> list[tuple[int, int]]:
    """What is settled above the mark."""
    runs, end = [], settled.low_water
    while (first := settled.settled_from(end, END)) < END:
        end = settled.unsettled_from(first)
        runs.append((first, end))
    return runs


def test_a_set_without_holes_needs_no_chunk() -> None:
    settled = SettledSet()
    assert settled.settle(0, 10**12) == 10**12
    assert not settled.chunks
    assert not settled.dirty_chunks


def test_chunks_without_holes_are_one_shared_object() -> None:
    settled = SettledSet()
    settled.settle(1, CHUNK_OFFSETS)
    for offset in range(CHUNK_OFFSETS, 3 * CHUNK_OFFSETS, 64):
        settled.settle(offset, offset + 64)
    settled.settle(3 * CHUNK_OFFSETS, 5 * CHUNK_OFFSETS)
    assert [settled.chunks[number] for number in range(1, 5)] == [FULL] * 4
    assert settled.settle(2 * CHUNK_OFFSETS + 5, 2 * CHUNK_OFFSETS + 6) == 0
    assert list(FULL.borders) == [0]


def test_filling_the_last_hole_frees_the_chunks() -> None:
    settled = SettledSet()
    settled.settle(1, 3 * CHUNK_OFFSETS)
    assert len(settled.chunks) == 3
    assert settled.settle(0, 1) == 1
    assert settled.low_water == 3 * CHUNK_OFFSETS
    assert not settled.chunks
    assert settled.dirty_chunks.keys() == {0, 1, 2}


def test_the_mark_passes_chunks_that_are_far_below_others() -> None:
    settled = SettledSet()
    far = 10**12 // CHUNK_OFFSETS
    settled.settle(far * CHUNK_OFFSETS + 3, far * CHUNK_OFFSETS + 5)
    assert settled.settle(0, far * CHUNK_OFFSETS + 1) == far * CHUNK_OFFSETS + 1
    assert settled.low_water == far * CHUNK_OFFSETS + 1
    assert settled.settle(settled.low_water, settled.low_water + 2) == 2
    assert settled.low_water == far * CHUNK_OFFSETS + 5
    assert not settled.chunks


@pytest.mark.parametrize(("first", "end"), [(5, 5), (7, 3), (0, 0)])
def test_an_empty_range_settles_nothing(first: int, end: int) -> None:
    settled = SettledSet(2)
    assert settled.settle(first, end) == 0
    assert settled.low_water == 2
    assert not settled.chunks


def test_a_chunk_below_the_mark_is_not_restored() -> None:
    settled = SettledSet(CHUNK_OFFSETS)
    settled.restore_chunk(0, FULL)
    assert not settled.chunks
