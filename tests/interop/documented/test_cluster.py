"""Commands of docs/operating/cluster.md, run on nodes that are configured as the page shows it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster.brokers.test_brokers import client
from interop.documented.page_commands import Shell, blocks, first_cells, lines, told_commands
from support.broker_process import BrokerProcess
from support.pika_client import PERSISTENT
from support.ports import free_ports
from support.waiting import wait_until

pytestmark = [pytest.mark.differs_from_rabbitmq("its own commands"), pytest.mark.long]

PAGE = "cluster.md"
STATUS = "routelog cluster status"
SHOWN = {f"rabbit@{name}": f"10.0.0.{at}:25672" for at, name in enumerate("abc", 1)}
WELL_SECONDS_MAX = 60.0
# How commands begin that no test runs, and why.
NOT_RUN = {
    "apt-get install": ".ci/system-packages has installed it",
    "/opt/routelog/bin/pip install": "takes packages from an index",
}
# What the commands of the table are run with, and the exit code: in the end, the cluster has begun and is led.
NODES = {
    "status": ("", 0),
    "verify": ("", 0),
    "transfer": ("rabbit@b", 0),
    "drain": ("rabbit@c", 0),
    "repair": ("rabbit@b", 0),
    "join": ("rabbit@d", 0),
    "leave": ("rabbit@d", 0),
    "init": ("rabbit@b", 1),  # has handed over
    "recover": ("rabbit@a", 1),
}


class Machines:
    """One for each node, all this one: their files are those of the page."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (self._settings, _tls) = blocks(PAGE, "toml")
        self._ports = dict(zip([*SHOWN, "rabbit@d"], free_ports(4, 4), strict=True))
        self.places = {
            "/etc/routelog": f"{folder}/etc",
            **{address: f"127.0.0.1:{self._ports[node]}" for node, address in SHOWN.items()},
        }
        self.brokers: dict[str, BrokerProcess] = {}

    def file(self, node: str) -> Path:
        """The configuration of a node; one that is to join is in its own list."""
        text = self._settings
        assert text.count('node_name = "rabbit@a"') == 1
        assert all(f"{name}={address}" in text for name, address in SHOWN.items())
        text = text.replace('node_name = "rabbit@a"', f'node_name = "{node}"')
        for place, other in self.places.items():
            text = text.replace(place, other)
        if node not in SHOWN:
            text = text.replace('"]', f'", "{node}=127.0.0.1:{self._ports[node]}"]', 1)
        file = self._folder / f"{node}.toml"
        file.write_text(text)
        return file

    def serve(self, shell: Shell, command: str, node: str) -> None:
        """Start a node on its machine."""
        environment = {
            "ROUTELOG_CONFIG": str(self.file(node)),
            "ROUTELOG_PORT": str(self._ports[node] + 3),
            "ROUTELOG_LOOPBACK_USERS": "",
        }
        data = self._folder / node
        settings = {**environment, "ROUTELOG_DATA_DIR": str(data)}
        self.brokers[node] = shell.serve(command, data, **settings)

    def stop(self) -> None:
        """End all nodes at once."""
        for broker in self.brokers.values():
            broker.stop()


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    made = Machines(tmp_path)
    yield made
    made.stop()


def run(machines: Machines, shell: Shell, commands: list[str], node: str) -> None:
    """Commands on the machine of a node."""
    broker = machines.brokers[node]
    for command in commands:
        words = command.partition("#")[0].split()
        if words == ["systemctl", "stop", "routelog"]:
            assert broker.terminate() == 0
        elif words == ["systemctl", "start", "routelog"]:
            broker.start()
        elif not any(command.startswith(each) for each in NOT_RUN):
            shell.run(command)


def test_a_cluster_is_made_looked_at_and_upgraded_as_the_page_shows(
    machines: Machines, tmp_path: Path
) -> None:
    begin, under_systemd, upgrade = blocks(PAGE, "sh")
    shell = Shell(tmp_path / "shell", {}, machines.places)
    install, secret, serve, status = lines(begin)
    assert any(install.startswith(each) for each in NOT_RUN)
    assert status.partition("#")[0].strip() == STATUS
    shell.keep(secret)
    for node in SHOWN:
        machines.serve(shell, serve, node)

    # From here on as the superuser of the first machine.
    files = tmp_path / "etc"
    files.mkdir()
    (files / "routelog.toml").write_text(machines.file("rabbit@a").read_text())
    (files / "environment").write_text(secret.removeprefix("export "))
    variables, status = lines(under_systemd)
    root = Shell(tmp_path / "root", {}, machines.places)
    root.keep(variables)

    of_three = root.environment["ROUTELOG_CONFIG"]

    def until_well() -> None:
        wait_until(lambda: root.ended(status)[0] == 0, seconds=WELL_SECONDS_MAX)

    def until_named(node: str) -> None:
        without = f"{node} without a copy"
        wait_until(lambda: without in root.ended(status)[1], seconds=WELL_SECONDS_MAX)

    until_well()
    publish(machines.brokers["rabbit@c"])
    rows = [
        cell.strip("`").translate({ord("["): None, ord("]"): None})
        for cell in first_cells(PAGE, "`routelog cluster ...`")
    ]
    assert [row.split()[0] for row in rows] == list(NODES)
    for row in rows:
        verb = row.split()[0]
        node, code = NODES[verb]
        if verb == "join":
            machines.serve(shell, serve, node)
            root.environment["ROUTELOG_CONFIG"] = str(machines.file(node))
            until_named(node)
        root.run(f"routelog cluster {row.replace('NODE', node)}", code)
        if verb == "drain":
            machines.brokers[node].restart()
        elif verb == "leave":
            assert machines.brokers.pop(node).terminate() == 0
            root.environment["ROUTELOG_CONFIG"] = of_three
        until_well()

    run(machines, root, lines(upgrade), "rabbit@b")
    (prompted,) = [line[2:] for line in blocks(PAGE, "")[0].splitlines() if line[:2] == "$ "]
    root.run(prompted)
    assert messages(machines.brokers["rabbit@a"]) == 1
    for told in told_commands(PAGE):
        words = told.removeprefix("routelog ").removeprefix("cluster ").split()
        assert words[0] in NODES or told in ("routelog cluster ...", "make demo-cluster"), told


def publish(broker: BrokerProcess) -> None:
    connection = client(broker)
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("orders", durable=True)
    channel.basic_publish("", "orders", b"x", PERSISTENT)
    connection.close()


def messages(broker: BrokerProcess) -> int:
    connection = client(broker)
    found = connection.channel().queue_declare("orders", passive=True).method.message_count
    connection.close()
    return int(found)
