"""Reading a queue's log from a place of one's own."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from support.queue_samples import (
    Node,
    Taker,
    declare_queue,
    fill,
    give_back,
    numbered,
    records,
    running_node,
    settle,
)
from unit.log_backend.open_store import flushed

from routelog.log_backend import LogOptions
from routelog.vhosts import (
    InvalidQueueProperty,
    InvalidStreamOffset,
    NotReadable,
    Queue,
    QueueProperties,
)
from routelog.vhosts.partitions.stream_reader import StreamPosition, stream_position
from routelog.vhosts.queues.dispatcher import (
    DELIVERY_BYTES_MIN,
    DELIVERY_COUNT_MAX,
    FRAMES_BYTES,
    TURN_BYTES_MAX,
)

STREAM = {"x-queue-type": "stream", "x-durability": "memory"}  # visible at once
HOUR = 3_600_000_000
SMALL = LogOptions(journal_file_bytes=1024 * 1024, segment_bytes=65_536, memory_tail_bytes=65_536)


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    async with running_node(tmp_path, SMALL, clocked=True) as running:
        yield running


def declare(node: Node, **arguments: object) -> Queue:
    properties = QueueProperties("s", durable=True, arguments=arguments)
    return declare_queue(node.vhost, properties, object())[0]


@pytest.fixture
def stream(node: Node) -> Queue:
    return declare(node, **STREAM)


def read(queue: Queue, offset: object = "first", prefetch: int | None = None) -> Taker:
    taker = Taker(prefetch)
    queue.add_reader(taker, offset, 0)
    return taker


@pytest.mark.parametrize(
    ("wanted", "position"),
    [
        ("first", StreamPosition(0)),
        ("last", StreamPosition(10)),
        ("next", StreamPosition(15)),
        (3, StreamPosition(3)),
        (15, StreamPosition(15)),
        (99, StreamPosition(15)),
        (2**63 - 1, StreamPosition(15)),
        (-1, StreamPosition(14)),
        (-15, StreamPosition(0)),
        (-99, StreamPosition(0)),
        (-(2**63), StreamPosition(0)),
        (datetime.fromtimestamp(0, UTC), StreamPosition(0, 0)),  # received at time 0
        (datetime.fromtimestamp(5, UTC), StreamPosition(15)),
        ("10h", StreamPosition(0, 0)),
        ("2h", StreamPosition(15)),
    ],
)
def test_an_offset_names_a_place(stream: Queue, wanted: object, position: StreamPosition) -> None:
    fill(stream, 15, batch=5)
    assert stream_position(stream.partitions[0].log, wanted, 10 * HOUR) == position


@pytest.mark.parametrize("wanted", ["", "second", "h", "1 h", "-1", True, 1.5, None, [1]])
def test_anything_else_is_no_place(stream: Queue, wanted: object) -> None:
    with pytest.raises(InvalidStreamOffset):
        read(stream, wanted)


def test_every_reader_gets_everything_from_its_place(node: Node, stream: Queue) -> None:
    fill(stream, 12, batch=5)
    readers = [read(stream, 0), read(stream, 7), read(stream, "next")]
    fill(stream, 2)
    node.turns.run()
    assert [reader.bodies() for reader in readers] == [
        numbered(0, 12) + numbered(0, 2),
        numbered(7, 12) + numbered(0, 2),
        numbered(0, 2),
    ]
    assert (stream.ready, stream.unacked, stream.consumer_count) == (14, 0, 3)


def test_acks_give_credit_and_take_nothing_away(node: Node, stream: Queue) -> None:
    fill(stream, 10)
    taker = read(stream, prefetch=4)
    node.turns.run()
    assert taker.bodies() == numbered(0, 4)
    taker.settle_all()
    stream.wake()
    node.turns.run()
    assert taker.bodies() == numbered(4, 8)
    assert stream.ready == 10


def test_what_is_given_back_is_not_read_again(node: Node, stream: Queue) -> None:
    fill(stream, 3)
    taker = read(stream)
    node.turns.run()
    for delivery in taker.take():
        give_back(delivery)
    node.turns.run()
    assert taker.deliveries == []


async def test_what_a_deleted_stream_had_is_not_delivered_again(node: Node, stream: Queue) -> None:
    stream.publish(records("m0"), waited=False)
    await flushed(node.logs)
    taker = read(stream)
    node.turns.run()
    (delivery,) = taker.take()
    stream.partitions[0].log.evict(1 << 30)
    node.vhost.delete_queue(stream)
    told: list[int] = []
    again = delivery.partition.redeliver(0, 1, 1 << 20, lambda: told.append(1))
    assert (again, told) == ((1, ()), [])


def test_no_batch_older_than_the_time_asked_for_is_read(node: Node, stream: Queue) -> None:
    fill(stream, 3)  # received at time 0, by their batches
    taker = read(stream, datetime.fromtimestamp(1, UTC))
    node.turns.run()
    assert taker.deliveries == []


def test_a_reader_whose_offset_is_above_the_end_gets_what_comes_next(
    node: Node, stream: Queue
) -> None:
    fill(stream, 3)
    taker = read(stream, 1_000_000)
    node.turns.run()
    fill(stream, 2)
    node.turns.run()
    assert taker.bodies() == numbered(0, 2)


def test_behind_the_end_of_the_log_a_time_begins_with_what_comes_next(
    node: Node, stream: Queue
) -> None:
    fill(stream, 3)
    taker = read(stream, datetime.fromtimestamp(1, UTC))
    stream.publish(records("next", time=500_000), waited=False)
    node.turns.run()
    assert taker.bodies() == ["next"]


async def test_all_behind_the_first_batch_of_a_time_is_read_also_if_the_clock_was_set_back(
    node: Node, stream: Queue
) -> None:
    for seconds in (50, 200):
        stream.publish(records(f"at {seconds}", time=seconds * 1_000_000), waited=False)
    await flushed(node.logs)  # into one segment: its index has one entry for both
    taker = read(stream, datetime.fromtimestamp(100, UTC))
    node.turns.run()
    for seconds in (90, 300):
        stream.publish(records(f"at {seconds}", time=seconds * 1_000_000), waited=False)
        node.turns.run()
    assert taker.bodies() == ["at 200", "at 90", "at 300"]


def test_a_queue_is_consumed_and_read_at_the_same_time(node: Node) -> None:
    queue = declare(node, **{"x-retention": "1h", "x-durability": "memory"})
    consumer = Taker()
    queue.add_consumer(consumer)
    fill(queue, 6, batch=2)
    node.turns.run()
    for delivery in consumer.take():
        settle(delivery)
    reader = read(queue)
    node.turns.run()
    assert reader.bodies() == numbered(0, 6)
    assert queue.ready == 0


def test_a_queue_that_keeps_no_log_cannot_be_read(node: Node) -> None:
    queue = declare(node)
    with pytest.raises(NotReadable):
        read(queue)
    assert queue.consumer_count == 0


async def test_a_reader_far_behind_reads_from_the_disk(node: Node, stream: Queue) -> None:
    fill(stream, 20_000, batch=50)
    await flushed(node.logs)
    taker = read(stream)
    log = stream.partitions[0].log
    for _ in range(1_000):
        node.turns.run()
        if len(taker.bodies()) == 20_000:
            break
        assert log.needs_load(sum(delivery.count for delivery in taker.deliveries))
        await next_load(node, stream)
    assert taker.bodies() == numbered(0, 20_000)


async def next_load(node: Node, queue: Queue) -> None:
    """Wait until a load has ended: it asks for a turn."""
    for _ in range(10_000):
        await asyncio.sleep(0)
        if node.turns.one():
            return
        await asyncio.get_running_loop().run_in_executor(None, lambda: None)
    raise AssertionError("nothing was loaded")


async def test_the_oldest_segments_go_when_the_log_is_too_large(node: Node) -> None:
    stream = declare(node, **STREAM, **{"x-max-length-bytes": 150_000})
    log = stream.partitions[0].log
    for _ in range(40):
        fill(stream, 500, batch=50)
        await flushed(node.logs)
    assert sum(segment.size for segment in log.segments) < 150_000 + 65_536
    assert 0 < log.first_offset < log.next_offset == 20_000
    assert stream.ready == log.next_offset - log.first_offset
    reader = read(stream)
    node.turns.run()
    assert reader.deliveries == [] or reader.deliveries[0].offset >= log.first_offset


async def test_a_stream_keeps_transient_records_over_a_restart(tmp_path: Path) -> None:
    async with running_node(tmp_path, SMALL, clocked=True) as node:
        stream = declare(node, **STREAM)
        assert stream.declaring is not None
        await stream.declaring
        for _ in range(20):
            stream.publish(records(*numbered(0, 500), persistent=False), waited=False)
            await flushed(node.logs)
    async with running_node(tmp_path, SMALL, clocked=True) as node:
        stream = node.vhost.queues["s"]
        stream.partitions[0].log.release()
        log = stream.partitions[0].log
        assert (log.first_offset, log.next_offset, stream.ready) == (0, 10_000, 10_000)


@pytest.mark.parametrize(
    ("name", "properties"),
    [
        ("non-durable", QueueProperties("s", arguments=STREAM)),
        ("exclusive-owner", QueueProperties("s", durable=True, exclusive=True, arguments=STREAM)),
        ("auto-delete", QueueProperties("s", durable=True, auto_delete=True, arguments=STREAM)),
    ],
)
def test_a_stream_is_durable_and_shared(node: Node, name: str, properties: QueueProperties) -> None:
    with pytest.raises(InvalidQueueProperty) as refused:
        node.vhost.declare_queue(properties, object())
    assert refused.value.property_name == name


def test_readers_are_told_when_the_stream_is_deleted(node: Node, stream: Queue) -> None:
    taker = read(stream)
    node.vhost.delete_queue(stream)
    assert taker.deleted == 1


async def test_a_turn_hands_a_reader_only_so_many_small_messages(node: Node, stream: Queue) -> None:
    fill(stream, 60_000, batch=10_000)
    taker = read(stream)
    node.turns.one()
    handed = sum(delivery.count for delivery in taker.deliveries)
    assert 0 < handed <= TURN_BYTES_MAX // FRAMES_BYTES + DELIVERY_COUNT_MAX
    node.turns.run()
    assert sum(delivery.count for delivery in taker.deliveries) == 60_000


async def test_many_readers_are_fed_in_several_turns_and_each_in_its_turn(
    node: Node, stream: Queue
) -> None:
    takers = [read(stream) for _ in range(600)]
    node.turns.run()
    most = TURN_BYTES_MAX // DELIVERY_BYTES_MIN + 1  # deliveries of one turn
    for count in (1, 2, 3):
        fill(stream, 1)
        node.turns.one()
        assert sum(len(taker.deliveries) == count for taker in takers) <= most
        node.turns.run()
        assert [len(taker.deliveries) for taker in takers] == [count] * 600
    fill(stream, 4)
    met = [0] * len(takers)
    for _ in range(3):  # more comes before all have had the first
        fill(stream, 1)
        node.turns.one()
        met = [before + bool(taker.take()) for before, taker in zip(met, takers, strict=True)]
    assert min(met) > 0


async def test_a_reader_gets_what_is_durable_as_soon_as_it_is(node: Node) -> None:
    stream = declare(node, **{"x-queue-type": "stream"})
    journal, log = node.logs.journal, stream.partitions[0].log
    fill(stream, 2)
    await journal.drain()
    journal.hold()
    stream.publish(records("a", "b"), waited=False)
    early, late = read(stream, "first"), read(stream, "next")
    assert stream_position(log, "next", 0) == StreamPosition(2)
    assert stream_position(log, "last", 0) == StreamPosition(1)
    assert stream_position(log, 3, 0) == StreamPosition(3)  # another leader may have shown offset 2
    assert stream_position(log, 5, 0) == StreamPosition(2)
    assert stream_position(log, datetime.fromtimestamp(5, UTC), 0) == StreamPosition(2)
    node.turns.run()
    assert (early.bodies(), late.bodies(), stream.ready) == (numbered(0, 2), [], 2)
    journal.let_go()
    await journal.drain()
    node.turns.run()
    assert (early.bodies(), late.bodies()) == ([*numbered(0, 2), "a", "b"], ["a", "b"])
    assert stream.ready == 4


async def test_a_queue_s_own_consumers_go_ahead_of_the_readers_of_its_log(node: Node) -> None:
    queue = declare(node, **{"x-retention": "1h"})
    consumer = Taker(no_ack=True)
    queue.add_consumer(consumer)
    reader = read(queue)
    node.logs.journal.hold()
    fill(queue, 2)
    node.turns.run()
    assert (consumer.bodies(), reader.bodies()) == (numbered(0, 2), [])
    node.logs.journal.let_go()
    await node.logs.journal.drain()
    node.turns.run()
    assert reader.bodies() == numbered(0, 2)


def live_and_late(node: Node, stream: Queue, count: int) -> tuple[list[Taker], list[Taker]]:
    """Readers at the end of a log, and twenty at its beginning, of which a turn serves one."""
    fill(stream, 1_000, batch=10)
    live = [read(stream, "next") for _ in range(count)]
    node.turns.run()
    late = [read(stream) for _ in range(20)]
    node.turns.clock.look_microseconds = 40
    return live, late


async def test_readers_that_keep_up_go_before_those_that_lag(node: Node, stream: Queue) -> None:
    live, late = live_and_late(node, stream, 3)
    while not any(each.deliveries for each in late):
        assert node.turns.one()
    assert sum(bool(each.deliveries) for each in late) == 1
    fill(stream, 1)
    node.turns.one()
    assert [len(each.deliveries) for each in live] == [1, 1, 1]


async def test_readers_that_keep_up_leave_time_to_those_that_lag(node: Node, stream: Queue) -> None:
    live, late = live_and_late(node, stream, 40)  # more than a turn serves
    for _ in range(300):
        fill(stream, 1)
        await node.logs.journal.drain()  # on a slow disk by a thread
        node.turns.one()
    assert all(each.deliveries for each in (*live, *late))


async def test_readers_of_several_partitions_are_woken_by_each(node: Node) -> None:
    stream = declare(node, **{"x-queue-type": "stream", "x-partitions": 3})
    reader = read(stream)
    for partition in stream.partitions:
        node.turns.run()
        partition.log.append(records("m"), waited=False)
        stream.wake()
        node.turns.run()
        await node.logs.journal.drain()
    node.turns.run()
    assert reader.bodies() == ["m"] * 3
