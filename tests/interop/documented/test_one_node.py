"""Commands of pages that need more than a page's machine has: damage, a standby, names of rabbitmqctl."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from interop.documented.page_commands import Shell, blocks, first_cells, lines, told_commands
from support.broker_process import BrokerProcess
from support.management_door import ManagementDoor
from support.pika_client import PERSISTENT, Clients, drain
from support.ports import free_port
from support.waiting import wait_until

from routelog.management.commands.rabbitmqctl_names import NAMES

pytestmark = pytest.mark.differs_from_rabbitmq("its own commands")

# How commands of the page on moving begin that need what is not here.
NOT_RUN = ("rabbitmqctl", "cluster", "routelog cluster", "routelog …")
MESSAGES = 20
BODY = b"x" * 2_000
SMALL_SEGMENTS = {"ROUTELOG_SEGMENT_BYTES": "65536", "ROUTELOG_MEMORY_TAIL_BYTES": "1048576"}


class Service:
    """A broker as pages have it: `systemctl` is this object, and its directory is /var/lib/routelog."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        self.data_dir = folder / "var" / "lib" / "routelog"
        self.broker = BrokerProcess(self.data_dir, environment).start()
        self.shell = Shell(
            folder / "shell",
            {"ROUTELOG_DATA_DIR": str(self.data_dir)},
            {"/var/lib/routelog": str(self.data_dir), "FILE": f"{folder}/definitions.json"},
        )

    def run(self, command: str, code: int = 0) -> str:
        """What a command prints."""
        words = command.partition("#")[0].split()
        if words[0] != "systemctl":
            return self.shell.run(command, code)
        if words[1] == "stop":
            assert self.broker.terminate() == 0
        else:
            self.broker.start()
        return ""


@pytest.fixture
def started(tmp_path: Path) -> Iterator[list[BrokerProcess]]:
    """Brokers of one test: they are stopped at its end."""
    brokers: list[BrokerProcess] = []
    yield brokers
    for each in brokers:
        each.stop()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """With a queue."""
    running = Service(tmp_path_factory.mktemp("service"), {})
    clients = Clients(running.broker.url)
    channel = clients.channel()
    channel.queue_declare("invoices", durable=True)
    clients.close()
    yield running
    running.broker.stop()


def publish(broker: BrokerProcess, queue: str, count: int) -> None:
    clients = Clients(broker.url)
    channel = clients.channel()
    channel.confirm_delivery()
    for _ in range(count):
        channel.basic_publish("", queue, BODY, PERSISTENT)
    clients.close()


def count(broker: BrokerProcess, queue: str = "orders") -> int:
    clients = Clients(broker.url)
    found = clients.channel().queue_declare(queue, passive=True).method.message_count
    clients.close()
    return int(found)


def test_a_quarantined_queue_is_repaired_as_the_page_shows(
    tmp_path: Path, started: list[BrokerProcess]
) -> None:
    service = Service(tmp_path, SMALL_SEGMENTS)
    started.append(service.broker)
    clients = Clients(service.broker.url)
    clients.channel().queue_declare("orders", durable=True)
    clients.close()
    publish(service.broker, "orders", 200)
    assert service.broker.terminate() == 0
    second = sorted((service.data_dir / "logs").rglob("orders-0/*.log"))[1]
    content = bytearray(second.read_bytes())
    content[1_000] ^= 1
    second.write_bytes(content)
    service.broker.start()
    wait_until(lambda: "quarantined: " in service.broker.log_text())
    (block,) = blocks("log-tools.md", "sh")
    for command in lines(block):
        damaged = command.startswith("routelog log verify")
        text = service.run(command, code=1 if damaged else 0)
        assert not damaged or second.name in text
    clients = Clients(service.broker.url)
    bodies = drain(clients.channel(), "orders")
    clients.close()
    assert 100 < len(bodies) < 200


def test_a_standby_is_made_the_node_as_the_page_shows(
    tmp_path: Path, started: list[BrokerProcess]
) -> None:
    listen, standby, node = "10.0.0.1:25680", tmp_path / "standby", tmp_path / "node"
    shell = Shell(
        tmp_path / "shell",
        {"ROUTELOG_DATA_DIR": str(node)},
        {listen: f"127.0.0.1:{free_port()}", "/srv/standby": str(standby)},
    )
    (settings,) = blocks("standby.md", "toml")
    assert listen in settings
    file = tmp_path / "routelog.toml"
    file.write_text(shell.here(settings))
    secret, serve, follow, status = lines(blocks("standby.md", "sh")[0])
    kill, promote, serve_again = lines(blocks("standby.md", "sh")[1])
    shell.keep(secret)
    started.append(shell.serve(serve, node, ROUTELOG_CONFIG=str(file)))
    following = shell.follow(follow)
    try:
        clients = Clients(started[0].url)
        clients.channel().queue_declare("orders", durable=True)
        clients.close()
        publish(started[0], "orders", MESSAGES)
        wait_until(lambda: " 0 bytes, " in shell.run(status))
        started[0].kill()
        shell.run(kill.replace("PID", str(following.process.pid)))
        assert following.process.wait() == 0
    finally:
        following.stop()
    assert str(standby) in shell.run(promote)
    started.append(shell.serve(serve_again, standby))
    assert count(started[1]) == MESSAGES


# What the names of rabbitmqctl are run with, in this order.
RABBITMQCTL = {
    **dict.fromkeys(["status", "ping", "await_startup", "cluster_status"], ""),
    "add_vhost": "shop",
    "add_user": "ann secret",
    "change_password": "ann other",
    "authenticate_user": "ann other",
    "set_user_tags": "ann management",
    "set_permissions": "-p shop ann '.*' '.*' '.*'",
    "set_topic_permissions": "ann amq.topic '^a' '^b'",
    "set_policy": """short '^tmp' '{"max-length": 5}'""",
    **dict.fromkeys(["list_queues", "list_exchanges"], "-p / name"),
    **dict.fromkeys(["list_bindings", "list_consumers"], "-p / arguments"),
    **dict.fromkeys(["list_connections", "list_channels", "list_users", "list_vhosts"], "name"),
    **dict.fromkeys(["list_permissions", "list_topic_permissions"], "-p shop user"),
    **dict.fromkeys(["list_policies", "list_operator_policies"], "-p / name"),
    "list_user_permissions": "ann",
    "clear_permissions": "-p shop ann",
    "clear_topic_permissions": "ann",
    "clear_policy": "short",
    "purge_queue": "invoices",
    "delete_queue": "invoices",
    "close_connection": "CONNECTION",
    "export_definitions": "FILE",
    "import_definitions": "FILE",
    "trace_on": "",
    "trace_off": "",
    "delete_user": "ann",
    "delete_vhost": "shop",
}
OF_CLUSTERS = {"cluster"}  # a node on its own has none


def test_the_names_of_rabbitmqctl_do_what_the_page_says(service: Service) -> None:
    page = "migrating-from-rabbitmq.md"
    cells = " ".join(first_cells(page, "`routelog …`"))
    spans = [span for span in re.findall("`([^`]+)`", cells) if span[0] != "["]
    names = [span.split()[0] for span in spans]
    assert NAMES.keys() <= set(names)
    assert set(names) == RABBITMQCTL.keys() | OF_CLUSTERS
    clients = Clients(service.broker.url)
    clients.connect(client_properties={"connection_name": "shop"})
    (row,) = ManagementDoor(service.broker).get("connections")
    service.shell.places |= {"CONNECTION": shlex.quote(row["name"]), "NAME": "eve"}
    for command in ("routelog vhost add orders", "routelog user add NAME --password one"):
        service.run(command)
    for command in told_commands(page):
        if not command.startswith(NOT_RUN):
            service.shell.run(command, given="two\n")
    service.run("routelog user delete NAME")
    for name, arguments in RABBITMQCTL.items():
        service.run(f"routelog {name} {arguments}")
    wait_until(lambda: ManagementDoor(service.broker).get("connections") == [])
