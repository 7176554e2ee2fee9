"""The plan of a read: every wanted offset in exactly one task."""

from collections.abc import Collection, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routelog.log_backend.records.record_batch import RecordBatch
from routelog.spark_bridge.logs.errors import BadOption, RecordsLost
from routelog.spark_bridge.logs.readable_logs import Cut, LogPartition, OffsetRange
from routelog.spark_bridge.reading.read_options import parse_read_options
from routelog.spark_bridge.reading.read_plan import TASK_BYTES_MIN, plan_batch

Spans = list[tuple[int, int, int]]


MANY = 1_000  # processors: none of them is left without a task for the sake of another
LARGE = TASK_BYTES_MIN
FULL = 64 * 1024 * 1024  # a segment


class PaperStore:
    """Logs that are only extents: start, end and bytes of each."""

    def __init__(self, **logs: Spans) -> None:
        self._logs = {LogPartition("/", queue, 0): spans for queue, spans in logs.items()}

    def vhosts(self) -> list[str]:
        return ["/"]

    def partitions(self, vhost: str, queues: Collection[str] | None) -> list[LogPartition]:
        return sorted(self._logs) if vhost == "/" else []

    def extents(self, partition: LogPartition) -> list[OffsetRange]:
        return [OffsetRange(partition, *span) for span in self._logs[partition]]

    def located(self, wanted: OffsetRange) -> OffsetRange:
        return wanted

    def offset_at(self, partition: LogPartition, time: int) -> int | None:
        raise AssertionError("no limit is a time")

    def cut(self, wanted: OffsetRange, bytes_max: int) -> Cut:
        raise AssertionError("a plan reads nothing")

    def read(self, wanted: OffsetRange, *, lost_is_error: bool = True) -> Iterator[RecordBatch]:
        raise AssertionError("a plan reads nothing")


def plan(
    store: PaperStore, *, processors: int = MANY, **options: str
) -> list[list[tuple[str, int, int]]]:
    everything = {"path": "/data", "subscribePattern": ".*"}
    read_options = parse_read_options(everything | options)
    tasks = plan_batch(store, read_options, processors=processors)
    return [[(each.partition.queue, each.start, each.end) for each in task] for task in tasks]


def test_each_large_segment_is_a_task() -> None:
    store = PaperStore(a=[(0, 10, LARGE), (10, 30, LARGE)], b=[(5, 6, LARGE)])
    assert plan(store) == [[("a", 0, 10)], [("a", 10, 30)], [("b", 5, 6)]]


def test_small_segments_share_a_task() -> None:
    half = LARGE // 2
    store = PaperStore(a=[(0, 10, half), (10, 20, half), (20, 30, half)], b=[(5, 6, 100)])
    assert plan(store) == [[("a", 0, 10), ("a", 10, 20)], [("a", 20, 30), ("b", 5, 6)]]


def test_a_task_has_two_full_segments_when_there_are_more_than_processors() -> None:
    store = PaperStore(a=[(0, 10, FULL), (10, 20, FULL), (20, 30, FULL)], b=[(5, 6, FULL)])
    assert plan(store, processors=2) == [
        [("a", 0, 10), ("a", 10, 20)],
        [("a", 20, 30), ("b", 5, 6)],
    ]
    assert len(plan(store, processors=1)) == 2
    assert len(plan(store, processors=4)) == 4


def test_no_processor_reads_alone_at_the_end() -> None:
    store = PaperStore(a=[(at, at + 1, FULL) for at in range(6)])
    assert [len(task) for task in plan(store, processors=2)] == [1] * 6
    assert [len(task) for task in plan(store, processors=3)] == [2] * 3
    assert [len(task) for task in plan(store, processors=1)] == [2] * 3


def test_ranges_of_about_the_same_length_are_shared_out_evenly() -> None:
    sizes = [LARGE + 100, LARGE, LARGE, LARGE - 100]
    store = PaperStore(a=[(at, at + 1, size) for at, size in enumerate(sizes)])
    assert [len(task) for task in plan(store, processors=2)] == [2, 2]


def test_bytes_per_task_have_a_limit() -> None:
    store = PaperStore(a=[(0, 10, 10_000), (10, 12, 2_000), (12, 13, 9_000)], b=[(0, 1, 500)])
    planned = plan(store, maxBytesPerPartition="4000")
    pieces = [[("a", 0, 3)], [("a", 3, 6)], [("a", 6, 10)]]
    assert planned == [*pieces, [("a", 10, 12)], [("a", 12, 13)], [("b", 0, 1)]]
    assert plan(store, maxBytesPerPartition="15000")[0] == [("a", 0, 10), ("a", 10, 12)]


def test_a_minimum_of_tasks_and_records_per_task_go_before_their_bytes() -> None:
    store = PaperStore(a=[(0, 10, FULL), (10, 20, FULL)])
    assert len(plan(store, processors=1, minPartitions="2")) == 2
    assert len(plan(store, processors=1, maxRecordsPerPartition="10")) == 2


def test_nothing_to_read_is_an_empty_plan() -> None:
    assert plan(PaperStore(a=[(0, 0, 0)], b=[(7, 7, 0)])) == []
    assert plan(PaperStore(a=[(0, 0, 0)]), minPartitions="4") == []
    assert plan(PaperStore()) == []


def test_limits_cut_the_first_and_last_segment() -> None:
    store = PaperStore(a=[(0, 10, LARGE), (10, 20, LARGE), (20, 30, LARGE)])
    planned = plan(store, startingOffsets='{"a":{"0":4}}', endingOffsets='{"a":{"0":12}}')
    assert planned == [[("a", 4, 10), ("a", 10, 12)]]


def test_an_end_before_the_start_is_nothing_to_read() -> None:
    store = PaperStore(a=[(10, 20, 100)])
    limits = {"startingOffsets": '{"a":{"0":15}}', "endingOffsets": '{"a":{"0":12}}'}
    assert plan(store, **limits) == []
    assert plan(store, startingOffsets='{"a":{"0":25}}') == []
    assert plan(store, endingOffsets='{"a":{"0":5}}') == []


@pytest.mark.parametrize(
    ("limits", "lost"),
    [
        ({"startingOffsets": '{"a":{"0":4}}'}, (4, 10)),
        ({"endingOffsets": '{"a":{"0":33}}'}, (20, 33)),
        ({"startingOffsets": '{"a":{"0":2}}', "endingOffsets": '{"a":{"0":7}}'}, (2, 7)),
        ({"startingOffsets": '{"a":{"0":22}}', "endingOffsets": '{"a":{"0":30}}'}, (22, 30)),
    ],
)
def test_offsets_out_of_range_fail_unless_loss_is_allowed(
    limits: dict[str, str], lost: tuple[int, int]
) -> None:
    store = PaperStore(a=[(10, 20, LARGE)])
    with pytest.raises(RecordsLost) as caught:
        plan(store, **limits)
    assert (caught.value.start, caught.value.end) == lost
    allowed = plan(store, failOnDataLoss="false", **limits)
    assert allowed == ([[("a", 10, 20)]] if lost in {(4, 10), (20, 33)} else [])


def test_records_per_task_have_a_limit() -> None:
    store = PaperStore(a=[(0, 10, 100)], b=[(0, 2, 100)])
    planned = plan(store, maxRecordsPerPartition="4")
    assert planned == [[("a", 0, 3)], [("a", 3, 6)], [("a", 6, 10)], [("b", 0, 2)]]


def test_a_minimum_of_tasks_splits_in_proportion() -> None:
    store = PaperStore(a=[(0, 90, 100)], b=[(0, 10, 100)])
    planned = plan(store, minPartitions="10")
    assert [end - start for task in planned for _, start, end in task] == [10] * 10


def test_a_minimum_of_tasks_leaves_enough_segments_alone() -> None:
    store = PaperStore(a=[(0, 90, 100), (90, 95, 100)])
    assert plan(store, minPartitions="2") == [[("a", 0, 90)], [("a", 90, 95)]]


def test_no_task_has_less_than_one_offset() -> None:
    assert len(plan(PaperStore(a=[(0, 3, 100)]), minPartitions="10")) == 3


@given(
    lengths=st.lists(st.integers(0, 50), min_size=1, max_size=6),
    first=st.integers(0, 1000),
    size=st.integers(0, LARGE * 2),
    minimum=st.none() | st.integers(1, 40),
    maximum=st.none() | st.integers(1, 40),
    bytes_max=st.none() | st.integers(1, LARGE * 4),
    processors=st.integers(1, 8),
)
def test_tasks_cover_each_offset_once_and_keep_the_limits(
    lengths: list[int],
    first: int,
    size: int,
    minimum: int | None,
    maximum: int | None,
    bytes_max: int | None,
    processors: int,
) -> None:
    spans: Spans = []
    start = first
    for length in lengths:
        spans.append((start, start + length, size))
        start += length
    options = {
        "minPartitions": minimum,
        "maxRecordsPerPartition": maximum,
        "maxBytesPerPartition": bytes_max,
    }
    chosen = {name: str(value) for name, value in options.items() if value is not None}
    planned = plan(PaperStore(a=spans), processors=processors, **chosen)
    covered = [at for task in planned for _, begin, end in task for at in range(begin, end)]
    assert covered == list(range(first, start))
    for task in planned:
        assert maximum is None or sum(end - begin for _, begin, end in task) <= maximum
    assert minimum is None or len(planned) >= min(minimum, start - first)


def test_an_unknown_vhost_is_named_beside_those_there_are() -> None:
    with pytest.raises(BadOption, match="option vhost: no logs of vhost 'x'; there are: '/'"):
        plan(PaperStore(a=[]), vhost="x")
