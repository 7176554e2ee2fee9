"""Flows of single objects, of which others may have gone."""

from support.queue_samples import records
from unit.management.managed_node import Connection, ManagedNode

from routelog.management.views import connections, queues
from routelog.management.views import exchange_views as exchanges


async def test_a_flow_whose_other_end_is_gone_is_not_shown(node: ManagedNode) -> None:
    queue = await node.queue("q")
    queue.publish(records("a"), waited=False)  # of the default exchange
    queue.counters.published_to(b"gone", 1)
    node.connections.open = [Connection("c", "u", node.vhost)]
    channel = node.connections.open[0].counters
    queue.counters.delivered(channel, 1, no_ack=True, redelivered=False)
    channel.published_to(b"gone", 1)
    row = await node.ask(queues.get_queue, name="q")
    assert [each["exchange"]["name"] for each in row["incoming"]] == [""]
    assert [each["channel_details"]["name"] for each in row["deliveries"]] == ["c (1)"]
    row = await node.ask(connections.get_channel, channel="c (1)")
    assert [each["queue"]["name"] for each in row["deliveries"]] == ["q"]
    assert row["publishes"] == []
    node.vhost.delete_queue(queue)
    row = await node.ask(connections.get_channel, channel="c (1)")
    assert row["deliveries"] == []


async def test_without_statistics_there_are_no_flows(node: ManagedNode) -> None:
    await node.queue("q")
    for handler, name in ((queues.get_queue, "q"), (exchanges.get_exchange, "amq.topic")):
        shown = await node.ask(handler, name=name)
        bare = await node.ask(handler, name=name, query="disable_stats=true")
        assert "incoming" in shown
        assert not {"incoming", "outgoing", "deliveries"} & bare.keys()
