"""What clients find behind a change of leader: queues as they were promised, and nothing that had gone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pika
import pytest
from cluster.brokers.mirrored_brokers import MirroredBrokers, mirrored_brokers
from cluster.brokers.test_brokers import api, client, drained, others
from pika.adapters.blocking_connection import BlockingChannel
from pika.spec import BasicProperties
from support.broker_process import BrokerProcess
from support.management_door import ManagementDoor
from support.pika_client import PERSISTENT, Inbox
from support.waiting import WAIT_SECONDS, wait_until


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `on_leader` was told, line by line: a node and who leads."""
    return tmp_path_factory.mktemp("hook") / "told"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, told: Path) -> Iterator[MirroredBrokers]:
    hook = told.with_name("hook")
    hook.write_text('#!/bin/sh\necho "$2 $3" >> "$1"\n')
    hook.chmod(0o755)
    told.touch()
    with mirrored_brokers(
        tmp_path_factory.mktemp("changes"), ROUTELOG_ON_LEADER=f"{hook},{told}"
    ) as cluster:
        yield cluster


@pytest.fixture
def cluster(running: MirroredBrokers) -> MirroredBrokers:
    running.until_led(in_sync=3)
    return running


def channel_of(broker: BrokerProcess) -> BlockingChannel:
    """One with confirms and the queue `q`, at a broker."""
    channel = client(broker).channel()
    channel.confirm_delivery()
    channel.queue_declare("q", durable=True)
    return channel


def kill_the_leader(cluster: MirroredBrokers) -> BrokerProcess:
    """The leader of before runs again, and all have everything; returns it."""
    leader = cluster.leader()
    leader.kill()
    cluster.until_led(in_sync=2)
    leader.start()
    cluster.until_led(in_sync=3)
    return leader


def until(told: Callable[[], bool], connection: pika.BlockingConnection) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not told():
        assert time.monotonic() < deadline
        connection.process_data_events(0.05)


def test_each_node_tells_a_program_who_leads(cluster: MirroredBrokers, told: Path) -> None:
    def last_told() -> dict[str, str]:
        return dict(line.split() for line in told.read_text().splitlines())

    def names(leader: BrokerProcess) -> dict[str, str]:
        (name,) = (name for name, broker in cluster.brokers.items() if broker is leader)
        return dict.fromkeys(cluster.addresses, f"{name}@test")

    wait_until(lambda: last_told() == names(cluster.leader()))
    before = cluster.leader()
    kill_the_leader(cluster)
    assert cluster.leader() is not before
    wait_until(lambda: last_told() == names(cluster.leader()))


def test_what_was_not_acknowledged_comes_again_and_what_was_does_not(
    cluster: MirroredBrokers,
) -> None:
    leader = cluster.leader()
    channel = channel_of(others(cluster, leader)[0])
    for number in range(20):
        channel.basic_publish("", "q", str(number), PERSISTENT)
    taken = [channel.basic_get("q")[0] for _ in range(10)]
    channel.basic_ack(taken[4].delivery_tag, multiple=True)
    channel.basic_publish("", "q", "behind the acks", PERSISTENT)  # its confirm: they are committed
    kill_the_leader(cluster)
    after = client(leader).channel()
    found = [after.basic_get("q", auto_ack=True) for _ in range(16)]
    assert [body for _, _, body in found] == [
        *(b"%d" % number for number in range(5, 20)),
        b"behind the acks",
    ]
    assert after.basic_get("q")[0] is None
    after.connection.close()


def test_what_is_not_durable_ends_with_its_leader(cluster: MirroredBrokers) -> None:
    leader = cluster.leader()
    channel = channel_of(leader)
    channel.queue_declare("fleeting")
    channel.queue_declare("mine", exclusive=True)
    channel.exchange_declare("fleeting", "fanout")
    channel.queue_bind("q", "fleeting")
    for queue in ("fleeting", "mine", "q"):
        channel.queue_bind(queue, "amq.direct", "k")
    channel.basic_publish("amq.direct", "k", "to all", PERSISTENT)
    kill_the_leader(cluster)
    after = client(cluster.leader()).channel()
    for declare in (
        lambda channel: channel.queue_declare("fleeting", passive=True),
        lambda channel: channel.queue_declare("mine", passive=True),
        lambda channel: channel.exchange_declare("fleeting", passive=True),
    ):
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="404"):
            declare(after.connection.channel())
    status, bindings = api(cluster.leader(), "queues/%2F/q/bindings")
    assert (status, {each["source"] for each in bindings}) == (200, {"", "amq.direct"})
    after.confirm_delivery()
    after.queue_declare("fleeting", durable=True)  # the names are free
    after.basic_publish("amq.direct", "k", "to q alone", PERSISTENT)
    assert drained(cluster.leader()) == ["to all", "to q alone"]
    assert after.basic_get("fleeting")[0] is None
    after.queue_delete("fleeting")
    after.queue_unbind("q", "amq.direct", "k")
    after.connection.close()


@pytest.mark.long
def test_a_node_that_has_caught_up_leads_without_what_is_gone(cluster: MirroredBrokers) -> None:
    leader = cluster.leader()
    away, _ = others(cluster, leader)
    channel = channel_of(leader)
    channel.queue_declare("purged", durable=True)
    for queue in ("q", "purged"):
        for number in range(10):
            channel.basic_publish("", queue, str(number), PERSISTENT)
    away.kill()
    assert len(drained(leader)) == 10
    channel.queue_purge("purged")
    channel.basic_publish("", "q", "new", PERSISTENT)
    away.start()
    cluster.until_led(in_sync=3)
    told, code = cluster.ask("transfer", "--to", f"{away.data_dir.name}@test")
    assert code == 0, told
    after = client(away).channel()
    assert after.queue_declare("purged", passive=True).method.message_count == 0
    assert drained(away) == ["new"]
    after.connection.close()


def test_a_publish_that_is_repeated_with_its_key_is_there_once(cluster: MirroredBrokers) -> None:
    keyed = BasicProperties(delivery_mode=2, headers={"x-deduplication-header": "one"})
    arguments = {"x-cache-size": 100, "x-cache-persistence": "disk"}

    def publish(broker: BrokerProcess) -> None:
        channel = channel_of(broker)
        channel.exchange_declare(
            "once", "x-message-deduplication", durable=True, arguments=arguments
        )
        channel.queue_bind("q", "once", "")
        channel.basic_publish("once", "", "once", keyed)
        channel.connection.close()

    leader = cluster.leader()
    publish(leader)
    kill_the_leader(cluster)
    publish(others(cluster, leader)[0])
    assert drained(leader) == ["once"]


def test_a_transaction_is_there_as_a_whole_or_not_at_all(cluster: MirroredBrokers) -> None:
    leader = cluster.leader()
    channel_of(leader).basic_publish("", "q", "to be taken", PERSISTENT)
    channels = [client(leader).channel() for _ in range(2)]
    for name, channel in zip(("committed", "open"), channels, strict=True):
        channel.queue_declare("other", durable=True)
        channel.tx_select()
        if name == "committed":
            channel.basic_ack(channel.basic_get("q")[0].delivery_tag)
        for queue in ("q", "other"):
            channel.basic_publish("", queue, name, PERSISTENT)
    channels[0].tx_commit()
    kill_the_leader(cluster)
    with pytest.raises(pika.exceptions.AMQPError):
        channels[1].tx_commit()  # too late
    assert drained(leader) == ["committed"]
    after = client(leader).channel()
    assert after.basic_get("other", auto_ack=True)[2] == b"committed"
    assert after.basic_get("other", auto_ack=True)[0] is None
    after.connection.close()


def test_a_paused_queue_stays_paused_and_is_resumed(cluster: MirroredBrokers) -> None:
    def turn(step: str) -> None:
        leader = cluster.leader()
        assert api(leader, "queues/%2F/halted")[0] == 200  # by now it takes requests
        ManagementDoor(leader).do("PUT", "queues", "/", "halted", step)

    def state() -> object:
        return api(cluster.leader(), "queues/%2F/halted")[1]["state"]

    leader = cluster.leader()
    channel = channel_of(leader)
    channel.queue_declare("halted", durable=True)
    channel.basic_publish("", "halted", "0", PERSISTENT)
    turn("pause")
    kill_the_leader(cluster)

    after = channel_of(cluster.leader())
    inbox = Inbox(after, "halted", auto_ack=True)
    after.basic_publish("", "halted", "1", PERSISTENT)
    assert after.basic_get("halted")[0] is None
    assert after.queue_declare("halted", passive=True).method.message_count == 2
    assert (state(), inbox.bodies) == ("paused", [])
    turn("resume")
    inbox.wait_for(2)
    assert inbox.bodies == [b"0", b"1"]

    kill_the_leader(cluster)
    assert state() == "running"
    channel = channel_of(cluster.leader())
    channel.basic_publish("", "halted", "2", PERSISTENT)
    assert channel.basic_get("halted", auto_ack=True)[2] == b"2"
    channel.connection.close()


@pytest.mark.long
def test_one_single_active_consumer_goes_on(cluster: MirroredBrokers) -> None:
    def consumer(broker: BrokerProcess, into: list[bytes]) -> BlockingChannel:
        channel = client(broker).channel()
        channel.confirm_delivery()
        channel.queue_declare("single", durable=True, arguments={"x-single-active-consumer": True})
        channel.basic_consume(
            "single", lambda _, method, properties, body: into.append(body), auto_ack=True
        )
        return channel

    leader = cluster.leader()
    first: list[bytes] = []
    second: list[bytes] = []
    consumer(leader, [])
    active = consumer(others(cluster, leader)[0], first)
    leader.kill()
    cluster.until_led(in_sync=2)
    client(others(cluster, leader)[0]).close()  # its node has the next leader: it consumes again
    waiting = consumer(others(cluster, leader)[1], second)
    publisher = channel_of(cluster.leader())
    for number in range(10):
        publisher.basic_publish("", "single", str(number), PERSISTENT)
    until(lambda: len(first) == 10, active.connection)
    waiting.connection.process_data_events(0.2)
    assert second == []
    active.connection.close()
    publisher.basic_publish("", "single", "next", PERSISTENT)
    until(lambda: second == [b"next"], waiting.connection)
    leader.start()
    waiting.connection.close()
    publisher.connection.close()
