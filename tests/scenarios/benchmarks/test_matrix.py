"""The matrix and the curves against a real broker, small: what they print, write and leave out."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import typer
from support.sampling import sampled
from typer.testing import CliRunner

from routelog.benchmarks.__main__ import main
from routelog.benchmarks.brokers.broker_process import Broker, routelog
from routelog.benchmarks.comparison.cases import CASES, Kind, Window
from routelog.benchmarks.comparison.growth import CURVES

BENCH = typer.Typer(pretty_exceptions_enable=False)
BENCH.command()(main)
WINDOW = Window(0.0, 0.2, backlog=2_000)
SMALLER = {
    "connections-1000": {"producers": 30, "queues": 30, "consumers": 30},
    "topic-1000": {"keys": 2_000},
}


@pytest.mark.parametrize(
    "case", sampled((c for c in CASES if c.kind is not Kind.IDLE), 3), ids=lambda case: case.name
)
def test_every_case_gives_a_figure_or_says_why_not(broker, case):
    case = replace(case, workload=replace(case.workload, **SMALLER.get(case.name, {})))
    served = Broker(broker.url)
    assert case.cannot_be_served(served) == ("no TLS" if case.with_tls else "")
    if not case.with_tls:
        assert case.measure(served, WINDOW).value > 0


@pytest.mark.long
def test_memory_is_that_of_a_broker_started_for_it(tmp_path, monkeypatch):
    monkeypatch.setattr("routelog.benchmarks.comparison.cases.IDLE_CONNECTIONS", 20)
    with routelog(tmp_path) as busy:
        for case in (c for c in CASES if c.kind is Kind.IDLE):
            figure = case.measure(busy, WINDOW)
            assert figure.value == float(str(figure.details["connected"])) / 1e6
            assert 10 < figure.value < 1_000


@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.name)
def test_every_curve_has_a_cost_at_its_first_points(broker, curve):
    for point in curve.points[:2]:
        cost = curve.measure(Broker(broker.url), point, WINDOW)
        assert cost.cpu_seconds == 0, "the broker is not one that the benchmark started"
        assert cost.value == cost.seconds > 0


def bench(*arguments):
    return CliRunner().invoke(
        BENCH, [*arguments, "--seconds", "0.2", "--warm-up", "0", "--runs", "1"]
    )


def test_brokers_side_by_side_are_written_to_the_page(broker, tmp_path):
    page, figures = tmp_path / "docs" / "performance.md", tmp_path / "figures.json"
    result = bench(
        *("--target", broker.url, "--peer-target", broker.url, "--folder", str(tmp_path / "data")),
        *("--case", "transient-100", "--case", "tls-100", "--case", "latency-10000"),
        *("--page", str(page), "--json", str(figures)),
    )
    assert result.exit_code == 0, result.output
    written = json.loads(figures.read_text())
    names = [case["name"] for case in written["cases"]]
    assert names == ["transient-100", "tls-100", "latency-10000"]
    assert written["cases"][0]["ratio_to"]["peer"] > 0
    assert "no TLS" in page.read_text()
    assert (page.parent / "figures" / "ratios-peer.svg").exists()


def test_a_broker_started_here_tells_its_processor_time(tmp_path):
    page = tmp_path / "performance.md"
    result = bench(
        *("--growth", "--curve", "size", "--most", "64", "--no-machine"),
        *("--folder", str(tmp_path / "data"), "--page", str(page)),
    )
    assert result.exit_code == 0, result.output
    assert "µs CPU" in result.output
    assert "### Size" in page.read_text()
    assert (tmp_path / "figures" / "growth-size.svg").exists()
    assert not list((tmp_path / "data").iterdir()), "it leaves nothing behind"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--case", "nope"], "unknown case 'nope'"),
        (["--growth", "--curve", "nope"], "unknown curve 'nope'"),
        (["--target", "amqp://127.0.0.1:1/", "--no-machine"], "Connection refused"),
        (["--folder", "/proc/nowhere"], "/proc/nowhere"),
    ],
)
def test_what_cannot_be_measured_is_said_in_one_line(options, reason):
    result = bench(*options)
    assert result.exit_code == 2, result.output
    assert reason in result.output
    assert len(result.output.strip().splitlines()) == 1


def test_a_case_that_fails_is_told_and_ends_nothing_else(broker, tmp_path, monkeypatch):
    refused = replace(CASES[1].workload, queue_arguments=(("x-max-priority", "no"),))
    cases = (replace(CASES[0], workload=refused), CASES[1])
    monkeypatch.setattr("routelog.benchmarks.__main__.cases_named", lambda names: cases)
    result = bench("--target", broker.url, "--no-machine")
    assert result.exit_code == 1, result.output
    assert "406" in result.output
    assert "transient-100" in result.output
