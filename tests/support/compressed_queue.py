"""Queues that a broker with small segments compresses, filled with orders as JSON."""

from __future__ import annotations

import json
import time
from pathlib import Path

from pika.adapters.blocking_connection import BlockingChannel
from support.broker_process import BrokerProcess
from support.pika_client import PERSISTENT
from support.waiting import WAIT_SECONDS

MESSAGES = 150  # about 300 KB: several segments
SMALL_SEGMENTS = {
    "ROUTELOG_SEGMENT_BYTES": "65536",
    "ROUTELOG_FLUSH_SECONDS": "0.05",
    "ROUTELOG_MEMORY_TAIL_BYTES": str(1024 * 1024),
}


def _order(number: int) -> bytes:
    order = {"id": number, "customer": f"c{number % 97}@example.org", "lines": [number] * 400}
    return json.dumps(order).encode()


ORDERS = [_order(number) for number in range(MESSAGES)]


def publish(
    channel: BlockingChannel, queue: str, bodies: list[bytes] = ORDERS, **arguments: object
) -> None:
    """Declare a queue and fill it, each message confirmed."""
    channel.queue_declare(queue, durable=True, arguments=arguments)
    channel.confirm_delivery()
    for body in bodies:
        channel.basic_publish("", queue, body, PERSISTENT)


def segment_files(broker: BrokerProcess, directory: str, suffix: str) -> list[Path]:
    """Files of a queue whose name is encoded like this."""
    return sorted((broker.data_dir / "logs").glob(f"*/{directory}-0/*{suffix}"))


def wait_until_compressed(broker: BrokerProcess, directory: str) -> None:
    """Wait until a queue has several segments, and only the newest is not compressed."""
    deadline = time.monotonic() + WAIT_SECONDS
    while (
        len(segment_files(broker, directory, ".zlog")) < 3
        or len(segment_files(broker, directory, ".log")) > 1
    ):
        assert time.monotonic() < deadline, segment_files(broker, directory, "")
        time.sleep(0.01)
