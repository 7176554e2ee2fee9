"""A planned change of the leader costs the clients of the other nodes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import partial
from typing import Any

import pika
import pytest
from cluster.brokers.mirrored_brokers import MirroredBrokers, mirrored_brokers
from cluster.fronts.test_fronts import connected, followers, sessions
from support.broker_process import BrokerProcess
from support.pika_client import PERSISTENT, Inbox, let_stop
from support.waiting import wait_until

HELD, PUBLISHED = 5, 20
# Of each kind: arguments of the queue, and of the consumer
KINDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "classic": ({}, {}),
    "quorum": ({"x-queue-type": "quorum"}, {}),
    "single": ({"x-single-active-consumer": True}, {}),
    "parts": ({"x-partitions": 2}, {}),
    "reader": ({"x-queue-type": "stream"}, {"x-stream-offset": "first"}),
    "group": ({"x-queue-type": "stream"}, {"x-stream-offset": "first", "x-group": "g"}),
}


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MirroredBrokers]:
    """Three brokers."""
    with mirrored_brokers(tmp_path_factory.mktemp("fronts")) as nodes:
        nodes.until_led(in_sync=3)
        yield nodes


def hand_over(nodes: MirroredBrokers, target: BrokerProcess) -> None:
    """Let a node lead, and wait until the others have a session with it."""
    before = sessions(target)
    told, code = nodes.ask("transfer", "--to", f"{target.data_dir.name}@test")
    assert code == 0, told
    wait_until(lambda: sessions(target) == before + 2)


def test_who_holds_its_prefetch_is_served_when_it_acknowledges(nodes: MirroredBrokers) -> None:
    target, other = followers(nodes)
    inboxes: list[Inbox] = []
    with closing(connected(target)) as first, closing(connected(other)) as second:
        maker = second.channel()
        maker.confirm_delivery()
        for kind, (arguments, wanted) in KINDS.items():
            for node, connection in (("target", first), ("other", second)):
                queue = f"{kind} at {node}"
                maker.queue_declare(queue, durable=True, arguments=arguments)
                for n in range(PUBLISHED):
                    maker.basic_publish("", queue, b"%d" % n, PERSISTENT)
                channel = connection.channel()
                channel.basic_qos(prefetch_count=HELD)
                inboxes.append(Inbox(channel, queue, arguments=wanted))
        for inbox in inboxes:
            inbox.wait_for(HELD)
        hand_over(nodes, target)
        for inbox in inboxes:
            inbox.channel.basic_ack(0, multiple=True)
        for inbox in inboxes:
            inbox.wait_for(2 * HELD)


def test_auto_delete_queues_of_clients_of_all_nodes_stay(nodes: MirroredBrokers) -> None:
    target, other = followers(nodes)
    brokers = {"leader": nodes.leader(), "target": target, "other": other}
    connections = {node: connected(broker) for node, broker in brokers.items()}
    maker = connections["other"].channel()
    maker.confirm_delivery()
    for node, connection in connections.items():
        queue = f"auto-delete of {node}"
        maker.queue_declare(queue, durable=True, auto_delete=True)
        for n in range(PUBLISHED):
            maker.basic_publish("", queue, b"%d" % n, PERSISTENT)
        channel = connection.channel()
        channel.basic_qos(prefetch_count=HELD)
        Inbox(channel, queue).wait_for(HELD)
    let_stop(partial(hand_over, nodes, target), *connections.values())
    for node in connections:
        passive = maker.queue_declare(f"auto-delete of {node}", passive=True).method
        is_consumed = node != "leader"
        assert passive.consumer_count == is_consumed, node
        assert passive.message_count >= PUBLISHED - HELD * is_consumed, node
    connections["target"].close()
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="no queue"):
        maker.queue_declare("auto-delete of target", passive=True)
    connections["other"].close()
