"""Which partition a message goes to."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import cycle
from typing import Any, cast

import pytest
from pamqp.commands import Basic
from support.queue_samples import Node, declare_queue

from routelog.log_backend import PERSISTENT, Records, encode_records, key_partition
from routelog.vhosts import Queue, QueueProperties
from routelog.vhosts.partitions.partitioner import partition_count, partitioner

PARTITIONS = 5
KEYS = [b"key %d" % (number % 17) for number in range(100)]
BODIES = [b"m%d" % number for number in range(100)]


def declare(node: Node, name: str = "q", **arguments: object) -> Queue:
    named = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    properties = QueueProperties(name, durable=True, arguments=named)
    return declare_queue(node.vhost, properties, object())[0]


def run(
    keys: Sequence[bytes] | bytes,
    values: Sequence[object] | None = None,
    bodies: Sequence[bytes] = BODIES,
    header: str = "tenant",
) -> Records:
    """A run of persistent publishes; with `values` these are in a header, if not None."""
    rows, source = array("i"), bytearray()
    for at, body in enumerate(bodies):
        value = values[at] if values else None
        headers = {"other": 1} if value is None else {"other": 1, header: value}
        properties = Basic.Properties(delivery_mode=2, headers=headers).marshal()
        for part in (keys if isinstance(keys, bytes) else keys[at], properties, body):
            rows.extend((len(source), len(part)))
            source += part
    shared = keys if isinstance(keys, bytes) else None
    buffer, table = memoryview(source), memoryview(rows)
    records: Records = encode_records(buffer, table, None, len(bodies), b"", shared, PERSISTENT, 0)
    return records


def contents(queue: Queue) -> list[list[bytes]]:
    """The bodies in each partition, in the order of their offsets."""
    found: list[list[bytes]] = []
    for partition in queue.partitions:
        log, offset = partition.log, 0
        found.append([])
        while (batch := log.read(offset)) is not None:
            assert batch.base_offset == offset
            found[-1] += [batch.records.body(index) for index in range(batch.records.count)]
            offset = batch.end_offset
        assert offset == log.next_offset
    return found


def expected(keys: Sequence[bytes]) -> list[list[bytes]]:
    """Where the bodies belong, by the key of each."""
    places = [key_partition(key, PARTITIONS) for key in keys]
    return [
        [body for body, place in zip(BODIES, places, strict=True) if place == partition]
        for partition in range(PARTITIONS)
    ]


def test_one_partition_needs_no_partitioner() -> None:
    assert partitioner({}) is None
    assert partitioner({"x-partitions": 1, "x-partition-key": "tenant"}) is None
    assert (partition_count({}), partition_count({"x-partitions": 7})) == (1, 7)


def test_a_run_with_one_routing_key_goes_whole_to_one_partition(node: Node) -> None:
    queue = declare(node, partitions=PARTITIONS)
    records = run(b"order.created")
    queue.publish(records, waited=False)
    batch = queue.partitions[key_partition(b"order.created", PARTITIONS)].log.read(0)
    assert batch is not None
    assert batch.records is records
    assert contents(queue) == expected([b"order.created"] * 100)


def test_a_run_with_many_keys_is_divided_by_key(node: Node) -> None:
    queue = declare(node, partitions=PARTITIONS)
    queue.publish(run(KEYS), waited=False)
    assert contents(queue) == expected(KEYS)
    assert all(contents(queue))


def test_a_header_is_the_key_whatever_the_routing_key(node: Node) -> None:
    queue = declare(node, partitions=PARTITIONS, partition_key="tenant")
    values = [key.decode() for key in KEYS]
    queue.publish(run(b"shared", values), waited=False)
    assert contents(queue) == expected(KEYS)


def test_an_integer_in_the_header_is_the_key_of_its_decimal_digits(node: Node) -> None:
    queue = declare(node, partitions=PARTITIONS, partition_key="tenant")
    queue.publish(run(KEYS, list(range(100))), waited=False)
    assert contents(queue) == expected([b"%d" % number for number in range(100)])


def test_without_the_header_the_routing_key_is_the_key(node: Node) -> None:
    queue = declare(node, partitions=PARTITIONS, partition_key="tenant")
    values = [None if number % 2 else "acme" for number in range(100)]
    queue.publish(run(KEYS, values), waited=False)
    mixed = [key if value is None else b"acme" for key, value in zip(KEYS, values, strict=True)]
    assert contents(queue) == expected(mixed)
    other = declare(node, "other", partitions=PARTITIONS, partition_key="no such")
    other.publish(run(b"shared", values), waited=False)
    assert contents(other) == expected([b"shared"] * 100)


def test_by_round_robin_a_run_goes_whole_to_the_next_partition(node: Node) -> None:
    queue = declare(node, partitions=PARTITIONS, partition_strategy="round-robin")
    runs = [run(KEYS if at % 2 else b"shared", bodies=BODIES[at::10]) for at in range(10)]
    for records in runs:
        queue.publish(records, waited=False)
    batch = queue.partitions[1].log.read(0)
    assert batch is not None
    assert batch.records is runs[1]
    assert contents(queue) == [BODIES[at::10] + BODIES[at + 5 :: 10] for at in range(PARTITIONS)]


@pytest.mark.parametrize("lengths", [(1,), (100, 1), (1, 2, 3, 5, 8, 13, 21, 34, 55, 89)])
def test_by_round_robin_100_000_messages_are_even_within_one_percent(
    node: Node, lengths: Sequence[int]
) -> None:
    queue = declare(node, partitions=PARTITIONS, partition_strategy="round-robin")
    made = {length: run(b"k", bodies=[b"m"] * length) for length in lengths}
    left, ring = 100_000, cycle(lengths)
    while (length := next(ring)) <= left:
        queue.publish(made[length], waited=False)
        left -= length
    ends = [partition.log.next_offset for partition in queue.partitions]
    assert sum(ends) == 100_000 - left
    assert max(ends) - min(ends) <= max(lengths) <= 0.01 * sum(ends) / PARTITIONS


def test_a_header_names_the_partition(node: Node) -> None:
    queue = declare(node, partitions=PARTITIONS, partition_strategy="header")
    wanted = [at * 7 % PARTITIONS for at in range(100)]
    queue.publish(run(KEYS, wanted, header="x-partition"), waited=False)
    assert contents(queue) == [
        [body for body, place in zip(BODIES, wanted, strict=True) if place == at]
        for at in range(PARTITIONS)
    ]


@pytest.mark.parametrize("value", [None, -1, PARTITIONS, 2**62, "1", True, 1.0], ids=repr)
def test_a_header_that_names_no_partition_leaves_it_to_the_key(node: Node, value: object) -> None:
    queue = declare(node, partitions=PARTITIONS, partition_strategy="header")
    queue.publish(run(KEYS, [value] * 100, header="x-partition"), waited=False)
    assert contents(queue) == expected(KEYS)
    keyed = declare(
        node, "k", partitions=PARTITIONS, partition_strategy="header", partition_key="tenant"
    )
    tenants = [key.decode() for key in KEYS]
    keyed.publish(run(b"shared", tenants), waited=False)
    assert contents(keyed) == expected(KEYS)


def test_queues_that_share_records_do_not_disturb_each_other(node: Node) -> None:
    plain, three = declare(node, "plain"), declare(node, "three", partitions=PARTITIONS)
    headed = declare(node, "headed", partitions=PARTITIONS, partition_key="tenant")
    records = run(KEYS, [key.decode() for key in reversed(KEYS)])
    for queue in (plain, three, headed, plain):
        queue.publish(records, waited=False)
    assert contents(plain) == [BODIES + BODIES]
    assert contents(three) == expected(KEYS)
    assert contents(headed) == expected(list(reversed(KEYS)))


class PositionedLog:
    """A partition and its log, whose appends become durable at one position."""

    def __init__(self, position: int) -> None:
        self.log = self
        self.position = position
        self.waited: list[bool] = []

    def append(self, records: Records, *, waited: bool) -> int:
        """See `PartitionLog`."""
        self.waited.append(waited)
        return self.position


@pytest.mark.parametrize("highest", range(PARTITIONS))
def test_the_position_is_the_highest_of_all_partitions(highest: int) -> None:
    logs = [PositionedLog(9 if at == highest else 3) for at in range(PARTITIONS)]
    several = partitioner({"x-partitions": PARTITIONS})
    assert several is not None
    assert several.publish(cast(Any, logs), run(KEYS), waited=True) == 9
    assert [log.waited for log in logs] == [[True]] * PARTITIONS
