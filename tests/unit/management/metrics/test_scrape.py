"""What the three scrapes tell of a node."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.queue_samples import fill
from unit.management.managed_node import Connection, ManagedNode
from unit.management.metrics.metric_samples import Samples, samples

from routelog.broker import ProcessState
from routelog.log_backend import Histogram
from routelog.management.metrics import scrape
from routelog.management.metrics.watched import WatchedNode
from routelog.mirror_cluster import ReplicaState
from routelog.vhosts import GROUP, RABBITMQ_VERSION, wanted_group

# In each answer, for joins.
WHO = {
    f'rabbitmq_build_info{{rabbitmq_version="{RABBITMQ_VERSION}",prometheus_plugin_version="0.1",'
    'product_name="RouteLog",product_version="0.1"}',
    'rabbitmq_identity_info{rabbitmq_node="routelog@here",rabbitmq_cluster="orders"}',
}


class Watched:
    """A node that is scraped.

    Attributes:
        node: as metrics see it; it takes clients unless `follows`.
    """

    def __init__(self, managed: ManagedNode) -> None:
        self.managed = managed
        self.follows = False
        side = managed.broker
        times = Histogram((1.0,))
        self.journal = SimpleNamespace(
            written=9, durable=8, committed=7, sync_times=times, failure=None
        )
        self.compactor: Any = SimpleNamespace(passes=3, failures=2, removed=1)
        self.node = WatchedNode(
            name="routelog@here",
            version="0.1",
            cluster_name=lambda: "orders",
            clock=side.clock,
            started_at=side.clock.monotonic() - 60,
            file_descriptors_max=1_024,
            sockets=lambda: 3,
            sockets_max=100,
            space=side.space,
            journal=self.journal,
            compactor=self.compactor,
            alarms=lambda: managed.alarms,
            held_seconds=lambda: 0.25,
            cluster=managed.cluster,
            expiries=lambda: managed.expiries,
            broker=lambda: None if self.follows else side.watched,
            ask_nodes=managed.ask_nodes,
            processes=lambda: managed.processes,
        )

    async def sums(self) -> Samples:
        return await samples(scrape.aggregated(self.node))

    async def each(self) -> Samples:
        return await samples(scrape.of_each(self.node))

    async def detailed(self, *groups: str, vhosts: tuple[str, ...] = ()) -> Samples:
        return await samples(scrape.detailed(self.node, groups, vhosts))


@pytest.fixture
def watched(node: ManagedNode) -> Watched:
    return Watched(node)


async def test_processes_of_a_node_are_told_of_one_by_one(watched: Watched) -> None:
    name = "routelog_process"
    assert not [each for each in await watched.sums() if each.startswith(f"{name}_")]
    watched.managed.processes = [
        ProcessState(1, os.getpid(), is_ready=True, connections=3),
        ProcessState(2, 0, is_ready=False, connections=0),
    ]
    told = await watched.sums()
    assert [told[f'{name}_up{{process="{number}"}}'] for number in (1, 2)] == [1, 0]
    assert told[f'{name}_connections{{process="1"}}'] == 3
    assert told[f'{name}_resident_memory_bytes{{process="1"}}'] > 1_000_000
    assert told[f'{name}_cpu_seconds_total{{process="1"}}'] > 0
    assert f'{name}_cpu_seconds_total{{process="2"}}' not in told


async def test_a_scrape_tells_of_the_node_itself(watched: Watched) -> None:
    watched.managed.alarms, watched.journal.failure = ["disk"], OSError("EIO")
    expiry = datetime(2026, 1, 1, tzinfo=UTC)
    watched.managed.expiries = {"amqp/ssl": {Path("/c.pem"): expiry}}
    told = await watched.sums()
    assert told['rabbitmq_identity_info{rabbitmq_node="routelog@here",rabbitmq_cluster="orders"}']
    assert told["rabbitmq_process_open_tcp_sockets"] == 3
    assert told["rabbitmq_process_max_fds"] == 1_024
    assert told["rabbitmq_disk_space_available_bytes"] == 1_000
    assert told["rabbitmq_disk_space_available_limit_bytes"] == 100
    assert told["rabbitmq_erlang_uptime_seconds"] >= 60
    assert told["rabbitmq_process_resident_memory_bytes"] > 1_000_000
    assert told["rabbitmq_alarms_free_disk_space_watermark"] == 1
    assert told["rabbitmq_alarms_memory_used_watermark"] == 0
    assert told["rabbitmq_alarms_file_descriptor_limit"] == 0
    assert told["routelog_alarms_log"] == 1
    assert told["routelog_journal_committed_position"] == 7
    assert told["routelog_event_loop_held_seconds"] == 0.25
    name = 'routelog_certificate_expiry_timestamp_seconds{protocol="amqp/ssl",file="/c.pem"}'
    assert told[name] == expiry.timestamp()


async def test_replicas_and_standbys_are_told_with_what_they_lack(watched: Watched) -> None:
    watched.managed.cluster.nodes += [ReplicaState("b", True, False, 5), ReplicaState("c", False)]
    watched.managed.cluster.followers = [
        {"name": "d", "is_connected": True, "bytes": 70, "seconds": 1.5}
    ]
    told = await watched.sums()
    assert (told["routelog_replicas"], told["routelog_replicas_in_sync"]) == (3, 1)
    removed = "routelog_compaction_removed_messages_total"
    assert (told["routelog_compaction_failures_total"], told[removed]) == (2, 1)
    assert told['routelog_replica_blocks_behind{replica="b"}'] == 5
    assert told['routelog_standby_bytes_behind{standby="d"}'] == 70
    assert told['routelog_standby_seconds_behind{standby="d"}'] == 1.5


async def test_a_node_that_follows_tells_of_itself_alone(watched: Watched) -> None:
    await watched.managed.queue("q")
    watched.follows = True
    told = await watched.sums()
    assert told["routelog_takes_clients"] == 0
    assert told["routelog_journal_durable_position"] == 8
    for answer in (told, await watched.each()):
        assert not [name for name in answer if "queue" in name or "connections" in name]
    assert set(await watched.detailed("queue_coarse_metrics")) == WHO


async def test_queues_are_summed_and_told_one_by_one(watched: Watched) -> None:
    node = watched.managed
    first, second = await node.queue("one"), await node.queue("two")
    fill(first, 3)
    fill(second, 2)
    assert first.get() is not None
    sums, each = await watched.sums(), await watched.each()
    assert (sums["rabbitmq_queues"], each["rabbitmq_queues"]) == (2, 2)
    assert sums["rabbitmq_queue_messages_ready"] == 4
    assert sums["rabbitmq_queue_messages_unacked"] == 1
    assert sums["rabbitmq_queue_messages"] == 5
    assert each['rabbitmq_queue_messages_ready{vhost="/",queue="one"}'] == 2
    assert each['rabbitmq_queue_messages_unacked{vhost="/",queue="one"}'] == 1
    assert each['rabbitmq_queue_messages{vhost="/",queue="two"}'] == 2
    assert "rabbitmq_queue_messages" not in each


async def test_only_queues_with_messages_have_an_oldest_one(watched: Watched) -> None:
    node = watched.managed
    full, _ = await node.queue("full"), await node.queue("empty")
    fill(full, 1)
    told = await watched.each()
    name = "routelog_queue_oldest_message_timestamp_seconds"
    assert told[f'{name}{{vhost="/",queue="full"}}'] == 0  # the time of these records
    assert f'{name}{{vhost="/",queue="empty"}}' not in told
    assert name not in await watched.sums()  # a sum of times would say nothing


async def test_groups_are_told_with_what_they_lack(watched: Watched) -> None:
    node = watched.managed
    queue = await node.queue("log", x_retention="1D", x_durability="memory")
    group, durable = node.vhost.hosted.groups.join(
        queue, wanted_group({GROUP: "readers"}), "first", 0
    )
    assert durable is not None
    await durable
    fill(queue, 3)
    told = await watched.each()
    labels = '{vhost="/",queue="log",group="readers"}'
    assert told[f"routelog_group_messages_behind{labels}"] == 3
    assert told[f"routelog_group_consumers{labels}"] == 0
    group.pass_by({0: 2})
    assert (await watched.sums())["routelog_group_messages_behind"] == 1


async def test_details_are_those_of_the_wanted_groups_and_vhosts(watched: Watched) -> None:
    await watched.managed.queue("q")
    await watched.managed.node.vhosts.add("other")
    told = await watched.detailed("queue_coarse_metrics", "node_metrics", vhosts=("/", "absent"))
    assert told['rabbitmq_detailed_queue_messages{vhost="/",queue="q"}'] == 0
    assert told["rabbitmq_detailed_process_max_fds"] == 1_024
    assert not [name for name in told if "consumers" in name or "open_fds" in name]
    elsewhere = await watched.detailed("queue_coarse_metrics", vhosts=("other",))
    assert set(elsewhere) == set(await watched.detailed()) == WHO


async def test_a_group_that_nobody_knows_is_told_in_a_comment(watched: Watched) -> None:
    texts = [text async for text in scrape.detailed(watched.node, ["x\n1", "ra_metrics"], ())]
    assert [text for text in texts if "no such" in text] == ["# no such family: 'x\\n1'\n"]


async def test_each_group_of_details_is_known_and_answered(watched: Watched) -> None:
    await watched.managed.queue("q")
    groups = scrape.known_groups()
    assert {"queue_metrics", "queue_consumer_count", "channel_metrics", "ra_metrics"} <= groups
    both = await watched.detailed("queue_metrics", "queue_consumer_count")
    assert both['rabbitmq_detailed_queue_consumers{vhost="/",queue="q"}'] == 0  # once
    assert 'routelog_detailed_queue_segment_bytes{vhost="/",queue="q"}' in await watched.detailed(
        "routelog_queue_metrics"
    )


async def test_what_was_counted_is_told_in_sum_and_of_each(watched: Watched) -> None:
    node = watched.managed
    queue = await node.queue("q")
    connection = Connection("a", "u", node.vhost)
    node.connections.open = [connection]
    channel = connection.counters
    channel.published(7)
    channel.expects_confirms(6)
    channel.confirmed(5)
    channel.unroutable(1, returned=True)
    queue.counters.published(9)
    queue.counters.delivered(channel, 3, no_ack=False, redelivered=True)
    queue.counters.got(channel, no_ack=True, redelivered=False)
    queue.counters.got_nothing(channel)
    queue.counters.acked(channel, 2)
    queue.counters.dropped("expired", 4)
    connection.traffic.received(100)
    node.vhost.counters.exchange("x").published(7, 9)
    sums, each = await watched.sums(), await watched.each()
    of_queue, of_channel = '{vhost="/",queue="q"}', '{channel="a (1)"}'
    for name, count in {
        "channel_messages_published_total": 7,
        "channel_messages_confirmed_total": 5,
        "channel_messages_unroutable_returned_total": 1,
        "channel_messages_unroutable_dropped_total": 0,
        "channel_messages_delivered_ack_total": 3,
        "channel_messages_redelivered_total": 3,
        "channel_get_total": 1,
        "channel_get_empty_total": 1,
        "channel_messages_acked_total": 2,
        "channel_messages_unconfirmed": 4,
    }.items():
        assert sums[f"rabbitmq_{name}"] == each[f"rabbitmq_{name}{of_channel}"] == count
        assert f"rabbitmq_{name}" not in each
    for name, count in {
        "queue_messages_published_total": 9,
        "queue_messages_delivered_ack_total": 3,
        "queue_get_total": 1,
        "queue_messages_acked_total": 2,
    }.items():
        assert sums[f"rabbitmq_{name}"] == each[f"rabbitmq_{name}{of_queue}"] == count
    assert sums["rabbitmq_connection_incoming_bytes_total"] == 100
    assert each['rabbitmq_connection_incoming_bytes_total{connection="a"}'] == 100
    assert each['rabbitmq_exchange_messages_published_total{vhost="/",exchange="x"}'] == 7
    assert each['routelog_exchange_messages_routed_total{vhost="/",exchange="x"}'] == 9
    for told in (sums, each):
        assert told["rabbitmq_queues_created_total"] == 1
        amqp = 'protocol="amqp091"'
        for name, count in {
            "messages_received_total": 7,
            "messages_received_confirm_total": 6,
            "messages_routed_total": 9,
            "messages_confirmed_total": 5,
            "publishers": 1,
            "consumers": 0,
        }.items():
            assert told[f"rabbitmq_global_{name}{{{amqp}}}"] == count
        classic = 'queue_type="rabbit_classic_queue"'
        assert told[f"rabbitmq_global_messages_delivered_total{{{amqp},{classic}}}"] == 4
        assert told[f"rabbitmq_global_messages_dead_lettered_expired_total{{{classic}}}"] == 4
    churn = await watched.detailed("connection_churn_metrics")
    assert churn["rabbitmq_detailed_queues_created_total"] == 1
