"""Publishes messages over one connection, and waits until the broker has confirmed all of them."""

from collections.abc import Iterator
from typing import Any

import pika
from pika.channel import Channel
from pika.exceptions import ChannelClosed
from pika.frame import Method

from routelog.log_backend import SystemClock
from routelog.spark_bridge.logs.errors import PublishFailed
from routelog.spark_bridge.writing.message_rows import Message
from routelog.spark_bridge.writing.write_options import WriteOptions

# Limits of unconfirmed messages: enough for the broker to commit many with one sync, and little memory, because
# an executor runs many tasks.
WINDOW_MESSAGES = 4_096
WINDOW_BYTES = 4 * 1024 * 1024
GOODBYE_SECONDS = 2.0  # until the connection is dropped: the broker may not answer


class ConfirmedPublisher:
    """Publishes the messages of one iterator, in order; for one use."""

    def __init__(self, options: WriteOptions, messages: Iterator[Message]) -> None:
        self._options = options
        self._messages = messages
        self._published = 0
        self._unconfirmed: dict[int, int] = {}  # delivery tag -> bytes of the body
        self._unconfirmed_bytes = 0
        self._all_published = False
        self._failure: Exception | None = None
        self._clock = SystemClock()
        self._quiet_since = self._clock.monotonic()  # since when only the broker is awaited
        parameters = pika.URLParameters(options.url)
        # The next row may take long, and nothing sends heartbeats meanwhile. A broken connection is found by
        # the time limit of confirms.
        parameters.heartbeat = 0
        self._connection = pika.SelectConnection(
            parameters,
            on_open_callback=self._opened,
            on_open_error_callback=self._ended,
            on_close_callback=self._ended,
        )
        self._channel: Channel | None = None

    def run(self) -> int:
        """Publish all messages, and wait for their confirms.

        Returns:
            How many messages were confirmed.

        Raises:
            PublishFailed: the broker refused, returned or did not confirm a message; earlier ones may be in its
                queues.
        """
        self._watch(self._options.confirm_seconds)
        self._connection.ioloop.start()
        if self._failure is not None:
            raise self._failure
        return self._published

    def _opened(self, connection: pika.SelectConnection) -> None:
        connection.channel(on_open_callback=self._channel_opened)

    def _channel_opened(self, channel: Channel) -> None:
        self._channel = channel
        channel.add_on_close_callback(self._channel_closed)
        channel.add_on_return_callback(self._returned)
        if self._options.application:
            self._declare(channel)
        channel.confirm_delivery(self._answered, callback=lambda _: self._fill(channel))

    def _declare(self, channel: Channel) -> None:
        """Declare the exchange, so that one of another type, which would not deduplicate, is refused."""
        channel.exchange_declare(
            self._options.exchange or "",
            "x-message-deduplication",
            durable=True,
            arguments={"x-cache-size": self._options.cache_size, "x-cache-persistence": "disk"},
        )

    def _fill(self, channel: Channel) -> None:
        """Publish until the window is full."""
        while (
            not self._all_published
            and self._failure is None
            and len(self._unconfirmed) < WINDOW_MESSAGES
            and self._unconfirmed_bytes < WINDOW_BYTES
        ):
            self._publish_next(channel)
        self._quiet_since = self._clock.monotonic()
        if self._is_done and self._connection.is_open:
            self._close()

    def _publish_next(self, channel: Channel) -> None:
        try:
            message = next(self._messages, None)
            if message is None:
                self._all_published = True
                return
            channel.basic_publish(
                message.exchange,
                message.routing_key,
                message.body,
                pika.BasicProperties(**message.properties),
                mandatory=self._options.mandatory,
            )
        except Exception as error:  # from the query, or because AMQP cannot carry the message
            self._fail(error)
            return
        self._published += 1
        self._unconfirmed[self._published] = len(message.body)
        self._unconfirmed_bytes += len(message.body)

    def _answered(self, frame: Method) -> None:
        method: Any = frame.method
        if method.NAME == "Basic.Nack":
            self._fail(PublishFailed("the broker could not store a message (basic.nack)"))
            return
        last = method.delivery_tag
        tags = [last]
        if method.multiple:
            tags = [tag for tag in self._unconfirmed if tag <= last]
        for tag in tags:
            self._unconfirmed_bytes -= self._unconfirmed.pop(tag)
        if self._channel is not None and self._channel.is_open:
            self._fill(self._channel)

    def _returned(self, channel: Channel, method: Any, properties: Any, body: bytes) -> None:
        place = f"exchange '{method.exchange}' with routing key '{method.routing_key}'"
        self._fail(PublishFailed(f"no queue for a message to {place}: {method.reply_text}"))

    def _channel_closed(self, channel: Channel, reason: Exception) -> None:
        if self._is_done:
            return
        # A channel is closed by the broker, or with its connection.
        is_refused = isinstance(reason, ChannelClosed)
        what = "the channel was closed" if is_refused else "no connection to the broker"
        self._fail(PublishFailed(f"{what}: {reason}"))

    def _ended(self, connection: pika.SelectConnection, reason: Exception | str) -> None:
        if not self._is_done and self._failure is None:
            self._failure = PublishFailed(f"no connection to the broker: {reason!r}")
        self._connection.ioloop.stop()

    @property
    def _is_done(self) -> bool:
        return self._all_published and not self._unconfirmed

    def _watch(self, seconds: float) -> None:
        """Fail if nothing was confirmed for too long while confirms are awaited."""

        def look() -> None:
            limit = self._options.confirm_seconds
            left = self._quiet_since + limit - self._clock.monotonic()
            if left > 0:
                self._watch(left)
            elif not self._is_done:
                self._fail(PublishFailed(f"the broker has confirmed nothing for {limit:g} s"))

        self._connection.ioloop.call_later(seconds, look)

    def _close(self) -> None:
        self._connection.close()
        self._connection.ioloop.call_later(GOODBYE_SECONDS, self._connection.ioloop.stop)

    def _fail(self, error: Exception) -> None:
        if self._failure is None:
            self._failure = error
        if self._connection.is_open:
            self._close()
        elif not self._connection.is_closing:
            self._connection.ioloop.stop()
