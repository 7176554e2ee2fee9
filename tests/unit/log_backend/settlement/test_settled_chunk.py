from array import array
from bisect import bisect_left

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routelog.log_backend.settlement.settled_chunk import (
    BITMAP_BYTES,
    BORDERS_MAX,
    CHUNK_OFFSETS,
    FULL,
    Bitmap,
    Chunk,
    Runs,
)

EDGES = [0, 1, 7, 8, 9, 63, 64, 65, 65_527, 65_528, 65_534, 65_535, 65_536]
PLACES = st.one_of(st.sampled_from(EDGES), st.integers(0, 300), st.integers(0, CHUNK_OFFSETS))
SPANS = st.tuples(PLACES, PLACES).map(sorted).filter(lambda span: span[0] < span[1])
FORMS = [Runs, lambda: Bitmap(bytearray(BITMAP_BYTES))]


@pytest.mark.parametrize("empty", FORMS)
@settings(deadline=None, max_examples=20)
@given(spans=st.lists(SPANS, max_size=12), probes=st.lists(SPANS, max_size=6))
def test_each_form_agrees_with_a_naive_set(
    empty: type[Runs], spans: list[tuple[int, int]], probes: list[tuple[int, int]]
) -> None:
    chunk, naive = empty(), set[int]()
    for low, high in spans:
        new = set(range(low, high)) - naive
        assert chunk.add(low, high) == len(new)
        naive |= new
    check(chunk, naive, probes)
    check(chunk.smallest(), naive, probes)
    check(type(chunk).decode(chunk.encode()) if naive else chunk, naive, probes)


def check(chunk: Chunk, naive: set[int], probes: list[tuple[int, int]]) -> None:
    settled = [*sorted(naive), CHUNK_OFFSETS]
    unsettled = [*sorted(set(range(CHUNK_OFFSETS)) - naive), CHUNK_OFFSETS]
    for low, high in [*probes, (0, CHUNK_OFFSETS)]:
        assert (low in chunk) == (low in naive)
        assert chunk.count(low, high) == bisect_left(settled, high) - bisect_left(settled, low)
        assert chunk.settled_from(low) == settled[bisect_left(settled, low)]
        assert chunk.unsettled_from(low) == unsettled[bisect_left(unsettled, low)]


def test_runs_become_a_bitmap_where_that_is_smaller() -> None:
    runs = Runs()
    for place in range(0, BORDERS_MAX, 2):
        runs.add(place, place + 1)
        assert not runs.misfit
    assert len(runs.encode()) == BITMAP_BYTES
    runs.add(50_000, 50_001)
    assert runs.misfit
    bitmap = runs.smallest()
    assert isinstance(bitmap, Bitmap)
    assert bitmap.settled == BORDERS_MAX // 2 + 1
    check(bitmap, {*range(0, BORDERS_MAX, 2), 50_000}, [])


def test_a_bitmap_with_few_holes_becomes_runs() -> None:
    bitmap = Bitmap(bytearray(BITMAP_BYTES))
    bitmap.add(0, 40_000)
    assert not bitmap.misfit
    bitmap.add(40_001, CHUNK_OFFSETS)
    assert bitmap.misfit
    runs = bitmap.smallest()
    assert isinstance(runs, Runs)
    assert list(runs.borders) == [0, 40_000, 40_001]


def test_a_bitmap_of_many_runs_stays_one() -> None:
    bitmap = Bitmap(bytearray(b"\x55" * BITMAP_BYTES))
    assert bitmap.smallest() is bitmap
    assert not bitmap.misfit


@pytest.mark.parametrize("empty", FORMS)
@pytest.mark.parametrize("last", [0, 3, 65_535])
def test_a_chunk_without_holes_is_the_shared_one(empty: type[Runs], last: int) -> None:
    chunk = empty()
    for low, high in ((0, last), (last + 1, CHUNK_OFFSETS), (last, last + 1)):
        if low < high:
            chunk.add(low, high)
    assert chunk.misfit
    assert chunk.smallest() is FULL


def test_nothing_is_added_to_the_shared_chunk() -> None:
    for low, high in ((0, 1), (0, CHUNK_OFFSETS), (7, 99), (65_535, CHUNK_OFFSETS)):
        assert FULL.add(low, high) == 0
    assert FULL.borders == array("H", (0,))
    assert not FULL.misfit


@pytest.mark.parametrize("content", [b"", b"\x01", b"\x05\x00\x05\x00", b"\x05\x00\x04\x00"])
def test_borders_that_do_not_ascend_are_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match="ascending"):
        Runs.decode(content)


@pytest.mark.parametrize("size", [0, BITMAP_BYTES - 1, BITMAP_BYTES + 1])
def test_a_bitmap_of_another_length_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match=str(size)):
        Bitmap.decode(bytes(size))
