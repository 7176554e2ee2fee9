"""The commands for messages in queues, and one-shot shovels, with a broker process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from typing import Any

import pytest
from pika import BasicProperties
from support.broker_process import ROOT, BrokerProcess
from support.management_door import ManagementDoor
from support.pika_client import Clients
from support.waiting import wait_until
from typer.testing import CliRunner

from routelog.__main__ import command_line

pytestmark = pytest.mark.differs_from_rabbitmq("needs its data directory")


def run(world: BrokerProcess, *arguments: str, given: str = "") -> Any:
    environment = {"ROUTELOG_DATA_DIR": str(world.data_dir)}
    return CliRunner().invoke(command_line, arguments, input=given, env=environment)


def succeed(world: BrokerProcess, *arguments: str, given: str = "") -> str:
    done = run(world, *arguments, given=given)
    assert done.exit_code == 0, done.stderr
    return str(done.stdout)


def test_a_night_of_an_operator(world: BrokerProcess) -> None:
    succeed(world, "exchange", "declare", "x", "--type", "topic")
    succeed(world, "queue", "declare", "orders", "--argument", "x-retention=1D")
    succeed(world, "queue", "declare", "parked", "--type", "quorum")
    succeed(world, "queue", "bind", "parked", "x", "--key", "orders.#")
    for number in range(5):
        given = ("--header", f"n={number}", f"body {number}")
        assert "1 message" in succeed(world, "queue", "publish", "orders", *given)
    succeed(world, "queue", "publish", "orders", given="from stdin")
    assert run(world, "queue", "publish", "missing", "x").exit_code == 1

    rows = [json.loads(line) for line in _browse(world, "orders", "--json").splitlines()]
    assert [row["payload"] for row in rows] == [*(f"body {n}" for n in range(5)), "from stdin"]
    assert rows[3]["properties"]["headers"] == {"n": 3}
    assert "body 4" in _browse(world, "orders", "--header", "n=4")
    assert "body 1" not in _browse(world, "orders", "--from", "4")
    assert _browse(world, "orders", "--from", "-2", "--json").count("\n") == 2
    assert _browse(world, "orders", "--count", "2", "--json").count("\n") == 2
    assert "body 0" in _browse(world, "orders", "--from", "1h")

    header = ("--header", "n=3")
    dry = succeed(world, "queue", "move", "orders", *header, "--to-queue", "parked", "--dry-run")
    assert dry == "1 message would be moved\n"
    assert succeed(world, "queue", "move", "orders", *header, "--to-queue", "parked") == (
        "1 message moved\n"
    )
    to_x = ("--to-exchange", "x", "--routing-key", "orders.eu")
    copied = succeed(world, "queue", "move", "orders", "--message", "0:0", "--copy", *to_x)
    assert copied == "1 message copied\n"
    assert succeed(world, "queue", "move", "orders", "--text", "stdin", "--delete", "--json") == (
        '{"count":1,"skipped":{},"stopped":null,"dry_run":false}\n'
    )
    taken = succeed(world, "queue", "get", "parked", "--count", "9", "--ack", "--json")
    assert [json.loads(line)["payload"] for line in taken.splitlines()] == ["body 3", "body 0"]
    replayed = succeed(
        world, "queue", "replay", "orders", "--from", "0:1-4", "--to-queue", "parked"
    )
    assert replayed == "3 messages published again\n"
    succeed(world, "queue", "purge", "orders")
    assert succeed(world, "queue", "restore", "orders") == "4 messages put back\n"
    assert "1 not a dead letter" in _limited_redrive(world)
    full = ("--argument", "x-max-length=1", "--argument", "x-overflow=reject-publish")
    succeed(world, "queue", "declare", "full", *full)
    refused = run(world, "queue", "move", "parked", "--all", "--to-queue", "full")
    assert (refused.exit_code, refused.stdout) == (1, "0 messages moved\n")
    assert "ended early" in refused.stderr
    for wrong in (
        ("move", "orders", "--to-queue", "parked"),
        ("move", "orders", "--all"),
        ("move", "orders", "--all", "--copy", "--delete"),
        ("publish", "orders", "--header", "x"),
    ):
        assert run(world, "queue", *wrong).exit_code == 2, wrong


def test_a_message_is_found_by_its_identifiers(world: BrokerProcess) -> None:
    clients = Clients(world.url)
    channel = clients.channel()
    channel.queue_declare("known", durable=True)
    channel.confirm_delivery()
    for number in range(3):
        properties = BasicProperties(message_id=f"m-{number}", correlation_id=f"c-{number % 2}")
        channel.basic_publish("", "known", b"body %d" % number, properties)
    clients.close()

    def bodies(*options: str) -> list[str]:
        shown = _browse(world, "known", "--json", *options)
        return [json.loads(line)["payload"] for line in shown.splitlines()]

    assert bodies("--id", "m-1") == ["body 1"]
    assert bodies("--correlation-id", "c-0") == ["body 0", "body 2"]
    assert bodies("--id", "m-1", "--correlation-id", "c-0") == []
    deleting = ("queue", "move", "known", "--correlation-id", "c-0", "--delete")
    assert succeed(world, *deleting) == "2 messages deleted\n"
    assert bodies() == ["body 1"]


def _browse(world: BrokerProcess, queue: str, *options: str) -> str:
    return succeed(world, "queue", "browse", queue, *options)


def _limited_redrive(world: BrokerProcess) -> str:
    return succeed(world, "queue", "redrive", "orders", "--text", "body 1")


def test_a_tail_shows_what_comes(world: BrokerProcess) -> None:
    succeed(world, "queue", "declare", "tailed", "--type", "stream")
    shown: list[str] = []
    command = [sys.executable, "-m", "routelog", "queue", "tail", "tailed"]
    program = subprocess.Popen(
        [*command, "--data-dir", str(world.data_dir)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert program.stdout is not None
    lines = program.stdout
    reader = threading.Thread(target=lambda: shown.extend(lines), daemon=True)
    reader.start()
    wait_until(lambda: succeed(world, "queue", "publish", "tailed", "hello") and shown)
    program.terminate()
    program.wait()
    assert shown[0].endswith("tailed  hello\n")


def test_a_one_shot_shovel_moves_and_is_gone(world: BrokerProcess) -> None:
    door, clients = ManagementDoor(world), Clients(world.url)
    channel = clients.channel()
    channel.queue_declare("src", durable=True)
    channel.queue_declare("dest", durable=True)
    for number in range(50):
        channel.basic_publish("", "src", b"%d" % number)
    wait_until(lambda: door.get("queues", "/", "src")["messages_ready"] == 50)
    # As RabbitMQ's own page sends it.
    value = {
        "src-uri": "amqp:///%2F",
        "src-queue": "src",
        "src-protocol": "amqp091",
        "src-prefetch-count": 1000,
        "src-delete-after": "queue-length",
        "dest-protocol": "amqp091",
        "dest-uri": "amqp:///%2F",
        "dest-add-forward-headers": False,
        "ack-mode": "on-confirm",
        "dest-queue": "dest",
    }
    path = ("parameters", "shovel", "/", "Move from src")
    body = {"component": "shovel", "vhost": "/", "name": "Move from src", "value": value}
    assert door.ask("PUT", *path, body=body)[0] == 201
    assert [door.get("queues", "/", name)["messages"] for name in ("src", "dest")] == [0, 50]
    assert door.get("parameters", "shovel") == []
    for changed, reason in (
        ({"src-delete-after": "never"}, "src-delete-after"),
        ({"dest-uri": "amqp://elsewhere"}, "dest-uri"),
        ({"dest-uri": "amqp://["}, "dest-uri"),
        ({"src-uri": "amqp:///other"}, "vhost 'other'"),
        ({"src-protocol": "amqp10"}, "src-protocol"),
        ({"dest-exchange": "x"}, "dest-exchange"),
        ({"dest-queue": 1}, "dest-queue"),
        ({"dest-queue": "missing"}, "no queue 'missing'"),
    ):
        status, answer = door.ask("PUT", *path, body={"value": {**value, **changed}})
        assert (status, reason in answer["reason"]) == (400, True), answer
    assert door.ask("PUT", *path, body={"value": {**value, "src-queue": "missing"}})[0] == 404
    clients.close()
