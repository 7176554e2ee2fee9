"""`make interop`: run the integration suites of clients, unmodified, against a broker."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from interop_suites.environment import environment
from interop_suites.outcome import Outcome, outcome
from interop_suites.services import BROKERS, redis
from interop_suites.source import unpacked
from interop_suites.suite import SUITES, Suite
from interop_suites.watched_run import NotRun, WatchedRun

FOLDER = Path(__file__).resolve().parents[2] / "build" / "interop"
NOTHING_FAILED, SOMETHING_FAILED = 0, 1
_NAMES = [suite.name for suite in SUITES]


def main() -> int:
    """Returns 0 when every test passed or fails for a known reason."""
    parser = argparse.ArgumentParser(prog="interop_suites", description=__doc__)
    parser.add_argument("--broker", choices=BROKERS, default="routelog")
    parser.add_argument(
        "suites", nargs="*", metavar="SUITE", help=f"of {', '.join(_NAMES)}; default: all"
    )
    parser.add_argument(
        "--again", action="store_true", help="only what failed in the run before, if there is one"
    )
    options = parser.parse_args()
    if unknown := [name for name in options.suites if name not in _NAMES]:
        parser.error(f"no suite is called {', '.join(unknown)}")
    chosen = [suite for suite in SUITES if not options.suites or suite.name in options.suites]
    FOLDER.mkdir(parents=True, exist_ok=True)
    sources = {suite.distribution: unpacked(suite, FOLDER) for suite in SUITES}
    programs = environment(FOLDER / "venv", sources.values())
    certificates = sources["amqp"] / "t" / "certs"
    ended: list[str] = []
    failed = 0
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="interop-")))
        started = BROKERS[options.broker](folder, certificates, FOLDER / f"{options.broker}.log")
        services = dict(stack.enter_context(started))
        services["redis_port"] = stack.enter_context(redis())
        for suite in chosen:
            print(
                f"{suite.name}: {suite.distribution} {suite.version}, {options.broker}", flush=True
            )
            began = time.monotonic()
            try:
                result = run(
                    suite,
                    sources[suite.distribution],
                    programs,
                    services,
                    only_failed=options.again,
                )
            except NotRun as error:
                failed += 1
                ended.append(f"{suite.name}: {error}")
                print(error, flush=True)
                continue
            print("\n".join(result.lines()), flush=True)
            failed += len(result.failed)
            minutes = (time.monotonic() - began) / 60
            ended.append(f"{suite.name}: {result.counts}; {minutes:.0f} minutes")
        print("\n".join(["all together:", *ended]), flush=True)
    return SOMETHING_FAILED if failed else NOTHING_FAILED


def run(
    suite: Suite, source: Path, programs: Path, services: Mapping[str, str], *, only_failed: bool
) -> Outcome:
    """Run a suite, then once more what failed, each test alone.

    Args:
        only_failed: only the latter, if the suite was run before.

    Raises:
        NotRun: the tests could not be run.
    """
    first, second = (FOLDER / f"{suite.name}.{name}.jsonl" for name in ("first", "second"))
    second.unlink(missing_ok=True)
    if not only_failed:
        first.unlink(missing_ok=True)
    variables = {name: value.format(**services) for name, value in suite.environment.items()}
    variables["PATH"] = os.pathsep.join([str(programs), os.environ.get("PATH", "")])
    watched = WatchedRun(
        python=programs / "python",
        folder=source,
        arguments=[*(f"--ignore={ignored}" for ignored in suite.ignored), *suite.tests],
        variables=variables,
        log=FOLDER / f"{suite.name}.log",
        record=first,
    )
    record = watched.all()
    again = replace(watched, record=second).each(record.failed, suite.opening)
    return outcome(suite.name, record, again)


if __name__ == "__main__":
    sys.exit(main())
