"""SIGKILL in the middle of a move: each message is in exactly one of the two queues."""

from __future__ import annotations

import contextlib
import os
import random
import threading

import pika
import pytest
from support.broker_process import BrokerProcess
from support.management_door import ManagementDoor
from support.pika_client import Clients

MESSAGES = int(os.environ.get("ROUTELOG_TEST_MOVED", "10000"))
KILLS = int(os.environ.get("ROUTELOG_TEST_MOVE_KILLS", "3"))
SEED = int(os.environ.get("ROUTELOG_TEST_SEED", "1"))
PAGE = 1_000
RATE = 40_000  # messages that a move takes in a second, about
pytestmark = [pytest.mark.crash, pytest.mark.differs_from_rabbitmq("does not move messages")]


def numbers(door: ManagementDoor, queue: str) -> list[int]:
    found: list[int] = []
    place: str | None = "0:0"
    while place is not None:
        page = door.get("queues", "/", queue, "messages", query=f"count={PAGE}&offset={place}")
        found += [int(row["payload"].split()[0]) for row in page["items"]]
        place = page["next"]
    return found


def move_all(broker: BrokerProcess) -> None:
    place = None
    with contextlib.suppress(OSError):  # it is killed
        while True:
            wanted: dict[str, str] = {} if place is None else {"offset": place}
            body = {"filter": wanted, "to": {"queue": "to"}, "limit": 100_000}
            done = ManagementDoor(broker).do("POST", "queues", "/", "from", "move", body=body)
            assert done["stopped"] is None
            place = done["next"]
            if place is None:
                return


def test_a_move_that_is_killed_leaves_each_message_in_one_queue(broker: BrokerProcess) -> None:
    clients = Clients(broker.url)
    channel = clients.channel()
    for name in ("from", "to"):
        channel.queue_declare(name, durable=True)
    kept = pika.BasicProperties(delivery_mode=2)
    channel.tx_select()
    for number in range(MESSAGES):
        channel.basic_publish("", "from", b"%d " % number + b"x" * 100, kept)
        if number % 10_000 == 0:
            channel.tx_commit()
    channel.tx_commit()
    clients.close()
    moments, killed_within = random.Random(SEED), 0
    order = list(range(MESSAGES))
    for _ in range(KILLS):
        mover = threading.Thread(target=move_all, args=(broker,))
        mover.start()
        mover.join(moments.uniform(0.05, MESSAGES / RATE))
        broker.kill()
        mover.join()
        broker.start()
        door = ManagementDoor(broker)
        left, moved = numbers(door, "from"), numbers(door, "to")
        assert moved + left == order
        killed_within += bool(left) and bool(moved)
        # Back again, so that the next one has all of them to move.
        body = {"filter": {}, "to": {"queue": "from"}, "limit": 100_000}
        door.do("POST", "queues", "/", "to", "move", body=body)
        order = left + moved
    assert killed_within
