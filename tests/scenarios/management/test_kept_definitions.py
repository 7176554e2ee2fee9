"""Definitions of a RabbitMQ with shovels and federation come in: by HTTP, by command, and at the start."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.broker_process import ROOT, BrokerFailed, BrokerProcess
from support.management_door import ManagementDoor

pytestmark = pytest.mark.differs_from_rabbitmq("it knows them")

RABBITMQ = ROOT / "tests" / "golden" / "rabbitmq-4.1-definitions.json"
SECRET = "tr0ub4dor"  # in the addresses of shovels there


def import_by_command(broker: BrokerProcess, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "routelog", "definitions", "import", str(RABBITMQ)]
    command += ["--data-dir", str(broker.data_dir), *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def events(broker: BrokerProcess, event: str) -> list[dict[str, Any]]:
    lines = [line for line in broker.log_text().splitlines() if line.startswith("{")]
    return [each for each in map(json.loads, lines) if each.get("event") == event]


def test_by_http_what_has_no_effect_is_listed_and_can_be_forgotten(fresh_broker) -> None:
    broker = fresh_broker(ROUTELOG_LOG_FORMAT="json")
    door = ManagementDoor(broker)
    document = RABBITMQ.read_bytes()
    status, _, answer = door.raw("POST", "/definitions", document)
    assert status == 400
    assert "?unknown=keep" in json.loads(answer)["reason"]
    assert door.ask("POST", "definitions", body={}, query="unknown=what")[0] == 400
    assert [each["name"] for each in door.get("users")] == ["guest"]
    status, _, answer = door.raw("POST", "/definitions?unknown=keep", document)
    assert status == 200
    kept = json.loads(answer)["kept_without_effect"]
    assert len(kept) == 9
    (imported,) = events(broker, "definitions.imported")
    assert (imported["by"], imported["queues"], imported["kept"]) == ("guest", 3, 6)
    assert [each["entry"] for each in events(broker, "definitions.kept")] == kept
    assert not events(broker, "queue.created")  # told as a whole
    assert SECRET not in broker.log_text()
    named = {(each["component"], each["name"]) for each in door.get("parameters")}
    assert ("shovel", "move-orders") in named
    (shovel,) = door.get("parameters", "shovel", "/")
    assert door.get("parameters", "shovel", "/", "move-orders") == shovel
    assert door.get("parameters", "shovel") == [shovel]
    exported = door.get("definitions")
    door.do("DELETE", "parameters", "shovel", "/", "move-orders")
    assert door.ask("GET", "parameters", "shovel", "/", "move-orders")[0] == 404
    assert door.ask("DELETE", "parameters", "shovel", "/", "move-orders")[0] == 404
    assert shovel in exported["parameters"]
    assert shovel not in door.get("definitions")["parameters"]
    federation = "federation: orders -> rabbit@edge B"
    door.do("DELETE", "exchanges", "/", federation)
    assert door.ask("DELETE", "exchanges", "/", federation)[0] == 404
    assert door.raw("POST", "/definitions", b"{}")[0] == 204


def test_by_command(fresh_broker) -> None:
    broker = fresh_broker()
    refused = import_by_command(broker)
    assert refused.returncode == 1
    assert "--keep-unknown" in refused.stderr
    kept = import_by_command(broker, "--keep-unknown")
    assert (kept.returncode, kept.stderr) == (0, "")
    lines = kept.stdout.splitlines()
    assert len(lines) == 9
    assert lines[0] == (
        "kept without effect: parameters[0] 'move-orders': component shovel: there is no such component"
    )
    assert SECRET not in kept.stdout + broker.log_text()


def test_at_the_start(tmp_path: Path) -> None:
    given = {"ROUTELOG_DEFINITIONS_FILE": str(RABBITMQ)}
    broker = BrokerProcess(tmp_path / "strict", given)
    with pytest.raises(BrokerFailed, match='definitions_unknown = "keep"'):
        broker.start()
    broker = BrokerProcess(tmp_path / "kept", {**given, "ROUTELOG_DEFINITIONS_UNKNOWN": "keep"})
    try:
        for _ in range(2):  # the first start imports it
            broker.start()
            assert broker.terminate() == 0
    finally:
        broker.stop()
    said = broker.log_text()
    assert said.count("definitions imported: users=1 vhosts=1 ") == 1
    assert said.count("definitions kept without effect: ") == 9
    assert SECRET not in said
