"""Three whole brokers and their etcd whose connections with each other are all TLS, and a standby's."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
import trustme
from cluster.brokers.mirrored_brokers import NODES, MirroredBrokers
from cluster.brokers.test_brokers import api, client, drained, others, publish
from cluster.brokers.test_standby_process import SECRET, FollowProcess, command, until_followed
from support.broker_process import BrokerProcess
from support.node_certificates import node_environment, node_files
from support.ports import free_port
from support.waiting import WAIT_SECONDS


def until(is_so: Callable[[], bool], told: Callable[[], str]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, told()
        time.sleep(0.1)


@pytest.mark.long
def test_clients_of_all_nodes_go_on_when_the_leader_is_killed(tmp_path: Path) -> None:
    authority = trustme.CA()
    files = {name: node_files(authority, tmp_path / "tls" / name, "localhost") for name in NODES}
    own = {name: node_environment(each) for name, each in files.items()}
    cluster = MirroredBrokers(tmp_path, own=own, host="localhost")
    try:
        cluster.start()
        cluster.until_led(in_sync=3)
        for name in NODES:
            publish(cluster.brokers[name], f"through {name}")
        leader = cluster.leader()
        follower, last = others(cluster, leader)
        status, told = api(leader, "health/checks/certificate-expiration/1000/years")
        assert (status, told["expired"][0]["protocol"]) == (503, "clustering")
        assert len({each["certfile"] for each in told["expired"]}) == len(NODES)
        stays = client(follower)
        leader.kill()
        publish(follower, "behind it")
        stays.channel().queue_declare("q", durable=True)
        stays.close()

        # It comes back with a certificate that nobody else accepts.
        name = next(name for name, each in cluster.brokers.items() if each is leader)
        node_files(trustme.CA(), tmp_path / "tls" / name, "localhost")
        leader.start()
        until(lambda: "its certificate is not accepted" in leader.log_text(), leader.log_text)
        publish(last, "without it")

        # It is renewed: both the node and its etcd take it.
        leader.kill()
        node_files(authority, tmp_path / "tls" / name, "localhost")
        leader.start()
        cluster.until_led(in_sync=3)
        assert drained(leader) == [
            *(f"through {name}" for name in NODES),
            "behind it",
            "without it",
        ]
        told, code = cluster.ask("verify")
        assert code == 0, told
        assert "WARNING asyncio" not in cluster.log_text(), cluster.log_text()
    finally:
        cluster.stop()


@pytest.mark.long
def test_certificates_of_the_operators_own_are_switched_on_later(tmp_path: Path) -> None:
    authority = trustme.CA()
    plain = MirroredBrokers(tmp_path)
    try:
        plain.start()
        plain.until_led(in_sync=3)
        publish(plain.brokers["a"], "before")
        leader = plain.leader()
        for broker in (*others(plain, leader), leader):
            broker.terminate()
    finally:
        plain.stop()
    own = dict.fromkeys(NODES, node_environment(node_files(authority, tmp_path / "tls")))
    cluster = MirroredBrokers(tmp_path, own=own, ports=plain.ports)
    try:
        cluster.start()
        cluster.until_led(in_sync=3)
        leader = cluster.leader()
        leader.kill()
        publish(others(cluster, leader)[0], "behind it")
        assert drained(cluster.leader()) == ["before", "behind it"]
    finally:
        cluster.stop()


@pytest.mark.long
def test_a_standby_follows_over_tls(tmp_path: Path) -> None:
    authority, port = trustme.CA(), free_port()
    own = node_environment(node_files(authority, tmp_path / "tls" / "a"))
    theirs = node_environment(node_files(authority, tmp_path / "tls" / "b", "standby.test"))
    leading = {"ROUTELOG_STANDBY_LISTEN": f"127.0.0.1:{port}", "ROUTELOG_CLUSTER_SECRET": SECRET}
    broker = BrokerProcess(tmp_path / "a", leading | own)
    promoted = BrokerProcess(tmp_path / "b")
    plain = FollowProcess(port, tmp_path / "plain", tmp_path / "plain.log")
    follow = FollowProcess(port, tmp_path / "b", tmp_path / "follow.log", **theirs)
    try:
        broker.start()
        publish(broker, "first", "second")
        until_followed(broker, 0)
        until(
            lambda: (
                "it does not speak TLS: all nodes have a cluster_tls_certificate"
                in broker.log_text()
            ),
            broker.log_text,
        )
        assert "if it does not accept" not in plain.log.read_text()
        broker.kill()
        follow.end()
        done = command("promote", "--data-dir", str(tmp_path / "b"))
        assert done.returncode == 0, done.stderr
        promoted.start()
        assert drained(promoted) == ["first", "second"]
    finally:
        for each in (broker, plain, follow, promoted):
            each.stop()
