"""What the suites talk to: a broker, and Redis for the results of Celery's tasks."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from cluster.fronts.broker_kinds import BROKER_KINDS
from interop_suites.certificates import write_certificates
from support.ports import free_port

from routelog.benchmarks.brokers.broker_process import rabbitmq

REDIS_START_SECONDS = 30
NO_TLS = "1"  # a port where nobody listens


@contextlib.contextmanager
def routelog(kind: str, folder: Path, certificates: Path, log: Path) -> Iterator[Mapping[str, str]]:
    """A RouteLog of this source tree, one of `BROKER_KINDS`; gives what `Suite.environment` asks for.

    Args:
        log: where to write what it has logged.
    """
    write_certificates(certificates)
    tls_port = free_port()
    environment = {
        "ROUTELOG_TLS_PORT": str(tls_port),
        "ROUTELOG_TLS_CERTIFICATE": str(certificates / "server.pem"),
        "ROUTELOG_TLS_AUTHORITIES": str(certificates / "ca_certificate.pem"),
        "ROUTELOG_TLS_VERIFY": "optional",
    }
    with BROKER_KINDS[kind](folder, environment) as broker:
        try:
            yield {"host": "localhost", "port": str(broker.port), "tls_port": str(tls_port)}
        finally:
            log.write_text(broker.log_text())


@contextlib.contextmanager
def installed_rabbitmq(folder: Path, certificates: Path, _log: Path) -> Iterator[Mapping[str, str]]:
    """The RabbitMQ of this machine, to see what it does with the same tests; without TLS."""
    write_certificates(certificates)
    with rabbitmq(folder) as broker:
        port = urlsplit(broker.uri).port
        yield {"host": "localhost", "port": str(port), "tls_port": NO_TLS}


Started = Callable[[Path, Path, Path], contextlib.AbstractContextManager[Mapping[str, str]]]
BROKERS: Mapping[str, Started] = {
    **{kind: partial(routelog, kind) for kind in BROKER_KINDS},
    "rabbitmq": installed_rabbitmq,
}


@contextlib.contextmanager
def redis() -> Iterator[str]:
    """A Redis server that keeps nothing; gives its port."""
    port = free_port()
    options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    server = subprocess.Popen(["redis-server", *options], stdout=subprocess.DEVNULL)
    try:
        _wait_until_somebody_listens(port)
        yield str(port)
    finally:
        server.terminate()
        server.wait()


def _wait_until_somebody_listens(port: int) -> None:
    deadline = time.monotonic() + REDIS_START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
