"""When the log can no longer be written, whoever asks how the node is hears of it."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest
from pika.exceptions import NackError
from support.broker_process import COMMAND_VARIABLE, BrokerProcess
from support.management_door import ManagementDoor
from support.pika_client import PERSISTENT, Clients, drain
from support.waiting import wait_until
from typer.testing import CliRunner, Result

from routelog.__main__ import command_line

pytestmark = pytest.mark.differs_from_rabbitmq("its disk cannot be made to fail from here")

PROGRAM = Path(__file__).with_name("faulty_disk_broker.py")
CHECKS = (
    "health/checks/alarms",
    "health/checks/local-alarms",
    "health/checks/virtual-hosts",
    "health/checks/ready-to-serve-clients",
    "health/checks/node-is-quorum-critical",
    "health/checks/node-is-mirror-sync-critical",
    "health/checks/certificate-expiration/1/weeks",
    "health/checks/protocol-listener/amqp",
    "healthchecks/node",
)


def status(broker: BrokerProcess) -> Result:
    return CliRunner().invoke(command_line, ["status", "--data-dir", str(broker.data_dir)])


def test_every_health_check_the_status_and_the_alarms_say_that_the_log_has_failed(
    tmp_path, monkeypatch, fresh_broker
):
    faults = tmp_path / "faults"
    faults.mkdir()
    monkeypatch.setenv("ROUTELOG_TEST_FAULTS", str(faults))
    monkeypatch.setenv(COMMAND_VARIABLE, shlex.join([sys.executable, str(PROGRAM)]))
    broker = fresh_broker()
    door = ManagementDoor(broker)
    for check in CHECKS:
        assert door.get(*check.split("/"))["status"] == "ok"
    clients = Clients(broker.url)
    channel = clients.channel()
    channel.queue_declare("q", durable=True)
    channel.queue_declare("alarms")
    channel.queue_bind("alarms", "amq.rabbitmq.event", "alarm.set")
    channel.confirm_delivery()
    (faults / "fail").touch()
    with pytest.raises(NackError):
        channel.basic_publish("", "q", b"lost", PERSISTENT)
    for check in CHECKS:
        code, answer = door.ask("GET", *check.split("/"))
        assert (code, answer["status"]) == (503, "failed"), check
        assert "the log cannot be written" in answer["reason"]
        assert [alarm["resource"] for alarm in answer["alarms"]] == ["log"]
    (node,) = door.get("nodes")
    assert node["log_alarm"] is True
    said = status(broker)
    assert said.exit_code == 1
    assert "log: it cannot be written" in said.stdout
    assert "the log cannot be written" in said.stderr
    wait_until(lambda: drain(channel, "alarms") == [b""], channel.connection)
    broker.kill()
