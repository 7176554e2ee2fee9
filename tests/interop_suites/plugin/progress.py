"""A plugin of pytest that notes what becomes of each test as it happens, for a run may be killed.

It runs in the environment of the suites, without this project. `run_record.py` says what is written.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Announce where to write, and what to run."""
    parser.addoption("--record", type=Path, required=True, help="what happens is appended to it")
    parser.addoption("--only", type=Path, help="a file of the tests to run, in order")


def pytest_configure(config: pytest.Config) -> None:
    """Begin to write."""
    config.pluginmanager.register(Progress(config.getoption("record"), config.getoption("only")))


class Progress:
    """Writes a line of JSON for whatever happens to a test."""

    def __init__(self, record: Path, only: Path | None) -> None:
        self._record = record
        self._only = None if only is None else only.read_text().splitlines()
        self._write({"process": os.getpid()})

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Leave out what is not to be run."""
        if self._only is not None:
            place = {test: number for number, test in enumerate(self._only)}
            left_out = [item for item in items if item.nodeid not in place]
            kept = [item for item in items if item.nodeid in place]
            items[:] = sorted(kept, key=lambda item: place[item.nodeid])
            config.hook.pytest_deselected(items=left_out)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """These will be run, in this order."""
        self._write({"collected": [item.nodeid for item in session.items]})

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """It begins, with its set-up."""
        self._write({"begun": nodeid})

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Its set-up, itself or its tear-down has an outcome; another try of a flaky one may follow."""
        self._write({"test": report.nodeid, "outcome": report.outcome})

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """It is over, with its tear-down."""
        self._write({"ended": nodeid})

    def _write(self, event: dict[str, object]) -> None:
        with self._record.open("a") as file:
            file.write(json.dumps(event) + "\n")
