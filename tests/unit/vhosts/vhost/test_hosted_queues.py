"""What a store holds of a vhost is opened and closed as its definitions say."""

import pytest
from support.queue_samples import Node, Taker, declare_queue, fill
from support.waiting import until
from unit.log_backend.open_store import flushed

from routelog.exchanges import Exchange
from routelog.vhosts import QueueProperties
from routelog.vhosts.partitions.priority_order import PriorityOrder
from routelog.vhosts.stored.topology_record import NEXT_PARTITION_KEY, prefix


def test_a_queue_is_opened_on_the_partitions_of_its_numbers(node: Node) -> None:
    properties = QueueProperties("q", arguments={"x-partitions": 3, "x-priorities": 2})
    logs = node.vhost.hosted.open_logs(properties, [11, 12, 13])
    queue = node.vhost.hosted.open(properties, None, logs)
    assert [each.log.number for each in queue.partitions] == [11, 12, 13]
    assert "q" not in node.vhost.queues  # that is a definition's to say


def test_a_queue_with_priorities_has_partitions_that_know_them(node: Node) -> None:
    properties = QueueProperties("q", arguments={"x-max-priority": 3})
    logs = node.vhost.hosted.open_logs(properties, [11])
    (partition,) = node.vhost.hosted.open(properties, None, logs).partitions
    assert isinstance(partition.order, PriorityOrder)


async def test_a_closed_queue_names_its_record_and_keeps_its_files_until_that_is_gone(
    node: Node,
) -> None:
    queue, declared = declare_queue(node.vhost, QueueProperties("q", durable=True), None)
    assert declared is not None
    await declared
    taker = Taker()
    queue.add_consumer(taker)
    fill(queue, 3)
    await flushed(node.logs)
    changes, removals = node.vhost.hosted.close(queue)
    assert [each.key for each in changes if each.value is None] == [prefix("queues", "/") + b"q"]
    assert taker.deleted == 1
    directory = queue.partitions[0].log.directory
    assert directory.exists()
    for remove in removals:
        remove()
    await until(lambda: not directory.exists())


def test_a_transient_queue_leaves_nothing_to_be_stored(node: Node) -> None:
    queue, _ = declare_queue(node.vhost, QueueProperties("q"), None)
    assert node.vhost.hosted.close(queue) == ([], [])


@pytest.mark.parametrize(
    ("kind", "arguments", "kinds"),
    [
        ("x-recent-history", {}, {"exchanges", "next-partition"}),
        (
            "x-delayed-message",
            {"x-delayed-type": "direct"},
            {"exchanges", "delays", "next-partition"},
        ),
        ("direct", {}, {"exchanges"}),
    ],
)
def test_an_exchange_that_keeps_something_has_logs_while_it_is_there(
    node: Node, kind: str, arguments: dict[str, object], kinds: set[str]
) -> None:
    hosted, before = node.vhost.hosted, set(node.logs.partitions)
    exchange = Exchange("x", kind, True, False, False, arguments)
    numbers, changes = hosted.new_exchange(exchange)
    assert {each.key.decode().split("/")[0] for each in changes} == kinds
    hosted.open_exchange(exchange, numbers)
    assert set(node.logs.partitions) - before == set(numbers)
    gone, _ = hosted.exchange_deleted(exchange)
    assert {each.key for each in gone} >= {
        each.key for each in changes if each.key != NEXT_PARTITION_KEY
    }
    assert set(node.logs.partitions) == before


def test_a_transient_exchange_leaves_nothing_to_be_stored(node: Node) -> None:
    exchange = Exchange("x", "x-delayed-message", arguments={"x-delayed-type": "direct"})
    numbers, changes = node.vhost.hosted.new_exchange(exchange)
    assert (bool(numbers), changes) == (True, [])
    node.vhost.hosted.open_exchange(exchange, numbers)
    assert node.vhost.hosted.exchange_deleted(exchange) == ([], [])
