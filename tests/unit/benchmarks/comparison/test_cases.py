"""The cases of the matrix: what each asks for, and who can serve it."""

import pytest

from routelog.benchmarks.brokers.broker_process import Broker
from routelog.benchmarks.comparison.cases import CASES, Case, cases_named
from routelog.benchmarks.traffic.unexpected import BadRequest


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_case_asks_for_something_that_can_be(case: Case) -> None:
    case.workload.check()


def test_what_a_broker_cannot_serve_is_said() -> None:
    reasons = {case.name: case.cannot_be_served(Broker("amqp://h")) for case in CASES}
    assert reasons["tls-100"] == "no TLS"
    assert reasons["idle-10000"] == "not started here"
    assert reasons["transient-100"] == ""


def test_the_memory_of_a_broker_that_somebody_else_started_is_not_known() -> None:
    (case,) = cases_named(["idle-10000"])
    assert case.cannot_be_served(Broker("amqp://h")) == "not started here"
    assert Broker("amqp://h").resident_bytes() == 0


def test_cases_are_found_by_name_and_an_unknown_one_is_named() -> None:
    assert cases_named([]) == CASES
    assert [case.name for case in cases_named(["behind"])] == ["behind"]
    with pytest.raises(BadRequest, match="'nope'"):
        cases_named(["behind", "nope"])
