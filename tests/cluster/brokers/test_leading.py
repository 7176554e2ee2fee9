"""A node begins to lead, and stops: how long that takes, and what clients and operators are told meanwhile."""

from __future__ import annotations

import json
import re
import socket
import time
from base64 import b64encode
from collections.abc import Iterator
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pika
import pytest
from cluster.brokers.mirrored_brokers import MirroredBrokers, mirrored_brokers
from cluster.brokers.test_brokers import client, drained, others, publish
from support.broker_process import BrokerProcess
from support.sampling import sampled

TOLD_SECONDS_MAX = 30.0


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MirroredBrokers]:
    # What metrics load would not have to be loaded by a leader
    folder = tmp_path_factory.mktemp("leading")
    environment = {"ROUTELOG_PROMETHEUS": "false", "PYTHONPROFILEIMPORTTIME": "1"}
    with mirrored_brokers(folder, **environment) as cluster:
        yield cluster


@pytest.fixture
def cluster(running: MirroredBrokers) -> MirroredBrokers:
    running.until_led(in_sync=3)
    return running


def http_address(broker: BrokerProcess) -> str:
    """Where the HTTP API of its last process listens, whoever leads."""
    found = re.findall(r"listening for HTTP on (\S+)", broker.log_text())
    return f"http://{found[-1]}"


def refused_text(broker: BrokerProcess) -> str:
    """What a new client is told by a close frame; empty: it is let in."""
    try:
        pika.BlockingConnection(pika.URLParameters(broker.url)).close()
    except pika.exceptions.ProbableAccessDeniedError as closed:
        # As connection.close answers connection.open, pika takes it for a vhost that the user may not enter.
        return str(closed).partition("ConnectionClosedByBroker: (320)")[2]
    return ""


def refused_answer(broker: BrokerProcess) -> tuple[int, str]:
    """What a request is told."""
    login = {"Authorization": "Basic " + b64encode(b"guest:guest").decode()}
    with pytest.raises(HTTPError) as refused:
        urlopen(Request(f"{http_address(broker)}/api/overview", headers=login), timeout=30)
    return refused.value.code, json.load(refused.value)["reason"]


@pytest.mark.long
def test_a_node_that_begins_to_lead_has_loaded_everything_before(cluster: MirroredBrokers) -> None:
    leader = cluster.leader()
    publish(leader, "1")
    leader.kill()
    publish(cluster.leader(), "2")
    leader.start()
    cluster.until_led(in_sync=3)
    assert drained(leader) == ["1", "2"]
    waits = [
        text
        for broker in cluster.brokers.values()
        for run in broker.log_text().split("routelog ready ")[1:]
        for text, found, _ in [run.partition("this node takes clients")]
        if found
    ]
    assert len(waits) >= 2
    assert not [line for text in waits for line in text.splitlines() if "import time:" in line]


@pytest.mark.parametrize("leads", sampled([True, False], 2))
def test_the_one_node_that_is_left_says_the_truth(cluster: MirroredBrokers, leads: bool) -> None:
    leader = cluster.leader()
    left = leader if leads else others(cluster, leader)[0]
    begin, gone = len(left.log_text()), others(cluster, left)
    publish(leader, "1")
    connection = client(left)
    for broker in gone:
        broker.kill()
    if leads:
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
            connection.process_data_events(TOLD_SECONDS_MAX)
        assert closed.value.reply_code == 320
    began = time.monotonic()
    while True:  # as soon as it has noticed, it knows the reason; all the time its port is open
        with socket.create_connection((left.host, left.port), 5):
            pass
        if "without a majority of its members nobody leads" in (told := refused_text(left)):
            break
        assert time.monotonic() < began + TOLD_SECONDS_MAX, told
    status, reason = refused_answer(left)
    assert status == 503
    assert "without a majority of its members nobody leads" in reason
    shown, code = cluster.ask("status")
    assert (shown["is_well"], code) == (False, 1)
    assert "without a majority of its members nobody leads" in shown["summary"]
    name = f"{left.data_dir.name}@test"
    rows = {row["node"]: row for row in shown["nodes"]}
    assert {node for node, row in rows.items() if row["alive"]} == {name}
    assert "etcd does not answer" in rows[name]["says"]
    assert sum("cannot be reached" in row["says"] for row in rows.values()) == 2
    assert not shown["shards"][0]["led"]
    assert "to start again" not in left.log_text()[begin:]
    for broker in gone:
        broker.start()
    cluster.until_led(in_sync=3)
    publish(left, "2")
    if not leads:  # its clients are still there
        connection.channel().queue_declare("q", durable=True)
        connection.close()
    assert drained(left) == ["1", "2"]
