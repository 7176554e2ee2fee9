"""Three nodes beside three RabbitMQ nodes with a quorum queue: `python -m routelog.benchmarks.studies.cluster`.

Confirmed throughput, with the processor time of all nodes, the latency of one confirm in flight, and the time
from a fault of the leader to the first confirm of a publish through another node that was begun behind it. The
leader is killed, stopped (all of its processes, as a machine that hangs), or cut off from all others.
"""

import contextlib
import functools
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated

import typer
from pamqp import commands, frame
from rich.console import Console
from rich.table import Table

from routelog.benchmarks.brokers.three_nodes import (
    FAULTS,
    Fault,
    ThreeNodes,
    rabbitmq_nodes,
    routelog_nodes,
)
from routelog.benchmarks.perf.outcome import refusals
from routelog.benchmarks.perf.throughput import measure_throughput
from routelog.benchmarks.traffic.connection import Connection
from routelog.benchmarks.traffic.folder import scratch
from routelog.benchmarks.traffic.frames import CHANNEL, content_frames
from routelog.benchmarks.traffic.unexpected import RunFailed
from routelog.benchmarks.traffic.workload import Workload

BODY_BYTES = 1024
QUORUM = (("x-queue-type", "quorum"),)
QUEUE = "failover"
FAILOVER_SECONDS_MAX = 60.0
BROKERS: dict[str, Callable[[Path], AbstractContextManager[ThreeNodes]]] = {
    "RouteLog": routelog_nodes,
    "RabbitMQ": rabbitmq_nodes,
}
TLS = {"RouteLog with TLS": functools.partial(routelog_nodes, tls=True)}

Figures = dict[str, list[float]]


def main(
    rounds: Annotated[int, typer.Option(min=1, help="How often all is measured, in turns.")] = 3,
    seconds: Annotated[float, typer.Option(help="Of one of throughput; 0: of none.")] = 5.0,
    faults: Annotated[int, typer.Option(min=0, help="Of each kind in a round.")] = 3,
    only: Annotated[str, typer.Option(help="One of the brokers.")] = "",
    tls: Annotated[bool, typer.Option(help="Also RouteLog with TLS between nodes.")] = False,
    folder: Annotated[
        Path | None, typer.Option(help="Where nodes keep their data; the disk counts.")
    ] = None,
) -> None:
    """Measure both, and print the table."""
    brokers = BROKERS | (TLS if tls else {})
    found: dict[str, Figures] = {name: defaultdict(list) for name in brokers if only in name}
    with refusals():
        for _ in range(rounds):
            for name, figures in found.items():
                with scratch(folder, "bench-") as data, brokers[name](data) as nodes:
                    _measure(nodes, seconds, faults, figures)
    table = Table(title=f"three nodes on one machine, quorum queue, {BODY_BYTES} B, medians")
    for column in ("", *found):
        table.add_column(column, justify="right")
    for what in next(iter(found.values())):
        table.add_row(what, *(_told(figures[what]) for figures in found.values()))
    Console().print(table)


def _told(values: list[float]) -> str:
    return f"{statistics.median(values):,.2f} ({min(values):,.2f} to {max(values):,.2f})"


def _measure(nodes: ThreeNodes, seconds: float, faults: int, figures: Figures) -> None:
    with Publisher(nodes.uris["a"]) as publisher:
        publisher.declare()
    if seconds:
        _measure_confirms(nodes, seconds, figures)
    for _ in range(faults):
        for fault in FAULTS:
            what = f"leader {fault}, to a confirm through another node: s"
            figures[what].append(_fail_over(nodes, fault))


def _measure_confirms(nodes: ThreeNodes, seconds: float, figures: Figures) -> None:
    leader = nodes.leader(QUEUE)
    ways = {
        "through the leader": leader,
        "through another node": next(each for each in nodes.uris if each != leader),
    }
    for way, node in ways.items():
        for what, workload in (
            ("10 publishers, 200 in flight each", _workload(10, 200)),
            ("1 publisher, 1 in flight", _workload(1, 1)),
        ):
            found = measure_throughput(
                nodes.uris[node], workload, 1.0, seconds, cpu=nodes.cpu_seconds
            )
            figures[f"{what}: confirms/s, {way}"].append(found.confirmed)
            figures[f"{what}: us of all nodes a confirm, {way}"].append(found.cpu_seconds * 1e6)


def _workload(producers: int, confirms: int) -> Workload:
    return Workload(
        body_bytes=BODY_BYTES,
        producers=producers,
        consumers=0,
        durable=True,
        confirms_in_flight=confirms,
        queue_arguments=QUORUM,
    )


def _fail_over(nodes: ThreeNodes, fault: Fault) -> float:
    leader = nodes.leader(QUEUE)
    uris = [uri for name, uri in nodes.uris.items() if name != leader]
    with Publisher(uris[0]) as publisher:
        publisher.publish()
        nodes.strike(leader, fault)
        struck = time.monotonic()
        took = _first_confirm(publisher, uris, struck) - struck
    nodes.heal(leader, fault)
    return took


def _first_confirm(publisher: "Publisher", uris: list[str], struck: float) -> float:
    # A client that uses its connection as long as there is one, then connects to one node after the other.
    with contextlib.suppress(RunFailed, OSError):
        publisher.publish()
        return time.monotonic()
    while time.monotonic() < struck + FAILOVER_SECONDS_MAX:
        for uri in uris:
            with contextlib.suppress(RunFailed, OSError), Publisher(uri) as another:
                another.publish()
                return time.monotonic()
        time.sleep(0.02)
    raise RunFailed(f"no confirm for {FAILOVER_SECONDS_MAX:.0f} s")


class Publisher:
    """One connection that publishes a message and waits for its confirm."""

    def __init__(self, uri: str) -> None:
        self._connection = Connection(uri)
        try:
            self._connection.call(commands.Confirm.Select(), commands.Confirm.SelectOk)
        except BaseException:
            self._connection.socket.close()
            raise
        publish = commands.Basic.Publish(routing_key=QUEUE)
        self._message = frame.marshal(publish, CHANNEL) + content_frames(0, BODY_BYTES, True)

    def __enter__(self) -> "Publisher":
        """Nothing is left to be done."""
        return self

    def __exit__(self, *error: object) -> None:
        """Let go of the socket, whoever is at its other end."""
        self._connection.socket.close()

    def declare(self) -> None:
        """Declare the queue."""
        declare = commands.Queue.Declare(queue=QUEUE, durable=True, arguments=dict(QUORUM))
        self._connection.call(declare, commands.Queue.DeclareOk)

    def publish(self) -> None:
        """Publish, and wait for the confirm.

        Raises:
            RunFailed: the connection broke, or the broker refused.
        """
        self._connection.send(self._message)
        self._connection.expect(commands.Basic.Ack)


if __name__ == "__main__":
    typer.run(main)
