"""Lists the segments in a partition's directory.

A listing is no snapshot: a segment that is being compressed may be missing under both names, and one that is
being compacted may be there twice. So the directory is listed until two listings agree, and each sealed segment
is followed by the one that its index names, or by an earlier one, which compaction is about to remove.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from routelog.log_backend.segments.log_directory import segment_paths
from routelog.log_backend.segments.segment_index import HEADER_BYTES, following_base

# A listing takes milliseconds, and compressing a segment of 64 MiB about a second: a segment that is in none of
# five listings does not exist.
LISTINGS_MAX = 5

Neighbours = set[tuple[int, int]]  # base offsets of a segment and of the one that its index names


@dataclass(frozen=True, slots=True)
class SegmentListing:
    """Segments, oldest first.

    Attributes:
        gaps: offsets [first, end) whose segments are missing.
    """

    paths: list[Path]
    gaps: list[tuple[int, int]]


def list_segments(
    directory: Path, start: int = 0, end: int | None = None, known: Neighbours | None = None
) -> SegmentListing:
    """List the segments of a partition; none if there is no directory.

    Args:
        start, end: only gaps among these offsets matter.
        known: neighbours without a gap, which are not checked again; new ones are added.
    """
    paths = _paths(directory)
    gaps: list[tuple[int, int]] = []
    for _ in range(LISTINGS_MAX - 1):
        before, paths = paths, _paths(directory)
        gaps = list(_gaps(paths, start, end, set() if known is None else known))
        if paths == before and not gaps:
            break
    return SegmentListing(list(paths.values()), gaps)


def _paths(directory: Path) -> dict[int, Path]:
    try:
        return segment_paths(directory, [entry.name for entry in directory.iterdir()])
    except (FileNotFoundError, NotADirectoryError):
        return {}


def _gaps(
    paths: dict[int, Path], start: int, end: int | None, known: Neighbours
) -> Iterator[tuple[int, int]]:
    for neighbours in pairwise(paths):
        segment, base = neighbours
        if end is not None and segment >= end:
            return
        if base > start and neighbours not in known:
            named = _following_base(paths[segment], base)
            if named is not None and named < base and (end is None or named < end):
                yield named, base
            elif named == base:
                known.add(neighbours)


def _following_base(segment: Path, expected: int) -> int | None:
    try:
        with segment.with_suffix(".index").open("rb") as file:
            content = file.read(HEADER_BYTES)
            if following_base(content) == expected:
                return expected
            content += file.read()
    except FileNotFoundError:
        return None  # it is missing, or was removed with its segment
    return following_base(content, verified=True)
