"""A kill during compaction: the last value of each key is there, confirmed deletions are deletions."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

import pytest
from pika.exceptions import AMQPError
from support.broker_process import BrokerProcess
from support.pika_client import PERSISTENT, Clients

pytestmark = [pytest.mark.crash, pytest.mark.long]

SEED = 20_263
KILLS = 4
KEYS = 12
SETTINGS = {"ROUTELOG_SEGMENT_BYTES": "65536", "ROUTELOG_FLUSH_SECONDS": "0.02"}
ARGUMENTS = {
    "x-queue-type": "stream",
    "x-cleanup-policy": "compact",
    "x-delete-retention": "0s",  # deletions go with the second pass
}
WAIT_SECONDS = 120.0


def compacted(data: Path) -> set[str]:
    """Names of compacted segments."""
    return {path.name for path in (data / "logs").rglob("*.log") if path.name.count(".") == 2}


def test_killed_compactions_lose_no_last_value(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    process = BrokerProcess(tmp_path / "data", SETTINGS).start()
    possible: dict[str, list[bytes]] = {}  # by key: the last confirmed value, and later ones
    number = 0
    try:
        for _ in range(KILLS):
            channel = Clients(process.url).channel()
            channel.queue_declare("table", durable=True, arguments=ARGUMENTS)
            channel.queue_bind("table", "amq.topic", "key.#")
            channel.confirm_delivery()
            before, killer = compacted(tmp_path / "data"), None
            until = time.monotonic() + WAIT_SECONDS
            try:
                while True:
                    number += 1
                    key = f"key.{chance.randrange(KEYS)}"
                    body = b"" if chance.random() < 0.1 else b"%d" % number + bytes(3_000)
                    possible.setdefault(key, []).append(body)
                    channel.basic_publish("amq.topic", key, body, PERSISTENT)
                    possible[key] = [body]
                    if killer is None and compacted(tmp_path / "data") - before:
                        killer = threading.Timer(chance.uniform(0, 0.5), process.kill)
                        killer.start()
                    assert killer is not None or time.monotonic() < until, "it never compacts"
            except (AMQPError, OSError):
                assert killer is not None
                killer.join()
            process.start()
        found = read_all(process)
        assert len(found) < number
        last = dict(found)
        for key, values in possible.items():
            assert last.get(key, b"") in values, key
    finally:
        process.stop()


def read_all(process: BrokerProcess) -> list[tuple[str, bytes]]:
    """All that a reader gets from the first message on."""
    channel = Clients(process.url).channel()
    channel.queue_bind("table", "amq.topic", "end")
    channel.confirm_delivery()
    channel.basic_publish("amq.topic", "end", b"end", PERSISTENT)
    channel.basic_qos(prefetch_count=100)
    found: list[tuple[str, bytes]] = []
    arguments = {"x-stream-offset": "first"}
    for method, _, body in channel.consume("table", arguments=arguments):
        assert method is not None
        if method.routing_key == "end":
            break
        found.append((method.routing_key, body))
        channel.basic_ack(method.delivery_tag)
    return found
