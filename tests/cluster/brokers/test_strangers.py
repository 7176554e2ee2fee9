"""Strangers at the ports of a managed etcd: without the cluster's secret they read and change nothing."""

from __future__ import annotations

import asyncio
import os
import ssl
import stat
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from cluster.brokers.mirrored_brokers import NODES, MirroredBrokers, mirrored_brokers
from cluster.brokers.test_brokers import drained, others, publish

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
