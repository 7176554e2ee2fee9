"""Every case that the broker that does nothing can serve runs to its end against it."""

import pytest

from benchmarks.broker_process import Broker
from benchmarks.cases import CASES, Case, Kind, Window, cases_named
from benchmarks.null_broker import null_broker
from benchmarks.unexpected import BadRequest

PLAIN = [case for case in CASES if case.is_plain and not case.with_tls]


@pytest.mark.parametrize("case", PLAIN, ids=lambda case: case.name)
def test_a_case_gives_figures_and_loses_nothing(case: Case) -> None:
    with null_broker() as broker:
        assert not case.cannot_be_served(broker)
        figure = case.measure(broker, Window(0.0, 0.5, 1))
    assert figure.value > 0
    if case.kind is Kind.THROUGHPUT:
        assert bool(figure.details["confirmed"]) == bool(case.workload.confirms_in_flight)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_case_asks_for_something_that_can_be(case: Case) -> None:
    case.workload.check()


def test_what_a_broker_cannot_serve_is_said() -> None:
    with null_broker() as broker:
        reasons = {case.name: case.cannot_be_served(broker) for case in CASES}
    assert reasons["tls-100"] == "no TLS"
    assert reasons["fanout-100"] == "not for the ceiling"
    assert reasons["idle-10000"] == "not for the ceiling"
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
