"""Brokers that serve the same clients in different ways: suites have to find the same at each of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

import pika
from cluster.brokers.mirrored_brokers import MirroredBrokers
from support.broker_process import BrokerProcess
from support.ports import free_port
from support.waiting import wait_until

PROCESSES = 3
# A busy machine may be silent for longer than two seconds, and who leads is not what suites are about.
_PATIENT = {"ROUTELOG_CLUSTER_LEASE_SECONDS": "20", "ROUTELOG_CLUSTER_CONFIRM_SECONDS": "60"}
FOLLOWER, LEADER = "c", "a"
_SESSION = "a session with node"
_DOOR = "management.json"


@contextmanager
def one_process(folder: Path, environment: Mapping[str, str]) -> Iterator[BrokerProcess]:
    """A broker as most are."""
    yield from _served(BrokerProcess(folder / "one", dict(environment)))


@contextmanager
def several_processes(folder: Path, environment: Mapping[str, str]) -> Iterator[BrokerProcess]:
    """A broker whose clients are those of its fronts, or of the process that has the data."""
    processes = {"ROUTELOG_PROCESSES": str(PROCESSES)}
    yield from _served(BrokerProcess(folder / "several", {**environment, **processes}))


def _served(broker: BrokerProcess) -> Iterator[BrokerProcess]:
    try:
        yield broker.start()
        assert broker.alive, f"the broker died on the way; it printed:\n{broker.log_text()}"
        assert broker.terminate() == 0, broker.log_text()
    finally:
        broker.stop()


@contextmanager
def follower(folder: Path, environment: Mapping[str, str]) -> Iterator[BrokerProcess]:
    """One of three mirrored nodes, which does not lead from the beginning to the end.

    Args:
        environment: of this node alone.
    """
    port = free_port()
    own = {FOLLOWER: {**environment, "ROUTELOG_MANAGEMENT_PORT": str(port)}}
    with _nodes_in_sync(folder, own) as nodes:
        broker = nodes.brokers[FOLLOWER]
        if nodes.leader() is broker:
            nodes.ask("transfer", "--to", f"{LEADER}@test")
        nodes.until_led(in_sync=3)
        assert nodes.leader() is not broker, nodes.log_text()
        wait_until(lambda: _serves(broker), told=nodes.log_text)
        # HTTP is passed on to the leader, and so is its token.
        door = json.loads((nodes.leader().data_dir / _DOOR).read_text())
        (broker.data_dir / _DOOR).write_text(
            json.dumps({**door, "url": f"http://127.0.0.1:{port}"})
        )
        with _lasting_sessions(broker.log_text):
            yield broker


@contextmanager
def served_nodes(folder: Path) -> Iterator[MirroredBrokers]:
    """Three mirrored nodes that let clients in; the one that leads does so to the end."""
    with _nodes_in_sync(folder) as nodes:
        for broker in nodes.brokers.values():
            wait_until(partial(_serves, broker), told=nodes.log_text)
        wait_until((nodes.leader().data_dir / _DOOR).exists, told=nodes.log_text)
        with _lasting_sessions(nodes.log_text):
            yield nodes


@contextmanager
def _nodes_in_sync(
    folder: Path, own: Mapping[str, Mapping[str, str]] | None = None
) -> Iterator[MirroredBrokers]:
    nodes = MirroredBrokers(folder, _PATIENT, own=own)
    try:
        nodes.start()
        nodes.until_led(in_sync=3)
        yield nodes
    finally:
        nodes.stop()


@contextmanager
def _lasting_sessions(log_text: Callable[[], str]) -> Iterator[None]:
    sessions = log_text().count(_SESSION)
    yield
    lost = log_text().count(_SESSION) - sessions
    assert not lost, f"{lost} sessions were lost on the way:\n{log_text()}"


def _serves(broker: BrokerProcess) -> bool:
    """Whether a session is open: clients are let in when one is."""
    try:
        pika.BlockingConnection(pika.URLParameters(broker.url)).close()
    except pika.exceptions.AMQPError:
        return False
    return True


BrokerKind = Callable[[Path, Mapping[str, str]], AbstractContextManager[BrokerProcess]]
ONE_PROCESS = "routelog"
BROKER_KINDS: Mapping[str, BrokerKind] = {
    ONE_PROCESS: one_process,
    "routelog-follower": follower,
    "routelog-processes": several_processes,
}
