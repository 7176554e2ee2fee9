"""Operators move, copy, delete, redrive, replay and restore messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pika
import pytest
from support.broker_process import BrokerProcess
from support.management_door import ManagementDoor
from support.pika_client import Clients, Inbox
from support.waiting import wait_until

pytestmark = pytest.mark.differs_from_rabbitmq("does not move messages")


class World:
    """A broker, its operator, and a client."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.broker = broker
        self.door = ManagementDoor(broker)
        self.clients = Clients(broker.url)
        self.channel = self.clients.channel()
        self.channel.confirm_delivery()

    def restart(self) -> None:
        """The broker ends and starts, and the client comes again."""
        self.broker.restart()
        self.door = ManagementDoor(self.broker)
        self.channel = self.clients.channel()
        self.channel.confirm_delivery()

    def queue(self, name: str, count: int = 0, **arguments: object) -> str:
        """A durable queue with messages 0 to count - 1, whose keys are its name."""
        given = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
        self.channel.queue_delete(name)
        self.channel.queue_declare(name, durable=True, arguments=given)
        for number in range(count):
            headers = {"number": number, "odd": number % 2}
            properties = pika.BasicProperties(
                delivery_mode=2, headers=headers, priority=number % 3, expiration="3600000"
            )
            self.channel.basic_publish("", name, str(number).encode(), properties)
        return name

    def post(self, queue: str, what: str, **body: Any) -> Any:
        return self.door.do("POST", "queues", "/", queue, what, body=body)

    def refused(self, queue: str, what: str, **body: Any) -> str:
        status, answer = self.door.ask("POST", "queues", "/", queue, what, body=body)
        assert status == 400, answer
        return str(answer["reason"])

    def bodies(self, queue: str) -> list[int]:
        page = self.door.get("queues", "/", queue, "messages", query="count=1000")
        return [int(row["payload"]) for row in page["items"]]

    def rows(self, queue: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.door.get("queues", "/", queue, "messages")["items"]
        return rows


def _has_two(world: World, queue: str) -> bool:
    return len(world.bodies(queue)) == 2


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    broker = BrokerProcess(tmp_path_factory.mktemp("moves")).start()
    made = World(broker)
    yield made
    made.clients.close()
    broker.stop()


@pytest.mark.parametrize("arguments", [{}, {"max_priority": 5}, {"max_length": 1_000}])
def test_a_filter_moves_what_it_finds(world: World, arguments: dict[str, object]) -> None:
    world.queue("a", 20, **arguments)
    world.queue("b")
    asked = {"to": {"queue": "b"}, "filter": {"header": "odd=1"}}
    dry = world.post("a", "move", **asked, dry_run=True)
    assert (dry["count"], len(dry["sample"]), dry["dry_run"]) == (10, 10, True)
    assert sorted(world.bodies("a")) == list(range(20))
    done = world.post("a", "move", **asked)
    assert (done["count"], done["skipped"], done["next"], done["stopped"]) == (10, {}, None, None)
    assert world.bodies("b") == list(range(1, 20, 2))
    assert world.bodies("a") == list(range(0, 20, 2))
    row = world.rows("b")[0]
    assert (row["exchange"], row["routing_key"]) == ("", "a")
    assert row["properties"] == {
        "delivery_mode": 2,
        "priority": 1,
        "expiration": "3600000",
        "headers": {"number": 1, "odd": 1},
    }
    inbox = Inbox(world.clients.channel(), "a", auto_ack=True).wait_for(10)
    assert not any(inbox.redelivered)
    assert world.door.get("queues", "/", "a")["messages"] == 0


def test_named_messages_are_moved_and_those_that_a_consumer_has_are_not(world: World) -> None:
    world.queue("a", 10)
    world.queue("b")
    connection = world.clients.connect()
    channel = connection.channel()
    channel.basic_qos(prefetch_count=3)
    Inbox(channel, "a").wait_for(3)
    named = ["0:1", "0:7", "0:5", "0:8"]
    done = world.post("a", "move", messages=named, to={"queue": "b"})
    assert (done["count"], done["skipped"]) == (3, {"unacked": 1})
    assert world.bodies("b") == [5, 7, 8]
    again = world.post("a", "move", messages=named, to={"queue": "b"})
    assert (again["count"], again["skipped"].get("unacked")) == (0, 1)
    connection.close()
    wait_until(lambda: world.door.get("queues", "/", "a")["messages_ready"] == 7)
    inbox = Inbox(world.clients.channel(), "a", auto_ack=True).wait_for(7)
    assert [int(body) for body in inbox.bodies] == [0, 1, 2, 3, 4, 6, 9]
    assert inbox.redelivered == [True] * 3 + [False] * 4


def test_copies_stay_and_deleted_ones_go(world: World) -> None:
    world.queue("a", 6)
    world.queue("b")
    done = world.post("a", "move", mode="copy", filter={}, to={"queue": "b"}, limit=4)
    assert (done["count"], done["next"]) == (4, "0:4-6")
    rest = {"offset": done["next"]}
    assert world.post("a", "move", mode="copy", filter=rest, to={"queue": "b"})["count"] == 2
    assert world.bodies("a") == world.bodies("b") == list(range(6))
    assert world.post("a", "move", mode="copy", filter={}, to={"queue": "a"})["count"] == 6
    assert world.bodies("a") == [*range(6), *range(6)]
    assert world.post("a", "move", mode="delete", filter={"text": "3"})["count"] == 2
    assert world.bodies("a") == [0, 1, 2, 4, 5, 0, 1, 2, 4, 5]
    text = world.broker.log_text()
    assert "messages deleted: queue='a' vhost='/' count=2" in text
    assert "by='guest'" in text


def test_an_exchange_routes_and_what_it_cannot_route_stays(world: World) -> None:
    world.queue("a", 4)
    world.queue("b")
    world.channel.exchange_declare("x", "headers")
    world.channel.queue_bind("b", "x", arguments={"odd": 1, "x-match": "all"})
    done = world.post("a", "move", filter={}, to={"exchange": "x"})
    assert (done["count"], done["skipped"]) == (2, {"unroutable": 2})
    assert (world.bodies("a"), world.bodies("b")) == ([0, 2], [1, 3])
    assert {(row["exchange"], row["routing_key"]) for row in world.rows("b")} == {("x", "a")}
    done = world.post("a", "move", filter={}, to={"exchange": "amq.default", "routing_key": "b"})
    assert (done["count"], world.bodies("b")) == (2, [1, 3, 0, 2])


def test_a_full_queue_ends_a_move_and_nothing_is_lost(world: World) -> None:
    world.queue("a", 10)
    world.queue("b", max_length=5, overflow="reject-publish")
    done = world.post("a", "move", filter={}, to={"queue": "b"})
    assert done["count"] == 0
    assert "full" in done["stopped"]
    assert done["next"] == "0:0-10"
    assert world.bodies("a") == list(range(10))
    assert world.post("a", "move", filter={}, to={"queue": "b"}, limit=5)["count"] == 5
    inbox = Inbox(world.clients.channel(), "a", auto_ack=True).wait_for(5)
    assert not any(inbox.redelivered)


def test_dead_letters_go_back_to_where_they_died(world: World) -> None:
    world.queue("dlq")
    to_dlq = {"dead_letter_exchange": "", "dead_letter_routing_key": "dlq"}
    world.queue("work", **to_dlq)
    world.queue("gone", **to_dlq)
    for name in ("work", "gone"):
        world.channel.exchange_declare("source", "fanout", auto_delete=False)
        world.channel.queue_bind(name, "source")
    world.channel.basic_publish("source", "key.one", b"1", pika.BasicProperties(delivery_mode=2))
    world.channel.basic_publish("", "dlq", b"2", pika.BasicProperties(delivery_mode=2))
    for name in ("work", "gone"):
        got, _, _ = world.channel.basic_get(name)
        world.channel.basic_reject(got.delivery_tag, requeue=False)
    wait_until(lambda: len(world.bodies("dlq")) == 3)
    world.channel.queue_delete("gone")
    done = world.post("dlq", "redrive")
    assert done["count"] == 1
    assert done["skipped"] == {"not a dead letter": 1, "its queue is gone": 1}
    (row,) = world.rows("work")
    assert (row["exchange"], row["routing_key"]) == ("source", "key.one")
    assert row["properties"] == {"delivery_mode": 2}
    assert sorted(world.bodies("dlq")) == [1, 2]


@pytest.mark.parametrize("arguments", [{}, {"retention": "1D"}, {"max_priority": 5}])
def test_a_message_that_says_it_died_does_not_go_where_it_says(
    world: World, arguments: dict[str, object]
) -> None:
    world.queue("payroll")
    world.queue("dlq", **arguments)
    world.queue("work", dead_letter_exchange="", dead_letter_routing_key="dlq")
    story = {"queue": "payroll", "reason": "rejected", "exchange": "", "count": 3}
    told = pika.BasicProperties(delivery_mode=2, headers={"x-death": [story]})
    for queue in ("dlq", "work"):
        world.channel.basic_publish("", queue, b"1", told)
    got, _, _ = world.channel.basic_get("work")
    world.channel.basic_reject(got.delivery_tag, requeue=False)
    wait_until(lambda: len(world.bodies("dlq")) == 2)
    done = world.post("dlq", "redrive")
    assert (done["count"], done["skipped"]) == (1, {"not a dead letter": 1})
    assert (world.bodies("payroll"), world.bodies("work")) == ([], [1])
    _, properties, _ = world.channel.basic_get("dlq", auto_ack=True)
    assert properties.headers == {"x-death": [story]}


def test_what_died_is_known_behind_delays_histories_moves_and_a_restart(world: World) -> None:
    world.queue("dlq")
    world.queue("parked")
    delayed = {"x-delayed-type": "fanout"}
    world.channel.exchange_declare("later", "x-delayed-message", durable=True, arguments=delayed)
    world.channel.exchange_declare("seen", "x-recent-history", durable=True)
    world.channel.exchange_declare("handed", "fanout", durable=True)
    world.channel.exchange_bind("seen", "later")
    world.channel.queue_bind("dlq", "handed")
    world.queue("first", dead_letter_exchange="", dead_letter_routing_key="second")
    world.queue("second", dead_letter_exchange="later")
    for number in range(2):
        told = pika.BasicProperties(delivery_mode=2, headers={"x-delay": number})
        world.channel.basic_publish("", "first", str(number).encode(), told)
    for name in ("first", "second"):
        wait_until(partial(_has_two, world, name))
        for _ in range(2):
            got, _, _ = world.channel.basic_get(name)
            world.channel.basic_reject(got.delivery_tag, requeue=False)
    wait_until(lambda: world.door.get("exchanges", "/", "later")["messages_delayed"] == 0)
    world.channel.exchange_bind("handed", "seen")
    wait_until(lambda: len(world.bodies("dlq")) == 2)
    assert world.post("dlq", "move", filter={}, to={"queue": "parked"})["count"] == 2
    world.restart()
    assert world.post("parked", "redrive")["count"] == 2
    assert sorted(world.bodies("second")) == [0, 1]


def test_what_a_log_holds_is_published_again(world: World) -> None:
    world.queue("kept", 10, retention="1D")
    world.queue("b")
    Inbox(world.clients.channel(), "kept", auto_ack=True).wait_for(10)
    wait_until(lambda: world.bodies("kept") == [])
    done = world.post("kept", "replay", to={"queue": "b"}, filter={"offset": "0:2-5"})
    assert (done["count"], world.bodies("b")) == (3, [2, 3, 4])
    done = world.post("kept", "replay", to={"queue": "b"}, filter={"time": "1h", "key": "kept"})
    assert done["count"] == 10


def test_a_purge_is_undone_while_the_log_keeps_it(world: World) -> None:
    world.queue("kept", 10, retention="1D")
    Inbox(world.clients.channel(), "kept", auto_ack=False).wait_for(10)
    connection = world.clients.connect()
    connection.close()
    world.queue("other", 10, retention="1D")
    got, _, _ = world.channel.basic_get("other", auto_ack=True)
    assert got is not None
    world.door.do("DELETE", "queues", "/", "other", "contents")
    assert world.bodies("other") == []
    assert world.post("other", "restore", dry_run=True)["count"] == 9
    assert world.post("other", "restore", limit=4)["count"] == 4
    assert world.post("other", "restore")["count"] == 5
    assert world.bodies("other") == list(range(1, 10))
    assert "not purged" in world.refused("other", "restore")
    world.queue("plain", 1)
    assert "keeps no log" in world.refused("plain", "restore")


def test_what_cannot_be_is_refused(world: World) -> None:
    world.queue("a", 1)
    world.queue("s", queue_type="stream")
    world.channel.exchange_declare("inner", "fanout", internal=True)
    to = {"queue": "a"}
    assert "copy them" in world.refused("s", "move", filter={}, to=to)
    assert "copy them" in world.refused("s", "redrive")
    assert "are there" in world.refused("a", "move", filter={}, to=to)
    assert "no queue" in world.refused("a", "move", filter={}, to={"queue": "missing"})
    assert "no exchange" in world.refused("a", "move", filter={}, to={"exchange": "missing"})
    assert "internal" in world.refused("a", "move", filter={}, to={"exchange": "inner"})
    assert "`to`" in world.refused("a", "move", filter={})
    assert "`to`" in world.refused("a", "move", filter={}, to={})
    assert "`to`" in world.refused("a", "move", mode="delete", filter={}, to=to)
    assert "which messages" in world.refused("a", "move", mode="delete")
    assert "limit" in world.refused("a", "move", mode="delete", filter={}, limit=0)
    misspelt = world.refused("a", "move", mode="delete", filter={"kye": "k", "count": 1})
    assert misspelt.endswith(" header, text, filter, not count, kye")
    assert "not kye" in world.refused("a", "redrive", filter={"kye": "k"})
    assert "not kye" in world.refused("a", "replay", filter={"kye": "k"}, to={"queue": "s"})
    assert "place" in world.refused("a", "move", mode="delete", messages=["x"])
    assert "place" in world.refused("a", "move", mode="delete", messages=["1:0"])


def test_permissions_are_those_of_reading_and_publishing(
    world: World, fresh_broker: Callable[[], BrokerProcess]
) -> None:
    world.queue("a", 1)
    world.queue("b")
    world.door.do("PUT", "users", "mover", body={"password": "p", "tags": "management"})
    mover = ManagementDoor(world.broker, ("mover", "p"))
    body = {"filter": {}, "to": {"queue": "b"}}
    for read, write, status in (("^$", ".*", 401), (".*", "^$", 401), ("^a$", "amq.default", 200)):
        allowed = {"configure": "^$", "write": write, "read": read}
        world.door.do("PUT", "permissions", "/", "mover", body=allowed)
        assert mover.ask("POST", "queues", "/", "a", "move", body=body)[0] == status
    assert world.bodies("b") == [0]


def test_a_condition_of_sql_finds_and_moves(world: World) -> None:
    queue, other = world.queue("sql", 10), world.queue("sql.others")
    query = "filter=odd%20%3D%201%20AND%20number%20%3E%204"
    page = world.door.get("queues", "/", queue, "messages", query=query)
    assert [row["payload"] for row in page["items"]] == ["5", "7", "9"]
    condition = {"filter": "odd = 1 AND number > 4", "state": "ready"}
    answer = world.post(queue, "move", filter=condition, to={"queue": other})
    assert answer["count"] == 3
    assert world.bodies(other) == [5, 7, 9]
    assert world.bodies(queue) == [0, 1, 2, 3, 4, 6, 8]
    wrong = world.refused(queue, "move", filter={"filter": "odd ="}, to={"queue": other})
    assert wrong == "invalid x-filter: it ends too early"
