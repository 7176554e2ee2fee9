"""Clusters of three nodes in networks of their own, started for a measurement: of RouteLog, and of RabbitMQ."""

import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

from routelog.benchmarks.brokers.broker_process import processor_seconds
from routelog.benchmarks.brokers.node_networks import NodeNetworks, node_networks
from routelog.benchmarks.traffic.certificate import make_certificate
from routelog.benchmarks.traffic.connection import Connection
from routelog.benchmarks.traffic.unexpected import RunFailed

START_SECONDS_MAX = 120.0
_NODES = ("a", "b", "c")
_SECRET = "of a measurement"
_CLIENT_PORT = 5672

Fault = Literal["killed", "paused", "cut off"]
FAULTS: tuple[Fault, ...] = get_args(Fault)


class ThreeNodes(Protocol):
    """A cluster of three nodes in networks of their own.

    Attributes:
        uris: where each node takes clients.
    """

    uris: dict[str, str]

    def leader(self, queue: str) -> str:
        """The node that leads a queue, when all nodes have everything."""

    def strike(self, node: str, fault: Fault) -> None:
        """Kill or stop all processes of a node, or let nobody reach it."""

    def heal(self, node: str, fault: Fault) -> None:
        """Let it go on, or start it again; returns at once."""

    def cpu_seconds(self) -> float:
        """Processor time of all processes that run, since they started."""


class _Node:
    """A process in a session of its own."""

    def __init__(self, command: list[str], environment: dict[str, str], log: Path) -> None:
        self._command, self._environment, self._log = command, environment, log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def cpu_seconds(self) -> float:
        return 0.0 if self._process is None else processor_seconds(self._process.pid)

    def signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()


class _Nodes:
    """Three processes, and those that they have started."""

    _nodes: dict[str, _Node]

    def __init__(self, networks: NodeNetworks) -> None:
        self._networks = networks
        self._hosts = {name: networks.addresses[name] for name in _NODES}
        self.uris = {
            name: f"amqp://guest:guest@{host}:{_CLIENT_PORT}/" for name, host in self._hosts.items()
        }

    def strike(self, node: str, fault: Fault) -> None:
        """Kill or stop all processes of a node, or let nobody reach it."""
        match fault:
            case "killed":
                self.kill(node)
            case "paused":
                self._nodes[node].signal(signal.SIGSTOP)
            case "cut off":
                self._networks.cut_off(node)

    def heal(self, node: str, fault: Fault) -> None:
        """Let it go on, or start it again; returns at once."""
        match fault:
            case "killed":
                self.start(node)
            case "paused":
                self._nodes[node].signal(signal.SIGCONT)
            case "cut off":
                self._networks.heal()

    def kill(self, node: str) -> None:
        """SIGKILL, to all processes of a node."""
        self._nodes[node].kill()

    def start(self, node: str) -> None:
        """Start a node; returns at once."""
        self._nodes[node].start()

    def cpu_seconds(self) -> float:
        """Processor time of all processes that run, since they started."""
        return sum(each.cpu_seconds() for each in self._nodes.values())


class RouteLogNodes(_Nodes):
    """Three RouteLogs of this source tree, each with a managed etcd.

    Args:
        folder: for their data and logs.
        tls: between nodes, and of etcd.
    """

    def __init__(self, folder: Path, networks: NodeNetworks, *, tls: bool) -> None:
        super().__init__(networks)
        addresses = ",".join(f"{name}@test={host}:25672" for name, host in self._hosts.items())
        self._environment = {
            **os.environ,
            "ROUTELOG_CLUSTER_NODES": addresses,
            "ROUTELOG_CLUSTER_ETCD": "managed",
            "ROUTELOG_CLUSTER_SECRET": _SECRET,
            "ROUTELOG_MANAGEMENT": "false",
            "ROUTELOG_LOOPBACK_USERS": "",
            "ROUTELOG_NODE_NAME": "a@test",
            **(_own_certificate(folder, *self._hosts.values()) if tls else {}),
        }
        self._nodes = {
            name: _Node(
                [
                    *networks.within(name),
                    *(sys.executable, "-m", "routelog", "serve", "--host", host),
                    *("--port", str(_CLIENT_PORT), "--data-dir", str(folder / name)),
                ],
                {**self._environment, "ROUTELOG_NODE_NAME": f"{name}@test"},
                folder / f"{name}.log",
            )
            for name, host in self._hosts.items()
        }

    def leader(self, queue: str) -> str:
        """The node that leads a queue, when all nodes have everything. One node leads all queues."""
        return str(_until(self._led)).partition("@")[0]

    def _led(self) -> object:
        told = subprocess.run(
            [sys.executable, "-m", "routelog", "cluster", "status", "--json"],
            env=self._environment,
            capture_output=True,
            check=False,
        )
        shards = json.loads(told.stdout or b"{}").get("shards", ())
        return next(
            (each["leader"] for each in shards if each["led"] and len(each["in_sync"]) == 3), None
        )


def _own_certificate(folder: Path, *hosts: str) -> dict[str, str]:
    """One for all nodes."""
    made = make_certificate(folder, *hosts)
    if made is None:
        raise RunFailed("no certificate: is there no openssl?")
    return {
        "ROUTELOG_CLUSTER_TLS_CERTIFICATE": str(made.file),
        "ROUTELOG_CLUSTER_TLS_KEY": str(made.key),
        "ROUTELOG_CLUSTER_TLS_AUTHORITIES": str(made.file),
    }


class RabbitNodes(_Nodes):
    """Three RabbitMQs of the installed package.

    Args:
        folder: for their data and logs.
    """

    def __init__(self, folder: Path, networks: NodeNetworks) -> None:
        super().__init__(networks)
        (folder / "enabled_plugins").write_text("[].\n")
        (folder / "rabbitmq.conf").write_text("loopback_users = none\n")
        self._environments = {
            name: {
                "PATH": os.environ.get("PATH", ""),
                "HOME": str(folder),  # of the cookie, which all share
                "LANG": "C.UTF-8",
                "RABBITMQ_NODENAME": f"{name}@{host}",
                "RABBITMQ_USE_LONGNAME": "true",
                "RABBITMQ_NODE_PORT": str(_CLIENT_PORT),
                "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
                "RABBITMQ_LOG_BASE": str(folder / "log"),
                "RABBITMQ_PID_FILE": str(folder / f"{name}.pid"),
                "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
                "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
            }
            for name, host in self._hosts.items()
        }
        self._nodes = {
            name: _Node(
                [*networks.within(name), "/usr/lib/rabbitmq/bin/rabbitmq-server"],
                environment,
                folder / f"{name}.log",
            )
            for name, environment in self._environments.items()
        }

    def join(self) -> None:
        """Make one cluster of nodes that run on their own."""
        first = self._environments["a"]["RABBITMQ_NODENAME"]
        for name in _NODES[1:]:
            for command in ("stop_app",), ("join_cluster", first), ("start_app",):
                self._control("rabbitmqctl", name, *command)

    def leader(self, queue: str) -> str:
        """The node that leads a queue, when all nodes have everything."""
        return str(_until(lambda: self._led(queue)))[0]

    def _led(self, queue: str) -> object:
        command = ("quorum_status", "--formatter", "json", queue)
        for name in _NODES:
            with contextlib.suppress(subprocess.CalledProcessError, json.JSONDecodeError):
                told = json.loads(self._control("rabbitmq-queues", name, *command))
                # As each member says: the queue's record names the leader before for a while.
                states = [each["Raft State"] for each in told]
                if states.count("follower") == 2 and "leader" in states:
                    return told[states.index("leader")]["Node Name"]
                return None
        return None

    def stop_port_mapper(self, node: str) -> None:
        """RabbitMQ leaves Erlang's port mapper behind."""
        command = [*self._networks.within(node), "epmd", "-kill"]
        _until(
            lambda: b"Killed" in subprocess.run(command, capture_output=True, check=False).stdout
        )

    def _control(self, program: str, name: str, *arguments: str) -> bytes:
        return subprocess.run(
            [
                *self._networks.within(name),
                *(f"/usr/lib/rabbitmq/bin/{program}", "--quiet", *arguments),
            ],
            env=self._environments[name],
            capture_output=True,
            check=True,
        ).stdout


@contextlib.contextmanager
def routelog_nodes(folder: Path, *, tls: bool = False) -> Iterator[ThreeNodes]:
    """Three RouteLogs that are in sync."""
    with contextlib.ExitStack() as stack:
        nodes = RouteLogNodes(folder, stack.enter_context(node_networks(_NODES)), tls=tls)
        for name in _NODES:
            stack.callback(nodes.kill, name)
            nodes.start(name)
        nodes.leader("")
        _until(lambda: all(map(_answers, nodes.uris.values())))
        yield nodes


@contextlib.contextmanager
def rabbitmq_nodes(folder: Path) -> Iterator[ThreeNodes]:
    """Three RabbitMQs that are one cluster."""
    with contextlib.ExitStack() as stack:
        nodes = RabbitNodes(folder, stack.enter_context(node_networks(_NODES)))
        for name in _NODES:
            stack.callback(nodes.stop_port_mapper, name)
            stack.callback(nodes.kill, name)
            nodes.start(name)
            _until(functools.partial(_answers, nodes.uris[name]))
        nodes.join()
        _until(lambda: all(map(_answers, nodes.uris.values())))
        yield nodes


def _until(found: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + START_SECONDS_MAX
    while not (what := found()):
        if time.monotonic() > deadline:
            raise RunFailed("the three nodes did not become ready")
        time.sleep(0.2)
    return what


def _answers(uri: str) -> bool:
    try:
        Connection(uri).close()
    except (OSError, RunFailed):
        return False
    return True
