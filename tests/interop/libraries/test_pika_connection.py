"""What a connection tells about the broker, how it is kept alive, and pika's other adapter."""

from __future__ import annotations

import time

import pika
from support.pika_client import declare, drain, send
from support.waiting import wait_until

CAPABILITIES = {
    "authentication_failure_close",
    "basic.nack",
    "connection.blocked",
    "consumer_cancel_notify",
    "consumer_priorities",
    "direct_reply_to",
    "exchange_exchange_bindings",
    "per_consumer_qos",
    "publisher_confirms",
}


def test_the_server_properties_name_product_version_and_cluster(connection):
    properties = connection._impl.server_properties
    for key in ("product", "version", "platform", "cluster_name"):
        assert isinstance(properties[key], str), key
        assert properties[key]


def test_the_server_offers_the_capabilities_clients_look_for(connection):
    offered = connection._impl.server_capabilities
    assert {name for name, on in offered.items() if on is True} >= CAPABILITIES
    assert connection.consumer_cancel_notify_supported
    assert connection.exchange_exchange_bindings_supported
    assert connection.publisher_confirms_supported
    assert connection.basic_nack_supported


def test_the_server_suggests_the_numbers_clients_expect(clients):
    connection = clients.connect(heartbeat=None)
    parameters = connection._impl.params
    assert (parameters.channel_max, parameters.frame_max, parameters.heartbeat) == (
        *(2_047, 131_072, 60),
    )


def test_heartbeats_keep_an_idle_connection_alive(clients):
    connection = clients.connect(heartbeat=1)
    channel = connection.channel()
    connection.process_data_events(time_limit=2.6)
    queue = declare(channel)
    send(channel, queue, b"x")
    assert drain(channel, queue) == [b"x"]


def test_a_connection_without_heartbeats_may_be_silent(clients):
    connection = clients.connect(heartbeat=0)
    assert connection._impl.params.heartbeat == 0
    declare(connection.channel())


def test_many_channels_work_side_by_side(connection):
    channels = [connection.channel() for _ in range(200)]
    queues = [declare(channel) for channel in channels]
    for channel, queue in zip(channels, reversed(queues), strict=True):
        channel.basic_publish("", queue, queue.encode())
    for channel, queue in zip(channels, reversed(queues), strict=True):
        assert drain(channel, queue) == [queue.encode()]


def test_a_channel_number_can_be_used_again_after_its_close(connection):
    for _ in range(50):
        channel = connection.channel(5)
        declare(channel)
        channel.close()


def test_closing_a_connection_is_answered(clients):
    connection = clients.connect()
    declare(connection.channel())
    begun = time.monotonic()
    connection.close()
    assert time.monotonic() - begun < 10


def test_a_connection_is_opened_and_closed_a_hundred_times(clients):
    for _ in range(100):
        clients.connect().close()


class Echo:
    """Publishes one message to itself with callbacks only, and closes."""

    def __init__(self, url: str) -> None:
        self.bodies: list[bytes] = []
        self.closed_because = None
        self.connection = pika.SelectConnection(
            pika.URLParameters(url), on_open_callback=self._open, on_close_callback=self._closed
        )

    def _open(self, connection) -> None:
        connection.channel(on_open_callback=self._declare)

    def _declare(self, channel) -> None:
        self.channel = channel
        channel.queue_declare("", exclusive=True, callback=self._consume)

    def _consume(self, declared) -> None:
        self.queue = declared.method.queue
        self.channel.basic_consume(self.queue, self._deliver, callback=self._publish)

    def _publish(self, _) -> None:
        self.channel.basic_publish("", self.queue, b"echo")

    def _deliver(self, channel, deliver, _, body) -> None:
        self.bodies.append(body)
        channel.basic_ack(deliver.delivery_tag)
        self.connection.close()

    def _closed(self, connection, reason) -> None:
        self.closed_because = reason
        connection.ioloop.stop()


def test_select_connection_publishes_consumes_and_closes(broker):
    echo = Echo(broker.url)
    echo.connection.ioloop.call_later(5, echo.connection.ioloop.stop)
    echo.connection.ioloop.start()
    assert echo.bodies == [b"echo"]
    assert isinstance(echo.closed_because, pika.exceptions.ConnectionClosedByClient)


def test_a_named_connection_is_accepted(clients):
    connection = clients.connect(client_properties={"connection_name": "report 7"})
    wait_until(lambda: connection.is_open)
    declare(connection.channel())


def test_a_new_secret_is_accepted_and_changes_nothing(clients):
    connection = clients.connect()
    connection.update_secret("another", "the old one ends")
    declare(connection.channel())
    declare(clients.channel())
