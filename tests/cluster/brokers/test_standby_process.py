"""A real broker under confirmed load, its standby, and what is left when the broker is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pika
import pytest
from support.broker_process import ROOT, TEST_LIMITS, BrokerProcess
from support.pika_client import PERSISTENT
from support.ports import free_port
from support.waiting import WAIT_SECONDS

SECRET = "a secret of this test"


def environment(**more: str) -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]))
    return {
        **os.environ,
        **TEST_LIMITS,
        "PYTHONPATH": path,
        "ROUTELOG_CLUSTER_SECRET": SECRET,
        **more,
    }


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    """One command of the program."""
    return subprocess.run(
        [sys.executable, "-m", "routelog", *arguments],
        env=environment(),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )


class FollowProcess:
    """`routelog follow`."""

    def __init__(self, port: int, data: Path, log: Path, **more: str) -> None:
        arguments = ("follow", f"127.0.0.1:{port}", "--data-dir", str(data))
        self.log = log
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "routelog", *arguments],
                env=environment(**more),
                cwd=ROOT,
                stdout=output,
                stderr=output,
            )

    def end(self) -> None:
        """SIGTERM; it ends at once."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(60) == 0

    def stop(self) -> None:
        """At the end of a test, whatever happened in it."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Load:
    """A client that publishes one confirmed message after the other, and one that acks half of them."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.confirmed: list[int] = []
        self._broker = broker
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join(WAIT_SECONDS)

    def _run(self) -> None:
        try:
            connection = pika.BlockingConnection(pika.URLParameters(self._broker.url))
            channel = connection.channel()
            channel.confirm_delivery()
            channel.queue_declare("q", durable=True)
            number = 0
            while not self._ended.is_set():
                channel.basic_publish("", "q", b"%d" % number, PERSISTENT)
                self.confirmed.append(number)
                number += 1
        except pika.exceptions.AMQPError:
            return  # it was killed


def lag(broker: BrokerProcess) -> dict[str, Any] | None:
    """What `routelog status` tells of the only standby."""
    done = command("status", "--json", "--data-dir", str(broker.data_dir))
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["nodes"][0]["standbys"]
    return rows[0] if rows else None


def until_followed(broker: BrokerProcess, bytes_max: int) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        told = lag(broker)
        if told is not None and told["is_connected"] and told["bytes"] <= bytes_max:
            return
        assert time.monotonic() < deadline, told
        time.sleep(0.1)


def until_followed_behind(broker: BrokerProcess, moment: float) -> None:
    """Wait until the only standby has what the node had at a moment, acks included: these it syncs in a second.

    The node looks at what is committed once a second, so the lag that it tells may be so much too small.
    """
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        asked = time.monotonic()
        told = lag(broker)
        if told is not None and told["is_connected"] and asked - told["seconds"] > moment + 2.0:
            return
        assert time.monotonic() < deadline, told


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def broker(tmp_path: Path, port: int) -> BrokerProcess:
    leading = {"ROUTELOG_STANDBY_LISTEN": f"127.0.0.1:{port}", "ROUTELOG_CLUSTER_SECRET": SECRET}
    return BrokerProcess(tmp_path / "a", leading)


def test_a_promoted_standby_has_what_was_confirmed(
    tmp_path: Path, broker: BrokerProcess, port: int
) -> None:
    broker.start()
    follow = FollowProcess(port, tmp_path / "b", tmp_path / "follow.log")
    promoted = BrokerProcess(tmp_path / "b")
    try:
        with Load(broker) as load:
            until_followed(broker, 1 << 30)
            client = pika.BlockingConnection(pika.URLParameters(broker.url))
            channel = client.channel()
            acked = []
            for _ in range(20):
                method, _, body = channel.basic_get("q")
                channel.basic_ack(method.delivery_tag)
                acked.append(int(body))
            before = len(load.confirmed)
            until_followed_behind(broker, time.monotonic())
            broker.kill()
        refused = command("promote", "--data-dir", str(tmp_path / "b"))
        assert refused.returncode == 1
        assert "stop 'routelog follow' first" in refused.stderr
        follow.end()
        refused = command("serve", "--data-dir", str(tmp_path / "b"), "--port", "0")
        assert refused.returncode == 1
        assert "'routelog promote' it first" in refused.stderr
        done = command("promote", "--data-dir", str(tmp_path / "b"))
        assert done.returncode == 0, done.stderr
        assert "must not come back" in done.stdout
        promoted.start()
        left = drained(promoted)
        assert left == sorted(set(left)), "each is there once, in order"
        assert not set(acked) & set(left)
        lost = set(load.confirmed[:before]) - set(acked) - set(left)
        assert not lost
        assert promoted.terminate() == 0
    finally:
        for each in (broker, follow, promoted):
            each.stop()


def test_a_node_that_was_stopped_does_not_need_its_standby_to_begin_again(
    tmp_path: Path, broker: BrokerProcess, port: int
) -> None:
    broker.start()
    follow = FollowProcess(port, tmp_path / "b", tmp_path / "follow.log")
    try:
        until_followed(broker, 0)
        follow.end()
        client = pika.BlockingConnection(pika.URLParameters(broker.url))
        channel = client.channel()
        channel.confirm_delivery()
        channel.queue_declare("q", durable=True)
        channel.basic_publish("", "q", b"the standby lacks it", PERSISTENT)
        client.close()
        assert broker.terminate() == 0
        broker.start()
        follow = FollowProcess(port, tmp_path / "b", tmp_path / "follow.log")
        until_followed(broker, 0)
        assert "takes the place" not in follow.log.read_text()
        follow.end()
    finally:
        for each in (broker, follow):
            each.stop()


def drained(broker: BrokerProcess) -> list[int]:
    """What is in `q`, taken from it; the queue lives."""
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    channel = connection.channel()
    bodies = []
    for _, _, body in channel.consume("q", auto_ack=True, inactivity_timeout=2):
        if body is None:
            break
        bodies.append(int(body))
    channel.confirm_delivery()
    channel.basic_publish("", "q", b"one more", PERSISTENT)
    connection.close()
    return bodies


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (["standby_listen=nowhere"], "standby_listen: nowhere: expected HOST:PORT"),
        (
            [
                "standby_listen=a:1",
                "cluster_nodes=routelog@a=a:1",
                "node_name=routelog@a",
                "cluster_etcd=http://a:2379",
                "cluster_min_in_sync=1",
            ],
            "standby_listen: not together with cluster_nodes",
        ),
        (["standby_listen=a:1", "cluster_secret=short"], "cluster_secret: expected 16 bytes"),
    ],
)
def test_keys_that_do_not_go_together_are_told(
    tmp_path: Path, settings: list[str], told: str
) -> None:
    options = [part for each in settings for part in ("--set", each)]
    done = command("serve", "--data-dir", str(tmp_path), *options)
    assert done.returncode == 2
    assert told in done.stderr
