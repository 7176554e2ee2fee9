"""What operators are told of messages is what clients have done with them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.exceptions import UnroutableError
from support.broker_process import BrokerProcess
from support.management_door import ManagementDoor
from support.pika_client import Clients
from support.waiting import wait_until

pytestmark = pytest.mark.differs_from_rabbitmq("needs a broker of its own")

ALL = {"publish", "confirm", "return_unroutable", "drop_unroutable", "deliver", "deliver_no_ack"}
ALL |= {"get", "get_no_ack", "get_empty", "deliver_get", "redeliver", "ack", "drop"}


class World:
    """A broker that nobody else uses."""

    def __init__(self, process: BrokerProcess) -> None:
        self.process = process
        self.clients = Clients(process.url)
        self.door = ManagementDoor(process)

    def stats(self, *path: str) -> dict[str, Any]:
        """The counts of an object that are not 0."""
        stats = self.door.get(*path).get("message_stats", {})
        assert {
            f"{name}_details" for name in stats if not name.endswith("_details")
        } <= stats.keys()
        return {name: value for name, value in stats.items() if value and name in ALL}

    def flow(self, name: str) -> dict[str, int]:
        stats = self.door.get("exchanges", "/", name).get("message_stats", {})
        return {name: value for name, value in stats.items() if not name.endswith("_details")}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    process = BrokerProcess(tmp_path / "world").start()
    opened = World(process)
    yield opened
    opened.clients.close()
    process.stop()


def test_each_counter_is_what_was_done(world: World) -> None:
    channel = world.clients.channel()
    channel.confirm_delivery()
    channel.queue_declare("dead")
    dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    channel.queue_declare("q", arguments=dead)
    channel.queue_declare("other")
    for queue in ("q", "other"):
        channel.queue_bind(queue, "amq.topic", "to.#")
    for _ in range(4):
        channel.basic_publish("", "q", b"m")
    for _ in range(2):
        channel.basic_publish("amq.topic", "to.all", b"m")
    channel.basic_publish("amq.topic", "nowhere", b"m")
    for _ in range(3):
        with pytest.raises(UnroutableError):
            channel.basic_publish("amq.topic", "nowhere", b"m", mandatory=True)
    published = {"publish": 10, "confirm": 10, "return_unroutable": 3, "drop_unroutable": 1}
    assert world.stats("overview") == published
    assert world.flow("amq.topic") == {"publish_in": 6, "publish_out": 4}
    assert world.flow("amq.default") == {"publish_in": 4, "publish_out": 4}
    assert world.stats("queues", "/", "q") == {"publish": 6}
    assert world.stats("queues", "/", "other") == {"publish": 2}

    # Six messages: one without ack, two to ack, one that comes back and is rejected; two are consumed.
    taking = world.clients.channel()
    assert taking.basic_get("q", auto_ack=True)[0] is not None
    tags = [taking.basic_get("q")[0].delivery_tag for _ in range(3)]
    taking.basic_ack(tags[1], multiple=True)
    taking.basic_nack(tags[2], requeue=True)
    again = taking.basic_get("q")[0]
    assert again.redelivered
    taking.basic_reject(again.delivery_tag, requeue=False)
    got = {"get": 4, "get_no_ack": 1, "deliver_get": 5, "redeliver": 1, "ack": 2, "drop": 1}
    assert world.stats("queues", "/", "q") == {"publish": 6, **got}
    wait_until(lambda: world.stats("queues", "/", "dead") == {"publish": 1})

    delivered: list[int] = []
    taking.basic_consume("q", lambda ch, method, *_: delivered.append(method.delivery_tag))
    taking.connection.process_data_events(0.1)
    wait_until(lambda: taking.connection.process_data_events(0.05) or len(delivered) == 2)
    taking.basic_ack(delivered[-1], multiple=True)
    assert taking.basic_get("q")[0] is None
    got |= {"deliver": 2, "deliver_get": 7, "ack": 4, "get_empty": 1}
    assert world.stats("queues", "/", "q") == {"publish": 6, **got}
    no_ack = world.clients.channel()
    no_ack.basic_consume("other", lambda *_: delivered.append(0), auto_ack=True)
    wait_until(lambda: no_ack.connection.process_data_events(0.05) or len(delivered) == 4)
    assert world.stats("queues", "/", "other") == {
        "publish": 2,
        "deliver_no_ack": 2,
        "deliver_get": 2,
    }

    del got["drop"]  # that is of queues
    all_of_it = {**published, **got, "deliver_no_ack": 2, "deliver_get": 9}
    for path in (("overview",), ("vhosts", "/")):
        assert world.stats(*path) == all_of_it
    shown = [world.stats("channels", each["name"]) for each in world.door.get("channels")]
    assert published in shown
    assert got in shown
    assert {"deliver_no_ack": 2, "deliver_get": 2} in shown


def test_a_transaction_counts_when_it_is_committed(world: World) -> None:
    channel = world.clients.channel()
    channel.queue_declare("q")
    channel.queue_declare("sink")
    channel.basic_publish("", "q", b"first")
    wait_until(lambda: world.stats("queues", "/", "q") == {"publish": 1})
    tx = world.clients.channel()
    tx.tx_select()
    method, _, _ = tx.basic_get("q")
    tx.basic_ack(method.delivery_tag)
    for key in ("sink", "sink", "nowhere"):
        tx.basic_publish("", key, b"m")
    tx.basic_publish("", "nowhere", b"m", mandatory=True)
    assert world.stats("overview") == {"publish": 1, "get": 1, "deliver_get": 1}
    tx.tx_commit()
    done = {"publish": 5, "return_unroutable": 1, "drop_unroutable": 1, "get": 1, "deliver_get": 1}
    done["ack"] = 1
    assert world.stats("overview") == done
    assert world.stats("queues", "/", "sink") == {"publish": 2}
    assert world.flow("amq.default") == {"publish_in": 5, "publish_out": 3}
    tx.basic_publish("", "sink", b"m")
    tx.tx_rollback()
    assert world.stats("overview") == done


def test_what_came_and_went_is_counted_and_does_not_fall(world: World) -> None:
    before = world.door.get("overview")["churn_rates"]
    channel = world.clients.channel()
    channel.queue_declare("q")
    channel.queue_declare("q")
    channel.basic_publish("", "q", b"m", pika.BasicProperties(expiration="1"))
    channel.queue_delete("q")
    name = world.door.get("connections")[0]["name"]
    row = world.door.get("connections", name)
    for key in ("recv_oct", "recv_cnt", "send_oct", "send_cnt"):
        assert row[key] > 0
        assert row[f"{key}_details"].keys() == {"rate"}
    world.clients.close()
    wait_until(lambda: world.door.get("overview")["object_totals"]["connections"] == 0)
    overview = world.door.get("overview")
    churn = overview["churn_rates"]
    grown = {key: churn[key] - before[key] for key in churn if not key.endswith("_details")}
    assert (grown["queue_declared"], grown["queue_created"], grown["queue_deleted"]) == (2, 1, 1)
    assert churn["connection_created"] == churn["connection_closed"] > 0
    assert churn["channel_created"] == churn["channel_closed"] > 0
    assert overview["message_stats"]["publish"] == 1


def test_both_ends_of_a_flow_tell_the_same(world: World) -> None:
    channel = world.clients.channel()
    channel.confirm_delivery()
    for queue in ("q", "other"):
        channel.queue_declare(queue)
        channel.queue_bind(queue, "amq.topic", "#")
    for _ in range(3):
        channel.basic_publish("", "q", b"m")
    for _ in range(2):
        channel.basic_publish("amq.topic", "k", b"m")
    tx = world.clients.channel()
    tx.tx_select()
    tx.basic_publish("amq.topic", "k", b"m")
    tx.tx_commit()
    taken: list[int] = []
    taker = world.clients.channel()
    taker.basic_get("other", auto_ack=True)
    tag = taker.basic_get("other")[0].delivery_tag
    taker.basic_nack(tag)
    taker.basic_consume("q", lambda ch, method, *_: taken.append(method.delivery_tag))
    wait_until(lambda: taker.connection.process_data_events(0.05) or len(taken) == 6)
    taker.basic_ack(taken[-2], multiple=True)
    wait_until(lambda: world.stats("queues", "/", "q").get("ack") == 5)

    def flows(end: str, *path: str) -> list[tuple[str, dict[str, int]]]:
        """The other ends of an object's flows, with the counts that are not 0."""
        found: list[tuple[str, dict[str, int]]] = []
        for row in world.door.get(*path)[end]:
            (other,) = (value for key, value in row.items() if key != "stats")
            counts = {name: each for name, each in row["stats"].items() if each and name in ALL}
            found.append((other["name"], counts))
        return sorted(found)

    q_taken = {"deliver": 6, "deliver_get": 6, "ack": 5}
    other_taken = {"get": 1, "get_no_ack": 1, "deliver_get": 2}
    came = [("", {"publish": 3}), ("amq.topic", {"publish": 3})]
    assert flows("incoming", "queues", "/", "q") == came
    assert flows("incoming", "queues", "/", "other") == came[1:]
    assert flows("outgoing", "exchanges", "/", "amq.default") == [("q", {"publish": 3})]
    both = [("other", {"publish": 3}), ("q", {"publish": 3})]
    assert flows("outgoing", "exchanges", "/", "amq.topic") == both
    ((taker_name, counts),) = flows("deliveries", "queues", "/", "q")
    assert counts == q_taken
    assert flows("deliveries", "queues", "/", "other") == [(taker_name, other_taken)]
    of_taker = [("other", other_taken), ("q", q_taken)]
    assert flows("deliveries", "channels", taker_name) == of_taker
    assert flows("publishes", "channels", taker_name) == []
    publishers = flows("incoming", "exchanges", "/", "amq.topic")
    assert sorted(counts["publish"] for _, counts in publishers) == [1, 2]
    published = [flows("publishes", "channels", name) for name, _ in publishers]
    assert sorted(published) == [
        [("", {"publish": 3}), ("amq.topic", {"publish": 2})],
        [("amq.topic", {"publish": 1})],
    ]
    for path in (("queues", "/"), ("exchanges", "/"), ("channels",)):
        for row in world.door.get(*path):
            assert not {"incoming", "outgoing", "publishes", "deliveries"} & row.keys()
    channel.queue_delete("other")
    assert flows("deliveries", "channels", taker_name) == [("q", q_taken)]
    assert flows("outgoing", "exchanges", "/", "amq.topic") == both[1:]
