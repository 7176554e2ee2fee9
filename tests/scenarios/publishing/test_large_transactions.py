"""Commits that take many turns of the broker's loop: others are served meanwhile, and it is all or nothing."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from urllib.parse import urlsplit

import pika
import pytest
from pamqp import commands
from scenarios.clients.raw_client import (
    RawClient,
    Silent,
    content_body,
    content_header,
    message,
    publish,
)
from support.broker_process import BrokerProcess
from support.pika_client import drain
from support.waiting import wait_until

COUNT = 60_000  # of messages with as many keys that nobody has routed before: 0.3 s of planning
BY_TURNS = 20_000  # of messages that are a batch each: 0.03 s of appending
AT_ONCE = 2_000
SECONDS = 60.0
PERSISTENT = b"\x10\x00\x02"


def opened(broker: BrokerProcess) -> RawClient:
    """A connection with a channel."""
    url = urlsplit(broker.url)
    assert url.hostname is not None
    assert url.port is not None
    client = RawClient(url.hostname, url.port).open()
    client.open_channel()
    return client


def bind_two(client: RawClient) -> None:
    """Let queues "first" and "second" get what is published to exchange "x"."""
    declare = commands.Exchange.Declare(exchange="x", exchange_type="topic", durable=True)
    client.call(declare, commands.Exchange.DeclareOk)
    for queue in ("first", "second"):
        client.call(commands.Queue.Declare(queue=queue, durable=True), commands.Queue.DeclareOk)
        bind = commands.Queue.Bind(queue=queue, exchange="x", routing_key="#.some")
        client.call(bind, commands.Queue.BindOk)


@pytest.fixture
def connect(fresh_broker: Callable[..., BrokerProcess]) -> Iterator[Callable[[], RawClient]]:
    """Opens connections to a broker of its own."""
    broker = fresh_broker()
    with contextlib.ExitStack() as stack:
        yield lambda: stack.enter_context(opened(broker))


@pytest.fixture
def other(connect: Callable[[], RawClient]) -> RawClient:
    """Another client, who has made the queues."""
    client = connect()
    bind_two(client)
    return client


@pytest.fixture
def tx(connect: Callable[[], RawClient], other: RawClient) -> RawClient:
    """A client with a large transaction, ready to be committed."""
    client = connect()
    client.call(commands.Tx.Select(), commands.Tx.SelectOk)
    fill(client)
    return client


def fill(client: RawClient) -> None:
    """Publish a large transaction, and see that the broker has it."""
    for begin in range(0, COUNT, AT_ONCE):
        numbers = range(begin, begin + AT_ONCE)
        client.send_bytes(
            b"".join(publish("x", f"{number}.some") + content(b"%d" % number) for number in numbers)
        )
    client.call(commands.Basic.Qos(), commands.Basic.QosOk)


def fill_by_turns(client: RawClient) -> None:
    """The same, every second one to "first" alone: so for that each one is a batch of its own."""
    for begin in range(0, BY_TURNS, AT_ONCE):
        ways = ((publish("x", "some"), publish("", "first")) for _ in range(AT_ONCE // 2))
        frames = (
            way + content(b"%d" % (begin + at)) for at, way in enumerate(chain.from_iterable(ways))
        )
        client.send_bytes(b"".join(frames))
    client.call(commands.Basic.Qos(), commands.Basic.QosOk)


def content(payload: bytes) -> bytes:
    """The rest of a persistent message."""
    return content_header(len(payload), PERSISTENT) + content_body(payload)


def ready(client: RawClient, queue: str) -> int:
    """How many messages a queue has."""
    declare = commands.Queue.Declare(queue=queue, durable=True, passive=True)
    return int(client.call(declare, commands.Queue.DeclareOk).message_count)


def test_others_are_served_while_a_commit_is_planned(tx: RawClient, other: RawClient) -> None:
    tx.send(commands.Tx.Commit(), 1)
    other.send_bytes(message("first", b"between"))
    assert ready(other, "first") == 1
    assert other.get("first") == b"between"
    tx.expect(commands.Tx.CommitOk, SECONDS)
    assert (ready(other, "first"), ready(other, "second")) == (COUNT, COUNT)
    assert [other.get("first") for _ in range(3)] == [b"0", b"1", b"2"]


def test_what_follows_the_commit_waits_for_it(tx: RawClient, other: RawClient) -> None:
    tx.send(commands.Tx.Commit(), 1)
    tx.send_bytes(message("first", b"rolled back"))
    tx.send(commands.Tx.Rollback(), 1)
    tx.send_bytes(message("first", b"of the next"))
    tx.send(commands.Queue.Declare(queue="first", durable=True, passive=True), 1)
    tx.send(commands.Tx.Commit(), 1)
    answers = [tx.receive(SECONDS)[1] for _ in range(4)]
    assert [type(each) for each in answers] == [
        commands.Tx.CommitOk,
        commands.Tx.RollbackOk,
        commands.Queue.DeclareOk,
        commands.Tx.CommitOk,
    ]
    assert answers[2].message_count == COUNT
    assert (ready(other, "first"), ready(other, "second")) == (COUNT + 1, COUNT)


def test_an_exchange_deleted_meanwhile_refuses_all_of_it(tx: RawClient, other: RawClient) -> None:
    tx.send(commands.Tx.Commit(), 1)
    other.call(commands.Exchange.Delete(exchange="x"), commands.Exchange.DeleteOk)
    close = tx.expect(commands.Channel.Close, SECONDS)
    assert (close.reply_code, close.class_id, close.method_id) == (404, 90, 20)
    assert (ready(other, "first"), ready(other, "second")) == (0, 0)


def test_a_connection_that_is_cut_meanwhile_has_published_nothing_and_returns_what_it_held(
    connect: Callable[[], RawClient], other: RawClient
) -> None:
    other.send_bytes(message("first", b"taken", PERSISTENT))
    assert ready(other, "first") == 1
    cut = connect()
    cut.call(commands.Tx.Select(), commands.Tx.SelectOk)
    got = cut.call(commands.Basic.Get(queue="first"), commands.Basic.GetOk)
    cut.receive_content()
    cut.send(commands.Basic.Ack(got.delivery_tag), 1)
    fill(cut)
    later = connect()
    later.call(commands.Tx.Select(), commands.Tx.SelectOk)
    fill(later)
    cut.send(commands.Tx.Commit(), 1)
    cut.socket.close()
    wait_until(lambda: ready(other, "first") in (1, COUNT))
    left = (ready(other, "first"), ready(other, "second"))
    assert left in ((1, 0), (COUNT, COUNT))
    # As much work, begun behind the cut one's: had that gone on, it would be done before.
    later.send(commands.Tx.Commit(), 1)
    later.expect(commands.Tx.CommitOk, SECONDS)
    assert (ready(other, "first"), ready(other, "second")) == (left[0] + COUNT, left[1] + COUNT)


def test_a_consumer_of_the_channel_may_end_meanwhile(tx: RawClient, other: RawClient) -> None:
    queue = other.declare("mine", exclusive=False)
    consume = commands.Basic.Consume(queue=queue, consumer_tag="c")
    tx.call(consume, commands.Basic.ConsumeOk)
    tx.send(commands.Tx.Commit(), 1)
    other.call(commands.Queue.Delete(queue=queue), commands.Queue.DeleteOk)
    assert tx.expect(commands.Basic.Cancel).consumer_tag == "c"
    tx.expect(commands.Tx.CommitOk, SECONDS)
    assert (ready(other, "first"), ready(other, "second")) == (COUNT, COUNT)


@pytest.mark.parametrize("seconds", [0.05, 0.3, 0.6])
def test_a_kill_in_the_midst_of_a_commit_leaves_all_of_it_or_nothing(
    fresh_broker: Callable[..., BrokerProcess], seconds: float
) -> None:
    broker = fresh_broker()
    with opened(broker) as client:
        bind_two(client)
        client.call(commands.Tx.Select(), commands.Tx.SelectOk)
        fill(client)
        client.send(commands.Tx.Commit(), 1)
        with contextlib.suppress(Silent):
            client.receive(seconds)
        broker.kill()
    broker.start()
    with opened(broker) as client:
        counts = {ready(client, queue) for queue in ("first", "second")}
    assert counts in ({0}, {COUNT})


def test_others_publish_while_a_commit_is_appended_in_turns(
    connect: Callable[[], RawClient], other: RawClient
) -> None:
    client = connect()
    client.call(commands.Tx.Select(), commands.Tx.SelectOk)
    fill_by_turns(client)
    client.send(commands.Tx.Commit(), 1)
    other.call(commands.Confirm.Select(), commands.Confirm.SelectOk)
    published, at = 0, -1
    client.socket.setblocking(False)
    while at:
        with contextlib.suppress(BlockingIOError):
            at = len(client.socket.recv(1, 2)) - 1  # MSG_PEEK
        other.send_bytes(message("first", b"other", PERSISTENT))
        other.expect(commands.Basic.Ack, SECONDS)
        published += 1
    client.expect(commands.Tx.CommitOk, SECONDS)
    assert (ready(other, "first"), ready(other, "second")) == (BY_TURNS + published, BY_TURNS // 2)
    got = [other.get("first") for _ in range(BY_TURNS + published)]
    assert [each for each in got if each != b"other"] == [b"%d" % at for at in range(BY_TURNS)]


@pytest.mark.parametrize("share", [0.0, 0.5, 0.9])
def test_a_kill_while_it_is_appended_in_turns_leaves_all_of_it_or_nothing(
    fresh_broker: Callable[..., BrokerProcess], share: float
) -> None:
    broker = fresh_broker()
    with opened(broker) as client, opened(broker) as other:
        bind_two(client)
        client.call(commands.Tx.Select(), commands.Tx.SelectOk)
        fill_by_turns(client)
        client.send(commands.Tx.Commit(), 1)
        end = time.monotonic() + SECONDS
        while ready(other, "first") <= share * BY_TURNS:
            assert time.monotonic() < end
        broker.kill()
    broker.start()
    with opened(broker) as client:
        counts = ready(client, "first"), ready(client, "second")
    assert counts in ((0, 0), (BY_TURNS, BY_TURNS // 2))


def test_two_commits_at_once_to_one_queue_do_not_mix(
    fresh_broker: Callable[..., BrokerProcess],
) -> None:
    # With pika, each client in a thread of its own.
    url = pika.URLParameters(fresh_broker().url)
    count = 5_000
    channel = pika.BlockingConnection(url).channel()
    channel.queue_declare("q")
    channel.queue_bind("q", "amq.topic", "#")
    start = threading.Barrier(2)

    def commit(name: str) -> None:
        own = pika.BlockingConnection(url).channel()
        own.tx_select()
        for number in range(count):
            own.basic_publish("amq.topic", f"{name}.{number}", f"{name} {number}".encode())
        own.connection.process_data_events()
        start.wait(SECONDS)
        own.tx_commit()
        own.connection.close()

    with ThreadPoolExecutor() as threads:
        list(threads.map(commit, ("a", "b")))
    bodies = drain(channel, "q")
    own = {name: [f"{name} {number}".encode() for number in range(count)] for name in ("a", "b")}
    assert bodies in (own["a"] + own["b"], own["b"] + own["a"])
