"""Strangers at the ports of nodes and of their etcd: without the cluster's secret they do no harm."""

from __future__ import annotations

import asyncio
import os
import shlex
import socket
import ssl
import stat
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, aclosing, asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from cluster.brokers.mirrored_brokers import NODES, MirroredBrokers, mirrored_brokers
from cluster.brokers.test_brokers import client, drained, others, publish
from support.broker_process import COMMAND_VARIABLE
from support.pika_client import PERSISTENT

from routelog.mirror_cluster.coordination.coordinator import CoordinatorUnavailable
from routelog.mirror_cluster.coordination.etcd_gateway import EtcdEndpoints, EtcdGateway, encoded

ALL = {"key": encoded(b"\0"), "range_end": encoded(b"\0")}
WRONG = {"ROUTELOG_CLUSTER_SECRET": "another secret of 16 bytes"}


def ways_in(port: int) -> list[str]:
    """URLs of etcd's client and peer ports, with and without TLS, of the node at a port."""
    steps = (1, 2)
    return [f"{scheme}://127.0.0.1:{port + each}" for scheme in ("http", "https") for each in steps]


@asynccontextmanager
async def without_a_certificate() -> AsyncIterator[aiohttp.ClientSession]:
    """Somebody who takes any certificate, and has none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connector = aiohttp.TCPConnector(ssl=context)
    timeout = aiohttp.ClientTimeout(total=10)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as http:
        yield http


async def answered(http: aiohttp.ClientSession, url: str, body: Mapping[str, object]) -> str:
    """What a request is answered; empty: there was none."""
    try:
        async with http.post(url, json=body) as answer:
            return f"{url}: {answer.status} {await answer.text()}"
    except (aiohttp.ClientError, OSError):
        return ""


def port_of(cluster: MirroredBrokers, name: str) -> int:
    return int(cluster.addresses[f"{name}@test"].rpartition(":")[2])


async def strangers_hear(cluster: MirroredBrokers) -> list[str]:
    """All answers to requests that read, or would do harm."""
    requests = {
        "v3/kv/range": ALL,
        "v3/cluster/member/list": {},
        "v3/auth/status": {},
        "v3/kv/deleterange": ALL,
    }
    heard = []
    async with without_a_certificate() as http:
        for name in NODES:
            for url in ways_in(port_of(cluster, name)):
                for path, body in requests.items():
                    heard.append(await answered(http, f"{url}/{path}", body))
                heard.append(await answered(http, f"{url}/members", {}))
    # etcd tells who speaks without TLS that it wants that.
    return [each for each in heard if each and ": 400 Client sent an HTTP request to" not in each]


async def told_to_who_has_another_secret(cluster: MirroredBrokers) -> list[str]:
    told = []
    options = cluster.options(WRONG)
    for url in options.etcd:
        async with aclosing(EtcdGateway(EtcdEndpoints([url], tls=options.etcd_tls))) as gateway:
            with pytest.raises(CoordinatorUnavailable) as failed:
                await gateway.request("kv/deleterange", ALL)
        told.append(str(failed.value))
    return told


@pytest.mark.long
def test_without_the_secret_nobody_reaches_a_managed_etcd(tmp_path: Path) -> None:
    with mirrored_brokers(tmp_path) as cluster:
        cluster.until_led(in_sync=3)
        publish(cluster.leader(), "before")
        assert asyncio.run(strangers_hear(cluster)) == []
        told = asyncio.run(told_to_who_has_another_secret(cluster))
        assert len(told) == 3
        assert all("all nodes have the same cluster_secret" in each for each in told), told
        for command in (("leave", "c@test"), ("transfer",), ("status",)):
            said, code = cluster.ask(*command, environment=WRONG)
            assert (said, code) == ({}, 2), command
        assert cluster.until_led(in_sync=3)["replicas"] == ["a@test", "b@test", "c@test"]
        leader = cluster.leader()
        leader.kill()
        publish(others(cluster, leader)[0], "behind it")
        leader.start()
        cluster.until_led(in_sync=3)
        assert drained(cluster.leader()) == ["before", "behind it"]
        for name in NODES:
            folder = tmp_path / name / "etcd-tls"
            assert {
                stat.S_IMODE((folder / each).stat().st_mode) for each in os.listdir(folder)
            } == {0o600}


FILES, STRANGERS = 1_500, 3_000
LINES_MAX = STRANGERS // 10  # of the log: 60 a minute, however long the machine takes


@pytest.fixture
def cramped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MirroredBrokers]:
    """Nodes with few open files."""
    limited = ["sh", "-c", f'ulimit -n {FILES} && exec "$0" "$@"', sys.executable, "-m", "routelog"]
    monkeypatch.setenv(COMMAND_VARIABLE, shlex.join(limited))
    with mirrored_brokers(tmp_path) as cluster:
        yield cluster


@pytest.mark.long
def test_strangers_at_the_port_of_nodes_take_no_file_from_anybody(cramped: MirroredBrokers) -> None:
    cramped.until_led(in_sync=3)
    leader = cramped.leader()
    follower, _ = others(cramped, leader)
    connection = client(leader)
    channel = connection.channel()
    channel.queue_declare("q", durable=True)
    channel.confirm_delivery()
    told: list[object] = []
    connection.add_on_connection_blocked_callback(lambda _, method: told.append(method))
    name = next(name for name, each in cramped.brokers.items() if each is leader)
    before = len(leader.log_text().splitlines())
    with ExitStack() as stack:
        for number in range(STRANGERS):
            stranger = stack.enter_context(
                socket.create_connection(("127.0.0.1", port_of(cramped, name)))
            )
            if number % 2:
                stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
            if not number % 30:
                channel.basic_publish("", "q", b"x" * 4_000, PERSISTENT)  # a nack would be an error
        assert len(os.listdir(f"/proc/{leader.pid}/fd")) < FILES // 2
        # Among them another node is known: it comes back, follows, and passes clients on.
        follower.kill()
        follower.start()
        cramped.until_led(in_sync=3)
        passed = client(follower)
        passed.channel().basic_publish("", "q", b"", PERSISTENT)
        passed.close()
    assert cramped.leader() is leader
    connection.close()
    assert not told
    lines = leader.log_text().splitlines()[before:]
    assert len(lines) < LINES_MAX, lines
    assert any("too many connections of nodes" in each for each in lines)
    assert not any("ERROR" in each or "Too many open files" in each for each in lines), lines
