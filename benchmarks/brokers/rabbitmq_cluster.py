"""Three nodes of RabbitMQ on this machine, to measure a quorum queue beside a mirrored cluster."""

import contextlib
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from routelog.benchmarks.brokers.broker_process import (
    RABBITMQ_CONTROL,
    Broker,
    BrokerUnavailable,
    port_mapper,
    rabbitmq_node,
)

NODES = ("a", "b", "c")
_JOIN_SECONDS = 120  # on a busy machine; a quiet one takes 5 to 10


@contextlib.contextmanager
def rabbitmq_cluster(folder: Path) -> Iterator[Mapping[str, Broker]]:
    """Nodes of one cluster, each by name; a queue that is declared at the first one has its leader there.

    Raises:
        BrokerUnavailable: they do not become a cluster.
    """
    with contextlib.ExitStack() as stack:
        mapper = stack.enter_context(port_mapper())
        nodes: dict[str, Broker] = {}
        first = ""
        for name in NODES:
            home = folder / name
            home.mkdir()
            # What nodes of one cluster know of each other.
            (home / ".erlang.cookie").write_text("cookie-of-this-measurement")
            (home / ".erlang.cookie").chmod(0o400)
            node, environment = stack.enter_context(rabbitmq_node(home, name, mapper))
            nodes[name] = node
            if first:
                for step in ("stop_app", f"join_cluster {first}", "start_app"):
                    _control(step.split(), environment)
            else:
                first = environment["RABBITMQ_NODENAME"]
        yield nodes


def _control(arguments: list[str], environment: Mapping[str, str]) -> None:
    command = [str(RABBITMQ_CONTROL), "-n", environment["RABBITMQ_NODENAME"], *arguments]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=_JOIN_SECONDS
    )
    if done.returncode:
        raise BrokerUnavailable(f"rabbitmqctl {' '.join(arguments)}: {done.stdout}{done.stderr}")
