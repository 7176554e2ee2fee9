"""The stream reader as Spark talks to it: JSON, pickling, limits, and Spark before 4.2."""

import inspect
import json
import pickle
from pathlib import Path
from typing import cast

import pytest
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StringType, StructField, StructType
from unit.spark_bridge.log_files import LogFiles, records

from routelog.spark_bridge.columns.envelope import ENVELOPE
from routelog.spark_bridge.data_source import RouteLogDataSource
from routelog.spark_bridge.logs.errors import BadSchema, DeclaredAgain
from routelog.spark_bridge.reading.log_stream_reader import LogStreamReader

OFFSET_ONLY = StructType([ENVELOPE["offset"]])


@pytest.fixture
def log(tmp_path: Path) -> LogFiles:
    return LogFiles(tmp_path)


def reader(log: LogFiles, **given: str) -> LogStreamReader:
    options = {"path": str(log.data), "subscribePattern": ".*"} | given
    return cast(LogStreamReader, RouteLogDataSource(options).streamReader(OFFSET_ONLY))


def read(stream: LogStreamReader, start: object, end: object) -> list[int]:
    """Offsets of a micro-batch, read by a copy as on an executor; both ends went through JSON."""
    begin, until = json.loads(json.dumps([start, end]))
    there, tasks = pickle.loads(pickle.dumps((stream, stream.partitions(begin, until))))
    return [at for task in tasks for batch in there.read(task) for at in batch[0].to_pylist()]


def test_offsets_are_stored_in_the_order_of_queues_and_partitions(log: LogFiles) -> None:
    log.numbered_segment(3, 1)
    for queue, partition in (("b", 10), ("b", 9), ("a", 0)):
        LogFiles(log.data, queue, partition).numbered_segment(0, 2)
    stream = reader(log)
    start = stream.initialOffset()
    assert json.dumps(start) == ('{"a": {"0": 0}, "audit": {"0": 3}, "b": {"9": 0, "10": 0}}')
    end = stream.latestOffset(start, ReadAllAvailable())
    assert json.dumps(end) == '{"a": {"0": 2}, "audit": {"0": 4}, "b": {"9": 2, "10": 2}}'
    assert end == stream.reportLatestOffset()
    assert json.dumps(stream.latestOffset(end, ReadAllAvailable())) == json.dumps(end)


def test_numbers_of_partitions_are_stored_beside_the_offsets(tmp_path: Path) -> None:
    log = LogFiles(tmp_path, number=7)
    log.numbered_segment(0, 5)
    stream = reader(log)
    start = stream.initialOffset()
    assert json.dumps(start) == '{"audit": {"0": 0, "numbers": {"0": 7}}}'
    end = stream.latestOffset(start)
    assert json.dumps(end) == '{"audit": {"0": 5, "numbers": {"0": 7}}}'
    assert read(stream, start, end) == list(range(5))
    assert json.dumps(stream.latestOffset(end)) == json.dumps(end)
    # A checkpoint of an earlier version has none: it takes the one that is found first.
    for again in (reader(log), stream):
        assert again.latestOffset({"audit": {"0": 3}}) == end
        assert read(again, {"audit": {"0": 3}}, {"audit": {"0": 5}}) == [3, 4]
    earlier = {"audit": {"0": 5, "numbers": {"0": 6}}}
    with pytest.raises(DeclaredAgain):
        reader(log).latestOffset(earlier)


def test_a_copy_of_the_reader_reads_what_was_planned(log: LogFiles) -> None:
    log.numbered_segment(0, 5, 5)
    stream = reader(log)
    start = stream.initialOffset()
    assert read(stream, start, stream.latestOffset(start)) == list(range(10))
    assert read(stream, {"audit": {"0": 3}}, {"audit": {"0": 7}}) == [3, 4, 5, 6]
    assert read(stream, {"audit": {"0": 7}}, {"audit": {"0": 7}}) == []


def test_spark_before_4_2_gives_no_start(log: LogFiles) -> None:
    log.numbered_segment(0, 10)
    stream = reader(log, maxOffsetsPerTrigger="4")
    position = stream.initialOffset()
    found = []
    while (end := stream.latestOffset()) != position:
        found.append(read(stream, position, end))
        position = end
    assert found == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    # After a restart it plans the empty range at the checkpoint first.
    again = reader(log, maxOffsetsPerTrigger="4")
    assert read(again, {"audit": {"0": 8}}, {"audit": {"0": 8}}) == []
    assert again.latestOffset() == {"audit": {"0": 10}}


@pytest.mark.parametrize(
    ("start_at", "ends"),
    [
        ("earliest", [4, 8, 10]),
        ('{"audit": {"0": 3}}', [7, 10]),
        ("latest", [10]),
    ],
)
def test_spark_before_4_2_asks_for_the_first_end_before_the_beginning(
    log: LogFiles, start_at: str, ends: list[int]
) -> None:
    log.numbered_segment(0, 10)
    stream = reader(log, startingOffsets=start_at, maxOffsetsPerTrigger="4")
    found = [end := stream.latestOffset()]
    start = stream.initialOffset()
    while start != end or len(found) == 1:
        assert read(stream, start, end) == list(range(start["audit"]["0"], end["audit"]["0"]))
        start, end = end, stream.latestOffset()
        found.append(end)
    assert [end["audit"]["0"] for end in found[:-1]] == ends


@pytest.mark.parametrize("gives_start", [True, False])  # from Spark 4.2, and before
def test_the_start_is_pinned_once_and_nothing_waits_for_it_again(
    log: LogFiles, gives_start: bool
) -> None:
    log.numbered_segment(0, 10)
    stream = reader(log, startingOffsets="latest")
    pinned = stream.latestOffset(stream.initialOffset() if gives_start else None)
    assert read(stream, stream.initialOffset(), pinned) == []
    log.numbered_segment(0, 10, 10)
    assert stream.latestOffset(pinned if gives_start else None) == {"audit": {"0": 20}}


@pytest.mark.parametrize(
    ("given", "limit"),
    [
        ({}, ReadAllAvailable()),
        ({"maxOffsetsPerTrigger": "7", "maxBytesPerTrigger": "9"}, ReadMaxRows(7)),
        ({"maxBytesPerTrigger": "9k", "minOffsetsPerTrigger": "2"}, ReadMaxBytes(9216)),
        ({"minOffsetsPerTrigger": "2"}, ReadMinRows(2)),
    ],
)
def test_spark_carries_one_of_the_limits(
    log: LogFiles, given: dict[str, str], limit: ReadLimit
) -> None:
    assert reader(log, **given).getDefaultReadLimit() == limit


def test_every_limit_holds_unless_spark_asks_for_everything(log: LogFiles) -> None:
    log.segment(0, (0, records([b"x" * 10] * 20)))
    stream = reader(log, maxOffsetsPerTrigger="7", maxBytesPerTrigger="45")
    start = {"audit": {"0": 0}}
    assert stream.latestOffset(start, stream.getDefaultReadLimit()) == {"audit": {"0": 4}}
    assert stream.latestOffset(start, ReadAllAvailable()) == {"audit": {"0": 20}}


def test_spark_finds_admission_control_and_available_now(log: LogFiles) -> None:
    log.numbered_segment(0, 5)
    stream = reader(log)
    assert isinstance(stream, SupportsTriggerAvailableNow)
    assert inspect.signature(stream.latestOffset).parameters
    stream.prepareForTriggerAvailableNow()
    log.numbered_segment(0, 5, 5)
    assert stream.latestOffset(stream.initialOffset()) == {"audit": {"0": 5}}


def test_a_schema_is_checked_before_anything_is_read(log: LogFiles) -> None:
    schema = StructType([StructField("value", StringType())])
    source = RouteLogDataSource({"path": str(log.data), "subscribe": "audit"})
    with pytest.raises(BadSchema, match="no column value"):
        source.streamReader(schema)
