"""Listings of a partition's directory that a broker changes meanwhile."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from unit.spark_bridge.log_files import LogFiles

from routelog.log_backend.segments.segment_index import SegmentIndex
from routelog.spark_bridge.logs.errors import RecordsLost
from routelog.spark_bridge.logs.log_directory import LogDirectory
from routelog.spark_bridge.logs.readable_logs import LogPartition, OffsetRange
from routelog.spark_bridge.logs.segment_listing import LISTINGS_MAX, list_segments

AUDIT = LogPartition("/", "audit", 0)
BASES = [0, 3, 6, 9]


@pytest.fixture
def log(tmp_path: Path) -> LogFiles:
    """Four segments of three records; the indexes of the sealed ones name the next."""
    files = LogFiles(tmp_path)
    for base in BASES:
        path = files.numbered_segment(base, 3)
        if base < BASES[-1]:
            index, times = SegmentIndex(path.stat().st_size, base + 3, base + 3).encode()
            path.with_suffix(".index").write_bytes(index)
            path.with_suffix(".timeindex").write_bytes(times)
    return files


@pytest.fixture
def hide(log: LogFiles, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[int]]:
    """Leaves segments out of the listings to come, one listing an argument; returns how many were taken."""

    def install(*hidden: int | None) -> list[int]:
        taken = [0]
        iterdir = Path.iterdir
        left = iter(hidden)

        def listing(path: Path) -> Iterator[Path]:
            if path != log.directory:
                return iterdir(path)
            taken[0] += 1
            name = next(left, None)
            return (x for x in iterdir(path) if name is None or x.name != f"{name:020d}.log")

        monkeypatch.setattr(Path, "iterdir", listing)
        return taken

    return install


def bases(log: LogFiles) -> list[int]:
    return [int(path.stem) for path in list_segments(log.directory).paths]


def read(log: LogFiles, start: int, end: int, *, lost_is_error: bool = True) -> list[int]:
    wanted = OffsetRange(AUDIT, start, end, 0)
    found = LogDirectory(log.data).read(wanted, lost_is_error=lost_is_error)
    return [batch.base_offset for batch in found]


def test_two_listings_that_agree_are_enough(log: LogFiles, hide: Callable[..., list[int]]) -> None:
    taken = hide()
    assert bases(log) == BASES
    assert taken == [2]


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("listing", [0, 1])
def test_a_segment_that_one_listing_misses_is_found_by_the_next(
    log: LogFiles, hide: Callable[..., list[int]], base: int, listing: int
) -> None:
    hide(*[None] * listing, base)
    assert bases(log) == BASES
    hide(*[None] * listing, base)
    assert [each.start for each in LogDirectory(log.data).extents(AUDIT)] == BASES
    hide(*[None] * listing, base)
    assert read(log, 0, 12) == BASES


@pytest.mark.parametrize("base", [3, 6])
def test_a_segment_that_two_listings_miss_is_missed_by_the_index_before_it(
    log: LogFiles, hide: Callable[..., list[int]], base: int
) -> None:
    taken = hide(base, base)
    assert bases(log) == BASES
    assert taken == [4]


def test_a_segment_that_stays_away_is_a_loss_that_is_named(log: LogFiles) -> None:
    (log.directory / f"{6:020d}.log").unlink()
    assert list_segments(log.directory).gaps == [(6, 9)]
    with pytest.raises(RecordsLost) as caught:
        read(log, 0, 12)
    assert (caught.value.start, caught.value.end) == (6, 9)
    with pytest.raises(RecordsLost) as caught:
        read(log, 7, 8)
    assert (caught.value.start, caught.value.end) == (7, 8)
    assert read(log, 0, 12, lost_is_error=False) == [0, 3, 9]
    assert read(log, 0, 6) == [0, 3]
    assert read(log, 9, 12) == [9]


def test_it_is_listed_only_so_often(log: LogFiles, hide: Callable[..., list[int]]) -> None:
    taken = hide(*[6] * 100)
    assert list_segments(log.directory).gaps == [(6, 9)]
    assert taken == [LISTINGS_MAX]


@pytest.mark.parametrize("content", [b"", b"x" * 40, bytes(100)])
def test_a_damaged_index_vouches_for_nothing(log: LogFiles, content: bytes) -> None:
    (log.directory / f"{6:020d}.log").unlink()
    (log.directory / f"{3:020d}.index").write_bytes(content)
    assert list_segments(log.directory).gaps == []


def test_a_flipped_bit_in_an_index_is_no_gap(log: LogFiles) -> None:
    path = log.directory / f"{3:020d}.index"
    content = bytearray(path.read_bytes())
    content[32] ^= 1  # the next base
    content[32] ^= 2
    path.write_bytes(content)
    assert list_segments(log.directory).gaps == []
