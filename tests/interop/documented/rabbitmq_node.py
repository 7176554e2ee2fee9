"""A RabbitMQ of Debian's package, and its commands."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pika
from support.ports import free_ports
from support.waiting import wait_until

COMMANDS = Path("/usr/lib/rabbitmq/bin")  # those of /usr/sbin change the user
START_SECONDS_MAX = 180.0


@dataclass(frozen=True)
class RabbitmqNode:
    """One that runs.

    Attributes:
        url: for clients, with the default user and the default virtual host.
        environment: for its commands.
    """

    url: str
    environment: dict[str, str]


@contextmanager
def rabbitmq_node(home: Path) -> Iterator[RabbitmqNode]:
    """A RabbitMQ of its own, without plugins, on free ports, and with an Erlang port mapper of its own."""
    home.mkdir()
    port, mapper_port, node_port = free_ports(3)
    (home / "enabled_plugins").write_text("[].\n")
    environment = {
        "PATH": f"{COMMANDS}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "ERL_EPMD_PORT": str(mapper_port),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODENAME": f"moving{port}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(node_port),
        "RABBITMQ_MNESIA_BASE": str(home / "mnesia"),
        "RABBITMQ_LOG_BASE": str(home / "log"),
        "RABBITMQ_PID_FILE": str(home / "pid"),
        "RABBITMQ_CONFIG_FILE": str(home / "rabbitmq.conf"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "enabled_plugins"),
    }
    url = f"amqp://guest:guest@127.0.0.1:{port}/"
    with (home / "output").open("wb") as output:
        process = subprocess.Popen(
            [COMMANDS / "rabbitmq-server"],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        wait_until(lambda: process.poll() is not None or _answers(url), seconds=START_SECONDS_MAX)
        assert process.poll() is None, (home / "output").read_text()
        yield RabbitmqNode(url, environment)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        # It leaves the port mapper behind.
        subprocess.run(
            ["epmd", "-port", str(mapper_port), "-kill"],
            env=environment,
            capture_output=True,
            check=False,
        )


def _answers(url: str) -> bool:
    try:
        with closing(pika.BlockingConnection(pika.URLParameters(url))):
            return True
    except (pika.exceptions.AMQPError, OSError):
        return False
