"""Each event bumps what it is to bump: its own counters, those of the other side, and all totals above them."""

from collections.abc import Callable

import pytest

from routelog.vhosts import Counters, MessageCounters, NodeCounters, VhostCounters

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
