"""What became of the tests of a suite, from the lines that `plugin/progress.py` wrote.

    {"process": id}                      another process has begun
    {"collected": [test, ...]}           what it will run
    {"begun": test}
    {"test": test, "outcome": outcome}   of its set-up, itself, its tear-down: passed, failed, skipped, rerun
    {"ended": test}

A run may take several processes; each adds its lines.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

PASSED, SKIPPED, FAILED, RERUN = "passed", "skipped", "failed", "rerun"


@dataclass
class RunRecord:
    """What is known of a run.

    Attributes:
        tests: all that were collected, in their order.
        outcomes: of those that have begun; one without an end has failed.
        running: the test that has begun and not ended.
    """

    tests: list[str] = field(default_factory=list)
    outcomes: dict[str, str] = field(default_factory=dict)
    running: str | None = None
    _parts: set[str] = field(default_factory=set)  # outcomes of the test that is running

    @property
    def left(self) -> list[str]:
        """Tests that have not begun, in their order."""
        return [test for test in self.tests if test not in self.outcomes]

    @property
    def failed(self) -> list[str]:
        """Tests that have failed, in their order."""
        return [test for test in self.tests if self.outcomes.get(test) == FAILED]

    def _note(self, event: dict[str, object]) -> None:
        match event:
            case {"process": int()}:
                self.running = None
            case {"collected": list(tests)}:
                self.tests = self.tests or tests
            case {"begun": str(test)}:
                self.running = test
                self.outcomes[test] = FAILED
                self._parts = set()
            case {"outcome": outcome} if outcome == RERUN:
                self._parts = set()  # what failed does not count: there is another try
            case {"outcome": str(outcome)}:
                self._parts.add(outcome)
            case {"ended": str(test)}:
                self.running = None
                self.outcomes[test] = next(
                    (kind for kind in (FAILED, SKIPPED) if kind in self._parts), PASSED
                )


def read_record(path: Path) -> RunRecord:
    """Read what is there; a line that is not whole counts for nothing."""
    record = RunRecord()
    for line in path.read_text().splitlines() if path.exists() else ():
        with suppress(json.JSONDecodeError):
            record._note(json.loads(line))
    return record
