"""Each event bumps what it is to bump: its own counters, those of the other side, and all totals above them."""

from collections.abc import Callable

import pytest

from routelog.vhosts import Counters, MessageCounters, NodeCounters, VhostCounters
from routelog.vhosts.counters.counters import FLOWS_MAX

Event = Callable[[MessageCounters, MessageCounters], None]


def counted(counters: Counters) -> dict[str, int]:
    return {
        name: value for name, value in zip(counters.NAMES, counters.values(), strict=True) if value
    }


# What a queue and a channel do together, and what both count of it.
EVENTS: dict[str, tuple[Event, dict[str, int]]] = {
    "delivered": (
        lambda queue, channel: queue.delivered(channel, 3, no_ack=False, redelivered=False),
        {"deliver": 3},
    ),
    "delivered again": (
        lambda queue, channel: queue.delivered(channel, 3, no_ack=False, redelivered=True),
        {"deliver": 3, "redeliver": 3},
    ),
    "delivered without ack": (
        lambda queue, channel: queue.delivered(channel, 2, no_ack=True, redelivered=False),
        {"deliver_no_ack": 2},
    ),
    "got": (
        lambda queue, channel: queue.got(channel, no_ack=False, redelivered=False),
        {"get": 1},
    ),
    "got again, without ack": (
        lambda queue, channel: queue.got(channel, no_ack=True, redelivered=True),
        {"get_no_ack": 1, "redeliver": 1},
    ),
    "got nothing": (lambda queue, channel: queue.got_nothing(channel), {"get_empty": 1}),
    "acked": (lambda queue, channel: queue.acked(channel, 4), {"ack": 4}),
    "rejected": (lambda queue, channel: queue.refused(channel, 4), {"rejected": 4}),
}


@pytest.mark.parametrize("name", EVENTS)
def test_what_a_channel_does_with_a_queue_is_counted_by_both(name: str) -> None:
    node = NodeCounters()
    vhost = VhostCounters(node)
    queue, channel = node.queue("quorum"), vhost.channel()
    event, expected = EVENTS[name]
    event(queue, channel)
    counters = [queue, channel, vhost.channels, node.channels, node.queues["quorum"]]
    assert [counted(each) for each in counters] == [expected] * 5
    assert counted(node.queues["classic"]) == {}


def test_a_publish_is_of_its_channel_and_what_arrives_of_its_queue() -> None:
    node = NodeCounters()
    vhost = VhostCounters(node)
    queue, channel = node.queue("classic"), vhost.channel()
    channel.published(5)
    channel.confirmed(4)
    channel.unroutable(1, returned=True)
    channel.unroutable(2, returned=False)
    vhost.exchange("x").published(5, 7)
    queue.published(7)
    of_channel = {"publish": 5, "confirm": 4, "return_unroutable": 1, "drop_unroutable": 2}
    assert [counted(each) for each in (channel, vhost.channels, node.channels)] == [of_channel] * 3
    assert [counted(each) for each in (queue, node.queues["classic"])] == [{"publish": 7}] * 2
    assert counted(vhost.exchanges["x"]) == {"publish_in": 5, "publish_out": 7}


@pytest.mark.parametrize("reason", ["expired", "maxlen", "delivery_limit"])
def test_what_a_rule_drops_is_counted_by_its_reason(reason: str) -> None:
    node = NodeCounters()
    queue = node.queue("classic")
    queue.dropped(reason, 6)
    assert [counted(each) for each in (queue, node.queues["classic"])] == [{reason: 6}] * 2


def test_totals_keep_what_a_deleted_object_has_counted() -> None:
    node = NodeCounters()
    for _ in range(3):
        VhostCounters(node).channel().published(2)
        node.queue("stream").published(2)
        node.connection().received(10)
    assert (node.channels.publish, node.queues["stream"].publish) == (6, 6)
    assert (node.traffic.recv_oct, node.traffic.recv_cnt) == (30, 3)


def test_a_write_in_parts_is_one() -> None:
    node = NodeCounters()
    connection = node.connection()
    connection.sent([b"four", bytearray(b"sixsix"), memoryview(b"1")])
    for each in (connection, node.traffic):
        assert counted(each) == {"send_oct": 11, "send_cnt": 1}


def test_counters_are_noted_once_and_only_while_somebody_looks() -> None:
    node = NodeCounters()
    queue = node.queue("classic")
    queue.published(1)
    assert node.changed.noted == []
    node.changed.is_watched = True
    queue.published(1)
    queue.published(1)
    assert node.changed.noted == [queue, node.queues["classic"]]
    node.changed.noted.clear()
    queue.is_noted = False
    queue.published(1)
    assert node.changed.noted == [queue]


def test_a_deleted_queue_is_let_go_of_at_once_where_nobody_looks() -> None:
    node = NodeCounters()
    queue, watched = node.queue("classic"), node.queue("classic")
    queue.owner = watched.owner = object()
    queue.leave()
    assert queue.owner is None
    node.changed.is_watched = True
    watched.leave()
    assert node.changed.noted == [watched]
    assert watched.owner is not None


def test_what_was_published_is_divided_by_exchange() -> None:
    node = NodeCounters()
    channel = VhostCounters(node).channel()
    for exchange, count in ((b"x", 2), (b"x", 3), (b"", 1), (b"x", 4)):
        channel.published_to(exchange, count)
    flows = {name: flow.publish for name, flow in channel.from_exchanges.items()}
    assert flows == {b"x": 9, b"": 1}
    assert counted(channel) == counted(node.channels) == {"publish": 10}


def test_what_a_channel_takes_is_divided_by_queue() -> None:
    node = NodeCounters()
    channel, other = VhostCounters(node).channel(), VhostCounters(node).channel()
    first, second = node.queue("classic"), node.queue("classic")
    for event, _ in EVENTS.values():
        for queue in (first, second, first):
            event(queue, channel)
    first.acked(other, 1)
    assert counted(channel.from_queues[first]) == {
        name: 2 * value for name, value in counted(channel.from_queues[second]).items()
    }
    assert counted(channel) == {
        name: 3 * value for name, value in counted(channel.from_queues[second]).items()
    }
    assert {queue: counted(flow) for queue, flow in other.from_queues.items()} == {
        first: {"ack": 1}
    }


def test_the_oldest_of_very_many_flows_is_forgotten() -> None:
    node = NodeCounters()
    channel = VhostCounters(node).channel()
    queues = [node.queue("classic") for _ in range(FLOWS_MAX + 1)]
    for at, queue in enumerate(queues):
        channel.published_to(b"%d" % at, 1)
        queue.acked(channel, 1)
    assert list(channel.from_queues) == queues[1:]
    assert (len(channel.from_exchanges), b"0" in channel.from_exchanges) == (FLOWS_MAX, False)
    assert (channel.publish, channel.ack) == (FLOWS_MAX + 1, FLOWS_MAX + 1)
    channel.published_to(b"0", 1)
    assert channel.from_exchanges[b"0"].publish == 1


def test_the_rate_of_a_flow_is_of_the_time_between_two_samples() -> None:
    node = NodeCounters()
    channel = VhostCounters(node).channel()
    channel.published_to(b"x", 10)
    channel.sample_flows(100.0, 5.0)
    flow = channel.from_exchanges[b"x"]
    assert (flow.rates, flow.sampled_at) == ((2.0,), 100.0)
    channel.published_to(b"x", 5)
    channel.published_to(b"y", 5)
    channel.sample_flows(110.0, 10.0)
    assert (flow.rates, flow.sampled_at) == ((0.5,), 110.0)
    channel.sample_flows(115.0, 5.0)
    assert flow.sampled_at == 110.0  # nothing came
