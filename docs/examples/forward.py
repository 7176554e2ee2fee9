"""Forward a stream to an exchange of another broker, each message once; with pika.

    python forward.py amqp://guest:guest@127.0.0.1:5673/ outgoing amqp://guest:guest@127.0.0.1:5672/ incoming

The stream's group `forward` remembers the place. The exchange is of type `x-message-deduplication`, and drops
what comes twice as a connection broke between commit and ack. docs/messaging/recipes.md explains it.
"""

from __future__ import annotations

import socket
import sys
import time

import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPError

RUN_MAX = 200  # messages of one transaction
IDLE_SECONDS = 0.05  # without another message, what is there goes
RETRY_SECONDS = 1.0
GROUP = {"x-group": "forward", "x-stream-offset": "first", "x-group-expires": "never"}


def forward(source: BlockingChannel, stream: str, target: BlockingChannel, exchange: str) -> None:
    """Forward until a connection breaks.

    Raises:
        AMQPError: it did.
    """
    source.basic_qos(prefetch_count=2 * RUN_MAX)
    target.tx_select()
    run = 0
    last = 0
    for method, properties, body in source.consume(
        stream, arguments=GROUP, inactivity_timeout=IDLE_SECONDS
    ):
        if method is not None:
            properties.headers["x-deduplication-header"] = _place(stream, properties.headers)
            target.basic_publish(exchange, method.routing_key, body, properties)
            run += 1
            last = method.delivery_tag
        if run == RUN_MAX or (run and method is None):
            target.tx_commit()
            source.basic_ack(last, multiple=True)
            run = 0
        elif method is None:
            target.connection.process_data_events(time_limit=0)  # heartbeats


def _place(stream: str, headers: dict[str, object]) -> str:
    """The message's name: no other one has it."""
    offset = headers.pop("x-stream-offset")
    return f"{socket.gethostname()}/{stream}/{headers.pop('x-partition', 0)}/{offset}"


def main(source_url: str, stream: str, target_url: str, exchange: str) -> None:
    """Forward, again after each error."""
    while True:
        try:
            with (
                pika.BlockingConnection(pika.URLParameters(source_url)) as source,
                pika.BlockingConnection(pika.URLParameters(target_url)) as target,
            ):
                forward(source.channel(), stream, target.channel(), exchange)
        except AMQPError as error:
            print(f"forwarding stopped: {error!r}", file=sys.stderr)
        time.sleep(RETRY_SECONDS)


if __name__ == "__main__":
    main(*sys.argv[1:])
