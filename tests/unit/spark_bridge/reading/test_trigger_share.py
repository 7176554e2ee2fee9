"""What a micro-batch takes of each partition: never above the limit, and nobody starves."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.spark_bridge.log_files import LogFiles, records

from routelog.spark_bridge.logs.log_directory import LogDirectory
from routelog.spark_bridge.logs.log_store import LogPartition, OffsetRange
from routelog.spark_bridge.reading.trigger_share import Backlogs, ends_by_bytes, ends_by_records


def partition(number: int) -> LogPartition:
    return LogPartition("/", "audit", number)


def backlogs(*lengths: int) -> Backlogs:
    return {
        partition(n): [OffsetRange(partition(n), 100, 100 + length, length)]
        for n, length in enumerate(lengths)
    }


def taken_records(lengths: list[int], records_max: int) -> list[int]:
    ends = ends_by_records(backlogs(*lengths), records_max)
    return [ends[partition(n)] - 100 for n in range(len(lengths))]


def test_records_are_shared_in_proportion() -> None:
    assert taken_records([300, 100], 40) == [30, 10]
    assert taken_records([300, 100], 400) == [300, 100]
    assert taken_records([300, 100], 4000) == [300, 100]


def test_a_small_backlog_gets_one_record_at_least() -> None:
    assert taken_records([1_000_000, 1], 10) == [9, 1]
    assert taken_records([1] * 30, 10) == [1] * 30


@given(lengths=st.lists(st.integers(1, 1000), min_size=1, max_size=8), most=st.integers(1, 2000))
def test_records_exceed_the_limit_by_one_a_partition_at_most(lengths: list[int], most: int) -> None:
    taken = taken_records(lengths, most)
    assert sum(taken) <= most + len(lengths)
    assert all(0 <= some <= length for some, length in zip(taken, lengths, strict=True))
    assert any(taken)


class Logs:
    """Partitions of the queue `audit` with bodies of these sizes, in two segments each."""

    def __init__(self, root: pytest.TempPathFactory, *sizes: list[int]) -> None:
        data = root.mktemp("logs")
        self._sizes = sizes
        for number, of_partition in enumerate(sizes):
            log = LogFiles(data, partition=number)
            middle = len(of_partition) // 2
            for first, part in ((0, of_partition[:middle]), (middle, of_partition[middle:])):
                if part:
                    log.segment(first, (first, records([b"x" * size for size in part])))
        self.store = LogDirectory(data)
        extents = {partition(n): self.store.extents(partition(n)) for n in range(len(sizes))}
        self.backlogs = {
            each: [part for part in parts if part.end > part.start]
            for each, parts in extents.items()
        }

    def taken(self, bytes_max: int) -> list[list[int]]:
        ends = ends_by_bytes(self.store, self.backlogs, bytes_max)
        return [sizes[: ends[partition(n)]] for n, sizes in enumerate(self._sizes)]


def test_bytes_are_shared_in_proportion(tmp_path_factory: pytest.TempPathFactory) -> None:
    logs = Logs(tmp_path_factory, [1000] * 300, [1000] * 100)
    taken = logs.taken(40_000)
    assert [len(each) for each in taken] == [30, 10]
    assert [len(each) for each in logs.taken(10**9)] == [300, 100]


def test_what_a_small_backlog_leaves_goes_to_the_others(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    logs = Logs(tmp_path_factory, [1000] * 100, [600])
    assert logs.taken(2_000) == [[1000], [600]]
    assert logs.taken(700) == [[], [600]]


def test_a_record_larger_than_the_limit_comes_alone(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    logs = Logs(tmp_path_factory, [5_000, 10], [20_000, 10])
    assert logs.taken(100) == [[5_000], []]


@settings(max_examples=30)  # each writes files
@given(
    sizes=st.lists(st.lists(st.integers(0, 50), min_size=1, max_size=8), min_size=1, max_size=4),
    bytes_max=st.integers(1, 300),
)
def test_bytes_never_exceed_the_limit_and_something_is_taken(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[list[int]], bytes_max: int
) -> None:
    taken = Logs(tmp_path_factory, *sizes).taken(bytes_max)
    bodies = [size for each in taken for size in each]
    assert bodies
    assert sum(bodies) <= bytes_max or len([size for size in bodies if size]) == 1
