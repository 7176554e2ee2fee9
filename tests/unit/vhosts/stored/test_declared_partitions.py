from collections.abc import Iterator
from pathlib import Path

import pytest

from routelog.exchanges import Exchange
from routelog.log_backend import EXCHANGE_MARK, DeclaredPartition, MetadataStore, Retention
from routelog.vhosts import DeclaredPartitions, QueueProperties, partition_names
from routelog.vhosts.stored.topology_record import (
    GroupRecord,
    delay_change,
    exchange_change,
    group_change,
    queue_change,
)

IN_MEMORY = {"x-durability": "memory"}
KEPT = {"x-retention": "1s", "x-compression": "lz4"}
GROUP = GroupRecord("a/b", "g", 3, [5, 7], None)
QUEUE = [
    DeclaredPartition(4, "v w", "a/b", 0, Retention(1_000_000), "lz4", {3: 5}),
    DeclaredPartition(5, "v w", "a/b", 1, Retention(1_000_000), "lz4", {3: 7}),
]
PLAIN = DeclaredPartition(6, "/", "q", 0, journaled=False)
DELAYS = [
    DeclaredPartition(7, "/", EXCHANGE_MARK + "d", 0),
    DeclaredPartition(8, "/", EXCHANGE_MARK + "d", 1),
]
MEMORY = DeclaredPartition(9, "/", EXCHANGE_MARK + "h", 0)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MetadataStore]:
    """A store with each kind of record that has partitions, and some that have none."""
    store = MetadataStore.open(tmp_path / "metadata")
    store.apply(
        [
            queue_change("v w", QueueProperties("a/b", durable=True, arguments=KEPT), [4, 5]),
            group_change("v w", GROUP),
            queue_change("/", QueueProperties("q", durable=True, arguments=IN_MEMORY), [6]),
            delay_change("/", "d", [7, 8]),
            exchange_change("/", Exchange("d", "x-delayed-message", durable=True)),
            exchange_change("/", Exchange("h", "x-recent-history", durable=True), 9),
            queue_change("/", QueueProperties("transient"), [10]),  # open at the leader alone
            exchange_change("/", Exchange("transient", "x-delayed-message")),
        ]
    )
    yield store
    store.close()


def test_all_partitions_are_read_with_what_opening_them_takes(store: MetadataStore) -> None:
    found = sorted(DeclaredPartitions(store).all(), key=lambda each: each.number)
    assert found == [*QUEUE, PLAIN, *DELAYS, MEMORY]
    assert partition_names(store)[5] == ("v w", "a/b", 1)


def test_a_change_is_about_the_partitions_of_its_record_and_a_groups_about_its_queue(
    store: MetadataStore,
) -> None:
    read = DeclaredPartitions(store)
    queue = queue_change("v w", QueueProperties("a/b", durable=True), [])
    transient = queue_change("/", QueueProperties("transient"), [])
    assert list(read.of([group_change("v w", GROUP).key])) == QUEUE
    assert list(read.of([queue.key, group_change("v w", GROUP).key])) == QUEUE
    assert list(read.of([exchange_change("/", Exchange("h", "x", True), 9).key])) == [MEMORY]
    assert list(read.of([delay_change("/", "d", []).key])) == DELAYS
    assert list(read.of([transient.key])) == []
    assert list(read.of([b"next-partition", b"queues/%2F/none", b"bindings/%2F/a"])) == []
