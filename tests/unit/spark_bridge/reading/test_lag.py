"""How far behind a stream is: offsets, bytes and seconds."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from unit.spark_bridge.log_files import LogFiles, records

from routelog.spark_bridge.logs.log_directory import LogDirectory
from routelog.spark_bridge.logs.readable_logs import LogPartition
from routelog.spark_bridge.reading.lag import PartitionLag, StreamLag, partition_lags
from routelog.spark_bridge.reading.lag_listener import LagListener

A0, A1 = LogPartition("/", "audit", 0), LogPartition("/", "audit", 1)
SECOND = 1_000_000


def test_the_oldest_unread_record_says_how_many_seconds(tmp_path: Path) -> None:
    log = LogFiles(tmp_path)
    segment = log.segment(
        0,
        (0, records([b"x"] * 10, time=100 * SECOND)),
        (10, records([b"x"] * 10, time=130 * SECOND)),
    )
    store, now = LogDirectory(tmp_path), 160 * SECOND
    size = segment.stat().st_size
    assert partition_lags(store, {A0: 5}, now) == (
        PartitionLag(A0, 5, 20, 15, size * 15 // 20, 60.0),
    )
    (later,) = partition_lags(store, {A0: 10}, now)
    assert (later.offsets_behind, later.seconds_behind) == (10, 30.0)
    (none,) = partition_lags(store, {A0: 20}, now)
    assert none == PartitionLag(A0, 20, 20, 0, 0, 0.0)


def test_a_clock_that_is_behind_the_brokers_makes_no_negative_lag(tmp_path: Path) -> None:
    LogFiles(tmp_path).segment(0, (0, records([b"x"], time=100 * SECOND)))
    (lag,) = partition_lags(LogDirectory(tmp_path), {A0: 0}, 90 * SECOND)
    assert lag.seconds_behind == 0.0


def test_what_retention_removed_counts_no_more(tmp_path: Path) -> None:
    LogFiles(tmp_path).numbered_segment(10, 5)
    (lag,) = partition_lags(LogDirectory(tmp_path), {A0: 3}, 0)
    assert lag.offsets_behind == 5


def test_the_numbers_of_kafka_are_among_the_metrics() -> None:
    lag = StreamLag(
        "q", 3, (PartitionLag(A0, 5, 9, 4, 400, 2.5), PartitionLag(A1, 9, 9, 0, 0, 0.0))
    )
    assert lag.metrics() == {
        "minOffsetsBehindLatest": 0,
        "maxOffsetsBehindLatest": 4,
        "avgOffsetsBehindLatest": 2.0,
        "offsetsBehind": 4,
        "bytesBehind": 400,
        "secondsBehind": 2.5,
    }
    assert StreamLag("q", 0, ()).metrics()["maxOffsetsBehindLatest"] == 0


def progress(name: str | None, *ends: str) -> Any:
    sources = [SimpleNamespace(endOffset=end) for end in ends]
    return SimpleNamespace(
        progress=SimpleNamespace(name=name, id="some-id", batchId=7, sources=sources)
    )


def test_a_listener_reports_after_each_micro_batch(tmp_path: Path) -> None:
    LogFiles(tmp_path).numbered_segment(0, 10)
    reports: list[StreamLag] = []
    listener = LagListener(str(tmp_path), report=reports.append)
    listener.onQueryProgress(progress("q", '{"audit": {"0": 4}}'))
    listener.onQueryProgress(progress(None, '{"audit": {"0": 10, "numbers": {"0": 7}}}'))
    assert [(each.query, each.batch, each.offsets_behind) for each in reports] == [
        ("q", 7, 6),
        ("some-id", 7, 0),
    ]
    assert listener.lags["q"] is reports[0]


@pytest.mark.parametrize(
    "ends", [[], ["null"], ["7"], ["{}"], ['{"logOffset": 3}'], ['{"other": {"0": 3}}'], ["None"]]
)
def test_other_sources_are_passed_over(tmp_path: Path, ends: list[str]) -> None:
    LogFiles(tmp_path).numbered_segment(0, 10)
    listener = LagListener(str(tmp_path))
    listener.onQueryProgress(progress("q", *ends))
    assert listener.lags == {}


def test_only_the_query_asked_for_is_reported(tmp_path: Path) -> None:
    LogFiles(tmp_path).numbered_segment(0, 10)
    listener = LagListener(str(tmp_path), query="mine")
    for name in ("mine", "other"):
        listener.onQueryProgress(progress(name, '{"audit": {"0": 4}}'))
    assert list(listener.lags) == ["mine"]


def test_a_failure_is_logged_and_does_not_stop_the_reports(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = LogFiles(tmp_path)
    log.numbered_segment(0, 10)

    def report(lag: StreamLag) -> None:
        raise OSError("the monitoring is away")

    listener = LagListener(str(tmp_path), report=report)
    listener.onQueryProgress(progress("q", '{"audit": {"0": 4}}'))
    assert "the lag of the query q is not known" in caplog.text
    assert "the monitoring is away" in caplog.text
    caplog.clear()
    away = LagListener("http://guest:guest@127.0.0.1:1")
    away.onQueryProgress(progress("q", '{"audit": {"0": 4}}'))
    assert "the lag of the query q is not known" in caplog.text
    assert "cannot be reached" in caplog.text
