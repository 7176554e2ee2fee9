"""Consumer groups with pika: each has all messages once, whatever happens to it or to the broker."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker
from support.pika_client import PERSISTENT, Inbox, let_stop
from support.sampling import sampled
from support.waiting import wait_until

STREAM = {"x-queue-type": "stream"}
KEPT = {"x-retention": "1h"}
KINDS = pytest.mark.parametrize("kind", [STREAM, KEPT], ids=["stream", "retention"])

pytestmark = pytest.mark.differs_from_rabbitmq("it has no consumer groups")


def declared(channel, name, kind, **arguments):
    channel.queue_declare(name, durable=True, arguments=kind | arguments)
    channel.confirm_delivery()


def publish(channel, name, first, end):
    for number in range(first, end):
        channel.basic_publish("", name, b"%d" % number, PERSISTENT)


def numbers(first, end):
    return [b"%d" % number for number in range(first, end)]


def member(connection, queue, group, offset="first", prefetch=100, consume=None, **arguments):
    """A consumer of a group on a channel of its own."""
    channel = connection.channel()
    channel.basic_qos(prefetch_count=prefetch)
    arguments = {"x-group": group, "x-stream-offset": offset} | arguments
    return Inbox(channel, queue, arguments=arguments, **(consume or {}))


def ack_all(inbox):
    inbox.channel.basic_ack(0, multiple=True)


@KINDS
def test_groups_and_the_queues_own_consumers_all_get_everything_once(
    connection, channel, name, kind
):
    declared(channel, name, kind)
    publish(channel, name, 0, 50)
    audit, billing = (member(connection, name, group) for group in ("audit", "billing"))
    own = connection.channel()
    own.basic_qos(prefetch_count=200)
    place = {"arguments": {"x-stream-offset": "first"}} if kind is STREAM else {}
    plain = Inbox(own, name, **place)
    publish(channel, name, 50, 60)
    for inbox in (audit, billing, plain):
        inbox.wait_for(60)
        assert inbox.bodies == numbers(0, 60)
        assert not any(inbox.redelivered)
        ack_all(inbox)
    late = member(connection, name, "third")
    assert late.wait_for(60).bodies == numbers(0, 60)


@KINDS
def test_consumers_of_a_group_compete(connection, channel, name, kind):
    declared(channel, name, kind)
    members = [member(connection, name, "g", prefetch=10, consume={"auto_ack": False})]
    members += [member(connection, name, "g", prefetch=10) for _ in range(2)]
    publish(channel, name, 0, 30)
    wait_until(lambda: sum(len(each.bodies) for each in members) == 30, connection)
    assert [len(each.bodies) for each in members] == [10, 10, 10]
    got = sorted(int(body) for each in members for body in each.bodies)
    assert got == list(range(30))


def test_what_a_member_returns_or_leaves_comes_again_to_another(connection, channel, name):
    declared(channel, name, STREAM)
    publish(channel, name, 0, 6)
    first = member(connection, name, "g", prefetch=6).wait_for(6)
    second = member(connection, name, "g", prefetch=6)
    first.channel.basic_ack(2, multiple=True)
    first.channel.basic_cancel(first.tag)
    first.channel.basic_nack(3, requeue=True)
    first.channel.basic_reject(4, requeue=False)
    second.wait_for(1)
    first.channel.close()
    second.wait_for(3)
    assert sorted(second.bodies) == [b"2", b"4", b"5"]
    assert second.redelivered == [True] * 3
    offsets = [properties.headers["x-stream-offset"] for _, properties, _ in second.deliveries]
    assert sorted(offsets) == [2, 4, 5]


@KINDS
def test_a_group_goes_on_where_it_was(connection, channel, name, kind):
    declared(channel, name, kind)
    publish(channel, name, 0, 10)
    first = member(connection, name, "g", prefetch=4).wait_for(4)
    first.channel.basic_ack(3, multiple=True)
    first.wait_for(7).channel.close()
    # The offset is that of the group: this one is not looked at.
    again = member(connection, name, "g", offset="next").wait_for(7)
    assert again.bodies == numbers(3, 10)
    assert again.redelivered == 4 * [True] + 3 * [False]


def test_without_acks_a_group_has_done_with_what_it_was_sent(connection, channel, name):
    declared(channel, name, STREAM)
    publish(channel, name, 0, 10)
    first = member(connection, name, "g", prefetch=0, consume={"auto_ack": True}).wait_for(10)
    assert first.bodies == numbers(0, 10)
    first.channel.close()
    publish(channel, name, 10, 12)
    assert member(connection, name, "g").wait_for(2).bodies == numbers(10, 12)


@pytest.mark.parametrize(
    ("offset", "first"),
    [
        ("first", 0),
        ("next", 40),
        (17, 17),
        (99, 40),
        ("1h", 0),
        (datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC), 0),
        (datetime.datetime(2100, 1, 1, tzinfo=datetime.UTC), 40),
    ],
)
def test_a_group_begins_where_its_first_consumer_says(connection, channel, name, offset, first):
    declared(channel, name, STREAM)
    publish(channel, name, 0, 40)
    inbox = member(connection, name, "g", offset)
    publish(channel, name, 40, 42)
    assert inbox.wait_for(42 - first).bodies == numbers(first, 42)


def test_by_default_a_group_begins_with_the_next_message(connection, channel, name):
    declared(channel, name, STREAM)
    publish(channel, name, 0, 3)
    reader = connection.channel()
    reader.basic_qos(prefetch_count=5)
    inbox = Inbox(reader, name, arguments={"x-group": "g"})
    publish(channel, name, 3, 5)
    assert inbox.wait_for(2).bodies == numbers(3, 5)


def test_the_queues_purge_and_its_counts_leave_groups_alone(connection, channel, name):
    declared(channel, name, KEPT)
    publish(channel, name, 0, 5)
    inbox = member(connection, name, "g", prefetch=2).wait_for(2)
    counts = channel.queue_declare(name, passive=True).method
    assert (counts.message_count, counts.consumer_count) == (5, 1)
    assert channel.queue_purge(name).method.message_count == 5
    ack_all(inbox)
    inbox.wait_for(4)
    ack_all(inbox)
    assert inbox.wait_for(5).bodies == numbers(0, 5)


def test_members_are_told_when_the_queue_is_deleted(connection, channel, name):
    declared(channel, name, STREAM)
    inbox = member(connection, name, "g")
    cancelled: list[Any] = []
    inbox.channel.add_on_cancel_callback(cancelled.append)
    channel.queue_delete(name)
    wait_until(lambda: cancelled, connection)
    declared(channel, name, STREAM)
    publish(channel, name, 0, 2)
    assert member(connection, name, "g").wait_for(2).bodies == numbers(0, 2)


def test_an_exclusive_member_is_the_only_one_of_its_group(connection, channel, name):
    declared(channel, name, KEPT)
    member(connection, name, "g", consume={"exclusive": True})
    member(connection, name, "other")
    with pytest.raises(ChannelClosedByBroker) as closed:
        member(connection, name, "g")
    assert closed.value.reply_code == 403


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"x-group": ""}, "it is empty"),
        ({"x-group": "g" * 256}, "longer than 255 bytes"),
        ({"x-group": "é" * 128}, "longer than 255 bytes"),
        ({"x-group": 5}, "unacceptable type"),
        ({"x-group": True}, "unacceptable type"),
        ({"x-group": "a\nb"}, "cannot be printed"),
        ({"x-group": "g", "x-group-expires": "soon"}, "x-group-expires"),
        ({"x-group": "g", "x-group-expires": "0s"}, "x-group-expires"),
        ({"x-group": "g", "x-group-expires": 5}, "x-group-expires"),
        ({"x-group-expires": "7d"}, "there is no 'x-group'"),
        ({"x-group": "g", "x-stream-offset": "somewhere"}, "x-stream-offset"),
    ],
)
def test_arguments_that_cannot_be_are_refused(connection, channel, name, arguments, text):
    declared(channel, name, KEPT)
    consumer = connection.channel()
    consumer.basic_qos(prefetch_count=5)
    with pytest.raises(ChannelClosedByBroker) as closed:
        consumer.basic_consume(name, lambda *_: None, arguments=arguments)
    assert closed.value.reply_code == 406
    assert text in closed.value.reply_text


def test_a_queue_that_keeps_no_log_has_no_groups(connection, channel, name):
    channel.queue_declare(name, durable=True)
    with pytest.raises(ChannelClosedByBroker) as closed:
        member(connection, name, "g", offset="next")
    assert closed.value.reply_code == 406
    assert "keeps no log" in closed.value.reply_text


def test_on_a_stream_members_that_acknowledge_need_a_prefetch(connection, channel, name):
    declared(channel, name, STREAM)
    with pytest.raises(ChannelClosedByBroker) as closed:
        member(connection, name, "g", prefetch=0)
    assert closed.value.reply_code == 406


def test_a_stream_without_a_group_needs_acks_as_before(clients, name):
    channel = clients.channel()
    declared(channel, name, STREAM)
    with pytest.raises(ConnectionClosedByBroker) as closed:
        channel.basic_consume(name, lambda *_: None, auto_ack=True)
    assert closed.value.reply_code == 540


def test_a_queue_has_at_most_256_groups(connection, channel, name):
    declared(channel, name, KEPT)
    reader = connection.channel()
    for number in range(256):
        reader.basic_consume(name, lambda *_: None, arguments={"x-group": f"g{number}"})
    with pytest.raises(ChannelClosedByBroker) as closed:
        reader.basic_consume(name, lambda *_: None, arguments={"x-group": "more"})
    assert closed.value.reply_code == 406
    assert "256 consumer groups" in closed.value.reply_text
    member(connection, name, "g255")  # one that is there


def test_an_auto_delete_queue_stays_while_a_group_consumes(clients, connection, name):
    channel = connection.channel()
    channel.queue_declare(name, auto_delete=True, arguments=KEPT)
    inbox = member(connection, name, "g")
    other = Inbox(channel, name)
    channel.basic_cancel(other.tag)
    channel.queue_declare(name, passive=True)
    inbox.channel.basic_cancel(inbox.tag)
    with pytest.raises(ChannelClosedByBroker) as closed:
        channel.queue_declare(name, passive=True)
    assert closed.value.reply_code == 404


# -- restarts


def stopped(broker, how, connection):
    if how == "crash":
        broker.kill()
        broker.start()
    else:
        let_stop(broker.restart, connection)


@KINDS
@pytest.mark.parametrize("how", sampled(["crash", "restart"], 2))
def test_every_group_keeps_its_progress_over_a_restart(fresh_broker, client_of, kind, how):
    broker = fresh_broker()
    connection = client_of(broker)
    channel = connection.channel()
    declared(channel, "q", kind)
    publish(channel, "q", 0, 20)
    fast = member(connection, "q", "fast").wait_for(20)
    ack_all(fast)
    slow = member(connection, "q", "slow").wait_for(20)
    for tag in (1, 2, 3, 7, 8, 15):
        slow.channel.basic_ack(tag)
    member(connection, "q", "idle")
    # Its confirm says that the acks before it on this connection are in the journal, too.
    publish(channel, "q", 20, 21)
    stopped(broker, how, connection)
    connection = client_of(broker)
    # Only what came behind its acks.
    assert member(connection, "q", "fast").wait_for(1).bodies == [b"20"]
    left = [number for number in range(21) if number not in (0, 1, 2, 6, 7, 14)]
    assert [int(body) for body in member(connection, "q", "slow").wait_for(15).bodies] == left
    assert member(connection, "q", "idle").wait_for(21).bodies == numbers(0, 21)


@pytest.mark.parametrize("how", sampled(["crash", "restart"], 2))
def test_a_group_that_was_deleted_with_its_queue_does_not_come_back(fresh_broker, client_of, how):
    broker = fresh_broker()
    connection = client_of(broker)
    channel = connection.channel()
    declared(channel, "q", STREAM)
    publish(channel, "q", 0, 5)
    ack_all(member(connection, "q", "g").wait_for(5))
    channel.queue_delete("q")
    declared(channel, "q", STREAM)
    publish(channel, "q", 5, 8)
    stopped(broker, how, connection)
    assert member(client_of(broker), "q", "g").wait_for(3).bodies == numbers(5, 8)


@pytest.mark.long
def test_acked_never_comes_back_and_unacked_does_over_many_crashes(fresh_broker, client_of):
    broker = fresh_broker(ROUTELOG_SEGMENT_BYTES="65536", ROUTELOG_FLUSH_SECONDS="0.02")
    connection = client_of(broker)
    declared(connection.channel(), "q", KEPT)
    waiting: dict[str, set[Any]] = {"a": set(), "b": set()}
    for group in waiting:
        member(connection, "q", group).channel.close()
    for crash in range(5):
        connection = client_of(broker)
        channel = connection.channel()
        channel.confirm_delivery()
        publish(channel, "q", crash * 40, crash * 40 + 39)
        for group, numbers_left in waiting.items():
            numbers_left.update(range(crash * 40, crash * 40 + 39))
            inbox = member(connection, "q", group, prefetch=500).wait_for(len(numbers_left))
            assert sorted(map(int, inbox.bodies)) == sorted(numbers_left)
            for deliver, _, body in inbox.deliveries:
                if (int(body) + crash) % (2 if group == "a" else 3):
                    inbox.channel.basic_ack(deliver.delivery_tag)
                    numbers_left.remove(int(body))
        # Its confirm says that the acks before it on this connection are in the journal, too.
        publish(channel, "q", crash * 40 + 39, crash * 40 + 40)
        for numbers_left in waiting.values():
            numbers_left.add(crash * 40 + 39)
        broker.kill()
        broker.start()


def test_a_group_holds_what_it_has_not_read_and_a_forced_retention_does_not_wait(
    fresh_broker, client_of
):
    broker = fresh_broker(
        ROUTELOG_SEGMENT_BYTES="65536",
        ROUTELOG_FLUSH_SECONDS="0.05",
        ROUTELOG_RETENTION_SECONDS="0.1",
    )
    connection = client_of(broker)
    channel = connection.channel()
    limit = {"x-max-length-bytes": 200_000}
    declared(channel, "held", STREAM, **limit)
    declared(channel, "forced", STREAM, **limit, **{"x-retention-force": True})
    for queue in ("held", "forced"):
        member(connection, queue, "g").channel.close()
    for number in range(1_000):
        for queue in ("held", "forced"):
            channel.basic_publish("", queue, b"%d" % number + bytes(1_000), PERSISTENT)
    wait_until(lambda: "lost" in broker.log_text(), connection)
    assert "group 'g' of queue 'forced' in vhost '/' lost" in broker.log_text()
    assert "queue 'held'" not in broker.log_text()
    held = member(connection, "held", "g", prefetch=1_000).wait_for(1_000)
    assert [int(body.rstrip(b"\0")) for body in held.bodies] == list(range(1_000))
    forced = member(connection, "forced", "g", prefetch=1_000)
    forced.wait_for_at_least(100)  # two segments of 60 and more
    first = int(forced.bodies[0].rstrip(b"\0"))
    assert first > 500
    forced.wait_for(1_000 - first)
    ack_all(held)
    # Nothing happens in the queue: the timer finds that nobody holds its oldest segments any more.
    segments = broker.data_dir / "logs" / "%2F" / "held-0"
    wait_until(lambda: len(list(segments.glob("*.log"))) <= 5, connection)


def test_old_segments_go_while_nothing_happens(fresh_broker, client_of):
    broker = fresh_broker(
        ROUTELOG_SEGMENT_BYTES="65536",
        ROUTELOG_FLUSH_SECONDS="0.05",
        ROUTELOG_RETENTION_SECONDS="0.1",
    )
    channel = client_of(broker).channel()
    declared(channel, "old", STREAM, **{"x-max-age": "1s"})
    for number in range(500):
        channel.basic_publish("", "old", b"%d" % number + bytes(1_000), PERSISTENT)
    segments = broker.data_dir / "logs" / "%2F" / "old-0"
    # Named by their first offsets: one is left, and it is not the first.
    wait_until(lambda: [int(path.stem) > 0 for path in segments.glob("*.log")] == [True])
