"""The demo: a live audit stream, a crash at full speed, and Spark over the log.

    python docs/demo/run.py [--folder ./demo-output]

Exit status: 0 when every figure is what it has to be, 1 when one is not, 2 when the demo could not
run, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys
import time
from pathlib import Path

from aiormq.exceptions import AMQPError
from audit_stream import AuditOutcome, count_after_restart, run_audit_stream
from broker_process import BrokerProcess
from child_process import ChildFailed, ChildProcess
from crash import ORDERS, CrashOutcome, compare, publish_until_killed, read_orders
from java import JavaMissing, check_java
from rich.console import Console
from rich.table import Table
from spark_counts import SparkCounts
from summary import Summary
from topology import ALL_QUEUE, RESTING_QUEUES
from work_folder import NotOurFolder, WorkFolder

EVENTS_SHOWN = 15
NO_ROUTE = (312, "NO_ROUTE")
_SPARK_SECONDS_MAX = 240.0
_SPARK_PROGRAM = Path(__file__).with_name("spark_report.py")


class Demo:
    """The stages in order; each one adds its figures to the summary."""

    def __init__(self, folder: WorkFolder, console: Console) -> None:
        self._folder = folder
        self._console = console
        self.summary = Summary()

    def run(self) -> None:
        """All stages; nothing is left running, whatever happens."""
        self._say(f"everything is written to {self._folder.root}")
        with BrokerProcess(self._folder.data, self._folder.logs) as broker:
            self._say(f"broker ready at {broker.url}")
            audit = self._stream_audit_events(broker)
            self._crash_and_recover(broker, audit)
        self._read_with_spark(audit)

    def _stream_audit_events(self, broker: BrokerProcess) -> AuditOutcome:
        with self._console.status("live audit stream: starting") as status:
            audit = asyncio.run(run_audit_stream(broker.url, self._folder, status.update))
        report = audit.report
        self._say(f"audit stream: {report.published:,} events of {len(report.events)} kinds")
        self._say(f"unroutable message: came back with {_reply(audit.returned)}")
        self.summary.totals.update(published=report.published, confirmed=report.confirmed)
        self.summary.totals.update(routed=sum(audit.counts.values()))
        self.summary.check("events confirmed", report.published, report.confirmed)
        self.summary.check("events returned", 0, report.returned)
        self.summary.check("unroutable, returned", _reply(NO_ROUTE), _reply(audit.returned))
        self.summary.check_all("routed to ", report.expected, audit.counts)
        return audit

    def _crash_and_recover(self, broker: BrokerProcess, audit: AuditOutcome) -> None:
        with self._console.status("orders: starting") as status:
            orders = asyncio.run(publish_until_killed(broker, status.update))
            status.update("the broker was killed, and starts again")
            recovery_seconds = broker.start()
            found = asyncio.run(read_orders(broker.url, status.update))
            counts = asyncio.run(count_after_restart(broker.url))
        outcome = compare(orders, found)
        self._say(
            f"SIGKILL after {outcome.published:,} {ORDERS} published and {outcome.confirmed:,} "
            f"confirmed; ready again after {recovery_seconds:.2f} s at {broker.url}"
        )
        self._judge_crash(outcome, recovery_seconds)
        expected = {queue: audit.counts[queue] for queue in RESTING_QUEUES}
        self.summary.check_all("after SIGKILL still in ", expected, counts)

    def _judge_crash(self, outcome: CrashOutcome, recovery_seconds: float) -> None:
        self.summary.totals.update(recovered=outcome.confirmed_found)
        self.summary.note("orders published until SIGKILL", f"{outcome.published:,}")
        self.summary.note("recovery", f"{recovery_seconds:.2f} s")
        self.summary.check("orders confirmed, found", outcome.confirmed, outcome.confirmed_found)
        self.summary.check("orders confirmed, missing", 0, outcome.missing)
        self.summary.check("orders found twice", 0, outcome.duplicates)
        self.summary.check("orders never published, found", 0, outcome.strange)
        self.summary.check("orders out of order", 0, outcome.disordered)
        self.summary.note("orders not confirmed, found", f"{outcome.unconfirmed_found:,}")

    def _read_with_spark(self, audit: AuditOutcome) -> None:
        report = self._folder.reports / "spark.json"
        folders = [str(self._folder.data), str(self._folder.scratch)]
        command = [sys.executable, str(_SPARK_PROGRAM), *folders, str(report)]
        temporary = {"TMPDIR": str(self._folder.scratch)}
        with (
            self._console.status("Spark: starting, then reading the log"),
            ChildProcess(command, self._folder.logs / "spark.log", temporary) as spark,
        ):
            spark.wait(_SPARK_SECONDS_MAX)
        found = SparkCounts.load(report)
        self._show_spark(found)
        self.summary.totals.update(spark=found.read)
        self.summary.check("events read by Spark", audit.report.published, found.read)
        differing = set(found.events.items()) ^ set(audit.report.events.items())
        self.summary.check("kinds of events Spark counts differently", 0, len(dict(differing)))

    def _show_spark(self, found: SparkCounts) -> None:
        events = list(found.events.items())[:EVENTS_SHOWN]
        self._say(f"Spark read {found.read:,} events from the log of {ALL_QUEUE}")
        self._console.print(_counts_table("Audit events by name", "event", events))
        self._console.print(_counts_table("Files opened most often", "file", found.opened))

    def _say(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)


def _counts_table(title: str, noun: str, counts: list[tuple[str, int]]) -> Table:
    table = Table(title=title)
    table.add_column(noun, overflow="fold")
    table.add_column("times", justify="right")
    for name, times in counts:
        table.add_row(name, f"{times:,}")
    return table


def _reply(reply: tuple[int, str]) -> str:
    return f"{reply[0]} {reply[1]}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="RouteLog's demo")
    parser.add_argument(
        "--folder", type=Path, default=Path("demo-output"), help="where all of it is written"
    )
    return parser.parse_args()


def _log_to(folder: WorkFolder) -> None:
    """Keep the client library off the screen: it complains of the connection the crash cuts."""
    log_format = "%(asctime)s %(levelname)s %(name)s %(message)s"
    logging.basicConfig(filename=folder.logs / "demo.log", level=logging.INFO, format=log_format)


def main() -> int:
    """Check what is needed, run the stages, show the summary."""
    folder = WorkFolder(_arguments().folder)
    console = Console()
    started = time.monotonic()
    # A polite kill ends as Ctrl-C does: children first.
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        check_java()
        folder.wipe()
        _log_to(folder)
        demo = Demo(folder, console)
        demo.run()
    except (AMQPError, ChildFailed, JavaMissing, NotOurFolder, OSError) as error:
        logging.getLogger("demo").info("could not run", exc_info=True)
        print(f"demo: could not run: {error or type(error).__name__}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("demo: interrupted, nothing is left running", file=sys.stderr)
        return 130
    demo.summary.note("time of the whole demo", f"{time.monotonic() - started:.0f} s")
    console.print(demo.summary.table())
    print(demo.summary.line())
    return 1 if demo.summary.unequal else 0


if __name__ == "__main__":
    sys.exit(main())
