"""The exchange types of RabbitMQ's plugins, as pika meets them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.spec import BasicProperties
from support.broker_process import BrokerProcess
from support.pika_client import Clients, Inbox, declare, drain, let_stop, ready_count
from support.waiting import wait_until

pytestmark = pytest.mark.differs_from_rabbitmq("these types are plugins there")

ONCE = {"x-cache-size": 100}


def keyed(key: object, **properties: Any) -> BasicProperties:
    headers = {"x-deduplication-header": key, **properties.pop("headers", {})}
    return BasicProperties(headers=headers, **properties)


@pytest.fixture
def exchange(channel: BlockingChannel, name: str) -> Iterator[Callable[..., str]]:
    """Declares an exchange that is deleted at the end of the test."""
    declared: list[str] = []

    def make(kind: str, suffix: str = "", **options: Any) -> str:
        channel.exchange_declare(name + suffix, kind, **options)
        declared.append(name + suffix)
        return name + suffix

    yield make
    if channel.is_open:
        for each in declared:
            channel.exchange_delete(each)


def bound(channel: BlockingChannel, exchange: str, *keys: str) -> list[str]:
    queues = [declare(channel) for _ in keys]
    for queue, key in zip(queues, keys, strict=True):
        channel.queue_bind(queue, exchange, key)
    return queues


def test_consistent_hash_keeps_the_order_of_each_key(
    channel: BlockingChannel, exchange: Callable[..., str]
) -> None:
    x = exchange("x-consistent-hash")
    queues = bound(channel, x, "1", "1", "2")
    for number in range(400):
        channel.basic_publish(x, f"key-{number % 40}", b"%d" % number)
    found = [drain(channel, queue) for queue in queues]
    assert sum(map(len, found)) == 400
    assert all(found)
    for bodies in found:
        by_key: dict[int, list[int]] = {}
        for number in map(int, bodies):
            by_key.setdefault(number % 40, []).append(number)
        assert all(numbers == list(range(key, 400, 40)) for key, numbers in by_key.items())


def test_consistent_hash_by_header_ignores_the_routing_key(
    channel: BlockingChannel, exchange: Callable[..., str]
) -> None:
    x = exchange("x-consistent-hash", arguments={"hash-header": "user"})
    queues = bound(channel, x, "1", "1")
    for number in range(100):
        properties = BasicProperties(headers={"user": f"u{number % 10}"})
        channel.basic_publish(x, str(number), b"%d" % (number % 10), properties)
    found = [Counter(drain(channel, queue)) for queue in queues]
    assert not found[0].keys() & found[1].keys()
    assert set((found[0] + found[1]).values()) == {10}


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("x-consistent-hash", {"arguments": {"hash-header": "a", "hash-property": "message_id"}}),
        ("x-consistent-hash", {"arguments": {"hash-property": "priority"}}),
        ("x-message-deduplication", {}),
        ("x-message-deduplication", {"arguments": {"x-cache-size": 0}}),
        (
            "x-message-deduplication",
            {"arguments": {"x-cache-size": 1, "x-cache-persistence": "no"}},
        ),
        ("x-recent-history", {"arguments": {"x-recent-history-length": 0}}),
    ],
)
def test_bad_arguments_are_406(clients: Clients, name: str, kind: str, options: Any) -> None:
    channel = clients.channel()
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
        channel.exchange_declare(name, kind, **options)
    assert closed.value.reply_code == 406


@pytest.mark.parametrize(
    ("kind", "key"),
    [("x-consistent-hash", "heavy"), ("x-consistent-hash", "0"), ("x-local-random", "k")],
)
def test_a_bad_binding_key_is_406(
    clients: Clients, exchange: Callable[..., str], kind: str, key: str
) -> None:
    x = exchange(kind)
    channel = clients.channel()
    queue = declare(channel)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
        channel.queue_bind(queue, x, key)
    assert closed.value.reply_code == 406


@pytest.mark.parametrize("kind", ["x-random", "x-local-random"])
def test_random_gives_each_message_to_one_queue(
    channel: BlockingChannel, exchange: Callable[..., str], kind: str
) -> None:
    x = exchange(kind)
    queues = bound(channel, x, "", "", "")
    for number in range(300):
        channel.basic_publish(x, "any", b"%d" % number)
    found = [drain(channel, queue) for queue in queues]
    assert sorted(int(body) for bodies in found for body in bodies) == list(range(300))
    assert all(len(bodies) > 50 for bodies in found)


def test_modulus_hash_gives_a_key_one_queue(
    channel: BlockingChannel, exchange: Callable[..., str]
) -> None:
    x = exchange("x-modulus-hash")
    queues = bound(channel, x, "", "", "")
    for number in range(300):
        channel.basic_publish(x, f"k{number % 30}", b"%d" % (number % 30))
    found = [Counter(drain(channel, queue)) for queue in queues]
    assert sum(map(len, found)) == 30
    assert all(set(each.values()) == {10} for each in found if each)


def test_a_duplicate_is_confirmed_and_dropped(
    channel: BlockingChannel, exchange: Callable[..., str]
) -> None:
    x = exchange("x-message-deduplication", arguments=ONCE)
    queues = bound(channel, x, "", "other")
    channel.confirm_delivery()
    for number, key in enumerate(["a", "b", "a", 1, "1", 1, None, None]):
        channel.basic_publish(x, "k", b"%d" % number, keyed(key), mandatory=True)
    channel.basic_publish(x, "k", b"bare")
    for queue in queues:
        assert drain(channel, queue) == [b"0", b"1", b"3", b"4", b"6", b"7", b"bare"]


def test_a_message_that_no_queue_took_was_not_seen(
    channel: BlockingChannel, exchange: Callable[..., str]
) -> None:
    x = exchange("x-message-deduplication", arguments=ONCE)
    channel.confirm_delivery()
    with pytest.raises(pika.exceptions.UnroutableError):
        channel.basic_publish(x, "", b"first", keyed("a"), mandatory=True)
    [queue] = bound(channel, x, "")
    channel.basic_publish(x, "", b"second", keyed("a"), mandatory=True)
    channel.basic_publish(x, "", b"third", keyed("a"), mandatory=True)
    assert drain(channel, queue) == [b"second"]


def test_a_message_that_a_full_queue_refused_was_not_seen(
    channel: BlockingChannel, exchange: Callable[..., str]
) -> None:
    x = exchange("x-message-deduplication", arguments=ONCE)
    full = {"x-max-length": 1, "x-overflow": "reject-publish"}
    queue = declare(channel, arguments=full)
    channel.queue_bind(queue, x, "")
    channel.confirm_delivery()
    channel.basic_publish(x, "", b"first", keyed("a"))
    for _ in range(2):
        with pytest.raises(pika.exceptions.NackError):
            channel.basic_publish(x, "", b"second", keyed("b"))
    assert drain(channel, queue) == [b"first"]
    channel.basic_publish(x, "", b"again", keyed("b"))
    assert drain(channel, queue) == [b"again"]


def test_the_oldest_key_goes_when_they_are_too_many(
    channel: BlockingChannel, exchange: Callable[..., str]
) -> None:
    x = exchange("x-message-deduplication", arguments={"x-cache-size": 3})
    [queue] = bound(channel, x, "")
    channel.confirm_delivery()
    for key in ("a", "b", "c", "d", "a", "c", "d"):
        channel.basic_publish(x, "", key.encode(), keyed(key))
    assert drain(channel, queue) == [b"a", b"b", b"c", b"d", b"a"]


def test_a_key_counts_for_its_time_only(
    channel: BlockingChannel, exchange: Callable[..., str]
) -> None:
    x = exchange("x-message-deduplication", arguments={"x-cache-size": 9, "x-cache-ttl": 60_000})
    [queue] = bound(channel, x, "")
    channel.basic_publish(x, "", b"short", keyed("s", headers={"x-cache-ttl": 1}))
    channel.basic_publish(x, "", b"long", keyed("l"))

    def again() -> bool:
        channel.basic_publish(x, "", b"short", keyed("s", headers={"x-cache-ttl": 1}))
        channel.basic_publish(x, "", b"long", keyed("l"))
        return ready_count(channel, queue) > 2

    wait_until(again)
    assert drain(channel, queue).count(b"long") == 1


def test_copies_of_one_message_are_no_duplicates_of_it(
    channel: BlockingChannel, exchange: Callable[..., str]
) -> None:
    inner = exchange("x-message-deduplication", ".inner", arguments=ONCE)
    channel.exchange_bind(inner, exchange("direct"), "a")
    outer = exchange("direct")
    channel.exchange_bind(inner, outer, "b")
    [queue] = bound(channel, inner, "")
    copied = keyed("k", headers={"CC": ["b"], "BCC": ["c"]})
    for body in (b"first", b"second"):
        channel.basic_publish(outer, "a", body, copied)
    [(_, properties, body)] = Inbox(channel, queue, auto_ack=True).wait_for(1).deliveries
    assert body == b"first"
    assert properties.headers["CC"] == ["b"]
    assert "BCC" not in properties.headers


@pytest.mark.differs_at_fronts("no transaction publishes through an exchange that deduplicates")
def test_a_transaction_is_deduplicated_as_a_whole(
    channel: BlockingChannel, exchange: Callable[..., str]
) -> None:
    x = exchange("x-message-deduplication", arguments=ONCE)
    [queue] = bound(channel, x, "")
    channel.tx_select()
    for end, keys in (
        (channel.tx_rollback, "ab"),
        (channel.tx_commit, "aab"),
        (channel.tx_commit, "bc"),
    ):
        for key in keys:
            channel.basic_publish(x, "", key.encode(), keyed(key))
            channel.basic_publish("", "nobody", b"between")
        end()
    assert drain(channel, queue) == [b"a", b"b", b"c"]


def test_dead_letters_are_deduplicated(
    channel: BlockingChannel, exchange: Callable[..., str]
) -> None:
    x = exchange("x-message-deduplication", arguments=ONCE)
    [letters] = bound(channel, x, "")
    queue = declare(channel, arguments={"x-dead-letter-exchange": x})
    for body in (b"first", b"second"):
        channel.basic_publish("", queue, body, keyed("a"))
    channel.basic_publish("", queue, b"third", keyed("b"))
    inbox = Inbox(channel, queue).wait_for(3)
    for tag in inbox.delivery_tags:
        channel.basic_reject(tag, requeue=False)
    assert Inbox(channel, letters, auto_ack=True).wait_for(2).bodies == [b"first", b"third"]


def test_a_new_binding_gets_the_history(
    channel: BlockingChannel, exchange: Callable[..., str]
) -> None:
    x = exchange("x-recent-history", arguments={"x-recent-history-length": 3})
    [early] = bound(channel, x, "k")
    for number in range(5):
        channel.basic_publish(x, f"k{number}", b"%d" % number)
    unkept = BasicProperties(headers={"x-recent-history-no-store": True})
    channel.basic_publish(x, "k", b"unkept", unkept)
    [late] = bound(channel, x, "")
    deliveries = Inbox(channel, late, auto_ack=True).wait_for(3).deliveries
    assert [(each.exchange, each.routing_key) for each, _, _ in deliveries] == [
        (x, f"k{number}") for number in (2, 3, 4)
    ]
    assert len(drain(channel, early)) == 6
    channel.queue_bind(late, x, "")
    assert ready_count(channel, late) == 0, "it was bound already"


def test_a_new_binding_of_an_exchange_hands_the_history_on(
    channel: BlockingChannel, exchange: Callable[..., str]
) -> None:
    x, other = exchange("x-recent-history"), exchange("topic", ".other")
    [queue] = bound(channel, other, "a.#")
    for key in ("a.1", "b", "a.2"):
        channel.basic_publish(x, key, key.encode())
    channel.exchange_bind(other, x, "")
    assert drain(channel, queue) == [b"a.1", b"a.2"]


def test_the_memory_of_an_exchange_ends_with_it(channel: BlockingChannel, name: str) -> None:
    for body in (b"first", b"second"):
        arguments = {**ONCE, "x-cache-persistence": "disk"}
        channel.exchange_declare(name, "x-message-deduplication", durable=True, arguments=arguments)
        [queue] = bound(channel, name, "")
        channel.basic_publish(name, "", body, keyed("a"))
        assert drain(channel, queue) == [body]
        channel.exchange_delete(name)


def test_what_exchanges_remember_survives_a_stop(
    fresh_broker: Callable[..., BrokerProcess],
) -> None:
    broker = fresh_broker()
    channel = Clients(broker.url).channel()
    channel.confirm_delivery()
    disk = {**ONCE, "x-cache-persistence": "disk"}
    channel.exchange_declare("disk", "x-message-deduplication", durable=True, arguments=disk)
    channel.exchange_declare("memory", "x-message-deduplication", durable=True, arguments=ONCE)
    channel.exchange_declare("history", "x-recent-history", durable=True)
    channel.queue_declare("q", durable=True)
    for x in ("disk", "memory", "history"):
        channel.queue_bind("q", x, "")
        channel.basic_publish(x, "", b"kept", keyed("a", delivery_mode=2))
        channel.basic_publish(x, "", b"transient", keyed("b"))
    let_stop(broker.restart, channel.connection)
    channel = Clients(broker.url).channel()
    assert drain(channel, "q") == [b"kept"] * 3
    for x in ("disk", "memory"):
        channel.basic_publish(x, "", x.encode(), keyed("a", delivery_mode=2))
        channel.basic_publish(x, "", b"transient", keyed("b"))
    assert drain(channel, "q") == [b"transient", b"memory", b"transient"]
    queue = declare(channel)
    channel.queue_bind(queue, "history", "")
    assert drain(channel, queue) == [b"kept"]
