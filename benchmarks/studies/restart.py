"""The time of a restart: `python -m routelog.benchmarks.studies.restart backlog`, or `queues`.

Times are wall clock from the start of the process, interpreter included.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from pamqp import commands, frame
from rich.console import Console
from rich.progress import track
from rich.table import Table

from routelog.benchmarks.perf.idle import resident_bytes
from routelog.benchmarks.perf.outcome import refusals
from routelog.benchmarks.traffic.confirms import ConfirmTally
from routelog.benchmarks.traffic.connection import Connection
from routelog.benchmarks.traffic.folder import scratch
from routelog.benchmarks.traffic.frames import CHANNEL
from routelog.benchmarks.traffic.publish_run import publishes_to

QUEUE = "restart"
CONFIRMS_IN_FLIGHT = 16_000
DECLARES_IN_FLIGHT = 500
READY = "routelog ready "

tool = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)
Folder = Annotated[Path | None, typer.Option(help="Where the data lies; the disk counts.")]


class RestartedBroker:
    """One broker process after the other on one data directory."""

    def __init__(self, data: Path, *, management: bool = False) -> None:
        self._data = data
        self._settings = {"ROUTELOG_MANAGEMENT": "false", "ROUTELOG_PROMETHEUS": "false"}
        if management:
            self._settings |= {"ROUTELOG_MANAGEMENT": "true", "ROUTELOG_MANAGEMENT_PORT": "0"}
        self.url = ""
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> float:
        """Start a process; returns the seconds until it accepts connections."""
        begun = time.monotonic()
        command = [sys.executable, "-m", "routelog", "serve", "--host", "127.0.0.1"]
        self._process = subprocess.Popen(
            [*command, "--port", "0", "--data-dir", str(self._data)],
            env={**os.environ, **self._settings},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.startswith(READY):
            raise SystemExit("the broker did not become ready; it said why above")
        self.url = line[len(READY) :].split()[0]
        return time.monotonic() - begun

    def end(self, number: signal.Signals) -> float:
        """End the process by a signal; returns the seconds that took."""
        assert self._process is not None
        begun = time.monotonic()
        self._process.send_signal(number)
        self._process.wait()
        return time.monotonic() - begun

    @property
    def process_id(self) -> int:
        """Of the process that runs."""
        assert self._process is not None
        return self._process.pid

    def memory_bytes(self) -> int:
        """Resident memory of the process."""
        return resident_bytes(self.process_id)


@contextmanager
def _broker(folder: Path | None) -> Iterator[RestartedBroker]:
    with refusals(), scratch(folder, "restart-") as data:
        broker = RestartedBroker(data / "data")
        broker.start()
        try:
            yield broker
        finally:
            broker.end(signal.SIGKILL)


@tool.command()
def backlog(
    messages: Annotated[int, typer.Option(min=1)] = 10_000_000,
    body_bytes: Annotated[int, typer.Option(min=16)] = 100,
    folder: Folder = None,
) -> None:
    """Queue messages, then measure the first delivery after SIGKILL and after a clean stop."""
    table = Table(
        "end of the run before", "stopped in s", "ready after s", "first delivery after s", "MB"
    )
    with _broker(folder) as broker:
        _publish(broker.url, messages, body_bytes)
        for name, number in (("SIGKILL", signal.SIGKILL), ("clean stop", signal.SIGTERM)):
            stopped = broker.end(number)
            begun = time.monotonic()
            ready = broker.start()
            found = _first_delivery(broker.url)
            first = time.monotonic() - begun
            if found != messages:
                raise SystemExit(f"{found} messages of {messages} are there")
            memory = broker.memory_bytes() / 1e6
            table.add_row(name, f"{stopped:.2f}", f"{ready:.2f}", f"{first:.2f}", f"{memory:.0f}")
    table.title = f"{messages:,} messages of {body_bytes} bytes"
    Console().print(table)


@tool.command()
def queues(
    count: Annotated[int, typer.Option(min=1)] = 100_000,
    messages: Annotated[int, typer.Option(min=0, help="In each queue.")] = 0,
    folder: Folder = None,
) -> None:
    """Declare durable queues, then measure memory and the time to start."""
    table = Table("", "seconds", "MB")
    with _broker(folder) as broker:
        table.add_row("empty broker", "", f"{broker.memory_bytes() / 1e6:.0f}")
        begun = time.monotonic()
        _declare(broker.url, count)
        seconds = time.monotonic() - begun
        table.add_row("declared", f"{seconds:.1f}", f"{broker.memory_bytes() / 1e6:.0f}")
        if messages:
            begun = time.monotonic()
            _fill(broker.url, count, messages)
            seconds = time.monotonic() - begun
            table.add_row("filled", f"{seconds:.1f}", f"{broker.memory_bytes() / 1e6:.0f}")
        for name, number in (("SIGKILL", signal.SIGKILL), ("clean stop", signal.SIGTERM)):
            stopped = broker.end(number)
            table.add_row(name, f"{stopped:.2f}", "")
            ready = broker.start()
            _check(broker.url, count, messages)
            memory = broker.memory_bytes() / 1e6
            table.add_row(f"start after {name}", f"{ready:.2f}", f"{memory:.0f}")
    table.title = f"{count:,} durable queues"
    Console().print(table)


def _publish(url: str, messages: int, body_bytes: int) -> None:
    connection = Connection(url)
    declare = commands.Queue.Declare(queue=QUEUE, durable=True)
    connection.call(declare, commands.Queue.DeclareOk)
    connection.call(commands.Confirm.Select(), commands.Confirm.SelectOk)
    run = publishes_to(QUEUE, body_bytes, persistent=True)
    tally = ConfirmTally()
    published = 0
    while tally.confirmed < messages:
        free = CONFIRMS_IN_FLIGHT - (published - tally.confirmed)
        count = min(free, messages - published, run.messages_max)
        if count:
            connection.send(run.encoded(published, count))
            published += count
        tally.feed(connection.receive())
    connection.close()


def _first_delivery(url: str) -> int:
    connection = Connection(url)
    declare = commands.Queue.Declare(queue=QUEUE, passive=True)
    found = connection.call(declare, commands.Queue.DeclareOk).message_count or 0
    connection.call(commands.Basic.Qos(prefetch_count=1), commands.Basic.QosOk)
    consume = commands.Basic.Consume(queue=QUEUE, consumer_tag="c")
    connection.call(consume, commands.Basic.ConsumeOk)
    connection.receive()
    connection.close()
    return found


def _declare(url: str, count: int) -> None:
    connection = Connection(url)
    for start in track(range(0, count, DECLARES_IN_FLIGHT), "declaring", transient=True):
        numbers = range(start, min(count, start + DECLARES_IN_FLIGHT))
        connection.send(b"".join(_declare_frame(number) for number in numbers))
        last = commands.Queue.Declare(queue=f"queue-{numbers[-1]}", passive=True)
        connection.call(last, commands.Queue.DeclareOk)
    connection.close()


def _declare_frame(number: int) -> bytes:
    declare = commands.Queue.Declare(queue=f"queue-{number}", durable=True, nowait=True)
    return frame.marshal(declare, CHANNEL)


def _fill(url: str, count: int, messages: int) -> None:
    connection = Connection(url)
    connection.call(commands.Confirm.Select(), commands.Confirm.SelectOk)
    tally = ConfirmTally()
    published = 0
    for number in track(range(count), "publishing", transient=True):
        run = publishes_to(f"queue-{number}", 100, persistent=True)
        connection.send(run.encoded(0, messages))
        published += messages
        while published - tally.confirmed > CONFIRMS_IN_FLIGHT:
            tally.feed(connection.receive())
    while tally.confirmed < published:
        tally.feed(connection.receive())
    connection.close()


def _check(url: str, count: int, messages: int) -> None:
    connection = Connection(url)
    for number in (0, count - 1):
        declare = commands.Queue.Declare(queue=f"queue-{number}", passive=True)
        found = connection.call(declare, commands.Queue.DeclareOk).message_count
        if found != messages:
            raise SystemExit(f"queue-{number} has {found} messages, not {messages}")
    connection.close()


if __name__ == "__main__":
    tool()
