"""The page's two parts are replaced one without the other."""

from dataclasses import replace
from pathlib import Path

from routelog.benchmarks.brokers.broker_process import Broker
from routelog.benchmarks.comparison.cases import CASES, Figure
from routelog.benchmarks.comparison.growth import CURVES, Cost, Grown
from routelog.benchmarks.comparison.performance_page import PerformancePage
from routelog.benchmarks.comparison.report import Report
from routelog.benchmarks.comparison.session import Figures, Results

LATENCY = next(case for case in CASES if case.name == "latency-10000")
IDLE = next(case for case in CASES if case.name == "idle-10000")
VERSIONS = {"ours": "RouteLog 1", "theirs": "Other 2"}


def _report() -> Report:
    def runs(*values: float, cpu_seconds: float = 0.0) -> Figures:
        return Figures([Figure(value, 0.5, cpu_seconds, {}) for value in values])

    figures = {
        ("transient-16", "ours"): runs(30_000, 10_000, 20_000, cpu_seconds=2e-6),
        ("transient-16", "theirs"): runs(5_000),
        ("latency-10000", "ours"): runs(0.5),
        ("latency-10000", "theirs"): runs(2.0),
        ("idle-10000", "ours"): runs(86.4),
        ("idle-10000", "theirs"): runs(864.0),
        ("tls-100", "ours"): Figures(left_out="no TLS"),
        ("tls-100", "theirs"): Figures(failures=["it stalled"]),
    }
    tls = next(case for case in CASES if case.with_tls)
    results = Results(["ours", "theirs"], [CASES[0], LATENCY, tls, IDLE], figures)
    return Report(results, None, VERSIONS, "python -m benchmarks")


def _grown() -> list[Grown]:
    curve = replace(CURVES[0], points=(1, 10, 100))
    costs = {1: Cost(1e-6, 2e-6), 10: Cost(2e-6, 2e-6), 100: Cost(9e-6, 9e-6)}
    theirs = Grown(curve, "theirs", {1: Cost(1e-5, 1e-5)}, left_out={10: "it would take some 90 s"})
    return [Grown(curve, "ours", costs, {1000: "out of files"}), theirs]


def test_a_higher_rate_a_lower_latency_and_less_memory_are_better() -> None:
    results = _report().results
    assert results.ratio(CASES[0], "theirs") == 4.0
    assert results.ratio(LATENCY, "theirs") == 4.0
    assert results.ratio(results.cases[2], "theirs") is None
    assert results.ratio(IDLE, "theirs") == 10.0
    assert results.figures["transient-16", "ours"].spread == 1.0
    assert results.disturbed == "8 of 8 runs were disturbed"
    assert results.failures == ["tls-100, theirs: it stalled"]


def test_each_part_of_the_page_is_replaced_without_the_other(tmp_path: Path) -> None:
    page = PerformancePage(tmp_path / "performance.md")
    page.write_matrix(_report())
    page.write_growth(_grown(), None, VERSIONS, "python -m benchmarks --growth")
    page.write_matrix(_report())
    text = page.path.read_text()
    assert text.count("## Side by side") == text.count("## What a message costs") == 1
    assert (
        "| 16 B, automatic acks | messages/s | 20 k | 100% | 2.00 | 5,000 | 0% |  | 4.00 |" in text
    )
    assert "| MB | 86 | 0% |  | 864 | 0% |  | 10.00 |" in text
    assert "(ours: no TLS)" in text
    assert "- Failed: tls-100, theirs: it stalled" in text


def test_a_failed_point_is_named_and_the_same_figures_give_the_same_drawing(tmp_path: Path) -> None:
    page = PerformancePage(tmp_path / "performance.md")
    page.write_growth(_grown(), None, VERSIONS, "c")
    text = page.path.read_text()
    assert "- ours failed at 1,000: out of files." in text
    drawn = (tmp_path / "figures" / "growth-queues.svg").read_bytes()
    page.write_growth(_grown(), None, VERSIONS, "c")
    assert (tmp_path / "figures" / "growth-queues.svg").read_bytes() == drawn


def test_the_processor_time_of_a_broker_that_is_not_ours_is_not_known() -> None:
    assert Broker("amqp://h").cpu_seconds() == 0.0


def test_points_that_were_left_out_have_their_reason(tmp_path: Path) -> None:
    page = PerformancePage(tmp_path / "performance.md")
    page.write_growth(_grown(), None, VERSIONS, "python -m benchmarks --growth")
    text = page.path.read_text()
    assert "- theirs was not measured at 10: it would take some 90 s." in text


def test_a_point_may_take_as_much_longer_than_the_last_as_it_is_larger() -> None:
    grown = Grown(CURVES[0], "ours")
    assert grown.expected_seconds(100) == 0
    grown.took = (100, 2.5)
    assert grown.expected_seconds(1_000) == 25
