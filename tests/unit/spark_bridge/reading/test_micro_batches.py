"""Where the micro-batches of a stream begin and end, over real segment files."""

import shutil
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.spark_bridge.log_files import LogFiles, numbered, records

from routelog.log_backend.segments.log_directory import partition_directory
from routelog.spark_bridge.logs.errors import BadOption, DeclaredAgain, RecordsLost
from routelog.spark_bridge.logs.log_directory import LogDirectory
from routelog.spark_bridge.logs.readable_logs import LogPartition, OffsetRange
from routelog.spark_bridge.reading.micro_batches import (
    Backlogs,
    MicroBatches,
    ends_by_bytes,
    ends_by_records,
)
from routelog.spark_bridge.reading.read_options import parse_read_options
from routelog.spark_bridge.reading.stored_offsets import Offsets

A0, A1 = LogPartition("/", "audit", 0), LogPartition("/", "audit", 1)


class HandClock:
    """Time that a test moves."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def now(self) -> int:
        raise AssertionError("waiting is no wall time")

    def monotonic(self) -> float:
        return self.seconds


class WatchedLogs(LogDirectory):
    """Counts how often somebody looks."""

    looks = 0

    def extents(self, partition: LogPartition) -> list[OffsetRange]:
        self.looks += 1
        return super().extents(partition)


class BrokerLogs(LogDirectory):
    """Knows of records that are not stored, as a broker does."""

    def next_offset(self, partition: LogPartition) -> int:
        return 8


def stream(data: Path, clock: HandClock | None = None, **given: str) -> MicroBatches:
    """A process that begins to answer for a stream."""
    options = parse_read_options({"path": str(data), "subscribe": "audit"} | given)
    return MicroBatches(LogDirectory(data), options, clock or HandClock())


def planned(batches: MicroBatches, start: Offsets, end: Offsets) -> list[tuple[int, int, int]]:
    """Partition, start and end of all that a micro-batch reads."""
    ranges = [each for task in batches.tasks(start, end) for each in task]
    return [(each.partition.partition, each.start, each.end) for each in ranges]


@pytest.fixture
def log(tmp_path: Path) -> LogFiles:
    return LogFiles(tmp_path)


def test_a_stream_begins_with_the_earliest_and_follows_the_log(log: LogFiles) -> None:
    log.numbered_segment(5, 3)
    batches = stream(log.data)
    start = batches.first()
    assert start == {A0: 5}
    end = batches.end(start, limited=True)
    assert end == {A0: 8}
    assert planned(batches, start, end) == [(0, 5, 8)]
    assert batches.end(end, limited=True) == end
    log.numbered_segment(5, 3, 4)
    assert batches.end(end, limited=True) == {A0: 12} == batches.latest()


def test_the_default_start_is_said_loudly(log: LogFiles, caplog: pytest.LogCaptureFixture) -> None:
    log.numbered_segment(0, 1)
    stream(log.data).first()
    assert "begins with the earliest records" in caplog.text
    caplog.clear()
    stream(log.data, startingOffsets="latest").first()
    assert not caplog.text


@pytest.mark.parametrize(
    "start_at",
    [
        {"startingOffsets": "latest"},
        {"startingOffsets": '{"audit": {"0": -1}}'},
        {"startingTimestamp": "9999999999999", "startingOffsetsByTimestampStrategy": "latest"},
    ],
)
def test_a_start_that_may_differ_is_pinned_by_an_empty_micro_batch(
    log: LogFiles, start_at: dict[str, str]
) -> None:
    log.numbered_segment(0, 10)
    batches = stream(log.data, **start_at)
    start = batches.first()
    log.numbered_segment(0, 10, 10)
    pinned = batches.end(start, limited=True)
    assert pinned == start == {A0: 10}
    # Spark has stored the end of batch 0, and dies; meanwhile more is written.
    log.numbered_segment(0, 10, 10, 10)
    again = stream(log.data, **start_at)
    assert planned(again, again.first(), pinned) == []
    assert planned(again, pinned, again.end(pinned, limited=True)) == [(0, 10, 30)]


def test_a_start_that_lasts_costs_no_empty_micro_batch(log: LogFiles) -> None:
    log.numbered_segment(0, 10)
    for start in ({"startingOffsets": '{"audit": {"0": 3}}'}, {"startingTimestamp": "0"}):
        batches = stream(log.data, **start)
        assert batches.end(batches.first(), limited=True) == {A0: 10}


def test_available_now_ends_where_the_log_ended_when_it_began(log: LogFiles) -> None:
    log.numbered_segment(0, 10)
    batches = stream(log.data, maxOffsetsPerTrigger="4", minOffsetsPerTrigger="4")
    batches.freeze()
    position = batches.first()
    log.numbered_segment(0, 10, 10)
    LogFiles(log.data, partition=1).numbered_segment(0, 5)
    ends = [position]
    while (position := batches.end(position, limited=True)) != ends[-1]:
        ends.append(position)
    assert [end[A0] for end in ends] == [0, 4, 8, 10]
    assert position == {A0: 10, A1: 0}


@pytest.mark.parametrize("strategy", ["error", "latest"])
def test_available_now_with_a_start_behind_the_end_has_nothing_to_read(
    log: LogFiles, strategy: str
) -> None:
    log.numbered_segment(0, 10)
    start_at = {"startingOffsets": "latest"}
    if strategy == "latest":
        start_at = {
            "startingTimestamp": "9999999999999",
            "startingOffsetsByTimestampStrategy": "latest",
        }
    batches = stream(log.data, **start_at)
    batches.freeze()
    log.numbered_segment(0, 10, 10)
    start = batches.first()
    assert start == {A0: 10} == batches.end(start, limited=True)


def test_limits_are_off_when_spark_asks_for_everything(log: LogFiles) -> None:
    log.numbered_segment(0, 10)
    batches = stream(log.data, maxOffsetsPerTrigger="4", maxBytesPerTrigger="3")
    assert batches.end({A0: 0}, limited=False) == {A0: 10}
    assert batches.end({A0: 0}, limited=True) == {A0: 3}


def test_bodies_of_a_micro_batch_have_at_most_so_many_bytes(log: LogFiles) -> None:
    log.segment(0, (0, records([b"x" * 10] * 7)), (7, records([b"x" * 10] * 7)))
    batches = stream(log.data, maxBytesPerTrigger="45")
    position, ends = batches.first(), [0]
    while (position := batches.end(position, limited=True))[A0] != ends[-1]:
        ends.append(position[A0])
    assert ends == [0, 4, 8, 12, 14]


def test_large_records_wait_for_others_but_not_for_ever(tmp_path: Path) -> None:
    bodies = [[b"x" * 10] * 9, [b"x" * 1_000] * 3, [b"x" * 990] * 2]
    for number, each in enumerate(bodies):
        LogFiles(tmp_path, partition=number).segment(0, (0, records(each)))
    batches = stream(tmp_path, maxBytesPerTrigger="995")
    small, larger, large = (partition(number) for number in range(3))
    position = batches.first()
    read = []
    for _ in range(8):
        position = batches.end(position, limited=True)
        read.append((position[larger], position[large]))
        position[small] = 0  # as much comes as was read
    assert read == [(0, 0), (0, 1), (1, 1), (1, 1), (1, 2), (2, 2), (2, 2), (3, 2)]


def test_few_records_wait_for_others_but_not_for_ever(log: LogFiles) -> None:
    log.numbered_segment(0, 3)
    clock = HandClock()
    batches = stream(log.data, clock, minOffsetsPerTrigger="5", maxTriggerDelay="10s")
    start = batches.first()
    clock.seconds += 9
    assert batches.end(start, limited=True) == start
    clock.seconds += 1
    end = batches.end(start, limited=True)
    assert end == {A0: 3}
    log.numbered_segment(0, 3, 4)
    clock.seconds += 9
    assert batches.end(end, limited=True) == end
    log.numbered_segment(0, 3, 4, 1)
    assert batches.end(end, limited=True) == {A0: 8}


def test_a_partition_that_comes_later_is_read_from_its_beginning(log: LogFiles) -> None:
    log.numbered_segment(0, 3)
    batches = stream(log.data, startingOffsets="latest")
    start = batches.first()
    batches.end(start, limited=True)
    LogFiles(log.data, partition=1).numbered_segment(2, 5)
    end = batches.end(start, limited=True)
    assert end == {A0: 3, A1: 7}
    assert planned(batches, start, end) == [(1, 2, 7)]


def test_an_ending_bounds_a_stream_too(log: LogFiles) -> None:
    log.numbered_segment(0, 10)
    batches = stream(log.data, endingOffsets='{"audit": {"0": 6}}')
    end = batches.end(batches.first(), limited=True)
    assert end == {A0: 6} == batches.end(end, limited=True)
    timed = stream(log.data, endingTimestamp="2020-01-01")
    assert timed.end(timed.first(), limited=True) == {A0: 0}


def test_an_ending_must_name_what_is_read(log: LogFiles) -> None:
    log.numbered_segment(0, 5)
    given = {"endingOffsets": '{"audit": {"0": 3}}'}
    with pytest.raises(BadOption, match="endingOffsets: names 'audit:1', which are not read"):
        stream(log.data, endingOffsets='{"audit": {"0": 3, "1": 3}}').first()
    batches = stream(log.data, **given)
    start = batches.first()
    LogFiles(log.data, partition=1).numbered_segment(0, 5)
    for each in (batches, stream(log.data, **given)):
        with pytest.raises(BadOption, match="endingOffsets: has nothing for 'audit:1'"):
            each.end(start, limited=True)
    with pytest.raises(BadOption, match="endingOffsets: has nothing for 'audit:1'"):
        stream(log.data, **given).first()
    times = stream(log.data, endingOffsetsByTimestamp='{"audit": {"0": 3}}')
    with pytest.raises(BadOption, match="ByTimestamp: has nothing for 'audit:1'"):
        times.end(start, limited=True)


def test_a_plan_is_the_same_when_it_is_made_again(log: LogFiles) -> None:
    log.numbered_segment(0, 5, 5)
    log.numbered_segment(10, 5)
    first = planned(stream(log.data), {A0: 3}, {A0: 12})
    log.numbered_segment(10, 5, 5)
    log.numbered_segment(20, 5)
    again = planned(stream(log.data), {A0: 3}, {A0: 12})
    assert first == [(0, 3, 10), (0, 10, 12)] == again
    assert all(one[2] == other[1] for one, other in pairwise(again))


def test_a_plan_with_a_minimum_of_tasks_is_the_same_when_the_log_has_grown(log: LogFiles) -> None:
    log.numbered_segment(0, 5, 5)
    log.numbered_segment(10, 3, 4)
    given = {"minPartitions": "3", "maxBytesPerPartition": "1"}
    first = stream(log.data, **given)
    start = first.first()
    end = first.end(start, limited=True)
    plan = [[(each.start, each.end) for each in task] for task in first.tasks(start, end)]
    log.segment(10, (10, numbered(10, 3)), (13, numbered(13, 4)), (17, records([b"x" * 9_999])))
    log.numbered_segment(18, 5)
    again = stream(log.data, **given).tasks(start, end)
    assert [[(each.start, each.end) for each in task] for task in again] == plan
    assert plan == [[(0, 5)], [(5, 10)], [(10, 13)], [(13, 17)]]


def test_one_look_at_a_log_is_enough_for_a_micro_batch(log: LogFiles) -> None:
    log.numbered_segment(0, 5)
    logs = WatchedLogs(log.data)
    options = parse_read_options({"path": str(log.data), "subscribe": "audit"})
    batches = MicroBatches(logs, options, HandClock())
    start = batches.first()
    for _ in range(2):
        logs.looks = 0
        end = batches.end(start, limited=True)
        assert end == {A0: 5} == batches.reached()
        assert planned(batches, start, end) == [(0, 0, 5)]
        assert logs.looks == 1


def test_a_plan_sees_what_was_written_since_the_last_look(log: LogFiles) -> None:
    log.numbered_segment(0, 5)
    batches = stream(log.data)
    assert batches.end({A0: 0}, limited=True) == {A0: 5}
    log.numbered_segment(0, 5, 5)
    assert planned(batches, {A0: 0}, {A0: 10}) == [(0, 0, 10)]
    log.numbered_segment(0, 5, 5, 5)
    assert batches.reached() == {A0: 15} == batches.latest()


def test_a_retention_gap_is_named_or_passed_over(
    log: LogFiles, caplog: pytest.LogCaptureFixture
) -> None:
    log.numbered_segment(10, 5)
    strict = stream(log.data)
    end = strict.end({A0: 4}, limited=True)
    with pytest.raises(RecordsLost, match=r"offsets 4 to 9 of partition 0 .*x-retention"):
        strict.tasks({A0: 4}, end)
    lenient = stream(log.data, failOnDataLoss="false")
    assert planned(lenient, {A0: 4}, lenient.end({A0: 4}, limited=True)) == [(0, 10, 15)]
    assert "offsets 4 to 9 of partition 0" in caplog.text


def remove(log: LogFiles, *, directory: bool) -> None:
    for path in log.directory.iterdir():
        path.unlink()
    if directory:
        log.directory.rmdir()


@pytest.mark.parametrize("directory", [True, False], ids=["deleted", "expired"])
def test_a_log_that_goes_with_unread_records_is_an_error_or_passed_over(
    log: LogFiles, directory: bool, caplog: pytest.LogCaptureFixture
) -> None:
    LogFiles(log.data, "orders").numbered_segment(0, 3)
    orders = LogPartition("/", "orders", 0)
    log.numbered_segment(0, 3)
    given = {"subscribe": "audit,orders", "maxOffsetsPerTrigger": "2"}
    strict, lenient = stream(log.data, **given), stream(log.data, failOnDataLoss="false", **given)
    ends = [each.end(each.first(), limited=True) for each in (strict, lenient)]
    assert ends == [{A0: 1, orders: 1}] * 2
    remove(log, directory=directory)
    with pytest.raises(RecordsLost, match="offsets 1 to 2 of partition 0 of queue 'audit'"):
        strict.end(ends[0], limited=True)
    end = lenient.end(ends[0], limited=False)
    assert end == {A0: 1, orders: 3}
    assert lenient.end(ends[0], limited=False) == end
    assert caplog.text.count("offsets 1 to 2 of partition 0 of queue 'audit'") == 1
    assert planned(lenient, ends[0], end) == [(0, 1, 3)]
    with pytest.raises(RecordsLost):
        strict.tasks({A0: 1}, {A0: 3})


@pytest.mark.parametrize("directory", [True, False], ids=["broker restarted", "expired"])
def test_an_idle_log_past_its_retention_is_no_loss(log: LogFiles, directory: bool) -> None:
    log.numbered_segment(0, 3)
    batches = stream(log.data)
    end = batches.end(batches.first(), limited=True)
    remove(log, directory=directory)
    restarted = stream(log.data)
    restarted.freeze()
    for each in (batches, restarted):
        assert each.end(end, limited=True) == end
        assert planned(each, end, end) == []
        assert each.latest() == {}
    log.directory.mkdir(exist_ok=True)
    log.numbered_segment(3, 2)
    later = batches.end(end, limited=True)
    assert planned(batches, end, later) == [(0, 3, 5)]


@pytest.mark.parametrize("start_at", ["earliest", "latest"])
def test_a_log_without_segments_begins_wherever_its_next_one_does(
    log: LogFiles, start_at: str
) -> None:
    batches = stream(log.data, startingOffsets=start_at)
    start = batches.first()
    assert start == {} == batches.end(start, limited=True)
    log.numbered_segment(40, 5)
    end = batches.end(start, limited=True)
    assert end == {A0: 45}
    assert planned(batches, start, end) == [(0, 40, 45)]


@pytest.mark.parametrize("directory", [True, False], ids=["deleted", "expired"])
def test_what_goes_between_a_micro_batch_s_end_and_its_plan_is_named(
    log: LogFiles, directory: bool, caplog: pytest.LogCaptureFixture
) -> None:
    log.numbered_segment(0, 3)
    lenient = stream(log.data, failOnDataLoss="false")
    start = lenient.first()
    end = lenient.end(start, limited=True)
    remove(log, directory=directory)
    restarted = stream(log.data, failOnDataLoss="false")
    assert planned(restarted, start, end) == []
    assert "offsets 0 to 2 of partition 0 of queue 'audit'" in caplog.text


def test_a_queue_declared_again_is_an_error_or_read_from_its_beginning(
    log: LogFiles, caplog: pytest.LogCaptureFixture
) -> None:
    log.numbered_segment(0, 2)
    with pytest.raises(RecordsLost, match="offsets 2 to 7"):
        stream(log.data).end({A0: 8}, limited=True)
    lenient = stream(log.data, failOnDataLoss="false")
    back = lenient.end({A0: 8}, limited=True)
    assert back == {A0: 0}
    assert "offsets 2 to 7 of partition 0" in caplog.text
    assert planned(lenient, {A0: 8}, back) == []
    assert lenient.end(back, limited=True) == {A0: 2}


@pytest.mark.parametrize("strict", ["true", "false"])
def test_an_end_before_the_position_is_no_loss_while_the_broker_knows_of_later_records(
    log: LogFiles, caplog: pytest.LogCaptureFixture, strict: str
) -> None:
    log.numbered_segment(0, 2)
    options = parse_read_options(
        {"path": str(log.data), "subscribe": "audit", "failOnDataLoss": strict}
    )
    batches = MicroBatches(BrokerLogs(log.data), options, HandClock())
    assert batches.end({A0: 8}, limited=True) == {A0: 8}
    assert planned(batches, {A0: 8}, {A0: 8}) == []
    assert not caplog.text
    log.numbered_segment(0, 2, 7)
    assert batches.end({A0: 8}, limited=True) == {A0: 9}


def declared_again(data: Path) -> None:
    """Its partition has another number, and more records than the stream has read of the earlier one."""
    shutil.rmtree(partition_directory(data / "logs", "/", "audit", 0))
    LogFiles(data, number=9).numbered_segment(0, 25)


def test_a_queue_declared_again_is_noticed_by_its_number(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    LogFiles(tmp_path, number=7).numbered_segment(0, 10)
    batches = stream(tmp_path)
    start = batches.first()
    end = batches.end(start, limited=True)
    tasks = batches.tasks(start, end)
    declared_again(tmp_path)
    for strict in (batches, stream(tmp_path)):
        with pytest.raises(
            DeclaredAgain, match=r"audit' .* was deleted and declared again: .* 10;"
        ):
            strict.end(end, limited=True)
        with pytest.raises(DeclaredAgain):
            strict.tasks(start, end)
    ((wanted,),) = tasks
    logs = LogDirectory(tmp_path)
    with pytest.raises(DeclaredAgain):
        list(logs.read(wanted))
    assert list(logs.read(wanted, lost_is_error=False)) == []
    lenient = stream(tmp_path, failOnDataLoss="false")
    assert planned(lenient, start, end) == []
    back = lenient.end(end, limited=True)
    assert back == {A0: 0}
    assert "declared again" in caplog.text
    assert planned(lenient, end, back) == []
    assert lenient.end(back, limited=True) == {A0: 25}
    assert planned(lenient, back, {A0: 25}) == [(0, 0, 25)]


def test_a_queue_that_was_never_there_is_an_error(log: LogFiles) -> None:
    with pytest.raises(BadOption, match="option subscribe: no log of 'orders'"):
        stream(log.data, subscribe="orders").first()
    with pytest.raises(BadOption, match="option startingOffsets: names 'audit:1'"):
        stream(log.data, startingOffsets='{"audit": {"0": 1, "1": 0}}').first()


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
