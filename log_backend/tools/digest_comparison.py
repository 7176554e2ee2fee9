"""Where the digests of nodes differ, piece by piece: digests of any size are compared as they come."""

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec

from routelog.log_backend.tools.digest_format import (
    Blocks,
    DigestEnd,
    Key,
    PartitionName,
    PartitionState,
    Piece,
    Records,
)

Value = TypeVar("Value", bound=Hashable)


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One thing in which nodes differ.

    Attributes:
        nodes: who has it otherwise than `others`, of which there are at least as many.
        what: in words.
        vhost, queue, index: of the partition; None where it is about none.
        first: the first offset, or position of a block, that differs; None where it is about none.
        count: how many.
    """

    nodes: list[str]
    others: list[str]
    what: str
    vhost: str | None = None
    queue: str | None = None
    index: int | None = None
    first: int | None = None
    count: int = 1

    def told(self) -> str:
        """The difference in one line."""
        who = ", ".join(self.nodes)
        if self.others:
            who += f", unlike {', '.join(self.others)}"
        where = "" if self.vhost is None else f"{self.vhost}: {self.queue} [{self.index}]: "
        return f"{who}: {where}{self.what}"


def next_key(pieces: Iterable[Piece]) -> Key:
    """Of the pieces that come next, one of each node: what is to be compared next."""
    return min(piece.key for piece in pieces)


def differences(pieces: Mapping[str, Piece], nodes: Collection[str]) -> Iterator[Difference]:
    """Compare pieces of one key.

    Args:
        pieces: of those nodes that have one.
        nodes: all.
    """
    some = next(iter(pieces.values()))
    if isinstance(some, Blocks):
        yield from _blocks(_only(pieces, Blocks))
    elif isinstance(some, PartitionState):
        yield from _states(some.name, _only(pieces, PartitionState), nodes)
    elif isinstance(some, Records):
        yield from _records(some.name, _only(pieces, Records))
    else:
        ends = {node: piece.position for node, piece in _only(pieces, DigestEnd).items()}
        for odd, others, value in _odd(ends):
            what = f"the journal ends with block {value}, not {ends[others[0]]}"
            yield Difference(nodes=odd, others=others, what=what, first=min(ends.values()))


_Kind = TypeVar("_Kind", bound=Piece)


def _only(pieces: Mapping[str, Piece], kind: type[_Kind]) -> dict[str, _Kind]:
    return {node: piece for node, piece in pieces.items() if isinstance(piece, kind)}


def _odd(values: Mapping[str, Value]) -> Iterator[tuple[list[str], list[str], Value]]:
    """Nodes that have another value than most, those most, and the other value."""
    counts = Counter(values.values())
    if len(counts) < 2:
        return
    usual, _ = counts.most_common(1)[0]
    most = [node for node, value in values.items() if value == usual]
    for odd in counts:
        if odd != usual:
            yield [node for node, value in values.items() if value == odd], most, odd


def _blocks(pieces: Mapping[str, Blocks]) -> Iterator[Difference]:
    checksums = {node: piece.checksums for node, piece in pieces.items()}
    for (odd, others), positions in _grouped(checksums).items():
        first, count = positions[0], len(positions)
        whole = "1 block is" if count == 1 else f"{count} blocks are"
        what = f"{whole} not the same, from block {first} on"
        yield Difference(nodes=[*odd], others=[*others], what=what, first=first, count=count)


def _grouped(
    found: Mapping[str, Mapping[int, int]],
) -> dict[tuple[tuple[str, ...], tuple[str, ...]], list[int]]:
    """By nodes and others: what several of them have, and not the same."""
    grouped: dict[tuple[tuple[str, ...], tuple[str, ...]], list[int]] = {}
    maps = list(found.values())
    if len(maps) < 2 or all(each == maps[0] for each in maps):
        return grouped
    for number in sorted(set().union(*maps)):
        values = {node: each[number] for node, each in found.items() if number in each}
        for odd, others, _ in _odd(values):
            grouped.setdefault((tuple(odd), tuple(others)), []).append(number)
    return grouped


def _states(
    name: PartitionName, pieces: Mapping[str, PartitionState], nodes: Collection[str]
) -> Iterator[Difference]:
    there = {node: node in pieces for node in nodes}
    for odd, others, has in _odd(there):
        what = "only here" if has else "it is not there"
        yield _of(name, odd, others, what)
    ends = {node: piece.next_offset for node, piece in pieces.items()}
    for odd, others, end in _odd(ends):
        usual = ends[others[0]]
        what = f"the next offset is {end}, not {usual}"
        yield _of(name, odd, others, what, min(end, usual), abs(end - usual))
    for cursor in sorted(set().union(*(piece.unsettled for piece in pieces.values()))):
        ranges = {node: tuple(each.unsettled.get(cursor, ())) for node, each in pieces.items()}
        for odd, others, unsettled in _odd(ranges):
            first = _first_difference(unsettled, ranges[others[0]])
            whose = f"cursor {cursor}" if cursor else "the queue"
            what = f"what {whose} has settled is not the same, from offset {first} on"
            yield _of(name, odd, others, what, first)


def _records(name: PartitionName, pieces: Mapping[str, Records]) -> Iterator[Difference]:
    for node, piece in pieces.items():
        if piece.missing:
            first, count = piece.missing[0], len(piece.missing)
            what = f"{_count(count)} missing and not settled, from offset {first} on"
            others = [other for other, each in pieces.items() if first in each.checksums]
            yield _of(name, [node], others, what, first, count)
    checksums = {node: piece.checksums for node, piece in pieces.items()}
    for (odd, most), offsets in _grouped(checksums).items():
        what = f"{_count(len(offsets))} not the same, from offset {offsets[0]} on"
        yield _of(name, odd, most, what, offsets[0], len(offsets))


def _count(records: int) -> str:
    return "1 record is" if records == 1 else f"{records} records are"


def _of(
    name: PartitionName,
    odd: Iterable[str],
    others: Iterable[str],
    what: str,
    first: int | None = None,
    count: int = 1,
) -> Difference:
    vhost, queue, index = name
    return Difference(
        nodes=[*odd],
        others=[*others],
        what=what,
        vhost=vhost,
        queue=queue,
        index=index,
        first=first,
        count=count,
    )


def _first_difference(ours: Sequence[tuple[int, int]], theirs: Sequence[tuple[int, int]]) -> int:
    """The first number that is in one of two sets, each of disjoint ranges in order, and not in the other."""
    left = [edge for each in ours for edge in each]
    right = [edge for each in theirs for edge in each]
    for a, b in zip(left, right, strict=False):
        if a != b:
            return min(a, b)
    longer = max(left, right, key=len)
    return longer[min(len(left), len(right))]
