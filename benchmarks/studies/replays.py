"""Replays, connections and declarations of several brokers in turns.

    python -m routelog.benchmarks.studies.replays --rounds 3

Prints for each row the medians of the rounds: how many a second, and the broker's processor time for one.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from pamqp import commands

from routelog.benchmarks.brokers.broker_process import Broker
from routelog.benchmarks.perf.backlog import measure_drain
from routelog.benchmarks.studies.in_turns import BROKERS, Measure, print_in_turns
from routelog.benchmarks.traffic.connection import Connection
from routelog.benchmarks.traffic.workload import Workload

BACKLOG = 100_000
OPENED = 2_000  # connections, and queues, of one measurement

Figures = tuple[float, float]  # how many a second, and µs of the broker's processor for one

_REPLAY = Workload(
    body_bytes=1024,
    durable=True,
    confirms_in_flight=4_000,
    ack_every=500,
    prefetch=2_000,
    messages=BACKLOG,
)
REPLAYS = {
    "a queue of 1 KiB drained": _REPLAY,
    "a stream of 1 KiB read": replace(_REPLAY, queue_arguments=(("x-queue-type", "stream"),)),
}


def replay(workload: Workload, broker: Broker) -> Figures:
    """Deliveries of a backlog."""
    found = measure_drain(broker.uri, workload, cpu=broker.cpu_seconds)
    return found.drained, found.cpu_seconds * 1e6


def connections(broker: Broker) -> Figures:
    """Connections opened with a channel, one after the other; all are open at the end, and are closed apart."""
    opened: list[Connection] = []
    figures = _timed(broker, lambda: opened.append(Connection(broker.uri)))
    for each in opened:
        each.close()
    return figures


def declarations(broker: Broker) -> Figures:
    """Durable queues declared one after the other."""
    client = Connection(broker.uri)
    names = iter([f"bench.declared.{number}" for number in range(OPENED)])

    def declare() -> None:
        method = commands.Queue.Declare(queue=next(names), durable=True)
        client.call(method, commands.Queue.DeclareOk)

    figures = _timed(broker, declare)
    for number in range(OPENED):
        delete = commands.Queue.Delete(queue=f"bench.declared.{number}")
        client.call(delete, commands.Queue.DeleteOk)
    client.close()
    return figures


def _timed(broker: Broker, do: Callable[[], None]) -> Figures:
    began, before = time.monotonic(), broker.cpu_seconds()
    for _ in range(OPENED):
        do()
    seconds, used = time.monotonic() - began, broker.cpu_seconds() - before
    return OPENED / seconds, used / OPENED * 1e6


def main() -> None:
    """Measure each broker in turn."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--broker", action="append", choices=[*BROKERS])
    parser.add_argument("--folder", type=Path, help="for the brokers' data; default: below /tmp")
    given = parser.parse_args()
    rows: dict[str, Measure] = {
        **{row: partial(replay, each) for row, each in REPLAYS.items()},
        "a connection with a channel opened": connections,
        "a durable queue declared": declarations,
    }
    columns = {"A second": ",.0f", "Processor, µs": ",.2f"}
    with tempfile.TemporaryDirectory(prefix="routelog-replays-", dir=given.folder) as made:
        print_in_turns(rows, columns, Path(made), given.broker or [*BROKERS], given.rounds)


if __name__ == "__main__":
    main()
