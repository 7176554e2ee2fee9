"""The command line `python -m benchmarks.idle`: what connections cost that do nothing.

Each has logged in with a heartbeat of 60 s and says nothing more, with or without channels. The resident memory
of the broker's process is read before they come, while they are there, and when they have left.
"""

import resource
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated
from urllib.parse import unquote, urlsplit

import typer
from pamqp import commands, frame, header
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.broker_process import routelog

HEARTBEAT_SECONDS = 60
SPARE_FILES = 200  # what the broker, or this process, has open beside the connections
SETTLE_SECONDS = 2.0  # until what a login leaves behind is gone
STALL_SECONDS = 20.0
KIB = 1024


class IdleConnection:
    """A logged-in connection with some channels."""

    def __init__(self, url: str, channels: int) -> None:
        parts = urlsplit(url)
        address = parts.hostname or "127.0.0.1", parts.port or 5672
        self._socket = socket.create_connection(address, timeout=STALL_SECONDS)
        user, password = unquote(parts.username or "guest"), unquote(parts.password or "guest")
        start_ok = commands.Connection.StartOk({}, response=f"\0{user}\0{password}")
        self._call(header.ProtocolHeader(0, 9, 1).marshal())
        self._call(frame.marshal(start_ok, 0))
        tune_ok = commands.Connection.TuneOk(2047, 131_072, HEARTBEAT_SECONDS)
        vhost = commands.Connection.Open(unquote(parts.path[1:]) or "/")
        self._call(frame.marshal(tune_ok, 0) + frame.marshal(vhost, 0))
        for number in range(1, channels + 1):
            self._call(frame.marshal(commands.Channel.Open(), number))

    def _call(self, request: bytes) -> None:
        # Every reply is one frame.
        self._socket.sendall(request)
        reply = b""
        while len(reply) < 8 or len(reply) < 8 + int.from_bytes(reply[3:7], "big"):
            piece = self._socket.recv(65_536)
            if not piece:
                raise SystemExit("the broker closed a connection")
            reply += piece
        _, _, method = frame.unmarshal(reply)
        if isinstance(method, commands.Connection.Close | commands.Channel.Close):
            raise SystemExit(f"refused: {method.reply_text}")

    def close(self) -> None:
        """Go without a word."""
        self._socket.close()


def main(
    connections: Annotated[int, typer.Option(min=1, help="How many.")] = 10_000,
    channels: Annotated[int, typer.Option(min=0, help="Open on each.")] = 0,
    target: Annotated[
        str | None, typer.Option(help="URL of a running broker; otherwise one is started.")
    ] = None,
    pid: Annotated[int | None, typer.Option(help="Process of that broker.")] = None,
) -> None:
    """Measure the memory of a broker's idle connections."""
    if (target is None) != (pid is None):
        raise SystemExit("--target and --pid go together")
    _raise_file_limit(connections + SPARE_FILES)
    console = Console()
    with _broker(target, pid) as (url, process):
        before = resident_bytes(process)
        started = time.monotonic()
        opened = [
            IdleConnection(url, channels)
            for _ in track(range(connections), "connecting", console=console, transient=True)
        ]
        seconds = time.monotonic() - started
        time.sleep(SETTLE_SECONDS)
        idle = resident_bytes(process)
        for connection in opened:
            connection.close()
        time.sleep(SETTLE_SECONDS)
        after = resident_bytes(process)
    table = Table(title=f"{connections:,} idle connections, {channels} channels each")
    for column in ("resident memory", "KiB", "KiB a connection"):
        table.add_column(column, justify="right")
    table.add_row("before", f"{before // KIB:,}", "")
    table.add_row("connected", f"{idle // KIB:,}", f"{(idle - before) / connections / KIB:.1f}")
    table.add_row("all gone", f"{after // KIB:,}", f"{(after - before) / connections / KIB:.1f}")
    console.print(table)
    console.print(f"{connections / seconds:,.0f} logins a second")


@contextmanager
def _broker(target: str | None, pid: int | None) -> Iterator[tuple[str, int]]:
    if target is not None and pid is not None:
        yield target, pid
        return
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        routelog(Path(folder)) as broker,
    ):
        assert broker.session is not None
        yield broker.uri, broker.session  # whoever begins a session is called like it


def resident_bytes(process: int) -> int:
    """The memory that a process has in use."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * KIB
    raise SystemExit(f"process {process} is gone")


def _raise_file_limit(wanted: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise SystemExit(f"needs {wanted:,} open files, but the hard limit is {hard:,}: ulimit -n")
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


if __name__ == "__main__":
    typer.run(main)
