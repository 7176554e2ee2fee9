"""Every case runs to its end against the broker that does nothing."""

import pytest

from benchmarks.case_run import measure
from benchmarks.cases import CASES, Case
from benchmarks.null_broker import null_broker


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_case_gives_figures_and_loses_nothing(case: Case) -> None:
    with null_broker() as url:
        throughput = measure(url, case, warm_up_seconds=0.0, seconds=0.5)
    assert throughput.received > 0
    assert (throughput.confirmed > 0) == bool(case.confirms_in_flight)
