"""What delayed message exchanges hold, on a real log store and with a clock that goes when it is told."""

import asyncio
from array import array
from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import pytest
from pamqp import commands
from support.queue_samples import Node, declare_queue, running_node
from unit.log_backend.open_store import copy_of, flushed
from unit.vhosts.publishing.test_internal_publisher import HastyClock

from routelog.exchanges import Binding, Exchange, ExchangeNotFound
from routelog.log_backend import (
    LogOptions,
    MetadataUnavailable,
    Records,
    ScheduledRecord,
    StoredRecord,
    encode_records,
)
from routelog.log_backend.segments.log_directory import EXCHANGE_MARK, partition_directory
from routelog.vhosts import HeldMessages, Queue, QueueProperties
from routelog.vhosts.delays import due_delivery, message_delay
from routelog.vhosts.delays.due_delivery import COMING_MAX
from routelog.vhosts.delays.held_page import NOTHING_BEFORE
from routelog.vhosts.delays.message_delay import due_letter
from routelog.vhosts.publishing.internal_publish import OutgoingMessage

SMALL = LogOptions(journal_file_bytes=1024 * 1024, memory_tail_bytes=1024 * 1024)
BEGIN = 1_000_000_000_000  # us, when the clock of tests begins
DAY = 86_400_000  # ms


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    async with running_node(tmp_path / "data", SMALL, clocked=True) as node:
        yield node


def message(*delays: int, size: int = 0, now: int = BEGIN, mode: int = 2) -> Records:
    """A batch: each message says in its body, and has as its key, how long it is delayed."""
    rows, source = array("i"), bytearray()
    for delay in delays:
        properties = commands.Basic.Properties(headers={"x-delay": delay}, delivery_mode=mode)
        for part in (b"%d" % delay, properties.marshal(), (b"%d" % delay).ljust(size, b" ")):
            rows.extend((len(source), len(part)))
            source += part
    attributes = 2 if mode == 2 else 0
    view = memoryview(source)
    batch: Records = encode_records(
        view, memoryview(rows), None, len(delays), b"source", None, attributes, now
    )
    return batch


async def later(node: Node, *, durable: bool = True) -> tuple[HeldMessages, Queue]:
    """A delayed exchange of fanout, and a queue that all gets that is due."""
    arguments = {"x-delayed-type": "fanout"}
    done = node.vhost.declare_exchange(
        Exchange("later", "x-delayed-message", durable=durable, arguments=arguments)
    )
    if done is not None:
        await done
    queue, stored = declare_queue(node.vhost, QueueProperties("q", durable=True), None)
    if stored is not None:
        await stored
    bound = node.vhost.bind(Binding("later", "q", "queue", ""))
    if bound is not None:
        await bound
    held = held_of(node)
    async with asyncio.timeout(60):  # what is in the store is read at first
        while held.schedule._reading:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    return held, queue


def held_of(node: Node) -> HeldMessages:
    held = node.vhost.hosted.delays.held("later")
    assert held is not None
    return held


def bodies(queue: Queue) -> list[int]:
    found = []
    while (delivery := queue.partitions[0].take(1, 1 << 20)) is not None:
        found.append(int(delivery.records.body(delivery.index)))
    return found


async def pass_seconds(node: Node, seconds: float, steps: int = 20) -> None:
    """Let the clock go on, with time for what threads do."""
    for _ in range(steps):
        node.turns.pass_seconds(seconds / steps)
        await asyncio.sleep(0.002)
    node.turns.run()


async def settled(node: Node, held: HeldMessages, count: int = 0) -> None:
    """Wait until so many messages are held, and the others settled."""
    async with asyncio.timeout(60):
        while held.count != count:
            node.turns.run()
            await asyncio.sleep(0.005)


async def durable(node: Node, position: int) -> None:
    """Wait until the journal has come so far."""
    async with asyncio.timeout(60):
        while node.logs.journal.durable < position:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_messages_are_routed_when_they_are_due_and_none_before(node: Node) -> None:
    held, queue = await later(node)
    held.publish(message(3_000, 1_000, 2_000, DAY), True)
    node.turns.pass_seconds(0.999)
    assert (bodies(queue), held.count) == ([], 4)
    node.turns.pass_seconds(0.002)
    await settled(node, held, 3)
    assert bodies(queue) == [1_000]
    await pass_seconds(node, 5)
    await settled(node, held, 1)
    assert bodies(queue) == [2_000, 3_000]
    await pass_seconds(node, DAY / 1_000)
    await settled(node, held)
    assert bodies(queue) == [DAY]


async def test_what_is_not_in_memory_any_more_is_read_before_it_is_due(node: Node) -> None:
    held, queue = await later(node)
    for delay in range(60_000, 61_000, 5):
        held.publish(message(delay, size=2_000), False)
    await flushed(node.logs)
    for log in held.logs:
        log.evict(1 << 30)
    assert held.logs[2].needs_load(0)
    await pass_seconds(node, 59)
    assert (bodies(queue), held.count) == ([], 200)
    await pass_seconds(node, 3)
    await settled(node, held)
    assert bodies(queue) == list(range(60_000, 61_000, 5))


async def test_each_keeps_its_own_time_on_the_disk(node: Node) -> None:
    held, queue = await later(node)
    for number in range(20):  # one by one, in the same second
        held.publish(message(60_000 + number, now=BEGIN + number * 1_000), False)
    await flushed(node.logs)
    for log in held.logs:
        log.evict(1 << 30)
    await pass_seconds(node, 62)
    await settled(node, held)
    assert bodies(queue) == list(range(60_000, 60_020))


async def test_more_than_can_be_read_ahead_come_in_order(node: Node) -> None:
    held, queue = await later(node)
    count = COMING_MAX + 500
    for first in range(0, count, 500):
        held.publish(message(*range(5_000 + first, 5_000 + min(first + 500, count))), False)
    await pass_seconds(node, 30, steps=100)
    await settled(node, held)
    assert bodies(queue) == list(range(5_000, 5_000 + count))


async def test_a_queue_that_refuses_gets_a_message_when_it_has_room(node: Node) -> None:
    held, _ = await later(node)
    full = {"x-max-length": 1, "x-overflow": "reject-publish"}
    queue, stored = declare_queue(node.vhost, QueueProperties("full", arguments=full), None)
    assert stored is None
    bound = node.vhost.bind(Binding("later", "full", "queue", ""))
    assert bound is None
    held.publish(message(1_000, 1_001), False)
    await pass_seconds(node, 2)
    assert queue.ready == 1
    await settled(node, held, 1)
    assert bodies(queue) == [1_000]
    await pass_seconds(node, 6)
    assert bodies(queue) == [1_001]
    await settled(node, held)


async def test_a_message_that_is_tried_again_goes_only_to_who_has_not_got_it(node: Node) -> None:
    held, archive = await later(node)
    full = {"x-max-length": 0, "x-overflow": "reject-publish"}
    queue, _ = declare_queue(node.vhost, QueueProperties("full", arguments=full), None)
    node.vhost.bind(Binding("later", "full", "queue", ""))
    held.publish(message(1_000, 1_001), False)
    await pass_seconds(node, 22)
    assert archive.ready + archive.coming == 2
    queue.apply({})
    await pass_seconds(node, 6)
    await settled(node, held)
    assert (bodies(archive), bodies(queue)) == ([1_000, 1_001], [1_000, 1_001])
    assert not node.vhost.hosted.delays._deliveries["later"]._taken_by


async def test_a_queue_that_refuses_makes_no_letters_of_what_is_tried_again(node: Node) -> None:
    held, _ = await later(node)
    letters, _ = declare_queue(node.vhost, QueueProperties("letters"), None)
    full = {
        "x-max-length": 0,
        "x-overflow": "reject-publish-dlx",
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "letters",
    }
    declare_queue(node.vhost, QueueProperties("full", arguments=full), None)
    node.vhost.bind(Binding("later", "full", "queue", ""))
    held.publish(message(1_000), False)
    await pass_seconds(node, 12)
    assert held.count == 1
    assert letters.ready == 0


async def test_what_nobody_wants_when_it_is_due_is_dropped(node: Node) -> None:
    held, _ = await later(node)
    node.vhost.unbind(Binding("later", "q", "queue", ""))
    held.publish(message(1_000), False)
    await pass_seconds(node, 2)
    await settled(node, held)


async def test_a_message_that_cannot_go_on_stops_no_other_and_may_be_cancelled(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(record: StoredRecord) -> OutgoingMessage:
        if record.body == b"1001":
            raise ZeroDivisionError
        return due_letter(record)

    held, queue = await later(node)
    monkeypatch.setattr(message_delay, "due_letter", failing)
    held.publish(message(1_000, 1_001, 1_002, 9_000), False)
    await pass_seconds(node, 10)
    await settled(node, held, 1)
    assert bodies(queue) == [1_000, 1_002, 9_000]
    assert held.cancel(ScheduledRecord(BEGIN + 1_001_000, 0, 1))
    assert held.count == 0


async def test_a_cancelled_message_never_comes(node: Node) -> None:
    held, queue = await later(node)
    held.publish(message(1_000, 2_000, 3_000), False)
    page = await node.vhost.hosted.delays.page(held, NOTHING_BEFORE, 10)
    assert [each.body_bytes for each in page.messages] == [4, 4, 4]
    second = page.messages[1].entry
    assert held.cancel(second)
    assert not held.cancel(second)
    assert not held.cancel(ScheduledRecord(1, 99, 1))
    assert not held.cancel(ScheduledRecord(1, 0, 10**9))
    await pass_seconds(node, 5)
    assert bodies(queue) == [1_000, 3_000]
    held.publish(message(DAY, DAY + 1, now=node.turns.clock.now()), False)
    assert held.cancel_all() == 2
    assert held.count == 0
    page = await node.vhost.hosted.delays.page(held, NOTHING_BEFORE, 10)
    assert (page.messages, page.following) == ([], None)


async def test_pages_follow_each_other_and_pass_over_what_is_settled(node: Node) -> None:
    held, _ = await later(node)
    delays = [DAY + at for at in range(50)]
    held.publish(message(*delays[25:]), False)
    held.publish(message(*delays[:25]), False)
    await flushed(node.logs)
    for log in held.logs:
        log.evict(1 << 30)  # the next page reads from the disk
    first = await node.vhost.hosted.delays.page(held, NOTHING_BEFORE, 20)
    for each in first.messages[:5]:
        assert held.cancel(each.entry)
    seen = [int(each.routing_key) for each in first.messages]
    following = first.following
    while following is not None:
        page = await node.vhost.hosted.delays.page(held, following, 20)
        seen += [int(each.routing_key) for each in page.messages]
        following = page.following
    assert seen == delays
    again = await node.vhost.hosted.delays.page(held, NOTHING_BEFORE, 20)
    assert [int(each.routing_key) for each in again.messages] == delays[5:25]


@pytest.mark.parametrize("lost", ["nothing", "the schedule", "the end of it"])
async def test_after_a_crash_all_is_held_that_was(tmp_path: Path, lost: str) -> None:
    async with running_node(tmp_path / "data", SMALL, clocked=True) as node:
        held, _ = await later(node)
        position = held.publish(message(5_000, 90_000, DAY, mode=1), True)
        if lost != "the end of it":
            held.schedule.flush()
        position = held.publish(message(6_000, 7_000), True)
        await durable(node, position)
        held.cancel(ScheduledRecord(BEGIN + 7_000_000, 0, 2))
        await durable(node, position + 1)  # what is settled is journaled with the next commit
        copy_of(tmp_path / "data", tmp_path / "crashed")
    async with running_node(tmp_path / "crashed", SMALL, clocked=True) as node:
        held = held_of(node)
        assert held.count == 4
        if lost == "the schedule":
            held.schedule.delete()
    async with running_node(tmp_path / "crashed", SMALL, clocked=True) as node:
        held = held_of(node)
        queue = node.vhost.queues["q"]
        assert held.count == 4
        node.turns.clock.microseconds += 5_500_000
        for seconds, left, due in ((1, 2, [5_000, 6_000]), (99, 1, [90_000]), (DAY, 0, [DAY])):
            await pass_seconds(node, seconds)
            await settled(node, held, left)
            assert bodies(queue) == due


@pytest.mark.parametrize("cancelled", ["one", "all"])
async def test_what_a_crash_takes_back_from_the_settled_is_due_again(
    tmp_path: Path, cancelled: str
) -> None:
    async with running_node(tmp_path / "data", SMALL, clocked=True) as node:
        held, _ = await later(node)
        await durable(node, held.publish(message(5_000, DAY), True))
        held.schedule.flush()
        if cancelled == "one":
            held.cancel(ScheduledRecord(BEGIN + 5_000_000, 0, 0))
            held.schedule.flush()
        else:
            held.cancel_all()
        node.logs.schedules._thread.submit(int).result()  # in the same turn: nothing is journaled
        copy_of(tmp_path / "data", tmp_path / "crashed")
    async with running_node(tmp_path / "crashed", SMALL, clocked=True) as node:
        held = held_of(node)
        assert held.count == 2
        await pass_seconds(node, 6)
        await settled(node, held, 1)
        assert bodies(node.vhost.queues["q"]) == [5_000]


async def test_an_entry_of_a_message_that_a_crash_took_brings_no_other_one_early(
    node: Node,
) -> None:
    held, queue = await later(node)
    held.publish(message(8_000), False)
    stale = ScheduledRecord(BEGIN + 1_000_000, 0, 0)
    held.schedule.add([stale], 0, 1)
    await pass_seconds(node, 5)
    assert (bodies(queue), held.count) == ([], 1)
    await pass_seconds(node, 5)
    assert bodies(queue) == [8_000]


async def test_an_exchange_that_is_deleted_holds_nothing_and_its_name_begins_anew(
    tmp_path: Path,
) -> None:
    async with running_node(tmp_path / "data", SMALL, clocked=True) as node:
        held, queue = await later(node)
        held.publish(message(3_000, DAY), False)
        await flushed(node.logs)
        directory = held.logs[0].directory
        done = node.vhost.delete_exchange("later", if_unused=False)
        assert done is not None
        await done
        assert node.vhost.hosted.delays.held("later") is None
        held, queue = await later(node)
        assert held.count == 0
        await pass_seconds(node, 5)
        assert bodies(queue) == []
        held.publish(message(9_000, now=node.turns.clock.now()), False)
        assert directory == held.logs[0].directory
    async with running_node(tmp_path / "data", SMALL, clocked=True) as node:
        assert held_of(node).count == 1
        found = await node.logs.schedules.read(held.schedule.number, NOTHING_BEFORE, 10)
        assert len(found) == 1


async def test_an_exchange_that_is_not_durable_ends_with_the_run(tmp_path: Path) -> None:
    async with running_node(tmp_path / "data", SMALL, clocked=True) as node:
        held, queue = await later(node, durable=False)
        number = held.schedule.number
        assert held.publish(message(1_000, DAY), True) == 0
        await pass_seconds(node, 2)
        assert bodies(queue) == [1_000]
    async with running_node(tmp_path / "data", SMALL, clocked=True) as node:
        assert node.vhost.hosted.delays.held("later") is None
        assert await node.logs.schedules.read(number, NOTHING_BEFORE, 10) == []
        logs = tmp_path / "data" / "logs"
        assert not partition_directory(logs, "/", EXCHANGE_MARK + "later", 0).exists()


async def test_an_exchange_that_cannot_be_stored_is_not_there(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> int:
        raise MetadataUnavailable("full")

    monkeypatch.setattr(node.logs.metadata, "apply_each", fail)
    with pytest.raises(MetadataUnavailable):
        await later(node)
    with pytest.raises(MetadataUnavailable):
        node.vhost.declare_exchange(
            Exchange(
                "another", "x-delayed-message", durable=True, arguments={"x-delayed-type": "fanout"}
            )
        )
    assert node.vhost.hosted.delays.held("another") is None
    with pytest.raises(ExchangeNotFound):
        node.vhost.routing.exchange("another")


async def test_a_transient_message_is_kept_and_goes_on_as_one(node: Node) -> None:
    held, queue = await later(node)
    assert held.publish(message(1_000, mode=1), True) > 0
    await pass_seconds(node, 2)
    delivery = queue.partitions[0].take(1, 1 << 20)
    assert delivery is not None
    assert not delivery.records.persistent


async def test_what_is_due_reaches_very_many_queues_in_turns_and_is_settled_then(
    node: Node,
) -> None:
    held, _ = await later(node)
    names = [f"many{number}" for number in range(100)]
    queues = []
    for name in names:
        queues.append(declare_queue(node.vhost, QueueProperties(name), object())[0])
        node.vhost.bind(Binding("later", name, "queue", ""))
    node.vhost.post._ways = replace(node.vhost.post._ways, clock=HastyClock())
    node.turns.hurry()
    held.publish(message(1_000, 1_001, DAY), True)
    node.turns.clock.microseconds += 2_000_000
    for alarm in list(node.turns._alarms):
        alarm.call()
    served = []
    while node.turns.one():
        served.append(sum(queue.ready for queue in queues))
        if served[-1] < 200:
            assert held.count == 3
            assert served[-1] == 0 or len(held.leaving) == 2
            assert not any(held.cancel(entry) for entry in held.leaving)
    assert [count for count, _ in groupby(served) if 0 < count < 200][:3] == [32, 64, 96]
    assert served[-1] == 200
    assert all(bodies(queue) == [1_000, 1_001] for queue in queues)
    await settled(node, held, 1)


async def test_no_more_of_what_is_due_is_on_its_way_than_a_turn_may_begin_with(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, queue = await later(node)
    monkeypatch.setattr(due_delivery, "POSTED_MAX", 2)
    node.vhost.post._ways = replace(node.vhost.post._ways, clock=HastyClock())
    node.turns.hurry()
    for number in range(60):
        declared, _ = declare_queue(node.vhost, QueueProperties(f"many{number}"), object())
        node.vhost.bind(Binding("later", declared.name, "queue", ""))
    delays = range(1_000, 1_007)
    held.publish(message(*delays, mode=1), True)
    node.turns.clock.microseconds += 2_000_000
    for alarm in list(node.turns._alarms):
        alarm.call()
    most = 0
    while node.turns.one():
        most = max(most, len(held.leaving))
        if held.count:
            held.on_near()  # as when others come to be held meanwhile
    assert (most, held.count) == (2, 0)
    assert bodies(queue) == list(delays)
