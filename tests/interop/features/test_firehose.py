"""The firehose, as pika meets it."""

from __future__ import annotations

from collections.abc import Iterator

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.spec import BasicProperties
from scenarios.clients.bad_input import Peer
from scenarios.clients.raw_client import message
from support.broker_process import BrokerProcess
from support.management_door import ManagementDoor
from support.pika_client import Clients, Inbox, declare, drain, round_trip, send

pytestmark = pytest.mark.differs_from_rabbitmq("needs its data directory")

TRACE = "amq.rabbitmq.trace"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One of its own: what others publish would be told, too."""
    process = BrokerProcess(tmp_path_factory.mktemp("traced")).start()
    yield process
    process.stop()


@pytest.fixture
def traced(broker: BrokerProcess) -> Iterator[ManagementDoor]:
    door = ManagementDoor(broker)
    door.do("PUT", "vhosts", "/", body={"tracing": True})
    assert door.get("vhosts", "/")["tracing"] is True
    yield door
    door.do("PUT", "vhosts", "/", body={"tracing": False})
    assert door.get("vhosts", "/")["tracing"] is False


def tap(clients: Clients, key: str) -> Inbox:
    channel = clients.channel()
    queue = declare(channel)
    channel.queue_bind(queue, TRACE, key)
    return Inbox(channel, queue, auto_ack=True)


def test_what_is_published_is_told(traced, clients: Clients, channel: BlockingChannel) -> None:
    inbox = tap(clients, "publish.#")
    queue = declare(channel)
    sent = BasicProperties(
        content_type="text/plain", headers={"a": 1, "CC": ["c"], "BCC": ["b"]}, priority=3
    )
    channel.basic_publish("", queue, b"body", sent)
    channel.basic_publish("amq.fanout", "nowhere", b"lost")
    told, lost = inbox.wait_for(2).deliveries
    assert (told[0].exchange, told[0].routing_key, told[2]) == (TRACE, "publish.", b"body")
    headers = told[1].headers
    assert headers["exchange_name"] == ""
    assert headers["routing_keys"] == [queue, "c"]
    assert headers["routed_queues"] == [queue]
    assert headers["properties"]["content_type"] == "text/plain"
    assert headers["properties"]["priority"] == 3
    assert headers["properties"]["headers"] == {"a": 1, "CC": ["c"]}
    assert (headers["vhost"], headers["user"], headers["channel"]) == ("/", "guest", 1)
    assert "127.0.0.1:" in headers["connection"]
    assert headers["node"].startswith("routelog@")
    assert lost[0].routing_key == "publish.amq.fanout"
    assert lost[1].headers["routed_queues"] == []


def test_of_headers_that_nobody_can_read_the_octets_are_told(
    traced, broker: BrokerProcess, clients: Clients, channel: BlockingChannel
) -> None:
    inbox = tap(clients, "publish.#")
    queue = declare(channel)
    fields = b"\x02\xff\xfet\x01"  # a name that is no UTF-8
    listed = (
        (1 << 15 | 1 << 13).to_bytes(2, "big") + b"\x01t" + len(fields).to_bytes(4, "big") + fields
    )
    with Peer(broker.host, broker.port) as peer:
        peer.open()
        peer.open_channel()
        peer.send_bytes(message(queue, b"body", listed))
        ((_, told, body),) = inbox.wait_for(1).deliveries
    assert body == b"body"
    assert told.headers["routed_queues"] == [queue]
    assert told.headers["properties"] == {"content_type": "t", "headers": {"undecoded": fields}}


def test_a_key_that_is_too_long_is_cut_between_characters(
    traced, clients: Clients, channel: BlockingChannel
) -> None:
    exchange = "\u00e9" * 127
    channel.exchange_declare(exchange, "fanout", auto_delete=True)
    inbox = tap(clients, "publish.#")
    channel.basic_publish(exchange, "", b"m")
    ((told, _, _),) = inbox.wait_for(1).deliveries
    assert told.routing_key == "publish." + "\u00e9" * 123
    channel.exchange_delete(exchange)


def test_what_is_held_has_come_to_no_queue_yet(
    traced, clients: Clients, channel: BlockingChannel, name: str
) -> None:
    inbox = tap(clients, f"publish.{name}")
    channel.exchange_declare(name, "x-delayed-message", arguments={"x-delayed-type": "fanout"})
    queue = declare(channel)
    channel.queue_bind(queue, name)
    for delay in (100, 0):
        channel.basic_publish(name, "", b"m", BasicProperties(headers={"x-delay": delay}))
    told = [each.headers["routed_queues"] for _, each, _ in inbox.wait_for(2).deliveries]
    assert told == [[], [queue]]
    Inbox(channel, queue, auto_ack=True).wait_for(2)


def test_what_is_delivered_is_told(traced, clients: Clients, channel: BlockingChannel) -> None:
    queue = declare(channel)
    inbox = tap(clients, f"deliver.{queue}")
    send(channel, queue, b"one", b"two")
    found, _, _ = channel.basic_get(queue)
    channel.basic_nack(found.delivery_tag, requeue=True)
    Inbox(channel, queue, auto_ack=True).wait_for(2)
    told = [(body, each.headers["redelivered"]) for _, each, body in inbox.wait_for(3).deliveries]
    assert told == [(b"one", 0), (b"one", 1), (b"two", 0)]


def test_confirms_and_full_queues_are_as_without_it(traced, channel: BlockingChannel) -> None:
    full = {"x-max-length": 1, "x-overflow": "reject-publish"}
    queue = declare(channel, arguments=full)
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"taken")
    with pytest.raises(pika.exceptions.NackError):
        channel.basic_publish("", queue, b"refused")
    with pytest.raises(pika.exceptions.UnroutableError):
        channel.basic_publish("", "nobody", b"returned", mandatory=True)
    assert drain(channel, queue) == [b"taken"]


def test_nothing_is_told_when_it_is_off(clients: Clients, channel: BlockingChannel) -> None:
    inbox = tap(clients, "#")
    queue = declare(channel)
    send(channel, queue, b"secret")
    drain(channel, queue)
    round_trip(inbox.channel)
    assert inbox.deliveries == []


def test_clients_cannot_publish_to_it_nor_delete_it(clients: Clients) -> None:
    for spoil in (
        lambda channel: channel.basic_publish(TRACE, "publish.x", b"forged"),
        lambda channel: channel.exchange_delete(TRACE),
        lambda channel: channel.exchange_declare("amq.rabbitmq.mine"),
    ):
        channel = clients.channel()
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:  # noqa: PT012
            spoil(channel)
            channel.queue_declare("", exclusive=True)
        assert closed.value.reply_code == 403
