"""The durability dial, with real clients: what is refused, what is confirmed, what is there again."""

from __future__ import annotations

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker
from support.management_door import ManagementDoor
from support.pika_client import PERSISTENT, Clients, drain, ready_count

pytestmark = pytest.mark.differs_from_rabbitmq("it has no x-durability")

LEVELS = ("memory", "os", "disk")


def declare(channel, level, **options):
    name = f"queue-{level}"
    channel.queue_declare(name, durable=True, arguments={"x-durability": level}, **options)
    return name


def confirmed(channel, queue, *bodies):
    """Publish persistent messages; each is confirmed when this returns."""
    channel.confirm_delivery()
    for body in bodies:
        channel.basic_publish("", queue, body, PERSISTENT)


class Restarting:
    """A broker whose segments are not written by themselves, and a client of each of its runs."""

    def __init__(self, broker):
        self._broker = broker
        self.door = ManagementDoor(broker)
        self._clients = Clients(broker.url)

    def channel(self):
        return self._clients.channel()

    def kill(self):
        self._broker.kill()
        self._clients = Clients(self._broker.start().url)

    def stop(self):
        self.close()
        self._broker.restart()
        self._clients = Clients(self._broker.url)

    def close(self):
        self._clients.close()  # a client that is not asked to leave keeps the broker waiting


@pytest.fixture
def restarting(fresh_broker):
    running = Restarting(fresh_broker(ROUTELOG_FLUSH_SECONDS="3600"))
    yield running
    running.close()


def test_what_is_confirmed_survives_sigkill_as_the_queue_promises(restarting):
    channel = restarting.channel()
    for level in LEVELS:
        queue = declare(channel, level)
        confirmed(channel, queue, *(b"%d" % n for n in range(20)))
        found, _, _ = channel.basic_get(queue)
        assert found.message_count == 19
    restarting.kill()
    channel = restarting.channel()
    assert drain(channel, "queue-disk") == [b"%d" % n for n in range(20)]
    assert drain(channel, "queue-os") == [b"%d" % n for n in range(20)]
    # No promise; it began again, at an offset nobody has used.
    assert set(drain(channel, "queue-memory")) <= {b"%d" % n for n in range(20)}
    for level in LEVELS:
        confirmed(channel, f"queue-{level}", b"next")
        assert drain(channel, f"queue-{level}") == [b"next"]


@pytest.mark.parametrize("level", LEVELS)
def test_a_clean_stop_keeps_messages_and_acks_at_every_level(restarting, level):
    channel = restarting.channel()
    queue = declare(channel, level)
    confirmed(channel, queue, b"a", b"b", b"c", b"d")
    for _ in range(2):
        found, _, _ = channel.basic_get(queue)
    channel.basic_ack(found.delivery_tag)  # b; a is held and comes again
    assert ready_count(channel, queue) == 2
    restarting.stop()
    channel = restarting.channel()
    assert drain(channel, queue) == [b"a", b"c", b"d"]
    restarting.stop()
    assert ready_count(restarting.channel(), queue) == 0


def test_one_publish_to_queues_of_all_levels_is_confirmed_when_all_have_it(restarting):
    channel = restarting.channel()
    for level in LEVELS:
        channel.queue_bind(declare(channel, level), "amq.fanout")
    channel.confirm_delivery()
    for number in range(10):
        channel.basic_publish("amq.fanout", "", b"%d" % number, PERSISTENT)
    restarting.kill()
    channel = restarting.channel()
    for level in ("os", "disk"):
        assert drain(channel, f"queue-{level}") == [b"%d" % n for n in range(10)]


@pytest.mark.parametrize("level", LEVELS)
def test_a_transaction_is_as_safe_as_its_queue(restarting, level):
    channel = restarting.channel()
    queue = declare(channel, level)
    channel.tx_select()
    for number in range(5):
        channel.basic_publish("", queue, b"%d" % number, PERSISTENT)
    channel.tx_commit()
    assert ready_count(channel, queue) == 5
    if level != "memory":
        restarting.kill()
        channel = restarting.channel()
    assert drain(channel, queue) == [b"%d" % n for n in range(5)]


def test_the_default_is_the_operators(fresh_broker):
    broker = fresh_broker(ROUTELOG_DEFAULT_DURABILITY="memory", ROUTELOG_LOG_LEVEL="debug")
    clients = Clients(broker.url)
    channel = clients.channel()
    channel.queue_declare("plain", durable=True)
    declare(channel, "os")
    clients.close()
    log = broker.log_text()
    assert "queue 'plain' in '/': durability memory" in log
    assert "queue 'queue-os' in '/': durability os" in log


@pytest.mark.parametrize("options", [{"durable": False}, {"durable": True, "exclusive": True}])
@pytest.mark.parametrize("level", ["os", "disk"])
def test_a_queue_that_is_not_kept_cannot_promise_to_keep(channel, options, level):
    with pytest.raises(ChannelClosedByBroker) as closed:
        channel.queue_declare("", arguments={"x-durability": level}, **options)
    assert closed.value.reply_code == 406
    assert "'x-durability'" in closed.value.reply_text
    assert "only durable queues" in closed.value.reply_text


@pytest.mark.parametrize("value", ["", "Disk", "mirror", 1, True])
def test_an_unknown_level_is_refused(channel, value):
    with pytest.raises(ChannelClosedByBroker) as closed:
        channel.queue_declare("refused", durable=True, arguments={"x-durability": value})
    assert closed.value.reply_code == 406
    assert "memory, os, disk, mirrored" in closed.value.reply_text


def test_a_mirrored_or_quorum_queue_of_a_node_on_its_own_promises_the_disk(fresh_broker):
    restarting = Restarting(
        fresh_broker(ROUTELOG_FLUSH_SECONDS="3600", ROUTELOG_DEFAULT_DURABILITY="memory")
    )
    door = restarting.door
    mirrored = {"pattern": "^ha", "definition": {"ha-mode": "all", "min-in-sync": 2}}
    assert door.ask("PUT", "policies", "/", "ha", body=mirrored) == (201, None)
    channel = restarting.channel()
    quorum = {"x-queue-type": "quorum", "x-quorum-initial-group-size": 3}
    asked = {"level": {"x-durability": "mirrored"}, "quorum": quorum, "ha": {}}
    for name, arguments in asked.items():
        channel.queue_declare(name, durable=True, arguments=arguments)
        confirmed(channel, name, b"kept")
    assert [door.get("queues", "/", name)["durability"] for name in asked] == ["disk"] * 3
    assert door.get("queues", "/", "ha")["min_in_sync"] == 1
    assert len(door.get("queues", "/", "quorum")["members"]) == 1
    restarting.kill()
    channel = restarting.channel()
    for name in asked:
        assert drain(channel, name) == [b"kept"]
    restarting.close()


def test_the_level_is_compared_at_redeclaration(connection, name):
    channel = connection.channel()
    channel.queue_declare(name, durable=True, arguments={"x-durability": "os"})
    channel.queue_declare(name, durable=True, arguments={"x-durability": "os"})
    for arguments in ({}, {"x-durability": "disk"}):
        with pytest.raises(ChannelClosedByBroker) as closed:
            connection.channel().queue_declare(name, durable=True, arguments=arguments)
        assert closed.value.reply_code == 406
    channel.queue_delete(name)


def test_a_stream_takes_every_level(restarting):
    channel = restarting.channel()
    for level in LEVELS:
        arguments = {"x-queue-type": "stream", "x-durability": level}
        channel.queue_declare(f"stream-{level}", durable=True, arguments=arguments)
        confirmed(channel, f"stream-{level}", b"a", b"b")
    restarting.stop()
    channel = restarting.channel()
    assert [ready_count(channel, f"stream-{level}") for level in LEVELS] == [2, 2, 2]


def test_a_memory_queue_that_is_not_durable_may_say_so(channel):
    queue = channel.queue_declare("", exclusive=True, arguments={"x-durability": "memory"})
    confirmed(channel, queue.method.queue, b"a")
    assert drain(channel, queue.method.queue) == [b"a"]


def test_a_transient_message_is_confirmed_at_every_level(channel, name):
    channel.confirm_delivery()
    for level in LEVELS:
        queue = f"{name}-{level}"
        channel.queue_declare(queue, durable=True, arguments={"x-durability": level})
        channel.basic_publish("", queue, b"t", pika.BasicProperties(delivery_mode=1))
        assert drain(channel, queue) == [b"t"]
        channel.queue_delete(queue)
