"""A kill while a queue's arguments change: it has the old ones or the new ones, and all its messages."""

from __future__ import annotations

import random
import threading
from http.client import HTTPException
from pathlib import Path

import pytest
from support.broker_process import BrokerProcess
from support.management_door import ManagementDoor
from support.pika_client import PERSISTENT, Clients

pytestmark = pytest.mark.crash

SEED = 20_261
KILLS = 4
MESSAGES = 20


def test_a_killed_change_happened_whole_or_not_at_all(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    process = BrokerProcess(tmp_path / "data").start()
    try:
        channel = Clients(process.url).channel()
        channel.queue_declare("q", durable=True)
        channel.confirm_delivery()
        for number in range(MESSAGES):
            channel.basic_publish("", "q", b"%d" % number, PERSISTENT)
        asked = answered = 0
        for _ in range(KILLS):
            door = ManagementDoor(process)
            killer = threading.Timer(chance.uniform(0, 0.2), process.kill)
            try:
                while True:
                    asked += 1
                    door.do("PUT", "queues", "/", "q", "arguments", body=arguments(asked))
                    answered = asked
                    if killer.ident is None:
                        killer.start()
            except (OSError, HTTPException):
                killer.join()
            process.start()
            queue = ManagementDoor(process).get("queues", "/", "q")
            found = [
                each for each in range(answered, asked + 1) if shown(each) == queue["arguments"]
            ]
            assert found
            answered = asked = found[0]
            assert queue["messages"] == MESSAGES
    finally:
        process.stop()


def arguments(number: int) -> dict[str, object]:
    """Every other one has priorities, or another type, and each is unlike the one before."""
    return {
        "x-max-length": 1_000 + number,
        "x-max-priority": 5 if number % 2 else None,
        "x-queue-type": "quorum" if number % 3 else None,
    }


def shown(number: int) -> dict[str, object]:
    given = arguments(number) if number else {}
    return {name: value for name, value in given.items() if value is not None}
