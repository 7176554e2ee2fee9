"""Delayed messages when a leader is cut off, another one confirms at the same offsets, and it leads again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster.brokers.mirrored_brokers import NODES, MirroredBrokers
from cluster.brokers.test_brokers import client, others
from cluster.node_networks import NoNetworks, node_networks
from pika.adapters.blocking_connection import BlockingChannel
from pika.spec import BasicProperties
from support.broker_process import BrokerProcess

DELAY_SECONDS = 45  # longer than two changes of leader take beside other work
LATE_SECONDS_MAX = 60.0
WRITTEN_SECONDS = 1.0  # a schedule that did not wait for commits would be written sooner
COUNT = 50


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[MirroredBrokers]:
    try:
        with node_networks(NODES) as networks:
            cluster = MirroredBrokers(tmp_path, networks=networks)
            try:
                cluster.start()
                cluster.until_led(in_sync=3)
                yield cluster
            finally:
                cluster.stop()
    except NoNetworks as error:
        pytest.skip(str(error))


def channel_of(broker: BrokerProcess) -> BlockingChannel:
    channel = client(broker).channel()
    arguments = {"x-delayed-type": "fanout"}
    channel.exchange_declare("later", "x-delayed-message", durable=True, arguments=arguments)
    channel.queue_declare("q", durable=True)
    channel.queue_bind("q", "later", "")
    return channel


def publish(channel: BlockingChannel, name: str) -> list[str]:
    bodies = [f"{name} {number}" for number in range(COUNT)]
    for body in bodies:
        properties = BasicProperties(delivery_mode=2, headers={"x-delay": DELAY_SECONDS * 1_000})
        channel.basic_publish("later", "", body, properties)
    return bodies


@pytest.mark.long
def test_all_that_was_confirmed_comes_and_nothing_else(cluster: MirroredBrokers) -> None:
    networks = cluster.networks
    assert networks is not None
    first = cluster.leader()
    name = first.data_dir.name
    channel = channel_of(first)
    for other in others(cluster, first):
        networks.cut_off(name, other.data_dir.name)
    publish(channel, "never confirmed")
    channel.connection.process_data_events(WRITTEN_SECONDS)
    second = cluster.brokers[cluster.until_led(without=f"{name}@test")["leader"].partition("@")[0]]
    confirming = channel_of(second)
    confirming.confirm_delivery()
    confirmed = publish(confirming, "confirmed")
    due = time.monotonic() + DELAY_SECONDS
    networks.heal()
    cluster.until_led(in_sync=3)
    told, code = cluster.ask("transfer", "--to", f"{name}@test")
    assert code == 0, told
    taking = channel_of(first)
    assert cluster.leader() is first
    assert time.monotonic() < due, "the changes of leader took longer than the delay"
    found: list[str] = []
    for method, _, body in taking.consume("q", auto_ack=True, inactivity_timeout=1.0):
        if method is not None:
            found.append(body.decode())
        elif len(found) >= COUNT or time.monotonic() > due + LATE_SECONDS_MAX:
            break
    assert found == confirmed
    taking.connection.close()
