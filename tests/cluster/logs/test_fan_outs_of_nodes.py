"""A message that goes to many queues, at nodes that have copies: in each queue, and once in each journal."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from cluster.brokers.mirrored_brokers import mirrored_brokers
from cluster.brokers.test_brokers import client
from cluster.brokers.test_standby_process import (
    SECRET,
    FollowProcess,
    command,
    until_followed_behind,
)
from support.broker_process import BrokerProcess
from support.pika_client import PERSISTENT, drain
from support.ports import free_port
from support.waiting import wait_until

QUEUES = [f"q{number}" for number in range(20)]
BODIES = [b"message %03d " % number + b"x" * 20_000 for number in range(10)]


def publish(broker: BrokerProcess) -> None:
    """Publish to all queues, each message confirmed."""
    connection = client(broker)
    channel = connection.channel()
    channel.confirm_delivery()
    channel.exchange_declare("all", "fanout", durable=True)
    for queue in QUEUES:
        channel.queue_declare(queue, durable=True)
        channel.queue_bind(queue, "all")
    for body in BODIES:
        channel.basic_publish("all", "", body, PERSISTENT)
    connection.close()


def check(broker: BrokerProcess) -> None:
    """Each queue has all messages, in order."""
    connection = client(broker)
    channel = connection.channel()
    assert [drain(channel, queue) for queue in QUEUES] == [BODIES] * len(QUEUES)
    connection.close()


def written(broker: BrokerProcess) -> list[int]:
    """How often each body is in a node's journal."""
    content = b"".join(path.read_bytes() for path in broker.data_dir.glob("journal/*.journal"))
    return [content.count(body) for body in BODIES]


def test_nodes_write_a_message_once_and_have_it_in_each_queue(tmp_path: Path) -> None:
    with mirrored_brokers(tmp_path) as cluster:
        cluster.until_led(in_sync=3)
        leader = cluster.leader()
        publish(leader)
        for broker in cluster.brokers.values():
            wait_until(lambda: written(broker) == [1] * len(BODIES))  # noqa: B023
        told, code = cluster.ask("verify")
        assert (told["equal"], told["complete"], code) == (True, True, 0), told
        leader.kill()
        cluster.until_led(in_sync=2)
        check(cluster.leader())


@pytest.mark.long
def test_a_promoted_standby_and_a_restored_backup_have_it_in_each_queue(tmp_path: Path) -> None:
    port = free_port()
    node = BrokerProcess(
        tmp_path / "a",
        {"ROUTELOG_CLUSTER_SECRET": SECRET, "ROUTELOG_STANDBY_LISTEN": f"127.0.0.1:{port}"},
    )
    promoted, restored = (BrokerProcess(tmp_path / name) for name in "bc")
    node.start()
    follow = FollowProcess(port, promoted.data_dir, tmp_path / "follow.log")
    try:
        publish(node)
        until_followed_behind(node, time.monotonic())
        done = command("backup", str(tmp_path / "backup"), "--data-dir", str(node.data_dir))
        assert done.returncode == 0, done.stderr
        node.kill()
        follow.end()
        assert written(promoted) == [1] * len(BODIES)
        done = command("promote", "--data-dir", str(promoted.data_dir))
        assert done.returncode == 0, done.stderr
        done = command("restore", str(tmp_path / "backup"), str(restored.data_dir))
        assert done.returncode == 0, done.stderr
        for broker in (promoted, restored):
            check(broker.start())
    finally:
        for each in (node, follow, promoted, restored):
            each.stop()
