"""`make interop`: run the integration suites of clients, unmodified, against a broker."""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from interop_suites.environment import environment
from interop_suites.outcome import Outcome, outcome
from interop_suites.services import BROKERS, redis
from interop_suites.source import unpacked
from interop_suites.suite import SUITES, Suite

FOLDER = Path(__file__).resolve().parents[2] / "build" / "interop"
NOTHING_FAILED = 0
SOMETHING_FAILED = 1  # pytest's exit codes; others: the tests did not run


def main() -> int:
    """Returns 0 when every test passed or fails for a known reason."""
    parser = argparse.ArgumentParser(prog="interop_suites", description=__doc__)
    parser.add_argument("--broker", choices=BROKERS, default="routelog")
    parser.add_argument(
        "suites", nargs="*", metavar="SUITE", help="one of those of suite.py; default: all"
    )
    options = parser.parse_args()
    chosen = [suite for suite in SUITES if not options.suites or suite.name in options.suites]
    FOLDER.mkdir(parents=True, exist_ok=True)
    sources = {suite.distribution: unpacked(suite, FOLDER) for suite in SUITES}
    programs = environment(FOLDER / "venv", sources.values())
    certificates = sources["amqp"] / "t" / "certs"
    failed = 0
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="interop-")))
        services = dict(stack.enter_context(BROKERS[options.broker](folder, certificates)))
        services["redis_port"] = stack.enter_context(redis())
        for suite in chosen:
            print(
                f"{suite.name}: {suite.distribution} {suite.version}, {options.broker}", flush=True
            )
            result = run(suite, sources[suite.distribution], programs, services)
            print("\n".join(result.lines()), flush=True)
            failed += len(result.failed)
    return SOMETHING_FAILED if failed else NOTHING_FAILED


def run(suite: Suite, source: Path, programs: Path, services: Mapping[str, str]) -> Outcome:
    """Run a suite, then once more what failed.

    Raises:
        SystemExit: the tests could not be run.
    """
    cache = FOLDER / f"{suite.name}.cache"
    reports = [FOLDER / f"{suite.name}.{name}.xml" for name in ("first", "second")]
    for report in reports:
        report.unlink(missing_ok=True)
    code = pytest(suite, source, programs, services, cache, reports[0])
    if code == SOMETHING_FAILED:
        code = pytest(suite, source, programs, services, cache, reports[1], "--last-failed")
    if code not in (NOTHING_FAILED, SOMETHING_FAILED):
        raise SystemExit(f"{suite.name}: pytest ended with {code}; see {FOLDER / suite.name}.log")
    return outcome(suite.name, *reports)


def pytest(
    suite: Suite,
    source: Path,
    programs: Path,
    services: Mapping[str, str],
    cache: Path,
    report: Path,
    *options: str,
) -> int:
    """One run of pytest in the folder of a distribution; returns its exit code."""
    variables = {name: value.format(**services) for name, value in suite.environment.items()}
    path = os.pathsep.join([str(programs), os.environ.get("PATH", "")])
    with (FOLDER / f"{suite.name}.log").open("ab") as log:
        return subprocess.run(
            [
                *(str(programs / "python"), "-m", "pytest", "-q", "-W", "ignore"),
                *("-o", f"cache_dir={cache}", f"--junitxml={report}", *options),
                *(f"--ignore={ignored}" for ignored in suite.ignored),
                *suite.tests,
            ],
            cwd=source,
            env={**os.environ, **variables, "PATH": path},
            stdout=log,
            stderr=log,
            check=False,
        ).returncode


if __name__ == "__main__":
    sys.exit(main())
