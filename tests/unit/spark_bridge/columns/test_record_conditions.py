"""What filters say about the place of records, and what it makes of a plan."""

from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)
from pyspark.sql.types import StructType
from unit.spark_bridge.log_files import LogFiles, records

from routelog.spark_bridge.columns.envelope import ENVELOPE
from routelog.spark_bridge.columns.record_conditions import NO_CONDITIONS, conditions_of
from routelog.spark_bridge.reading.pushdown_reader import PushdownReader
from routelog.spark_bridge.reading.read_options import parse_read_options

OFFSET, PARTITION, QUEUE, TIME = ("offset",), ("partition",), ("queue",), ("timestamp",)


def at(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def planned(data: Path, *filters: Filter, **given: str) -> list[tuple[str, int, int, int]]:
    """Queue, partition, start and end of all that is read."""
    options = parse_read_options({"path": str(data), "subscribePattern": ".*"} | given)
    reader = PushdownReader(options, StructType([ENVELOPE["offset"]]))
    assert list(reader.pushFilters(list(filters))) == list(filters)
    ranges = [each for task in reader.partitions() for each in task.value]
    return [(e.partition.queue, e.partition.partition, e.start, e.end) for e in ranges]


def test_comparisons_of_offsets_are_exact(tmp_path: Path) -> None:
    LogFiles(tmp_path).numbered_segment(0, 50)
    assert planned(tmp_path, EqualTo(OFFSET, 7)) == [("audit", 0, 7, 8)]
    assert planned(tmp_path, EqualNullSafe(OFFSET, 7)) == [("audit", 0, 7, 8)]
    both = (GreaterThan(OFFSET, 7), LessThan(OFFSET, 20))
    assert planned(tmp_path, *both) == [("audit", 0, 8, 20)]
    closed = (GreaterThanOrEqual(OFFSET, 7), LessThanOrEqual(OFFSET, 20), IsNotNull(OFFSET))
    assert planned(tmp_path, *closed) == [("audit", 0, 7, 21)]
    assert planned(tmp_path, GreaterThan(OFFSET, 100)) == []
    assert planned(tmp_path, LessThan(OFFSET, -5)) == []


def test_queues_and_partitions_are_left_out(tmp_path: Path) -> None:
    for queue in ("audit", "orders"):
        for partition in (0, 1):
            LogFiles(tmp_path, queue, partition).numbered_segment(0, 5)
    assert planned(tmp_path, EqualTo(QUEUE, "audit"), In(PARTITION, (1, 7))) == [("audit", 1, 0, 5)]
    assert planned(tmp_path, EqualTo(("topic",), "audit"), In(QUEUE, ("orders",))) == []


def test_times_choose_batches(tmp_path: Path) -> None:
    contents = [(n * 2, records([b"a", b"b"], time=n * 1_000_000)) for n in range(10)]
    LogFiles(tmp_path).segment(0, *contents)
    both = (GreaterThanOrEqual(TIME, at(3)), LessThan(TIME, at(5)))
    assert planned(tmp_path, *both) == [("audit", 0, 6, 10)]
    assert planned(tmp_path, GreaterThan(TIME, at(8)), LessThanOrEqual(TIME, at(60))) == [
        ("audit", 0, 18, 20)
    ]
    assert planned(tmp_path, GreaterThan(TIME, at(60))) == []


def test_other_conditions_leave_the_plan_alone() -> None:
    others = [
        Not(EqualTo(OFFSET, 7)),
        EqualTo(("body",), b"x"),
        EqualTo(("properties", "timestamp"), at(3)),
        EqualTo(OFFSET, None),
        In(OFFSET, (1, 2)),
        GreaterThan(QUEUE, "a"),
        StringStartsWith(QUEUE, "a"),
        GreaterThan(TIME, datetime(2024, 1, 1)),  # noqa: DTZ001 - of no zone is what it tests
    ]
    assert conditions_of(others) == NO_CONDITIONS


def test_what_options_ask_for_stays_a_limit(tmp_path: Path) -> None:
    LogFiles(tmp_path).numbered_segment(0, 50)
    start = {"startingOffsets": '{"audit": {"0": 10}}', "endingOffsets": '{"audit": {"0": 20}}'}
    found = planned(tmp_path, GreaterThan(OFFSET, 5), LessThan(OFFSET, 15), **start)
    assert found == [("audit", 0, 10, 15)]


def test_without_filters_all_is_read(tmp_path: Path) -> None:
    LogFiles(tmp_path).numbered_segment(0, 5)
    options = parse_read_options({"path": str(tmp_path), "subscribe": "audit"})
    (partition,) = PushdownReader(options, StructType([ENVELOPE["offset"]])).partitions()
    assert isinstance(partition, InputPartition)
    assert [(each.start, each.end) for each in partition.value] == [(0, 5)]
