"""Dead letters: where rejected messages go, what is said of them, and what ends a cycle."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from support.pika_client import PERSISTENT, Clients, Inbox, declare, drain, ready_count, send
from support.waiting import wait_until


@pytest.fixture
def dead(channel: BlockingChannel, name: str) -> Iterator[str]:
    """A fanout exchange for dead letters."""
    channel.exchange_declare(f"{name}.dlx", "fanout", auto_delete=False)
    yield f"{name}.dlx"
    if channel.is_open:
        channel.exchange_delete(f"{name}.dlx")


@pytest.fixture
def morgue(channel: BlockingChannel, dead: str) -> str:
    """A queue that gets all dead letters."""
    queue = declare(channel)
    channel.queue_bind(queue, dead)
    return queue


def reject_all(channel: BlockingChannel, queue: str, count: int) -> None:
    for _ in range(count):
        found, _, _ = channel.basic_get(queue)
        assert found is not None
        channel.basic_reject(found.delivery_tag, requeue=False)


def take_one(channel: BlockingChannel, queue: str):
    got = []

    def arrived() -> bool:
        found, properties, body = channel.basic_get(queue, auto_ack=True)
        if found is not None:
            got.append((found, properties, body))
        return bool(got)

    wait_until(arrived)
    return got[0]


def test_a_rejected_message_goes_to_the_dead_letter_exchange_with_its_story(channel, dead, morgue):
    source = declare(channel, arguments={"x-dead-letter-exchange": dead})
    sent = pika.BasicProperties(
        content_type="text/plain", headers={"mine": [1, {"x": None}]}, priority=3, message_id="m"
    )
    channel.basic_publish("", source, b"body", sent)
    before = datetime.now(UTC) - timedelta(seconds=2)
    reject_all(channel, source, 1)
    found, properties, body = take_one(channel, morgue)
    assert (found.exchange, found.routing_key, body) == (dead, source, b"body")
    assert found.redelivered is False
    headers = properties.headers
    (death,) = headers["x-death"]
    # The order in which RabbitMQ writes them: clients print it.
    assert list(death) == ["count", "reason", "queue", "time", "exchange", "routing-keys"]
    assert before <= death.pop("time").astimezone(UTC) <= datetime.now(UTC) + timedelta(seconds=2)
    assert death == {
        "count": 1,
        "exchange": "",
        "queue": source,
        "reason": "rejected",
        "routing-keys": [source],
    }
    assert headers["mine"] == [1, {"x": None}]
    firsts = {key: headers[f"x-first-death-{key}"] for key in ("queue", "reason", "exchange")}
    assert firsts == {"queue": source, "reason": "rejected", "exchange": ""}
    kept = (properties.content_type, properties.priority, properties.message_id)
    assert kept == ("text/plain", 3, "m")


def test_nacks_of_many_become_dead_letters_in_order(channel, dead, morgue):
    source = declare(channel, arguments={"x-dead-letter-exchange": dead})
    bodies = [b"%d" % number for number in range(1000)]
    send(channel, source, *bodies)
    inbox = Inbox(channel, source).wait_for(1000)
    channel.basic_nack(inbox.delivery_tags[-1], multiple=True, requeue=False)
    wait_until(lambda: ready_count(channel, morgue) == 1000)
    assert drain(channel, morgue) == bodies


def test_a_dead_letter_gets_the_routing_key_of_its_queue(channel, dead, morgue):
    arguments = {"x-dead-letter-exchange": dead, "x-dead-letter-routing-key": "other"}
    source = declare(channel, arguments=arguments)
    properties = pika.BasicProperties(headers={"CC": ["third"]})
    channel.basic_publish("", source, b"x", properties)
    reject_all(channel, source, 1)
    found, properties, _ = take_one(channel, morgue)
    assert found.routing_key == "other"
    assert properties.headers["x-death"][0]["routing-keys"] == [source, "third"]
    assert "CC" not in properties.headers


def test_without_a_key_of_its_own_copies_are_routed_too(channel, name):
    second = declare(channel)
    first = declare(channel)
    source = declare(channel, arguments={"x-dead-letter-exchange": ""})
    channel.exchange_declare(name, "direct", auto_delete=True)
    channel.queue_bind(source, name, first)
    properties = pika.BasicProperties(headers={"CC": [second]})
    channel.basic_publish(name, first, b"x", properties)
    reject_all(channel, source, 1)
    assert take_one(channel, first)[2] == b"x"
    assert take_one(channel, second)[2] == b"x"


@pytest.mark.parametrize("own_key", [False, True])
def test_blind_copies_are_routed_again_and_never_seen(channel, name, own_key):
    channel.exchange_declare(name, "topic", auto_delete=True)
    arguments = {"x-dead-letter-exchange": name}
    if own_key:
        arguments["x-dead-letter-routing-key"] = "own"
    second = declare(channel, arguments={"x-dead-letter-exchange": name})
    first = declare(channel, arguments=arguments)
    last = declare(channel)
    channel.queue_bind(second, name, "blind")
    channel.queue_bind(second, name, "own")
    sent = pika.BasicProperties(headers={"CC": ["seen"], "BCC": ["blind", "more"]}, delivery_mode=2)
    channel.basic_publish("", first, b"x", sent)
    for queue, key in ((first, first), (second, "own" if own_key else first)):
        [(found, properties, _)] = Inbox(channel, queue).wait_for(1).deliveries
        assert found.routing_key == key
        assert "BCC" not in properties.headers
        if queue == first:
            assert properties.headers == {"CC": ["seen"]}
            channel.queue_bind(last, name, "more")
        elif not own_key:
            assert properties.headers["x-death"][0]["routing-keys"] == [first, "seen"]
            assert properties.headers["CC"] == ["seen"]
        channel.basic_reject(found.delivery_tag, requeue=False)
    wait_until(lambda: ready_count(channel, last) == (0 if own_key else 2))


def test_a_second_death_in_the_same_queue_is_counted(channel, dead, morgue):
    source = declare(channel, arguments={"x-dead-letter-exchange": dead})
    channel.queue_bind(source, dead)
    send(channel, source, b"x")
    for count in (1, 2, 3):
        reject_all(channel, source, 1)
        _, properties, _ = take_one(channel, morgue)
        deaths = [(each["queue"], each["count"]) for each in properties.headers["x-death"]]
        assert deaths == [(source, count)]
        wait_until(lambda: ready_count(channel, source) == 1)


def test_deaths_in_several_queues_are_told_latest_first(channel, dead, morgue):
    last = declare(channel, arguments={"x-dead-letter-exchange": dead})
    first = declare(
        channel, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": last}
    )
    send(channel, first, b"x")
    reject_all(channel, first, 1)
    wait_until(lambda: ready_count(channel, last) == 1)
    reject_all(channel, last, 1)
    _, properties, _ = take_one(channel, morgue)
    assert [each["queue"] for each in properties.headers["x-death"]] == [last, first]
    assert properties.headers["x-first-death-queue"] == first


@pytest.mark.differs_from_rabbitmq("x-last-death-* came with RabbitMQ 3.13")
def test_the_last_death_is_told_too(channel, dead, morgue):
    last = declare(channel, arguments={"x-dead-letter-exchange": dead})
    first = declare(
        channel, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": last}
    )
    send(channel, first, b"x")
    reject_all(channel, first, 1)
    wait_until(lambda: ready_count(channel, last) == 1)
    reject_all(channel, last, 1)
    headers = take_one(channel, morgue)[1].headers
    lasts = {key: headers[f"x-last-death-{key}"] for key in ("queue", "reason", "exchange")}
    assert lasts == {"queue": last, "reason": "rejected", "exchange": ""}


def test_a_dead_letter_exchange_that_is_not_there_drops(channel, name):
    source = declare(channel, arguments={"x-dead-letter-exchange": f"{name}.nowhere"})
    send(channel, source, b"x", b"y")
    reject_all(channel, source, 2)
    channel.exchange_declare(f"{name}.nowhere", "fanout", auto_delete=True)
    after = declare(channel)
    channel.queue_bind(after, f"{name}.nowhere")
    send(channel, source, b"z")
    reject_all(channel, source, 1)
    assert take_one(channel, after)[2] == b"z"
    assert ready_count(channel, after) == 0


def test_a_headers_exchange_reads_the_headers_of_dead_letters(channel, name):
    channel.exchange_declare(name, "headers", auto_delete=True)
    matching = declare(channel)
    channel.queue_bind(matching, name, arguments={"x-match": "all", "kind": "sad", "n": 5})
    source = declare(channel, arguments={"x-dead-letter-exchange": name})
    for headers in ({"kind": "sad", "n": 5}, {"kind": "glad", "n": 5}):
        channel.basic_publish("", source, headers["kind"], pika.BasicProperties(headers=headers))
    reject_all(channel, source, 2)
    assert take_one(channel, matching)[2] == b"sad"
    assert ready_count(channel, matching) == 0


@pytest.mark.parametrize(
    "story",
    [
        "text",
        5,
        [],
        pytest.param(
            ["x", 1], marks=pytest.mark.differs_from_rabbitmq("closes the connection with 541")
        ),
        [{"queue": 5, "reason": None, "count": "many"}],
        [{"count": 2**62}],
        {"queue": "a"},
    ],
)
def test_a_story_that_a_client_made_up_does_no_harm(channel, dead, morgue, story):
    source = declare(channel, arguments={"x-dead-letter-exchange": dead})
    channel.basic_publish("", source, b"x", pika.BasicProperties(headers={"x-death": story}))
    send(channel, source, b"y")
    reject_all(channel, source, 2)
    _, properties, body = take_one(channel, morgue)
    assert body == b"x"
    assert properties.headers["x-death"][0]["queue"] == source
    assert take_one(channel, morgue)[2] == b"y"


def test_dead_letters_of_persistent_messages_survive_a_kill_and_their_originals_are_gone(
    fresh_broker,
):
    broker = fresh_broker()
    clients = Clients(broker.url)
    channel = clients.channel()
    channel.queue_declare("morgue", durable=True)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "morgue"}
    channel.queue_declare("source", durable=True, arguments=arguments)
    channel.confirm_delivery()
    for number in range(10):
        channel.basic_publish("", "source", b"%d" % number, PERSISTENT)
    reject_all(channel, "source", 10)
    channel.basic_publish("", "source", b"behind", PERSISTENT)  # confirmed after what came before
    wait_until(lambda: ready_count(channel, "morgue") == 10)
    channel.basic_publish("", "source", b"last", PERSISTENT)
    broker.kill()
    broker.start()
    channel = clients.channel()
    assert drain(channel, "morgue") == [b"%d" % number for number in range(10)]
    assert drain(channel, "source")[-2:] == [b"behind", b"last"]
    clients.close()


def test_messages_that_were_rejected_long_after_they_left_memory_become_dead_letters(fresh_broker):
    broker = fresh_broker(ROUTELOG_MEMORY_TAIL_BYTES="1048576", ROUTELOG_FLUSH_SECONDS="0.05")
    clients = Clients(broker.url)
    channel = clients.channel()
    morgue = declare(channel)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": morgue}
    channel.queue_declare("source", durable=True, arguments=arguments)
    channel.confirm_delivery()
    inbox = Inbox(channel, "source")
    for number in range(40):
        channel.basic_publish("", "source", b"%d" % number + bytes(200_000), PERSISTENT)
    inbox.wait_for(40)
    channel.basic_nack(inbox.delivery_tags[-1], multiple=True, requeue=False)
    wait_until(lambda: ready_count(channel, morgue) == 40)
    found = [body.rstrip(b"\0") for body in drain(channel, morgue)]
    assert found == [b"%d" % number for number in range(40)]
    clients.close()


@pytest.mark.differs_from_rabbitmq("at-least-once is for quorum queues there")
def test_at_least_once_keeps_what_no_queue_takes_until_one_does(channel, name):
    arguments = {
        "x-dead-letter-exchange": name,
        "x-dead-letter-strategy": "at-least-once",
        "x-overflow": "reject-publish",
    }
    source = declare(channel, arguments=arguments)
    send(channel, source, b"a", b"b")
    reject_all(channel, source, 2)
    channel.exchange_declare(name, "fanout", auto_delete=True)
    late = declare(channel)
    channel.queue_bind(late, name)
    wait_until(lambda: ready_count(channel, late) == 2)
    assert drain(channel, late) == [b"a", b"b"]
