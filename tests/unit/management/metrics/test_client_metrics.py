"""Metrics of the clients of a process, and of objects: sums, each, or chosen groups of these."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from unit.management.managed_node import Connection, ManagedNode
from unit.management.metrics.metric_samples import Samples, samples

from routelog.management.metrics import client_metrics
from routelog.management.metrics.client_metrics import Wanted, clients_text, objects_text
from routelog.management.metrics.object_metrics import OF_QUEUES_AND_GROUPS


async def of_clients(node: ManagedNode, wanted: Wanted) -> Samples:
    """What is told of clients."""
    return await samples(clients_text(node.broker.watched, wanted))


async def of_queues(node: ManagedNode, wanted: Wanted) -> Samples:
    """What is told of queues."""
    return await samples(objects_text(node.broker.watched, wanted, OF_QUEUES_AND_GROUPS))


async def test_connections_and_channels_are_counted_and_told(node: ManagedNode) -> None:
    node.connections.open = [
        Connection("a", "u", node.vhost, "q"),
        Connection("b", "u", node.vhost),
    ]
    sums, each = await of_clients(node, Wanted(in_sum=True)), await of_clients(node, Wanted())
    for name, count in {"connections": 2, "channels": 2, "consumers": 1}.items():
        assert sums[f"rabbitmq_{name}"] == each[f"rabbitmq_{name}"] == count
    assert sums["rabbitmq_channel_consumers"] == 1
    assert sums["rabbitmq_channel_messages_unacked"] == 4
    assert each['rabbitmq_channel_consumers{channel="a (1)"}'] == 1
    assert each['rabbitmq_connection_channels{connection="b"}'] == 1
    chosen = await of_clients(node, Wanted(groups=["connection_churn_metrics"]))
    assert set(chosen) == {
        name.replace("_", "_detailed_", 1)
        for name in each
        if name.endswith(
            ("opened_total", "closed_total", "declared_total", "created_total", "deleted_total")
        )
    }


async def test_who_waited_for_a_publish_rate_is_told(node: ManagedNode) -> None:
    node.rates.limited = [SimpleNamespace(kind="user", name="ann", waited_seconds=2.5)]
    told = await of_clients(node, Wanted(in_sum=True))
    assert told['routelog_publish_rate_waited_seconds_total{kind="user",name="ann"}'] == 2.5


async def test_more_objects_than_a_turn_takes_are_all_told(
    node: ManagedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_metrics, "SLICE_SAMPLES", 2)
    for number in range(5):
        await node.queue(f"q{number}")
    assert len(await of_queues(node, Wanted(groups=["queue_consumer_count"]))) == 5
    assert len(await of_queues(node, Wanted(groups=["queue_consumer_count"], vhosts=["x"]))) == 0
