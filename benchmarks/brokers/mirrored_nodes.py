"""Three nodes of a cluster on this machine, each with its etcd, to measure one that leads."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

from routelog.benchmarks.brokers.broker_process import (
    Broker,
    BrokerUnavailable,
    free_port,
    ready_url,
    running,
)

NODES = ("a", "b", "c")
_LED_SECONDS = 120  # on a busy machine; a quiet one takes 5 to 10


@contextlib.contextmanager
def mirrored_nodes(
    folder: Path,
    program: Callable[[str], Sequence[str]] = lambda name: ("routelog",),
) -> Iterator[tuple[str, Mapping[str, Broker]]]:
    """Nodes that run; gives the name of the leader, and each node by name.

    Args:
        program: module that is run for a node, with its arguments before `serve`.

    Raises:
        BrokerUnavailable: they do not become a cluster.
    """
    # Behind the port of each node lie those of its etcd.
    ports: dict[str, int] = {}
    for name in NODES:
        ports[name] = _free_ports(3, ports.values())
    listed = ",".join(f"{name}@bench=127.0.0.1:{port}" for name, port in ports.items())
    common = {
        **os.environ,
        "ROUTELOG_CLUSTER_NODES": listed,
        "ROUTELOG_CLUSTER_ETCD": "managed",
        "ROUTELOG_CLUSTER_SECRET": "a secret of this measurement",
        "ROUTELOG_LOOPBACK_USERS": "",
        "ROUTELOG_MANAGEMENT": "false",
        "ROUTELOG_PROMETHEUS": "false",
    }
    with contextlib.ExitStack() as stack:
        brokers = {}
        for name in NODES:
            log = folder / f"{name}.log"
            output = stack.enter_context(log.open("wb"))
            command = [sys.executable, "-m", *program(name), "serve", "--host", "127.0.0.1"]
            command += ["--port", "0", "--data-dir", str(folder / name)]
            own = {**common, "ROUTELOG_NODE_NAME": f"{name}@bench"}
            process = stack.enter_context(running(command, own, output.fileno(), subprocess.PIPE))
            # At once: the last one must not lead before it ends.
            stack.callback(process.send_signal, signal.SIGKILL)
            brokers[name] = (process, log)
        found = {
            name: Broker(ready_url(process, log), session=process.pid)
            for name, (process, log) in brokers.items()
        }
        yield _leader({**common, "ROUTELOG_NODE_NAME": "a@bench"}), found


def _leader(environment: Mapping[str, str]) -> str:
    """Who leads when all are in sync."""
    command = [sys.executable, "-m", "routelog", "cluster", "status", "--json"]
    deadline = time.monotonic() + _LED_SECONDS
    while time.monotonic() < deadline:
        asked = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False
        )
        told = json.loads(asked.stdout) if asked.stdout else {}
        for shard in told.get("shards", ()):
            if shard["led"] and len(shard["in_sync"]) == len(NODES):
                return str(shard["leader"].partition("@")[0])
        time.sleep(0.3)
    raise BrokerUnavailable("no node leads")


def _free_ports(count: int, taken: Collection[int]) -> int:
    """The first of so many free ports side by side; those of others begin elsewhere."""
    while True:
        first = free_port()
        is_apart = first + count < 65_536 and all(abs(first - each) >= count for each in taken)
        if is_apart and all(map(_is_free, range(first + 1, first + count))):
            return first


def _is_free(port: int) -> bool:
    with contextlib.suppress(OSError):
        return free_port(port) == port
    return False
