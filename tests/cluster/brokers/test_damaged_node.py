"""A node of which a queue's file is damaged takes a copy, and never takes that queue from the cluster."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pika
import pytest
from cluster.brokers.mirrored_brokers import MirroredBrokers, mirrored_brokers
from support.broker_process import BrokerProcess
from support.pika_client import PERSISTENT
from support.waiting import WAIT_SECONDS

COUNT = 200
SMALL = {"ROUTELOG_SCRUB_BYTES_PER_SECOND": "0"}  # only a start finds what is damaged


def connected(cluster: MirroredBrokers) -> pika.BlockingConnection:
    """A client of whoever leads."""
    return pika.BlockingConnection(pika.URLParameters(cluster.leader().url))


def publish(cluster: MirroredBrokers, *queues: str) -> None:
    """Publish to queues, and have all nodes write them to their segments: a comparison takes a checkpoint."""
    connection = connected(cluster)
    channel = connection.channel()
    channel.confirm_delivery()
    for queue in queues or ("hurt",):
        channel.queue_declare(queue, durable=True)
        for number in range(COUNT):
            channel.basic_publish("", queue, b"%d" % number, PERSISTENT)
    connection.close()
    told, code = cluster.ask("verify")
    assert code == 0, (told, cluster.log_text())


def taken(cluster: MirroredBrokers, queue: str = "hurt") -> list[int]:
    """All that is in a queue, whoever leads in the end."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        numbers = []
        try:
            with connected(cluster) as connection:  # its end puts all of it back
                channel = connection.channel()
                while (got := channel.basic_get(queue))[0] is not None:
                    numbers.append(int(got[2]))
        except pika.exceptions.AMQPError:  # another node leads, as this machine is busy
            assert time.monotonic() < deadline, cluster.log_text()
            continue
        return numbers


def flip_a_bit(data: Path, queue: str = "hurt") -> None:
    """In a batch that no start takes for a torn end."""
    (segment,) = data.glob(f"logs/*/{queue}-0/*.log")
    content = bytearray(segment.read_bytes())
    content[100] ^= 1
    segment.write_bytes(content)


def until_replaced(broker: BrokerProcess) -> None:
    """Wait until a node begins to take a copy, as its own data are damaged."""
    deadline = time.monotonic() + WAIT_SECONDS
    while "other data take the place of those" not in broker.log_text():
        assert time.monotonic() < deadline, broker.log_text()
        time.sleep(0.05)


def until_damaged(cluster: MirroredBrokers, *names: str) -> dict[str, Any]:
    """Wait until just these nodes are said to be damaged; returns the status."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        told = cluster.status()
        if told and {each["node"] for each in told["nodes"] if each["damaged"]} == {
            f"{name}@test" for name in names
        }:
            return told
        assert time.monotonic() < deadline, (told, cluster.log_text())
        time.sleep(0.05)


@pytest.mark.long
def test_a_damaged_follower_takes_a_copy_and_may_lead_then(tmp_path: Path) -> None:
    with mirrored_brokers(tmp_path, **SMALL) as cluster:
        cluster.until_led(in_sync=3)
        publish(cluster)
        leader = cluster.leader()
        name, follower = next(each for each in cluster.brokers.items() if each[1] is not leader)
        follower.terminate()
        flip_a_bit(follower.data_dir)
        follower.start()
        until_replaced(follower)
        assert "still quarantined" in follower.log_text() or "quarantined:" in follower.log_text()
        cluster.until_led(in_sync=3)
        until_damaged(cluster)
        assert cluster.ask("transfer", "--to", f"{name}@test")[1] == 0, cluster.log_text()
        assert cluster.until_led(in_sync=3)["leader"] == f"{name}@test"
        assert taken(cluster) == [*range(COUNT)]


@pytest.mark.long
def test_a_damaged_leader_hands_over_to_one_that_is_whole(tmp_path: Path) -> None:
    with mirrored_brokers(tmp_path, **SMALL) as cluster:
        cluster.until_led(in_sync=3)
        publish(cluster)
        leader = cluster.leader()
        others = [each for each in cluster.brokers.values() if each is not leader]
        for each in others:
            each.terminate()
        leader.terminate()
        flip_a_bit(leader.data_dir)
        leader.start()  # alone in its set, or with one that does not run: it does not lead
        for each in others:
            each.start()
        shard = cluster.until_led(in_sync=3)
        assert cluster.brokers[shard["leader"].partition("@")[0]] is not leader, cluster.log_text()
        until_damaged(cluster)
        assert taken(cluster) == [*range(COUNT)]


@pytest.mark.long
def test_where_no_node_is_whole_each_queue_comes_from_one_that_can_read_it(tmp_path: Path) -> None:
    with mirrored_brokers(tmp_path, **SMALL) as cluster:
        cluster.until_led(in_sync=3)
        publish(cluster, *cluster.brokers)
        for each in cluster.brokers.values():
            each.terminate()
        for name, each in cluster.brokers.items():
            flip_a_bit(each.data_dir, name)
        for each in cluster.brokers.values():
            each.start()
        for each in cluster.brokers.values():
            until_replaced(each)
        until_damaged(cluster)
        cluster.until_led(in_sync=3)
        for queue in cluster.brokers:
            assert taken(cluster, queue) == [*range(COUNT)], cluster.log_text()
        told, code = cluster.ask("verify")
        assert code == 0, (told, cluster.log_text())
