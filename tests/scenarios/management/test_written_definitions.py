"""Definitions that people write by hand come in by every door: HTTP, a form, the command, and at the start."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pika
import pytest
from support.broker_process import ROOT, BrokerFailed, BrokerProcess
from support.management_door import ManagementDoor

pytestmark = pytest.mark.differs_from_rabbitmq("needs its data directory")

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def written(user: str) -> bytes:
    """A document of an editor that writes a mark first, with a password as it is and a name of the broker's."""
    document = {
        "users": [
            {"name": user, "password": "secret", "tags": "management"},
            {"name": f"{user}-nobody", "tags": ""},
            {"name": f"{user}-odd", "password_hash": "abcd", "tags": ""},
        ],
        "vhosts": [{"name": "/"}],
        "permissions": [{"user": user, "vhost": "/", "configure": "", "write": ".*", "read": ".*"}],
        "queues": [{"name": "amq.gen-x", "vhost": "/", "durable": True}],
    }
    return BYTE_ORDER_MARK + json.dumps(document).encode()


def logs_in(broker: BrokerProcess, user: str) -> bool:
    url = broker.url.replace("guest:guest", f"{user}:secret")
    try:
        with closing(pika.BlockingConnection(pika.URLParameters(url))):
            return True
    except pika.exceptions.ProbableAuthenticationError:
        return False


def import_by_command(broker: BrokerProcess, file: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "routelog", "definitions", "import", str(file)]
    command += ["--data-dir", str(broker.data_dir)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def in_form(document: bytes) -> tuple[bytes, str]:
    head = b'--b\r\nContent-Disposition: form-data; name="file"; filename="d.json"\r\n\r\n'
    return head + document + b"\r\n--b--\r\n", "multipart/form-data; boundary=b"


def test_they_come_in_over_http_in_a_form_and_by_command(world, tmp_path):
    door = ManagementDoor(world)
    assert door.raw("POST", "/definitions", written("plain"))[0] == 204
    body, kind = in_form(written("form"))
    assert door.raw("POST", "/definitions", body, **{"Content-Type": kind})[0] == 204
    file = tmp_path / "definitions.json"
    file.write_bytes(written("command"))
    done = import_by_command(world, file)
    assert (done.returncode, done.stderr) == (0, "")
    for user in ("plain", "form", "command"):
        assert logs_in(world, user)
        assert not logs_in(world, f"{user}-nobody")
        assert not logs_in(world, f"{user}-odd")
        assert f"user '{user}-odd' cannot log in: the password hash has 3 bytes" in world.log_text()
    assert "amq.gen-x" not in {each["name"] for each in door.get("queues")}
    assert "names that begin with amq. are the broker's" in world.log_text()


def test_what_is_no_json_is_said_by_its_line(world, tmp_path):
    file = tmp_path / "definitions.json"
    file.write_bytes(b'{"users": [\n  {"name": "x",}\n]}')
    where = "line 2, column 16: trailing comma in object"
    status, _, answer = ManagementDoor(world).raw("POST", "/definitions", file.read_bytes())
    assert (status, json.loads(answer)["reason"]) == (400, f"not_json: {where}")
    done = import_by_command(world, file)
    assert done.returncode == 1
    assert where in done.stderr


def test_a_start_with_them_lets_users_in_and_a_bad_one_says_all_that_is_wrong(tmp_path):
    file = tmp_path / "definitions.json"
    broker = BrokerProcess(tmp_path / "data", {"ROUTELOG_DEFINITIONS_FILE": str(file)})
    try:
        file.write_bytes(b'{"queues": [}')
        with pytest.raises(BrokerFailed, match="not JSON: line 1, column 13: "):
            broker.start()
        queue = {"name": "q", "vhost": "/", "arguments": {"x-max-length": -1}}
        users = [{"name": "u", "password": "a", "password_hash": "b", "tags": ""}]
        file.write_text(json.dumps({"users": users, "queues": [queue, {**queue, "vhost": "v"}]}))
        with pytest.raises(BrokerFailed) as failed:
            broker.start()
        for place in ("users[0] 'u': both_password", "queues[0] 'q': ", "queues[1] 'q': "):
            assert f"routelog: definitions {file}: {place}" in str(failed.value)
        file.write_bytes(written("start"))
        broker.start()
        assert logs_in(broker, "start")
    finally:
        broker.stop()
