"""What became of the tests of one suite, and whether that is known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from interop_suites.known_failures import KNOWN_FAILURES
from interop_suites.run_record import PASSED, SKIPPED, RunRecord


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


def outcome(suite: str, first: RunRecord, second: RunRecord) -> Outcome:
    """Sort the tests of a run, and of the second try of what failed in it."""
    unstable = [test for test in first.failed if second.outcomes.get(test) == PASSED]
    known: dict[str, str] = {}
    failed: list[str] = []
    for test in first.failed:
        if test in unstable:
            continue
        reason = _reason(suite, test)
        if reason is None:
            failed.append(test)
        else:
            known[test] = reason
    counts = list(first.outcomes.values())
    return Outcome(counts.count(PASSED), counts.count(SKIPPED), unstable, known, failed)


def _reason(suite: str, test: str) -> str | None:
    for pattern, reason in KNOWN_FAILURES.get(suite, {}).items():
        if fnmatchcase(test, pattern):
            return reason
    return None
