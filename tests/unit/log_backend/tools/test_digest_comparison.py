"""Digests are compared piece by piece: who differs from most is named, with the first offset."""

from __future__ import annotations

from support.whole_digests import digest_differences

from routelog.log_backend.tools.digest_format import (
    CHUNK,
    Blocks,
    DigestEnd,
    PartitionState,
    Piece,
    Records,
)

QUEUE, OTHER = ("/", "q", 0), ("/", "r", 0)
END = DigestEnd(9, 0, 0, 0, 0)


def told(**digests: list[Piece]) -> list[str]:
    return [each.told() for each in digest_differences(digests)]


def state(unsettled: list[tuple[int, int]], end: int = 10) -> PartitionState:
    return PartitionState(QUEUE, end, {0: unsettled})


def test_what_only_some_have_is_compared_where_two_have_it() -> None:
    left: list[Piece] = [Blocks(0, {1: 11, 2: 12}), state([]), Records(QUEUE, 0, {3: 1}, []), END]
    right: list[Piece] = [Blocks(0, {2: 12, 3: 13}), state([]), END]
    assert told(a=left, b=right) == []


def test_who_differs_from_most_is_named() -> None:
    good: list[Piece] = [Blocks(0, {1: 11, 2: 12}), Records(QUEUE, 0, {3: 1, 4: 2, 5: 3}, []), END]
    bad: list[Piece] = [Blocks(0, {1: 11, 2: 0}), Records(QUEUE, 0, {3: 1, 4: 0, 5: 0}, []), END]
    assert told(a=good, b=bad, c=good) == [
        "b, unlike a, c: 1 block is not the same, from block 2 on",
        "b, unlike a, c: /: q [0]: 2 records are not the same, from offset 4 on",
    ]


def test_a_partition_that_one_node_lacks_and_a_chunk_too() -> None:
    there: list[Piece] = [
        state([(0, 1)]),
        Records(QUEUE, 0, {0: 1}, []),
        Records(QUEUE, 2, {2 * CHUNK: 1}, []),
        PartitionState(OTHER, 0, {}),
        END,
    ]
    lacks: list[Piece] = [state([(0, 1)]), Records(QUEUE, 0, {}, [0]), END]
    assert told(a=there, b=lacks, c=there) == [
        "b, unlike a, c: /: q [0]: 1 record is missing and not settled, from offset 0 on",
        "b, unlike a, c: /: r [0]: it is not there",
    ]
    assert told(a=lacks, b=lacks, c=there)[-1] == "c, unlike a, b: /: r [0]: only here"


def test_the_first_offset_that_is_settled_on_one_side_only() -> None:
    for ours, theirs, first in (
        ([(0, 5)], [], 0),
        ([(0, 5)], [(0, 4)], 4),
        ([(0, 5), (7, 9)], [(0, 5)], 7),
        ([(0, 5), (7, 9)], [(0, 5), (8, 9)], 7),
        ([(2, 9)], [(2, 3), (4, 9)], 3),
    ):
        for pair in ((ours, theirs), (theirs, ours)):
            (found,) = digest_differences({"a": [state(pair[0]), END], "b": [state(pair[1]), END]})
            assert (found.first, found.queue) == (first, "q")
