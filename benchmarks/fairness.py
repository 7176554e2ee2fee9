"""The command line `python -m benchmarks.fairness`: how long others wait while one client is a storm.

A bystander publishes and waits for its confirm, which needs no disk, while each storm runs. "Loop busy" counts
only the time that the broker's event loop ran meanwhile, so it shows the longest hold on a busy machine, too.
"""

import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer
from pamqp import body, commands, frame, header
from rich.console import Console
from rich.table import Table

from benchmarks.broker_process import routelog
from benchmarks.bystander import bystander
from benchmarks.connection import Connection
from benchmarks.frames import CHANNEL, content_frames

FRAME_BYTES = 131_072
FRAME_OVERHEAD = 8
DECLARES_IN_FLIGHT = 500
PUBLISHES_AT_ONCE = 10_000  # less than 1 MiB
LARGE_BYTES = 16 << 20  # as large as a broker allows by default
FLUSH_SECONDS = 2.0  # the broker writes segments once a second


class Storms:
    """What one client can do to all others."""

    def __init__(self, url: str, scale: float) -> None:
        self._url = url
        self._scale = scale
        self._connection = Connection(url)
        self.all: dict[str, Callable[[], None]] = {
            "nothing": lambda: time.sleep(1),
            f"declare {self._scaled(20_000):,} exclusive queues": self._declare,
            f"leave {self._scaled(20_000):,} exclusive queues behind": self._leave,
            f"publish {self._scaled(LARGE_BYTES) >> 20} MiB in one message": self._publish_large,
            "get it": self._get_large,
            f"publish to {self._scaled(1_000):,} durable queues, to be flushed": self._flush,
            f"publish {self._scaled(1_000_000):,} messages": self._publish_many,
            "get them all and ack at once": self._ack_multiple,
            "publish them again": self._publish_many,
            "purge them": self._purge,
        }

    def _scaled(self, count: int) -> int:
        return max(1, int(count * self._scale))

    def _await_frames(self, count: int) -> None:
        rest = b""
        while count:
            rest += self._connection.receive()
            at = 0
            while len(rest) - at >= FRAME_OVERHEAD:
                end = at + FRAME_OVERHEAD + int.from_bytes(rest[at + 3 : at + 7], "big")
                if end > len(rest):
                    break
                at = end
                count -= 1
            rest = rest[at:]

    def _declare(self) -> None:
        names = (f"fairness.exclusive.{number}" for number in range(self._scaled(20_000)))
        frames = [
            frame.marshal(commands.Queue.Declare(queue=name, exclusive=True), CHANNEL)
            for name in names
        ]
        for at in range(0, len(frames), DECLARES_IN_FLIGHT):
            part = frames[at : at + DECLARES_IN_FLIGHT]
            self._connection.send(b"".join(part))
            self._await_frames(len(part))

    def _leave(self) -> None:
        self._connection.close()
        self._connection = Connection(self._url)

    def _publish_large(self) -> None:
        self._queue("fairness.large", durable=False)
        size = self._scaled(LARGE_BYTES)
        self._connection.send(
            frame.marshal(commands.Basic.Publish(routing_key="fairness.large"), CHANNEL)
            + frame.marshal(header.ContentHeader(body_size=size), CHANNEL)
        )
        while size:
            part = min(size, FRAME_BYTES - FRAME_OVERHEAD)
            self._connection.send(frame.marshal(body.ContentBody(b"m" * part), CHANNEL))
            size -= part
        self._queue("fairness.large", durable=False)

    def _get_large(self) -> None:
        size = self._scaled(LARGE_BYTES)
        get = commands.Basic.Get(queue="fairness.large", no_ack=True)
        self._connection.send(frame.marshal(get, CHANNEL))
        self._await_frames(2 - (-size // (FRAME_BYTES - FRAME_OVERHEAD)))

    def _flush(self) -> None:
        count = self._scaled(1_000)
        for number in range(count):
            self._queue(f"fairness.flushed.{number}", durable=True)
        for number in range(count):
            publish = commands.Basic.Publish(routing_key=f"fairness.flushed.{number}")
            self._connection.send(frame.marshal(publish, CHANNEL) + content_frames(0, 100, True))
        self._queue("fairness.flushed.0", durable=True)
        time.sleep(FLUSH_SECONDS)

    def _publish_many(self) -> None:
        self._queue("fairness.many", durable=False)
        publish = frame.marshal(commands.Basic.Publish(routing_key="fairness.many"), CHANNEL)
        message = publish + content_frames(0, 16, persistent=False)
        left = self._scaled(1_000_000)
        while left:
            count = min(left, PUBLISHES_AT_ONCE)
            self._connection.send(message * count)
            left -= count
        self._queue("fairness.many", durable=False)

    def _ack_multiple(self) -> None:
        count = self._scaled(1_000_000)
        consume = commands.Basic.Consume(queue="fairness.many", consumer_tag="all")
        self._connection.send(frame.marshal(consume, CHANNEL))
        self._await_frames(1 + 3 * count)
        self._connection.send(frame.marshal(commands.Basic.Ack(0, multiple=True), CHANNEL))
        self._connection.call(commands.Basic.Cancel("all"), commands.Basic.CancelOk)

    def _purge(self) -> None:
        purge = commands.Queue.Purge(queue="fairness.many")
        self._connection.call(purge, commands.Queue.PurgeOk)

    def _queue(self, name: str, *, durable: bool) -> None:
        declare = commands.Queue.Declare(queue=name, durable=durable)
        self._connection.call(declare, commands.Queue.DeclareOk)


def main(
    scale: Annotated[float, typer.Option(min=0.0001, max=1.0, help="Of every storm.")] = 1.0,
    folder: Annotated[
        Path | None, typer.Option(help="Where the broker keeps its data; the disk counts.")
    ] = None,
) -> None:
    """Measure how long a bystander waits while one client is a storm."""
    console = Console()
    table = Table(title="publish to confirm of a bystander, milliseconds")
    for column in ("meanwhile, another client", "p99", "longest", "loop busy, longest"):
        table.add_column(column, justify="left" if "client" in column else "right")
    with ExitStack() as stack:
        data = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-", dir=folder)))
        broker = stack.enter_context(routelog(data))
        assert broker.session is not None
        url, pid = broker.uri, broker.session  # whoever begins a session is called like it
        for name, storm in Storms(url, scale).all.items():
            with bystander(url, pid) as waits:
                storm()
            late = waits.seconds[int(len(waits.seconds) * 0.99)]
            figures = late, waits.seconds[-1], waits.loop_seconds[-1]
            table.add_row(name, *(f"{1e3 * figure:.1f}" for figure in figures))
    console.print(table)


if __name__ == "__main__":
    typer.run(main)
