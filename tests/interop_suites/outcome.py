"""What became of the tests of one suite: read from the reports that pytest writes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from xml.etree import ElementTree

from interop_suites.known_failures import KNOWN_FAILURES


@dataclass(frozen=True)
class Outcome:
    """Tests by what became of them; a test that failed had a second try, alone.

    Attributes:
        unstable: passed the second time.
        known: failed, for a reason that is not the broker's, by test.
        failed: failed, twice.
    """

    passed: int
    skipped: int
    unstable: list[str]
    known: dict[str, str]
    failed: list[str]

    @property
    def counts(self) -> str:
        """How many tests there are of each kind."""
        counts = (
            f"{self.passed} passed, {len(self.failed)} failed, {len(self.known)} failed as known"
        )
        return f"{counts}, {len(self.unstable)} passed when tried again, {self.skipped} skipped"

    def lines(self) -> Iterator[str]:
        """What to print."""
        yield self.counts
        for test, reason in self.known.items():
            yield f"  known: {test}: {reason}"
        for test in self.unstable:
            yield f"  passed when tried again: {test}"
        for test in self.failed:
            yield f"  FAILED: {test}"


def outcome(suite: str, first: Path, second: Path) -> Outcome:
    """Read the reports of a run and of the second try.

    Args:
        second: need not be there: nothing failed.
    """
    results = _results(first)
    again = _results(second) if second.exists() else {}
    broken = [test for test, result in results.items() if result == "failed"]
    unstable = [test for test in broken if again.get(test) == "passed"]
    known: dict[str, str] = {}
    failed: list[str] = []
    for test in broken:
        if test in unstable:
            continue
        reason = _reason(suite, test)
        if reason is None:
            failed.append(test)
        else:
            known[test] = reason
    counts = list(results.values())
    return Outcome(counts.count("passed"), counts.count("skipped"), unstable, known, failed)


def _results(report: Path) -> dict[str, str]:
    results: dict[str, str] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        test = f"{case.get('classname')}::{case.get('name')}"
        if case.find("failure") is not None or case.find("error") is not None:
            results[test] = "failed"
        elif case.find("skipped") is not None:
            results.setdefault(test, "skipped")
        else:
            results.setdefault(test, "passed")
    return results


def _reason(suite: str, test: str) -> str | None:
    for pattern, reason in KNOWN_FAILURES.get(suite, {}).items():
        if fnmatchcase(test, pattern):
            return reason
    return None
