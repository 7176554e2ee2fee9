"""SIGKILL while batches are published over HTTP: what was answered as confirmed is there."""

from __future__ import annotations

import contextlib
import http.client
import os
import random
import threading
from functools import partial

import pytest
from support.broker_process import BrokerProcess
from support.management_door import ManagementDoor
from support.waiting import wait_until

KILLS = int(os.environ.get("ROUTELOG_TEST_BATCH_KILLS", "2"))
SEED = int(os.environ.get("ROUTELOG_TEST_SEED", "1"))
BATCH = 200
pytestmark = [pytest.mark.crash, pytest.mark.differs_from_rabbitmq("has no batches over HTTP")]


def publish_all(broker: BrokerProcess, sent: list[int], confirmed: list[int]) -> None:
    """Publish batches until the broker is killed; each message holds its number."""
    door = ManagementDoor(broker)
    with contextlib.suppress(OSError, http.client.HTTPException):
        while True:
            first = len(sent)
            sent += range(first, first + BATCH)
            body = [
                {
                    "routing_key": "q",
                    "payload": str(number),
                    "payload_encoding": "string",
                    "properties": {"delivery_mode": 2},
                }
                for number in sent[first:]
            ]
            done = door.do("POST", "exchanges", "/", "amq.default", "publish", "batch", body=body)
            assert done == {"confirmed": BATCH, "unroutable": [], "refused": []}
            confirmed += sent[first:]


def is_longer(numbers: list[int], count: int) -> bool:
    return len(numbers) > count


def test_no_confirmed_message_of_a_batch_is_lost(broker: BrokerProcess) -> None:
    ManagementDoor(broker).do("PUT", "queues", "/", "q", body={})
    moments = random.Random(SEED)
    sent: list[int] = []
    confirmed: list[int] = []
    for _ in range(KILLS):
        before = len(confirmed)
        publisher = threading.Thread(target=publish_all, args=(broker, sent, confirmed))
        publisher.start()
        wait_until(partial(is_longer, confirmed, before))
        publisher.join(moments.uniform(0, 0.2))
        broker.kill()
        publisher.join()
        broker.start()
    door, place, found = ManagementDoor(broker), "0:0", list[int]()
    while place is not None:
        page = door.get("queues", "/", "q", "messages", query=f"count=1000&offset={place}")
        found += [int(row["payload"]) for row in page["items"]]
        place = page["next"]
    assert found == sorted(set(found)), "a message was published twice, or out of its order"
    assert set(confirmed) <= set(found) <= set(sent)
