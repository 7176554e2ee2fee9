"""Every case that the broker that does nothing can serve runs to its end against it."""

import pytest

from routelog.benchmarks.brokers.null_broker import null_broker
from routelog.benchmarks.comparison.cases import CASES, Case, Kind, Window

PLAIN = [case for case in CASES if case.is_plain and not case.with_tls]


@pytest.mark.parametrize("case", PLAIN, ids=lambda case: case.name)
def test_a_case_gives_figures_and_loses_nothing(case: Case) -> None:
    with null_broker() as broker:
        assert not case.cannot_be_served(broker)
        figure = case.measure(broker, Window(0.0, 0.5, 1))
    assert figure.value > 0
    if case.kind is Kind.THROUGHPUT:
        assert bool(figure.details["confirmed"]) == bool(case.workload.confirms_in_flight)
