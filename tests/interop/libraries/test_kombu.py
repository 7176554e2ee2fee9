"""kombu: Celery's messaging library, over py-amqp."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing

import kombu
import pytest
from amqp.exceptions import NotFound, PreconditionFailed
from kombu.mixins import ConsumerProducerMixin
from kombu.simple import SimpleBuffer
from support.waiting import WAIT_SECONDS, wait_until

pytestmark = pytest.mark.interop


@pytest.fixture
def url(broker) -> str:
    return broker.url.replace("amqp://", "pyamqp://") + "/"


@pytest.fixture
def connection(url: str) -> Iterator[kombu.Connection]:
    with kombu.Connection(url) as opened:
        yield opened


def drain(connection: kombu.Connection, messages: list[object], count: int) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while len(messages) < count:
        assert time.monotonic() < deadline, f"{len(messages)} of {count} messages came"
        try:
            connection.drain_events(timeout=1)
        except TimeoutError:
            continue


def test_a_simple_queue_puts_gets_requeues_and_empties(connection, name) -> None:
    with closing(connection.SimpleQueue(name, queue_opts={"auto_delete": True})) as queue:
        for number in range(3):
            queue.put({"number": number}, headers={"k": number})
        wait_until(lambda: len(queue) == queue.qsize() == 3)
        message = queue.get(timeout=WAIT_SECONDS)
        assert (message.payload, message.headers["k"]) == ({"number": 0}, 0)
        wait_until(lambda: not queue.qsize())  # or it would be ahead of those that are not sent yet
        message.requeue()
        assert [queue.get(timeout=WAIT_SECONDS).payload["number"] for _ in range(2)] == [1, 2]
        again = queue.get(timeout=WAIT_SECONDS)
        assert again.payload == {"number": 0}
        assert again.delivery_info["redelivered"]
        again.ack()
        queue.put("rejected")
        queue.get(timeout=WAIT_SECONDS).reject()
        queue.clear()
        with pytest.raises(queue.Empty):
            queue.get_nowait()


def test_a_simple_buffer_keeps_nothing(connection, name) -> None:
    with closing(SimpleBuffer(connection, name)) as buffer:
        buffer.put("gone with its consumer")
        assert buffer.get(timeout=WAIT_SECONDS).payload == "gone with its consumer"


class Squares(ConsumerProducerMixin):
    """A worker: squares numbers and answers where it is told to."""

    def __init__(self, connection: kombu.Connection, queue: kombu.Queue) -> None:
        self.connection = connection
        self.queue = queue
        self.answered = 0

    def get_consumers(self, consumer_class, channel):
        """See `ConsumerMixin`."""
        return [consumer_class([self.queue], callbacks=[self.answer], prefetch_count=1)]

    def answer(self, body: int, message: kombu.Message) -> None:
        """One request."""
        self.producer.publish(
            body * body,
            routing_key=message.properties["reply_to"],
            correlation_id=message.properties["correlation_id"],
        )
        message.ack()
        self.answered += 1
        self.should_stop = self.answered == 10


def test_a_consumer_mixin_serves_requests(connection, url, name) -> None:
    requests = kombu.Queue(name, routing_key=name, auto_delete=True)
    replies = kombu.Queue("", exclusive=True)
    answers: dict[str, int] = {}
    with connection.channel() as channel:
        bound = replies(channel)
        bound.declare()
        requests(channel).declare()
        producer = kombu.Producer(channel)
        for number in range(10):
            producer.publish(
                number, routing_key=name, reply_to=bound.name, correlation_id=str(number)
            )
        with kombu.Connection(url, heartbeat=2) as working:
            Squares(working, requests).run()
        received: list[object] = []

        def take(body: int, message: kombu.Message) -> None:
            answers[message.properties["correlation_id"]] = body
            received.append(message)

        # Declared once: the name that the broker gave is reserved.
        once = {"auto_declare": False, "no_ack": True}
        with kombu.Consumer(channel, [bound], callbacks=[take], **once):
            drain(connection, received, 10)
    assert answers == {str(number): number * number for number in range(10)}


def test_a_connection_with_heartbeats_lives_and_one_that_is_silent_ends(url) -> None:
    with kombu.Connection(url, heartbeat=1) as lively, kombu.Connection(url, heartbeat=1) as silent:
        for each in (lively, silent):
            each.connect()
        assert lively.get_heartbeat_interval() == 1
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            lively.heartbeat_check(rate=2)
            time.sleep(0.2)
            with pytest.raises(TimeoutError):
                lively.drain_events(timeout=0.05)
        lively.default_channel.basic_qos(0, 1, False)
        with pytest.raises(OSError, match=r"closed connection|reset by peer"):
            silent.drain_events(timeout=WAIT_SECONDS)


def test_a_queue_is_deleted_by_who_consumes_from_it(connection, name) -> None:
    queue = kombu.Queue(name, routing_key=name)
    with kombu.Consumer(connection, [queue]) as consumer:
        assert queue(consumer.channel).delete() == 0
        with pytest.raises(connection.channel_errors + connection.connection_errors):
            # Then it is told that nothing comes any more
            connection.drain_events(timeout=WAIT_SECONDS)


def test_exchanges_bindings_and_errors(connection, name) -> None:
    with connection.channel() as channel:
        exchange = kombu.Exchange(name, "topic", durable=False)(channel)
        exchange.declare()
        queue = kombu.Queue(f"{name}.q", exchange, "a.#", auto_delete=True, max_priority=3)(channel)
        queue.declare()
        exchange.publish(exchange.Message("routed"), routing_key="a.b.c")
        exchange.publish(exchange.Message("not routed"), routing_key="b")
        assert queue.get(no_ack=True).payload == "routed"
        assert queue.get(no_ack=True) is None
        queue.unbind_from(exchange, "a.#")
        exchange.delete()
    with connection.channel() as channel, pytest.raises(NotFound):
        kombu.Queue("no." + name)(channel).queue_declare(passive=True)
    with connection.channel() as channel, pytest.raises(PreconditionFailed):
        kombu.Queue(f"{name}.q", max_priority=4, durable=False)(channel).queue_declare()
