"""Queues of several partitions, as pika and aio-pika see them."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections import Counter
from collections.abc import Callable, Iterable

import aio_pika
import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker
from support.pika_client import PERSISTENT, Clients, Inbox, drain, ready_count, round_trip
from support.waiting import WAIT_SECONDS, wait_until

pytestmark = pytest.mark.differs_from_rabbitmq("queues have no partitions")

PARTITIONS = 4
KEYS = [f"user-{number}" for number in range(20)]  # spread over all four partitions


def declare(channel: BlockingChannel, name: str, partitions: int = PARTITIONS, **options) -> str:
    """Declare a queue and the topic exchange of the same name, bound to it with every key."""
    arguments = {"x-partitions": partitions} | options.pop("arguments", {})
    channel.exchange_declare(name, "topic", auto_delete=True)
    channel.queue_declare(name, arguments=arguments, **({"exclusive": True} | options))
    channel.queue_bind(name, name, "#")
    return name


def publish(channel: BlockingChannel, name: str, count: int, keys: Iterable[str] = KEYS) -> None:
    """Publish `<key>:<number>`, so many for each key in turn."""
    keys = list(keys)
    for number in range(count):
        for key in keys:
            channel.basic_publish(name, key, f"{key}:{number}".encode(), PERSISTENT)
    round_trip(channel)


def by_key(bodies: Iterable[bytes]) -> dict[str, list[int]]:
    """The numbers of each key in the order of delivery."""
    found: dict[str, list[int]] = {}
    for body in bodies:
        key, number = body.decode().rsplit(":", 1)
        found.setdefault(key, []).append(int(number))
    return found


def each_in_order(count: int, keys: Iterable[str] = KEYS) -> dict[str, list[int]]:
    return {key: list(range(count)) for key in keys}


# -- declaration


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"x-partitions": 0}, "is not between 1 and 256"),
        ({"x-partitions": 257}, "is not between 1 and 256"),
        ({"x-partitions": "4"}, "unacceptable type 'longstr'"),
        ({"x-partitions": True}, "unacceptable type 'bool'"),
        ({"x-partitions": 4, "x-partition-key": ""}, "a header's name has 1 to 255 bytes"),
        ({"x-partitions": 4, "x-partition-key": "k" * 256}, "a header's name has 1 to 255 bytes"),
        ({"x-partitions": 4, "x-partition-key": 5}, "unacceptable type"),
        ({"x-partition-key": "tenant"}, "there is no 'x-partitions'"),
        ({"x-partition-strategy": "round-robin"}, "there is no 'x-partitions'"),
        (
            {"x-partitions": 4, "x-partition-strategy": "random"},
            "expected one of key, round-robin, header",
        ),
    ],
)
def test_arguments_that_cannot_be_are_refused(channel, name, arguments, text):
    with pytest.raises(ChannelClosedByBroker) as closed:
        channel.queue_declare(name, exclusive=True, arguments=arguments)
    assert closed.value.reply_code == 406
    assert text in closed.value.reply_text


@pytest.mark.parametrize(
    "received",
    [
        {},
        {"x-partitions": 5},
        {"x-partitions": 4, "x-partition-key": "k"},
        {"x-partitions": 4, "x-partition-strategy": "header"},
    ],
    ids=repr,
)
def test_a_redeclaration_has_the_same_partitions(connection, channel, name, received):
    declare(channel, name)
    declare(channel, name)
    with pytest.raises(ChannelClosedByBroker) as closed:
        connection.channel().queue_declare(name, exclusive=True, arguments=received)
    assert closed.value.reply_code == 406
    assert "inequivalent arg 'x-partition" in closed.value.reply_text


# -- strategies


def by_partition(inbox: Inbox) -> dict[int, list[bytes]]:
    """What a reader was given, by partition."""
    found: dict[int, list[bytes]] = {}
    for _, properties, body in inbox.deliveries:
        found.setdefault(properties.headers["x-partition"], []).append(body)
    return found


def reader(channel: BlockingChannel, name: str, count: int) -> Inbox:
    channel.basic_qos(prefetch_count=count)
    return Inbox(channel, name, arguments={"x-stream-offset": "first"}).wait_for(count)


def test_by_round_robin_one_key_is_spread_and_each_partition_is_in_order(channel, name):
    declare(channel, name, arguments={"x-partition-strategy": "round-robin", "x-retention": "1h"})
    bodies = [b"%d" % number for number in range(400)]
    for body in bodies:
        channel.basic_publish(name, "one key", body, PERSISTENT)
        round_trip(channel)  # so each is a run
    found = by_partition(reader(channel, name, 400))
    assert found == {at: bodies[at::PARTITIONS] for at in range(PARTITIONS)}


def test_the_publisher_names_the_partition(channel, name):
    declare(channel, name, arguments={"x-partition-strategy": "header", "x-retention": "1h"})
    for number in range(40):
        headers = {"x-partition": number % 3}
        properties = pika.BasicProperties(delivery_mode=2, headers=headers)
        channel.basic_publish(name, "one key", b"%d" % number, properties)
    found = by_partition(reader(channel, name, 40))
    assert found == {at: [b"%d" % number for number in range(at, 40, 3)] for at in range(3)}


@pytest.mark.parametrize(
    "options",
    [{"durable": True}, {"auto_delete": True, "exclusive": False}, {"exclusive": True}],
    ids=repr,
)
def test_every_kind_of_queue_may_have_256_partitions(channel, name, options):
    declare(channel, name, 256, **options)
    publish(channel, name, 5)
    assert ready_count(channel, name) == 100
    assert by_key(drain(channel, name)) == each_in_order(5)
    channel.queue_delete(name)


# -- consuming


def test_a_single_consumer_gets_each_key_in_order(clients, channel, name):
    declare(channel, name, exclusive=False, auto_delete=True)
    publishers = [clients.channel() for _ in range(3)]
    inbox = Inbox(channel, name, auto_ack=True)
    for number in range(100):
        for at, publisher in enumerate(publishers):
            for key in KEYS[at::2]:
                publisher.basic_publish(name, key, f"{at}.{key}:{number}".encode())
    senders = [f"{at}.{key}" for at in range(3) for key in KEYS[at::2]]
    wait_until(
        lambda: len(inbox.deliveries) >= 100 * len(senders),
        channel.connection,
        *[publisher.connection for publisher in publishers],
    )
    assert by_key(inbox.bodies) == each_in_order(100, senders)


def test_competing_consumers_share_all_partitions(clients, channel, name):
    declare(channel, name, exclusive=False, auto_delete=True)
    inboxes = []
    for _ in range(3):
        consumer = clients.channel()
        consumer.basic_qos(prefetch_count=5)
        inboxes.append(Inbox(consumer, name))
    publish(channel, name, 50)
    acked = [0, 0, 0]

    def all_acked() -> bool:
        for at, inbox in enumerate(inboxes):
            for tag in inbox.delivery_tags[acked[at] :]:
                inbox.channel.basic_ack(tag)
            acked[at] = len(inbox.deliveries)
        return sum(acked) >= 50 * len(KEYS)

    wait_until(all_acked, *[inbox.channel.connection for inbox in inboxes])
    assert Counter(body for inbox in inboxes for body in inbox.bodies) == Counter(
        f"{key}:{number}".encode() for key in KEYS for number in range(50)
    )
    assert all(inbox.deliveries for inbox in inboxes)
    for inbox in inboxes:
        assert all(numbers == sorted(numbers) for numbers in by_key(inbox.bodies).values())


@pytest.mark.parametrize("kind", ["queue", "stream"])
def test_the_credit_of_one_partitions_message_serves_the_others(clients, channel, name, kind):
    options = {"durable": True, "exclusive": False, "arguments": {"x-queue-type": "stream"}}
    declare(channel, name, **(options if kind == "stream" else {}))
    publish(channel, name, 1)
    channel.basic_qos(prefetch_count=1)
    arguments = {"x-stream-offset": "first"} if kind == "stream" else {}
    inbox = Inbox(channel, name, arguments=arguments)
    for count in range(1, len(KEYS) + 1):
        inbox.wait_for(count)
        channel.basic_ack(inbox.delivery_tags[-1])
    assert by_key(inbox.bodies) == each_in_order(1)


def test_get_counts_down_over_all_partitions(channel, name):
    declare(channel, name)
    publish(channel, name, 3)
    for left in range(59, -1, -1):
        method, _, _ = channel.basic_get(name, auto_ack=True)
        assert method.message_count == left
    assert channel.basic_get(name)[0] is None


def test_purge_and_delete_if_empty_see_all_partitions(connection, channel, name):
    declare(channel, name)
    publish(channel, name, 2)
    with pytest.raises(ChannelClosedByBroker) as closed:
        connection.channel().queue_delete(name, if_empty=True)
    assert closed.value.reply_code == 406
    assert channel.queue_purge(name).method.message_count == 40
    assert ready_count(channel, name) == 0
    publish(channel, name, 1, KEYS[:1])
    assert channel.queue_purge(name).method.message_count == 1
    channel.queue_delete(name, if_empty=True)


@pytest.mark.parametrize("how", ["nack", "recover", "close"])
def test_what_is_given_back_is_delivered_again_in_the_order_of_its_key(
    connection, channel, name, how
):
    declare(channel, name)
    publish(channel, name, 5)
    holder = connection.channel()
    tags = [holder.basic_get(name)[0].delivery_tag for _ in range(60)]
    if how == "nack":
        for tag in tags[::2] + tags[1::2]:
            holder.basic_nack(tag, requeue=True)
        round_trip(holder)
    elif how == "recover":
        holder.basic_recover(requeue=True)
    else:
        holder.close()
    assert ready_count(channel, name) == 100
    inbox = Inbox(channel, name).wait_for(100)
    assert by_key(inbox.bodies) == each_in_order(5)
    assert sum(inbox.redelivered) == 60


def test_a_part_may_be_acked_and_the_rest_comes_back(connection, channel, name):
    declare(channel, name)
    publish(channel, name, 10)
    holder = connection.channel()
    holder.basic_qos(prefetch_count=120)
    inbox = Inbox(holder, name).wait_for(120)
    kept = inbox.bodies[1::3]
    for tag in inbox.delivery_tags:
        if tag % 3 != 2:
            holder.basic_ack(tag)
    inbox.wait_for(200)
    holder.basic_ack(200, multiple=True)
    holder.close()
    assert ready_count(channel, name) == 0
    assert len(kept) == 40


# -- keys


def partitions_of(connection, queue: str, count: int) -> list[tuple[int, int, bytes]]:
    """Partition, offset and body of everything in a stream."""
    channel = connection.channel()
    channel.basic_qos(prefetch_count=100)
    inbox = Inbox(channel, queue, arguments={"x-stream-offset": "first"})
    while len(inbox.deliveries) < count:
        channel.basic_ack(0, multiple=True)
        inbox.wait_for_at_least(min(count, len(inbox.deliveries) + 1))
    channel.close()
    return [
        (properties.headers["x-partition"], properties.headers["x-stream-offset"], body)
        for _, properties, body in inbox.deliveries
    ]


STREAM = {"durable": True, "exclusive": False}


def test_readers_are_told_partition_and_offset(connection, channel, name):
    declare(channel, name, **STREAM, arguments={"x-queue-type": "stream"})
    publish(channel, name, 6)
    found = partitions_of(connection, name, 120)
    home = {body.split(b":")[0]: partition for partition, _, body in found}
    assert set(home.values()) == set(range(PARTITIONS))
    for partition in range(PARTITIONS):
        own = [(offset, body) for at, offset, body in found if at == partition]
        assert [offset for offset, _ in own] == list(range(len(own)))
        assert all(home[body.split(b":")[0]] == partition for _, body in own)
    assert by_key(body for _, _, body in found) == each_in_order(6)


def test_a_header_names_the_partition(connection, channel, name):
    arguments = {"x-queue-type": "stream", "x-partition-key": "tenant"}
    declare(channel, name, **STREAM, arguments=arguments)
    for number in range(40):
        for value in (f"{number % 10}", number % 10, None):
            headers = {"other": True} if value is None else {"tenant": value}
            key = str(number % 10) if value is None else f"random.{number}"
            properties = pika.BasicProperties(headers=headers, delivery_mode=2)
            channel.basic_publish(name, key, b"%d" % (number % 10), properties)
    round_trip(channel)
    found = partitions_of(connection, name, 120)
    assert len({(partition, body) for partition, _, body in found}) == 10
    assert len({partition for partition, _, _ in found}) > 1


def test_a_reader_of_one_partition_is_told_none(connection, channel, name):
    declare(channel, name, 1, **STREAM, arguments={"x-queue-type": "stream"})
    publish(channel, name, 1)
    reader = connection.channel()
    reader.basic_qos(prefetch_count=50)
    inbox = Inbox(reader, name, arguments={"x-stream-offset": "first"}).wait_for(20)
    assert {frozenset(properties.headers) for _, properties, _ in inbox.deliveries} == {
        frozenset({"x-stream-offset"})
    }


# -- restarts


@pytest.fixture
def clients_of(request) -> Callable[..., Clients]:
    def opened(broker) -> Clients:
        clients = Clients(broker.url)
        request.addfinalizer(clients.close)
        return clients

    return opened


async def confirmed_until_killed(broker, name: str, first: int, after: int) -> set[bytes]:
    """Publish to all keys, five messages each at a time; kill the broker after so many confirms."""
    confirmed: set[bytes] = set()
    connection = await aio_pika.connect(broker.url, timeout=WAIT_SECONDS)
    exchange = await (await connection.channel()).get_exchange(name)

    async def one(key: str, number: int) -> None:
        body = f"{key}:{number}".encode()
        mode = aio_pika.DeliveryMode.PERSISTENT
        await exchange.publish(aio_pika.Message(body, delivery_mode=mode), key)
        confirmed.add(body)
        if len(confirmed) == after:
            broker.kill()

    async def without_end(key: str) -> None:
        for number in itertools.count(first, 5):
            await asyncio.gather(*[one(key, each) for each in range(number, number + 5)])

    async with asyncio.timeout(60):
        await asyncio.gather(*[without_end(key) for key in KEYS], return_exceptions=True)
    with contextlib.suppress(ConnectionError, aio_pika.exceptions.AMQPError):
        await connection.close()
    return confirmed


@pytest.mark.long
@pytest.mark.parametrize("strategy", ["key", "round-robin"])
def test_nothing_confirmed_is_lost_by_sigkill(fresh_broker, clients_of, strategy):
    broker = fresh_broker(ROUTELOG_SEGMENT_BYTES="65536", ROUTELOG_FLUSH_SECONDS="0.02")
    setup = clients_of(broker).channel()
    arguments = {"x-partition-strategy": strategy, "x-retention": "1h"}
    declare(setup, "kept", durable=True, exclusive=False, arguments=arguments)
    setup.exchange_delete("kept")
    setup.exchange_declare("kept", "topic", durable=True)
    setup.queue_bind("kept", "kept", "#")
    confirmed: set[bytes] = set()
    for round_number, after in enumerate((1, 300, 1_100)):
        first = 1_000_000 * round_number
        confirmed |= asyncio.run(confirmed_until_killed(broker, "kept", first, after))
        broker.start()
    channel = clients_of(broker).channel()
    inbox = reader(channel, "kept", ready_count(channel, "kept"))
    assert len(set(inbox.bodies)) == len(inbox.bodies)
    assert confirmed <= set(inbox.bodies)
    parts = by_partition(inbox).values()
    assert len(parts) == PARTITIONS
    for in_order in [inbox.bodies] if strategy == "key" else parts:
        for numbers in by_key(in_order).values():
            assert numbers == sorted(numbers)


def test_what_was_acked_in_any_partition_does_not_come_back(fresh_broker, clients_of):
    broker = fresh_broker()
    channel = clients_of(broker).channel()
    declare(channel, "kept", durable=True, exclusive=False)
    channel.confirm_delivery()
    publish(channel, "kept", 5)
    channel.basic_qos(prefetch_count=100)
    inbox = Inbox(channel, "kept").wait_for(100)
    acked = {body for at, body in enumerate(inbox.bodies) if at % 3}
    for tag in inbox.delivery_tags:
        if (tag - 1) % 3:
            channel.basic_ack(tag)
    channel.queue_declare("barrier", durable=True)
    for _ in range(2):  # what is confirmed after the acks is behind them in the journal
        channel.basic_publish("", "barrier", b"", PERSISTENT)
    broker.kill()
    broker.start()
    channel = clients_of(broker).channel()
    count = ready_count(channel, "kept")
    again = Inbox(channel, "kept").wait_for(count)
    assert Counter([*again.bodies, *acked]) == Counter(inbox.bodies)
    for numbers in by_key(again.bodies).values():
        assert numbers == sorted(numbers)
