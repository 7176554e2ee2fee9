"""Delivery counts against a dictionary from offset to count."""

from itertools import pairwise

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from routelog.log_backend.settlement.delivery_counts import DeliveryCounts
from routelog.log_backend.settlement.settled import SettledSet
from routelog.log_backend.settlement.settled_chunk import CHUNK_OFFSETS

OFFSETS = st.one_of(
    st.integers(0, 40), st.integers(CHUNK_OFFSETS - 20, CHUNK_OFFSETS + 20), st.just(300_000)
)
LENGTHS = st.one_of(st.integers(1, 12), st.just(CHUNK_OFFSETS))
# The model knows these, which lie around all that is counted from and to.
PROBES = [
    *range(60),
    *range(CHUNK_OFFSETS - 40, CHUNK_OFFSETS + 60),
    *range(2 * CHUNK_OFFSETS - 40, 2 * CHUNK_OFFSETS + 60),
    *range(300_000, 300_020),
]


def probes(first: int, end: int) -> list[int]:
    return [offset for offset in PROBES if first <= offset < end]


class CountsAgainstDictionary(RuleBasedStateMachine):
    """Random deliveries, settlements and replays, told to both."""

    def __init__(self) -> None:
        super().__init__()
        self.settled = SettledSet()
        self.counts = DeliveryCounts(self.settled)
        self.model: dict[int, int] = {}
        self.gone: set[int] = set()

    @rule(first=OFFSETS, length=LENGTHS)
    def count(self, first: int, length: int) -> None:
        first = self.settled.unsettled_from(first)
        end = self.settled.settled_from(first, first + length)
        counted = self.counts.count(first, end)
        edges = [first, *(high for _, high, _ in counted)]
        assert [(low, high) for low, high, _ in counted] == [*pairwise(edges)]
        assert edges[-1] == end
        for offset in probes(first, end):
            self.model[offset] = self.model.get(offset, 0) + 1
        found = {o: count for low, high, count in counted for o in probes(low, high)}
        assert found == {offset: self.model[offset] for offset in probes(first, end)}

    @rule(first=OFFSETS, length=LENGTHS, count=st.integers(1, 3))
    def reaching(self, first: int, length: int, count: int) -> None:
        first = self.settled.unsettled_from(first)
        end = self.settled.settled_from(first, first + length)
        found = list(self.counts.reaching(first, end, count))
        for offset in probes(first, end):
            expected = self.model.get(offset, 0) >= count and offset not in self.gone
            assert any(low <= offset < high for low, high in found) == expected

    @rule(first=OFFSETS, length=LENGTHS, count=st.integers(1, 4))
    def raise_to(self, first: int, length: int, count: int) -> None:
        self.counts.raise_to(first, first + length, count)
        for offset in set(probes(first, first + length)) - self.gone:
            self.model[offset] = max(self.model.get(offset, 0), count)

    @rule(first=OFFSETS, length=LENGTHS)
    def settle(self, first: int, length: int) -> None:
        self.settled.settle(first, first + length)
        self.counts.settled(first, first + length)
        self.gone.update(probes(first, first + length))
        for offset in self.gone & self.model.keys():
            del self.model[offset]

    @rule()
    def settle_everything(self) -> None:
        self.settle(0, max((ranges[-1][1] for ranges in self.counts.chunks.values()), default=1))
        assert not self.counts.chunks

    @precondition(lambda self: self.model)
    @rule()
    def restore(self) -> None:
        again = DeliveryCounts(self.settled)
        for number, ranges in self.counts.chunks.items():
            again.restore_chunk(number, ranges)
        assert again.chunks == self.counts.chunks
        assert not again.dirty_chunks

    @invariant()
    def both_say_the_same(self) -> None:
        for offset in PROBES:
            if offset not in self.gone:
                assert self.counts[offset] == self.model.get(offset, 0), offset

    @invariant()
    def ranges_are_few_and_in_order(self) -> None:
        for number, ranges in self.counts.chunks.items():
            edges = [edge for first, end, _ in ranges for edge in (first, end)]
            assert edges == sorted(edges)
            assert number * CHUNK_OFFSETS <= edges[0]
            assert edges[-1] <= (number + 1) * CHUNK_OFFSETS
            assert not any(first in self.settled for first, _, _ in ranges)


TestCountsAgainstDictionary = CountsAgainstDictionary.TestCase
TestCountsAgainstDictionary.settings = settings(
    max_examples=20, stateful_step_count=25, deadline=None
)


def counts_of(*ranges: tuple[int, int, int]) -> DeliveryCounts:
    counts = DeliveryCounts(SettledSet())
    for first, end, count in ranges:
        counts.raise_to(first, end, count)
    return counts


def test_neighbours_with_one_count_are_one_range() -> None:
    counts = counts_of()
    for offset in (5, 7, 6, 4):
        assert counts.count(offset, offset + 1) == [(offset, offset + 1, 1)]
    assert counts.chunks == {0: [(4, 8, 1)]}


def test_a_range_becomes_one_with_its_neighbour_on_either_side() -> None:
    counts = counts_of((0, 4, 2), (8, 12, 2), (4, 8, 1))
    counts.count(4, 8)
    assert counts.chunks == {0: [(0, 12, 2)]}


def test_a_wide_range_is_a_range_a_chunk() -> None:
    counts = counts_of((0, 10_000_000, 1))
    assert sum(map(len, counts.chunks.values())) == len(counts.chunks) == 153


def test_acks_within_a_range_do_not_cut_it() -> None:
    settled = SettledSet()
    counts = DeliveryCounts(settled)
    counts.count(0, 1000)
    for offset in range(1, 1000, 2):
        settled.settle(offset, offset + 1)
        counts.settled(offset, offset + 1)
    assert counts.chunks == {0: [(0, 1000, 1)]}
    settled.settle(0, 1)
    counts.settled(0, 1)
    assert counts.chunks == {0: [(2, 1000, 1)]}


def test_what_settles_last_takes_the_range_with_it() -> None:
    settled = SettledSet()
    counts = DeliveryCounts(settled)
    settled.settle(0, 1)  # so that the mark is not what forgets them
    counts.count(5, 8)
    for offset in (6, 7, 5):
        settled.settle(offset, offset + 1)
        counts.settled(offset, offset + 1)
    assert not counts.chunks
    assert counts.dirty_chunks == {0}


def test_a_count_that_is_higher_stays() -> None:
    counts = counts_of((0, 10, 3))
    counts.raise_to(2, 4, 1)
    assert counts.chunks == {0: [(0, 10, 3)]}


@pytest.mark.parametrize("end", [10**12, 10**15])
def test_a_purge_of_very_many_looks_at_the_chunks_there_are(end: int) -> None:
    settled = SettledSet()
    counts = DeliveryCounts(settled)
    counts.count(5, 8)
    settled.settle(0, end)
    counts.settled(0, end)
    assert not counts.chunks
