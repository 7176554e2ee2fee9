"""A message to thousands of queues: all of them get it, whatever happens while it is on its way."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest
from pamqp import commands
from scenarios.clients.bystander import Bystander
from scenarios.clients.raw_client import RawClient, content_body, content_header, message, publish
from support.broker_process import BrokerProcess
from support.waiting import wait_until

COUNT = 5_000  # queues: some ten turns
DURABLE_EVERY = 100
SAMPLE = (0, 17, 2_600, COUNT - 1)
MESSAGES = (b"0", b"1", b"2", b"3", b"4")
MANDATORY = 1
PERSISTENT, TRANSIENT = b"\x10\x00\x02", b"\x10\x00\x01"
SECONDS = 60.0

pytestmark = pytest.mark.differs_from_rabbitmq("needs brokers of its own")


@contextlib.contextmanager
def opened(broker: BrokerProcess) -> Iterator[RawClient]:
    """A connection with a channel."""
    url = urlsplit(broker.url)
    assert url.hostname is not None
    assert url.port is not None
    with RawClient(url.hostname, url.port) as client:
        client.open()
        client.open_channel()
        yield client


@pytest.fixture
def broker(fresh_broker: Callable[..., BrokerProcess]) -> BrokerProcess:
    """A broker with exchange "all", bound to queues, some of which are durable."""
    broker = fresh_broker()
    with opened(broker) as client:
        declare = commands.Exchange.Declare(exchange="all", exchange_type="fanout", durable=True)
        client.call(declare, commands.Exchange.DeclareOk)
        for number in range(COUNT):
            queue = f"all.{number}"
            durable = number % DURABLE_EVERY == 0
            declare_queue = commands.Queue.Declare(queue=queue, durable=durable, nowait=True)
            client.send(declare_queue, channel=1)
            bind = commands.Queue.Bind(queue=queue, exchange="all", routing_key="", nowait=True)
            client.send(bind, channel=1)
        declare_none = commands.Exchange.Declare(exchange="all", passive=True)
        client.send(declare_none, channel=1)
        client.expect(commands.Exchange.DeclareOk, SECONDS)
    return broker


def to_all(body: bytes, exchange: str = "all", properties: bytes = PERSISTENT) -> bytes:
    """A mandatory message to all queues."""
    head = publish(exchange, "", MANDATORY) + content_header(len(body), properties)
    return head + content_body(body)


def ready(client: RawClient, number: int) -> int:
    """How many messages a queue has."""
    declare = commands.Queue.Declare(queue=f"all.{number}", passive=True)
    return int(client.call(declare, commands.Queue.DeclareOk).message_count)


def confirmed(client: RawClient, count: int) -> None:
    """All publishes so far are confirmed, and nothing else is said."""
    last = 0
    while last < count:
        last = client.expect(commands.Basic.Ack, SECONDS).delivery_tag


def test_each_queue_has_all_messages_in_their_order(broker: BrokerProcess) -> None:
    with opened(broker) as client, opened(broker) as other:
        client.call(commands.Confirm.Select(), commands.Confirm.SelectOk)
        client.send_bytes(
            b"".join((to_all(b"0"), to_all(b"1", properties=TRANSIENT), to_all(b"2"), to_all(b"3")))
        )
        client.send_bytes(b"".join(message(f"all.{number}", b"4") for number in SAMPLE))
        confirmed(client, 4 + len(SAMPLE))
        for number in SAMPLE:
            assert [other.get(f"all.{number}") for _ in range(6)] == [*MESSAGES, None]
        assert {ready(other, number) for number in range(1, 1_000, 7)} == {4}


def test_others_are_served_meanwhile(broker: BrokerProcess) -> None:
    bystander = Bystander(broker.host, broker.port)
    try:
        with opened(broker) as client:
            client.call(commands.Confirm.Select(), commands.Confirm.SelectOk)
            client.send_bytes(to_all(b"all") * 20)
            bystander.assert_undisturbed()
            confirmed(client, 20)
    finally:
        bystander.stop()


def test_a_client_who_leaves_at_once_has_published_to_all(broker: BrokerProcess) -> None:
    with opened(broker) as client:
        client.send_bytes(to_all(b"all"))
    with opened(broker) as other:
        wait_until(lambda: ready(other, COUNT - 1) == 1)
        wait_until(lambda: all(ready(other, number) == 1 for number in range(0, COUNT, 10)))


def test_what_is_under_way_when_the_broker_stops_arrives_at_all(broker: BrokerProcess) -> None:
    with opened(broker) as client:
        client.send_bytes(to_all(b"all", properties=PERSISTENT) + to_all(b"all") * 20)
        with opened(broker) as other:
            wait_until(lambda: ready(other, SAMPLE[0]) > 0)
        broker.terminate()
    broker.start()
    with opened(broker) as other:
        assert len({ready(other, number) for number in range(0, COUNT, DURABLE_EVERY)}) == 1
