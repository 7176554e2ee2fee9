"""Replaying a log to a group that had read it: by the command and over HTTP."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from support.broker_process import ROOT, BrokerProcess
from support.management_door import ManagementDoor
from support.pika_client import Clients, Inbox, declare, let_stop, send

pytestmark = pytest.mark.differs_from_rabbitmq("has no consumer groups")

ARGUMENTS = {"x-group": "billing", "x-stream-offset": "first"}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path / "data").start()
    yield process
    process.stop()


def move(broker: BrokerProcess, to: str, name: str = "billing") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "routelog", "reader", "move", "audit", name, "--to", to]
    return subprocess.run(
        [*command, "--data-dir", broker.data_dir],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )


def read(broker: BrokerProcess, count: int) -> tuple[list[bytes], list[bool]]:
    """What the group is given next, acknowledged."""
    clients = Clients(broker.url)
    channel = clients.channel()
    channel.basic_qos(prefetch_count=100)
    inbox = Inbox(channel, "audit", arguments=ARGUMENTS).wait_for(count)
    if count:
        channel.basic_ack(inbox.delivery_tags[-1], multiple=True)
    clients.close()
    return inbox.bodies, inbox.redelivered


@pytest.mark.long
def test_a_group_is_moved_and_reads_again(broker: BrokerProcess) -> None:
    clients = Clients(broker.url)
    channel = clients.channel()
    declare(channel, "audit", durable=True, arguments={"x-queue-type": "stream"})
    begun = datetime.now(UTC)
    send(channel, "audit", b"a", b"b", b"c", b"d")
    time.sleep(0.01)
    ended = datetime.now(UTC)
    assert read(broker, 4) == ([b"a", b"b", b"c", b"d"], [False] * 4)
    for to, left in (
        ("first", [b"a", b"b", b"c", b"d"]),
        ("1", [b"b", b"c", b"d"]),
        ("next", []),
        (begun.isoformat(), [b"a", b"b", b"c", b"d"]),
        (ended.isoformat(), []),
        ("1h", [b"a", b"b", b"c", b"d"]),
    ):
        done = move(broker, to)
        assert done.returncode == 0, done.stderr
        let_stop(broker.restart, channel.connection)
        assert read(broker, len(left)) == (left, [False] * len(left)), to
    assert read(broker, 0) == ([], [])


def test_what_cannot_be_moved_is_said(broker: BrokerProcess) -> None:
    clients = Clients(broker.url)
    channel = clients.channel()
    declare(channel, "audit", durable=True, arguments={"x-queue-type": "stream"})
    send(channel, "audit", b"a")
    channel.basic_qos(prefetch_count=10)
    Inbox(channel, "audit", arguments=ARGUMENTS).wait_for(1)
    used = move(broker, "first")
    assert used.returncode == 1
    assert "group 'billing' of queue 'audit' in vhost '/' is used" in " ".join(used.stderr.split())
    clients.close()
    door = ManagementDoor(broker)
    place = ("logs", "/", "audit", "readers", "billing", "position")
    assert door.ask("PUT", *place, body={"to": "yesterday"})[0] == 400
    assert door.ask("PUT", *place, body={"to": []})[0] == 400
    assert door.ask("PUT", *place, body={})[0] == 400
    assert door.ask("PUT", *place[:-2], "nobody", "position", body={"to": 0})[0] == 404
    assert door.ask("PUT", *place, body={"to": "9" * 5_000})[0] == 400
    assert move(broker, "first", "nobody").returncode == 1
    assert door.ask("PUT", *place, body={"to": 0})[0] == 204
