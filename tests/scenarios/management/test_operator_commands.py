"""The operators' commands, and definitions at the start, with a broker process."""

from __future__ import annotations

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pika
import pytest
from support.broker_process import ROOT, BrokerFailed, BrokerProcess
from support.management_door import ManagementDoor
from support.pika_client import Clients
from support.waiting import wait_until
from typer.testing import CliRunner

from routelog.__main__ import command_line

pytestmark = pytest.mark.differs_from_rabbitmq("needs its data directory")

RABBITMQ = ROOT / "tests" / "golden" / "rabbitmq-3.10-definitions.json"


def run(data_dir: Path, *arguments: str, given: str = "") -> Any:
    return CliRunner().invoke(
        command_line, arguments, input=given, env={"ROUTELOG_DATA_DIR": str(data_dir)}
    )


def succeed(world: BrokerProcess, *arguments: str, given: str = "") -> str:
    done = run(world.data_dir, *arguments, given=given)
    assert done.exit_code == 0, done.stderr
    return done.stdout


def test_users_vhosts_and_permissions_are_administered(world: BrokerProcess) -> None:
    succeed(world, "vhost", "add", "orders", "--description", "of the shop")
    succeed(world, "user", "add", "ann", "--password", "one", "--tags", "management,monitoring")
    succeed(world, "permission", "set", "ann", "^a", ".*", "", "--vhost", "orders")
    assert re.search(r"orders\s+ann\s+\^a\s+\.\*", succeed(world, "permission", "list"))
    succeed(world, "user", "password", "ann", given="two\ntwo\n")
    succeed(world, "user", "tags", "ann", "monitoring")
    ann = ManagementDoor(world, ("ann", "two")).get("whoami")
    assert ann == {"name": "ann", "tags": ["monitoring"]}
    (row,) = [
        each
        for each in map(json.loads, succeed(world, "list", "vhosts", "--json").splitlines())
        if each["name"] == "orders"
    ]
    assert row["description"] == "of the shop"
    succeed(world, "permission", "clear", "ann", "--vhost", "orders")
    assert "ann" not in succeed(world, "permission", "list")
    succeed(world, "user", "delete", "ann")
    succeed(world, "vhost", "delete", "orders")
    assert "orders" not in succeed(world, "list", "vhosts")


def test_a_program_sends_a_password_as_one_line(world: BrokerProcess) -> None:
    succeed(world, "user", "add", "eve", "--tags", "management", given="secret \u00e9\n")
    assert ManagementDoor(world, ("eve", "secret \u00e9")).ask("GET", "whoami")[0] == 200
    succeed(world, "user", "password", "eve", given="without an end of line")
    assert ManagementDoor(world, ("eve", "without an end of line")).ask("GET", "whoami")[0] == 200
    done = run(world.data_dir, "user", "password", "eve")
    assert (done.exit_code, "no password of eve" in done.stderr) == (2, True)
    succeed(world, "user", "delete", "eve")


def test_everything_is_listed_and_a_connection_closed(world: BrokerProcess) -> None:
    clients = Clients(world.url)
    connection = clients.connect(client_properties={"connection_name": "shop\x1b[31m"})
    channel = connection.channel()
    channel.queue_declare("listed", durable=True)
    channel.queue_bind("listed", "amq.topic", "k.#")
    channel.basic_consume("listed", lambda *_: None, consumer_tag="eater")
    for kind, wanted in (
        ("queues", "listed"),
        ("exchanges", "amq.topic"),
        ("bindings", "k.#"),
        ("consumers", "eater"),
        ("users", "guest"),
        ("vhosts", "/"),
        ("connections", "shop\\x1b"),
    ):
        assert wanted in succeed(world, "list", kind)
        assert all(map(json.loads, succeed(world, "list", kind, "--json").splitlines()))
    for kind in ("queues", "exchanges", "bindings", "consumers", "connections"):
        assert wanted_of(kind) in succeed(world, "list", kind, "--vhost", "/")
    (row,) = map(json.loads, succeed(world, "list", "connections", "--json").splitlines())
    succeed(world, "connection", "close", row["name"])
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker):
        connection.process_data_events(5)


def wanted_of(kind: str) -> str:
    return {"consumers": "eater", "connections": "guest", "bindings": "k.#"}.get(kind, "/")


def test_a_queue_is_purged_and_deleted(world: BrokerProcess) -> None:
    clients = Clients(world.url)
    channel = clients.channel()
    channel.queue_declare("doomed", durable=True)
    channel.confirm_delivery()
    for _ in range(3):
        channel.basic_publish("", "doomed", b"x")
    done = run(world.data_dir, "queue", "delete", "doomed", "--if-empty")
    assert (done.exit_code, "not empty" in done.stderr) == (1, True)
    succeed(world, "queue", "purge", "doomed")
    assert channel.queue_declare("doomed", passive=True).method.message_count == 0
    channel.basic_consume("doomed", lambda *_: None)
    done = run(world.data_dir, "queue", "delete", "doomed", "--if-unused")
    assert (done.exit_code, "in use" in done.stderr) == (1, True)
    succeed(world, "queue", "delete", "doomed")
    assert "doomed" not in succeed(world, "list", "queues")
    clients.close()


def test_a_broker_is_pinged_and_asked_whether_a_password_is_right(
    world: BrokerProcess, tmp_path: Path
) -> None:
    assert succeed(world, "ping") == "the broker answers\n"
    assert succeed(world, "await_startup", "--timeout", "1") == ""
    assert "yes" in succeed(world, "cluster_status")
    succeed(
        world, "add_user", "plain", "secret"
    )  # without a tag: he may not manage, and has logged in
    assert (
        succeed(world, "authenticate_user", "plain", "secret") == "user 'plain' is authenticated\n"
    )
    assert succeed(world, "authenticate_user", "guest", given="guest\n").startswith("user 'guest'")
    for user in ("plain", "nobody"):
        done = run(world.data_dir, "authenticate_user", user, "wrong")
        assert done.exit_code == 1
        assert done.stderr.startswith(f"routelog: user '{user}' is not authenticated: ")
    done = run(tmp_path, "ping")
    assert (done.exit_code, done.stdout) == (2, "")
    done = run(tmp_path, "await_startup", "--timeout", "1")
    assert done.exit_code == 2
    assert "no broker with management runs on this directory" in done.stderr


def test_the_status_says_what_runs(world: BrokerProcess) -> None:
    said = succeed(world, "status")
    assert re.search(rf"process\s+{world.pid}\b", said)
    assert re.search(r"memory used\s+\d+ MiB", said)
    assert re.search(r"disk free\s+[\d,]+ MiB", said)
    assert re.search(r"alarms\s+none", said)
    (overview,) = map(json.loads, succeed(world, "status", "--json").splitlines())
    assert overview["nodes"][0]["running"] is True


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (("user", "add", "guest", "--password", "x"), 1, "user 'guest' already exists"),
        (("vhost", "add", "v", "--default-queue-type", "fast"), 1, "default_queue_type"),
        (
            ("permission", "set", "guest", "(", "", ""),
            1,
            "invalid regular expression for configure",
        ),
        (("policy", "set", "p", "", '{"max-lenght": 1}'), 1, "max-lenght: it is not recognised"),
        (("policy", "set", "p", "", "nonsense"), 2, "no JSON"),
        (("list", "cats"), 2, "queues"),
        (("list", "users", "--vhost", "/"), 2, "in no virtual host"),
        (("list", "queues", "--vhost", "nowhere"), 1, "no vhost 'nowhere'"),
        (("limit", "set", "max-cats", "1", "--vhost", "/"), 1, "max-cats"),
        (("limit", "set", "max-queues", "many", "--vhost", "/"), 2, "as an integer"),
        (("limit", "set", "max-queues", "1"), 2, "either --vhost or --user"),
        (("topic-permission", "set", "guest", "e", "(", ""), 1, "invalid regular expression"),
        (("definitions", "import", "-"), 1, "this is no JSON: line 1, column 2: "),
    ],
)
def test_what_is_wrong_is_said_in_a_line(
    world: BrokerProcess, arguments: tuple[str, ...], code: int, reason: str
) -> None:
    done = run(world.data_dir, *arguments, given="{")
    assert done.exit_code == code, done.stderr
    assert reason in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("command", "missing"),
    [
        ("queue purge q9", "queue 'q9' in vhost '/'"),
        ("queue delete q9", "queue 'q9' in vhost '/'"),
        ("queue browse q9", "queue 'q9' in vhost '/'"),
        ("queue get q9", "queue 'q9' in vhost '/'"),
        ("queue tail q9 -p v9", "vhost 'v9'"),
        ("queue move q9 --all --to-queue q9 --yes", "queue 'q9' in vhost '/'"),
        ("queue redrive q9 --yes", "queue 'q9' in vhost '/'"),
        ("queue move amq.topic --all --to-queue q9 --yes", "queue 'amq.topic' in vhost '/'"),
        ("queue replay there --to-queue q9 --yes", "queue 'q9' in vhost '/'"),
        ("queue replay q9 --to-exchange amq.topic --yes", "queue 'q9' in vhost '/'"),
        ("queue replay there --to-exchange x9 --yes", "exchange 'x9' in vhost '/'"),
        ("queue restore q9 --yes", "queue 'q9' in vhost '/'"),
        ("queue publish q9 body", "queue 'q9' in vhost '/'"),
        ("queue bind q9 amq.topic", "queue 'q9' in vhost '/'"),
        ("queue bind there x9", "exchange 'x9' in vhost '/'"),
        ("queue declare q9 -p v9", "vhost 'v9'"),
        ("exchange declare x9 --type topic -p v9", "vhost 'v9'"),
        ("delayed list x9", "delayed message exchange 'x9' in vhost '/'"),
        ("delayed cancel x9 --all", "delayed message exchange 'x9' in vhost '/'"),
        ("reader list q9", "queue 'q9' in vhost '/'"),
        ("reader move there r9 --to first", "reader 'r9' of queue 'there' in vhost '/'"),
        ("reader delete there r9", "reader 'r9' of queue 'there' in vhost '/'"),
        ("connection close c9", "connection 'c9'"),
        ("user delete u9", "user 'u9'"),
        ("user password u9", "user 'u9'"),
        ("user tags u9 management", "user 'u9'"),
        ("permission set u9 .* .* .*", "user 'u9'"),
        ("permission set guest .* .* .* -p v9", "vhost 'v9'"),
        ("permission clear u9", "user 'u9'"),
        ("permission clear guest -p v9", "vhost 'v9'"),
        ("permission may u9 read amq.topic", "user 'u9'"),
        ("topic-permission set u9 x .* .*", "user 'u9'"),
        ("topic-permission clear u9", "user 'u9'"),
        ("topic-permission clear guest", "topic permission of user 'guest' in vhost '/'"),
        ("vhost delete v9", "vhost 'v9'"),
        ("trace on -p v9", "vhost 'v9'"),
        ("policy clear p9", "policy 'p9' in vhost '/'"),
        ("policy clear p9 --operator", "policy 'p9' in vhost '/'"),
        ("limit set max-queues 1 -p v9", "vhost 'v9'"),
        ("limit clear max-channels --user u9", "user 'u9'"),
        ("definitions export - -p v9", "vhost 'v9'"),
        ("list_user_permissions u9", "user 'u9'"),
        ("list bindings -p v9", "vhost 'v9'"),
        ("list connections -p v9", "vhost 'v9'"),
    ],
)
def test_what_is_missing_is_named_with_its_vhost(
    world: BrokerProcess, command: str, missing: str
) -> None:
    succeed(world, "queue", "declare", "there", "--type", "stream")
    done = run(world.data_dir, *command.split())
    assert (done.exit_code, done.stderr) == (1, f"routelog: no {missing}\n")


def test_without_a_broker_the_commands_say_so(tmp_path: Path) -> None:
    done = run(tmp_path, "list", "queues")
    assert done.exit_code == 2
    assert "no broker with management runs" in done.stderr
    (tmp_path / "management.json").write_text('{"url": "http://127.0.0.1:1", "token": "x"}')
    assert "refused" in run(tmp_path, "list", "queues").stderr
    (tmp_path / "management.json").write_text("nonsense")
    done = run(tmp_path, "list", "queues")
    assert (done.exit_code, "Traceback" in done.stderr) == (2, False)


def test_what_a_killed_broker_has_left_is_told_until_the_next_start(fresh_broker) -> None:
    killed = fresh_broker()
    port = str(ManagementDoor(killed).address.port)
    killed.kill()
    done = run(killed.data_dir, "list", "queues")
    assert (done.exit_code, "its broker" in done.stderr, "was killed" in done.stderr) == (2, 1, 1)
    other = fresh_broker(ROUTELOG_MANAGEMENT_PORT=port)
    done = run(killed.data_dir, "list", "queues")
    assert (done.exit_code, "does not take the token" in done.stderr) == (2, True), done.stderr
    assert "guest" in succeed(other, "list", "users")
    killed.start()
    assert "guest" in succeed(killed, "list", "users")


def test_what_is_no_broker_is_said_to_be_none(tmp_path: Path) -> None:
    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<html>")

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with HTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        url = f"http://ann:x@127.0.0.1:{server.server_port}"
        done = run(tmp_path, "list", "queues", "--url", url)
    assert done.exit_code == 2
    assert "is no broker" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("user", "delete", "\udcff"),
        ("list", "queues", "--vhost", "\udcff"),
        ("user", "tags", "guest", "\udcff"),
        ("delayed", "list", "amq.topic", "--from", "a b\udcff"),
        ("list", "queues", "--url", "http://\udcff:x@127.0.0.1:1"),
    ],
)
def test_arguments_that_are_no_text_are_refused(world: BrokerProcess, arguments) -> None:
    done = run(world.data_dir, *arguments)
    assert done.exit_code in (1, 2), done.exception
    assert "routelog: " in done.stderr


def test_a_start_with_definitions_has_what_they_say_and_no_guest_of_its_own(
    fresh_broker, tmp_path: Path
) -> None:
    document = json.loads(RABBITMQ.read_text())
    document["users"] = [user for user in document["users"] if user["name"] == "sam"]
    document["permissions"] = [
        {"user": "sam", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}
    ]
    document["topic_permissions"] = []
    file = tmp_path / "definitions.json"
    file.write_text(json.dumps(document))
    broker = fresh_broker(ROUTELOG_DEFINITIONS_FILE=str(file))
    for _ in range(2):
        door = ManagementDoor(broker, ("sam", "test12"))
        assert [vhost["name"] for vhost in door.get("vhosts")] == ["/", "orders"]
        assert ManagementDoor(broker).ask("GET", "whoami")[0] == 401
        clients = Clients(broker.url)
        channel = clients.connect(credentials=pika.PlainCredentials("sam", "test12")).channel()
        channel.queue_declare("q1", passive=True)
        clients.close()
        broker.restart()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{", "not JSON"),
        ('{"users": [{"name": "u"}]}', "users[0] 'u'"),
        ('{"queues": [{"name": "q", "vhost": "nowhere"}]}', "queues 'q': vhost nowhere not found"),
        (None, "cannot be read"),
    ],
)
def test_bad_definitions_stop_the_start_with_a_line(
    fresh_broker, tmp_path: Path, content: str | None, reason: str
) -> None:
    file = tmp_path / "definitions.json"
    if content is not None:
        file.write_text(content)
    with pytest.raises(BrokerFailed) as failed:
        fresh_broker(ROUTELOG_DEFINITIONS_FILE=str(file))
    assert reason in str(failed.value)
    assert "Traceback" not in str(failed.value)


def test_the_management_can_be_switched_off_and_its_port_taken(fresh_broker) -> None:
    off = fresh_broker(ROUTELOG_MANAGEMENT="false")
    assert not (off.data_dir / "management.json").exists()
    on = fresh_broker()
    assert on.terminate() == 0
    assert not (on.data_dir / "management.json").exists()
    on.start()
    taken = str(ManagementDoor(on).address.port)
    without = fresh_broker(ROUTELOG_MANAGEMENT_PORT=taken)  # clients come first
    wait_until(lambda: f"no HTTP API: it cannot listen on 127.0.0.1:{taken}" in without.log_text())
    assert not (without.data_dir / "management.json").exists()
