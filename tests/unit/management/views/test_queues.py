"""Queues over HTTP."""

from array import array
from dataclasses import replace

import pytest
from support.queue_samples import Taker, got, records
from unit.management.managed_node import Connection, ManagedNode

from routelog.exchanges import Binding
from routelog.log_backend import Reason, Records, encode_records
from routelog.management.calls.answer import Listing, as_json
from routelog.management.calls.failures import Refused
from routelog.management.calls.listing import list_query, page_of
from routelog.management.views import queues
from routelog.mirror_cluster import ReplicaState
from routelog.vhosts import (
    AccessRefused,
    InvalidQueueArgument,
    Policy,
    QueueNotEmpty,
    QueueProperties,
    ReturnReason,
)

ALONE = [ReplicaState("n")]
TIMESTAMP = 1 << 6
GET = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}


def stamped(seconds: int) -> Records:
    """A message with a timestamp."""
    source = bytearray(TIMESTAMP.to_bytes(2, "big") + seconds.to_bytes(8, "big"))
    rows = memoryview(array("i", (0, 0, 0, 10, 10, 0)))
    batch: Records = encode_records(memoryview(source), rows, None, 1, b"", b"k", 0, 0)
    return batch


async def test_a_queue_is_made_shown_and_deleted(node: ManagedNode) -> None:
    body = {"arguments": {"x-max-length": 5}, "auto_delete": "false"}
    assert await node.ask(queues.put_queue, name="q", body=body) == 201
    assert await node.ask(queues.put_queue, name="q", body=body) == 204
    (queue,) = node.vhost.queues.values()
    queue.publish(records("a", "b"), True)
    node.connections.open = [Connection("c", "u", node.vhost, "q")]
    row = await node.ask(queues.get_queue, name="q")
    assert (row["durable"], row["auto_delete"], row["type"]) == (True, False, "classic")
    assert (row["messages"], row["messages_ready"], row["messages_unacknowledged"]) == (2, 2, 0)
    assert row["arguments"] == {"x-max-length": 5}
    assert row["consumer_details"] == []  # of a queue that has none, nobody is asked
    assert await node.ask(queues.delete_queue, name="q") == 204
    assert queues.queue_row(queue, "n", ALONE, 1) is None
    with pytest.raises(Refused, match=r"^no "):
        await node.ask(queues.get_queue, name="q")


@pytest.mark.parametrize(
    ("queue_type", "shown"),
    [
        ("classic", {"slave_nodes": [], "synchronised_slave_nodes": [], "min_in_sync": 1}),
        ("quorum", {"leader": "n", "members": ["n"], "online": ["n"], "min_in_sync": 1}),
        ("stream", {"leader": "n", "members": ["n"], "online": ["n"], "min_in_sync": 1}),
    ],
)
async def test_a_node_on_its_own_shows_the_one_replica(
    node: ManagedNode, queue_type: str, shown: dict[str, object]
) -> None:
    plain = as_json(queues.queue_row(await node.queue("plain"), "n", ALONE, 1))
    assert not shown.keys() & plain.keys()
    definition = {"ha-mode": "exactly", "ha-params": 2, "min-in-sync": 2}
    await node.vhost.policies.put(Policy("p", "^q", definition))
    body = {"arguments": {"x-queue-type": queue_type, "x-durability": "mirrored"}}
    await node.ask(queues.put_queue, name="q", body=body)
    row = as_json(queues.queue_row(node.vhost.queues["q"], "n", ALONE, 1))
    assert row.items() >= shown.items()
    assert (row["effective_policy_definition"], row["durability"]) == (definition, "disk")


async def test_durable_queues_are_on_all_nodes_of_a_cluster(node: ManagedNode) -> None:
    node.cluster.nodes = [
        ReplicaState("a", is_in_sync=False),
        ReplicaState("routelog@here"),
        ReplicaState("c"),
        ReplicaState("d", is_running=False),
    ]
    await node.vhost.policies.put(Policy("p", "m", {"ha-mode": "all", "min-in-sync": 9}))
    arguments = {"x-queue-type": "quorum"}
    await node.ask(queues.put_queue, name="q", body={"arguments": arguments})
    await node.ask(queues.put_queue, name="m", body={})
    await node.ask(queues.put_queue, name="mt", body={"durable": False})
    quorum = await node.ask(queues.get_queue, name="q")
    assert (quorum["leader"], quorum["members"], quorum["online"]) == (
        "routelog@here",
        ["a", "routelog@here", "c", "d"],
        ["a", "routelog@here", "c"],
    )
    mirrored = await node.ask(queues.get_queue, name="m")
    assert mirrored["slave_nodes"] == ["a", "c"]
    assert mirrored["synchronised_slave_nodes"] == ["c"]
    assert mirrored["min_in_sync"] == 2, "the cluster's"
    assert (await node.ask(queues.get_queue, name="mt"))["slave_nodes"] == []


async def test_lists_hold_what_the_caller_sees(node: ManagedNode) -> None:
    await node.queue("q")
    stranger = node.caller("stranger", "monitoring")
    assert [row["name"] for row in await node.ask(queues.list_queues)] == ["q"]
    assert [row["name"] for row in await node.ask(queues.list_queues_of_vhost)] == ["q"]
    assert await node.ask(queues.list_queues, stranger) == []


async def test_some_queues_are_listed_alone(node: ManagedNode) -> None:
    queue = await node.queue("waits")
    queue.publish(records("a"), True)
    await node.queue("idle")
    await node.queue("log", x_queue_type="stream")
    for only, names in (("used", ["waits"]), ("unconsumed", ["waits"]), ("streams", ["log"])):
        rows = await node.ask(queues.list_queues, query=f"only={only}&page=1")
        assert [row["name"] for row in rows] == names, only
    with pytest.raises(Refused, match="only is one of used, unconsumed, streams"):
        await node.ask(queues.list_queues, query="only=x")


@pytest.mark.parametrize("page_size", ["2", "3", "50"])
async def test_pages_are_the_list_in_the_order_of_vhosts_and_names(
    node: ManagedNode, page_size: str
) -> None:
    others = [await node.broker.vhosts.add(name) for name in ("zero", "a vhost", "none")]
    for at in range(7):
        await node.queue(f"q{at * 3 % 7}")
        for other in others[:2]:
            other.declare_queue(QueueProperties(f"p{at * 5 % 7}"), object())
    node.vhost.delete_queue(node.vhost.queues["q4"])
    listed = sorted((row["vhost"], row["name"]) for row in await node.ask(queues.list_queues))
    assert len(listed) == 20

    found: list[tuple[str, str]] = []
    for number in range(1, -(-20 // int(page_size)) + 1):
        listing = queues.list_queues(node.call())
        assert isinstance(listing, Listing)
        listing = replace(listing, items=())  # each page is found without them
        head, shown = await page_of(listing, list_query({"page_size": page_size}), number)
        assert (head["total_count"], head["item_count"]) == (20, len(shown))
        found += [(queue.vhost, queue.name) for queue in shown]
    assert found == listed


async def test_what_is_not_permitted_is_refused(node: ManagedNode) -> None:
    user = await node.user("u", "management")
    assert await node.ask(queues.put_queue, user, name="mine", body={}) == 201
    with pytest.raises(AccessRefused):
        await node.ask(queues.put_queue, user, name="other", body={})
    to_another = {"arguments": {"x-dead-letter-exchange": "other"}}
    with pytest.raises(AccessRefused):
        await node.ask(queues.put_queue, user, name="mine.too", body=to_another)
    await node.queue("other")
    for handler in (queues.delete_queue, queues.purge_queue):
        with pytest.raises(AccessRefused):
            await node.ask(handler, user, name="other")
    with pytest.raises(AccessRefused):
        await node.ask(queues.get_messages, user, name="other", body=GET)


async def test_conditions_of_a_deletion_hold(node: ManagedNode) -> None:
    queue = await node.queue("q")
    queue.publish(records("a"), True)
    with pytest.raises(QueueNotEmpty):
        await node.ask(queues.delete_queue, name="q", query="if-empty=true")
    assert await node.ask(queues.purge_queue, name="q") == 204
    assert queue.ready == 0
    assert await node.ask(queues.delete_queue, name="q", query="if-empty=true") == 204


async def test_a_stream_is_not_purged(node: ManagedNode) -> None:
    await node.queue("s", x_queue_type="stream")
    with pytest.raises(Refused, match="purge of stream 's'"):
        await node.ask(queues.purge_queue, name="s")


async def test_bindings_of_a_queue_are_that_of_its_name_and_others(node: ManagedNode) -> None:
    await node.queue("q")
    node.vhost.bind(Binding("amq.topic", "q", "queue", "a.#"))
    rows = await node.ask(queues.list_queue_bindings, name="q")
    assert {(row["source"], row["routing_key"]) for row in rows} == {
        ("", "q"),
        ("amq.topic", "a.#"),
    }


async def test_an_empty_object_may_be_a_list_as_php_writes_it(node: ManagedNode) -> None:
    assert await node.ask(queues.put_queue, name="q", body={"arguments": []}) == 201


@pytest.mark.parametrize("body", [b"[]", b"{", {"durable": 7}, {"arguments": [1]}])
async def test_a_body_that_is_none_is_refused(node: ManagedNode, body: object) -> None:
    with pytest.raises(Refused) as raised:
        await node.ask(queues.put_queue, name="q", body=body)
    assert raised.value.status == 400
    assert not node.vhost.queues


async def test_arguments_that_mean_nothing_are_refused(node: ManagedNode) -> None:
    with pytest.raises(InvalidQueueArgument):
        await node.ask(queues.put_queue, name="q", body={"arguments": {"x-max-length": "many"}})


async def test_messages_are_taken_as_the_body_says(node: ManagedNode) -> None:
    await node.queue("q")
    (row,) = await node.ask(queues.get_messages, name="q", body={**GET, "count": "7"})
    assert (row["payload"], row["payload_encoding"], row["redelivered"]) == ("body", "string", True)
    without = {**GET, "ackmode": "reject_requeue_false", "encoding": "base64", "truncate": 2}
    (row,) = await node.ask(queues.get_messages, name="q", body=without)
    assert (row["payload"], row["payload_encoding"], row["payload_bytes"]) == ("Ym8=", "base64", 4)
    assert node.messages.taken == [
        ("q", 7, ReturnReason.EXCUSED),
        ("q", 1, Reason.REJECTED),
    ]


@pytest.mark.parametrize(
    "change",
    [{"count": 0}, {"count": 1_001}, {"count": "one"}, {"ackmode": "keep"}, {"encoding": 1}],
)
async def test_messages_are_not_taken_otherwise(
    node: ManagedNode, change: dict[str, object]
) -> None:
    await node.queue("q")
    with pytest.raises(Refused) as raised:
        await node.ask(queues.get_messages, name="q", body={**GET, **change})
    assert raised.value.status == 400
    assert node.messages.taken == []


async def test_the_only_consumer_is_shown(node: ManagedNode) -> None:
    plain, single = await node.queue("plain"), await node.queue("s", x_single_active_consumer=True)
    keys = "exclusive_consumer_tag", "single_active_consumer_tag"

    async def shown(name: str) -> list[str | None]:
        row = await node.ask(queues.get_queue, name=name)
        return [row[key] for key in keys]

    assert await shown("plain") == await shown("s") == [None, None]
    plain.add_consumer(Taker(exclusive=True))
    single.add_consumer(Taker())
    assert await shown("plain") == ["taker", None]
    assert await shown("s") == [None, "taker"]


async def test_the_timestamp_of_the_next_message_is_shown(node: ManagedNode) -> None:
    queue = await node.queue("q")
    assert (await node.ask(queues.get_queue, name="q"))["head_message_timestamp"] is None
    queue.publish(records("without"), True)
    queue.publish(stamped(1_700_000_000), True)
    assert (await node.ask(queues.get_queue, name="q"))["head_message_timestamp"] is None
    got(queue)
    row = await node.ask(queues.get_queue, name="q")
    assert row["head_message_timestamp"] == 1_700_000_000


async def test_letters_that_no_queue_takes_are_shown(node: ManagedNode) -> None:
    body = {
        "arguments": {
            "x-dead-letter-exchange": "gone",
            "x-dead-letter-strategy": "at-least-once",
            "x-overflow": "reject-publish",
        }
    }
    await node.ask(queues.put_queue, name="q", body=body)
    queue = node.vhost.queues["q"]
    queue.publish(records("a", "b"), True)
    for shown in (0, 1):
        assert (await node.ask(queues.get_queue, name="q"))["messages_dlx"] == shown
        delivery = got(queue)
        assert delivery is not None
        end = delivery.offset + 1
        delivery.partition.settle(delivery.offset, end, Reason.REJECTED)
        node.node.turns.run()
    (row,) = await node.ask(queues.list_queues)
    assert (row["messages_dlx"], row["messages"]) == (2, 0)
    (row,) = await node.ask(queues.list_queues, query="disable_stats=true")
    assert "messages_dlx" not in row


async def test_without_statistics_a_queue_shows_what_it_is(node: ManagedNode) -> None:
    queue = await node.queue("q")
    queue.publish(records("a"), True)
    (full,) = await node.ask(queues.list_queues)
    assert full["message_stats"]["publish"] == 1
    (row,) = await node.ask(queues.list_queues, query="disable_stats=true")
    assert row.keys() & {"messages", "message_stats", "consumers", "messages_details"} == set()
    assert row.keys() >= {"name", "vhost", "type", "durable", "state"}
    wanted = "disable_stats=true&enable_queue_totals=true"
    (row,) = await node.ask(queues.list_queues, query=wanted)
    assert (row["messages"], row["messages_ready"], "message_stats" in row) == (1, 1, False)


@pytest.mark.parametrize(
    "query", ["lengths_age=x&lengths_incr=5", "msg_rates_age=9&msg_rates_incr=0"]
)
async def test_samples_that_cannot_be_are_refused(node: ManagedNode, query: str) -> None:
    await node.queue("q")
    with pytest.raises(Refused) as raised:
        await node.ask(queues.get_queue, name="q", query=query)
    assert raised.value.status == 400


async def test_a_list_has_the_bytes_of_bodies_unless_statistics_are_off(node: ManagedNode) -> None:
    queue = await node.queue("q")
    await node.queue("empty")
    queue.publish(records("x" * 10, "x" * 30), False)
    queue.add_consumer(Taker(1))
    node.node.turns.run()
    empty, full = await node.ask(queues.list_queues)
    if empty["name"] == "q":
        empty, full = full, empty
    assert {key: full[key] for key in full if key.startswith("message_bytes")} == {
        "message_bytes": 40,
        "message_bytes_ready": 20,
        "message_bytes_unacknowledged": 20,
        "message_bytes_ram": 40,
        "message_bytes_persistent": 40,
    }
    assert (empty["message_bytes"], empty["message_bytes_ready"]) == (0, 0)
    for query in ("disable_stats=true", "disable_stats=true&enable_queue_totals=true"):
        for row in await node.ask(queues.list_queues, query=query):
            assert "message_bytes" not in row
