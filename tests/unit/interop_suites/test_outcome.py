"""Which failures are known."""

from __future__ import annotations

import pytest
from interop_suites.outcome import outcome
from interop_suites.run_record import RunRecord

KNOWN = "t/integration/test_tasks.py::test_trace_log_arguments::test_task_failed"


def failed(*tests: str) -> RunRecord:
    return RunRecord(list(tests), dict.fromkeys(tests, "failed"))


@pytest.mark.parametrize("suite", ["celery", "celery-rpc"])
def test_a_known_failure_is_none(suite):
    result = outcome(suite, failed(KNOWN, "another"), failed(KNOWN, "another"))
    assert list(result.known) == [KNOWN]
    assert result.failed == ["another"]


def test_what_is_known_of_one_suite_is_not_known_of_another():
    assert outcome("kombu", failed(KNOWN), failed(KNOWN)).failed == [KNOWN]


def test_a_test_without_a_second_outcome_has_failed():
    assert outcome("kombu", failed("one"), RunRecord()).failed == ["one"]
