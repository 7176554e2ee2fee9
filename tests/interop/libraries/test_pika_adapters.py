"""pika's other ways to drive a connection: callbacks of an event loop, timers, other threads."""

from __future__ import annotations

import asyncio
import threading
import time

import pika
import pytest
from pika.adapters.asyncio_connection import AsyncioConnection
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker
from support.pika_client import declare, ready_count, round_trip, send
from support.waiting import WAIT_SECONDS, wait_until

pytestmark = pytest.mark.interop


class Course:
    """What a connection of callbacks went through: every method of its channel, one after the other."""

    def __init__(self, ended) -> None:
        self.ended = ended
        self.told: list[str] = []
        self.confirmed: set[int] = set()
        self.returned: list[tuple[int, bytes]] = []
        self.bodies: list[bytes] = []

    def opened(self, connection) -> None:
        self.connection = connection
        connection.add_on_close_callback(self.closed)
        connection.channel(on_open_callback=self.channel_opened)

    def channel_opened(self, channel) -> None:
        self.channel = channel
        channel.add_on_close_callback(lambda *_: self.told.append("channel closed"))
        channel.add_on_return_callback(self.return_)
        channel.add_on_cancel_callback(lambda _: self.told.append("cancelled"))
        channel.confirm_delivery(self.confirm, callback=self.selected)

    def selected(self, _) -> None:
        self.channel.basic_qos(prefetch_count=5, callback=self.limited)

    def limited(self, _) -> None:
        self.channel.flow(True, callback=self.flowing)

    def flowing(self, _) -> None:
        self.channel.exchange_declare("adapters", "direct", auto_delete=True, callback=self.routed)

    def routed(self, _) -> None:
        self.channel.queue_declare("", auto_delete=True, callback=self.declared)

    def declared(self, answer) -> None:
        self.queue = answer.method.queue
        self.channel.queue_bind(self.queue, "adapters", "key", callback=self.bound)

    def bound(self, _) -> None:
        self.tag = self.channel.basic_consume(self.queue, self.deliver, callback=self.consuming)

    def consuming(self, _) -> None:
        self.channel.basic_publish("adapters", "key", b"kept")
        self.channel.basic_publish("adapters", "nowhere", b"lost", mandatory=True)

    def return_(self, _, method, __, body) -> None:
        self.returned.append((method.reply_code, body))

    def confirm(self, frame) -> None:
        last = frame.method.delivery_tag
        self.confirmed.update(range(1 if frame.method.multiple else last, last + 1))
        self.delete_in_the_end()

    def deliver(self, channel, method, _, body) -> None:
        self.bodies.append(body)
        assert channel.consumer_tags == [self.tag]
        channel.basic_ack(method.delivery_tag)
        self.delete_in_the_end()

    def delete_in_the_end(self) -> None:
        if self.bodies and len(self.confirmed) == 2:
            self.channel.queue_delete(self.queue, callback=self.deleted)

    def deleted(self, _) -> None:
        self.channel.queue_declare("nobody's", passive=True)
        self.channel.add_on_close_callback(self.refused)

    def refused(self, _, reason) -> None:
        assert isinstance(reason, ChannelClosedByBroker)
        self.told.append(str(reason.reply_code))
        self.connection.close(200, "the end")

    def closed(self, _, reason) -> None:
        self.told.append(reason.reply_text)
        self.ended()

    def check(self) -> None:
        assert self.bodies == [b"kept"]
        assert self.returned == [(312, b"lost")]
        assert self.confirmed == {1, 2}
        assert self.told == ["cancelled", "channel closed", "404", "the end"]


def test_an_event_loop_of_pika_goes_through_everything(broker) -> None:
    connection: pika.SelectConnection
    course = Course(lambda: connection.ioloop.stop())
    connection = pika.SelectConnection(pika.URLParameters(broker.url))
    connection.add_on_open_callback(course.opened)
    connection.ioloop.call_later(WAIT_SECONDS, connection.ioloop.stop)
    connection.ioloop.start()
    course.check()


async def test_asyncio_goes_through_everything(broker) -> None:
    over = asyncio.Event()
    course = Course(over.set)
    AsyncioConnection(pika.URLParameters(broker.url), on_open_callback=course.opened)
    await asyncio.wait_for(over.wait(), WAIT_SECONDS)
    course.check()


def test_the_first_of_several_addresses_that_answers_is_taken(broker) -> None:
    nobody, somebody = pika.URLParameters(broker.url), pika.URLParameters(broker.url)
    nobody.port, nobody.retry_delay, nobody.connection_attempts = 1, 0.01, 2
    connection = pika.BlockingConnection([nobody, somebody])
    assert connection.is_open
    connection.close()


def test_a_wrong_password_is_told_to_the_callback_of_an_open(broker) -> None:
    parameters = pika.URLParameters(broker.url)
    parameters.credentials = pika.PlainCredentials("guest", "wrong", erase_on_connect=True)
    failed: list[object] = []

    def fail(connection, error) -> None:
        failed.append(error)
        connection.ioloop.stop()

    connection = pika.SelectConnection(parameters, on_open_error_callback=fail)
    connection.ioloop.start()
    assert "ACCESS_REFUSED" in str(failed)


def test_another_thread_has_a_blocking_connection_act(clients) -> None:
    connection = clients.connect()
    channel = connection.channel()
    queue = declare(channel)
    done: list[str] = []
    bodies: list[bytes] = []

    def work() -> None:
        for number in range(3):
            connection.add_callback_threadsafe(lambda at=number: send(channel, queue, b"%d" % at))

    def take(_, __, ___, body: bytes) -> None:
        bodies.append(body)
        if len(bodies) == 3:
            connection.add_callback_threadsafe(channel.stop_consuming)

    cancelled = connection.call_later(0.001, lambda: done.append("never"))
    connection.remove_timeout(cancelled)
    connection.call_later(0.01, lambda: done.append("timer"))
    thread = threading.Thread(target=work)
    channel.basic_consume(queue, take, auto_ack=True)
    connection.call_later(0.05, thread.start)
    channel.start_consuming()
    thread.join()
    assert bodies == [b"0", b"1", b"2"]
    assert done == ["timer"]
    assert channel.consumer_tags == []


def test_a_generator_gets_what_waits_and_gives_back_the_rest(clients) -> None:
    channel = clients.channel()
    queue = declare(channel)
    send(channel, queue, *(b"%d" % number for number in range(5)))
    got = []
    for method, _, body in channel.consume(queue, inactivity_timeout=WAIT_SECONDS):
        channel.basic_ack(method.delivery_tag)
        got.append(body)
        round_trip(channel)
        if len(got) == 2:
            break
    assert channel.get_waiting_message_count() == 3
    channel.cancel()
    assert got == [b"0", b"1"]
    wait_until(lambda: ready_count(channel, queue) == 3)
    assert [next(channel.consume(queue))[2] for _ in range(3)] == [b"2", b"3", b"4"]
    began = time.monotonic()
    assert next(channel.consume(queue, inactivity_timeout=0.05)) == (None, None, None)
    assert time.monotonic() - began >= 0.05


def test_more_channels_than_were_agreed_are_refused_by_the_broker(clients) -> None:
    connection = clients.connect(channel_max=2)
    assert [connection.channel().channel_number for _ in range(2)] == [1, 2]
    with pytest.raises(ConnectionClosedByBroker) as caught:
        connection.channel(3)
    assert caught.value.reply_code == 530
    assert connection.is_closed
