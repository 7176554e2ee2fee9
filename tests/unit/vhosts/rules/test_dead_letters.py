"""Dead letters of a queue on a real log store: when the original is settled, and in which slices."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from support.queue_samples import (
    Node,
    Taker,
    bodies,
    declare_queue,
    fill,
    got,
    numbered,
    records,
    running_node,
    settle,
)

from routelog.exchanges import Binding, Exchange
from routelog.log_backend import CLIENT_SECONDS, Reason, SystemClock
from routelog.vhosts import PublishRefused, Queue, QueueNotEmpty, QueueProperties
from routelog.vhosts.arguments.policy import Policy, effective_arguments
from routelog.vhosts.publishing.internal_publish import OutgoingMessage
from routelog.vhosts.rules import death, rule_services
from routelog.vhosts.rules.dead_letters import (
    LETTERS_MAX,
    PRESSED_SECONDS,
    RETRY_SECONDS,
    letter_address,
)

TO_MORGUE = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "morgue"}


class StoppedClock(SystemClock):
    """There is always time for more."""

    def monotonic(self) -> float:
        return 0.0


async def declared(node: Node, name: str, *, durable: bool = False, **arguments: object) -> Queue:
    hyphened = {key.replace("_", "-"): value for key, value in arguments.items()}
    properties = QueueProperties(name, durable=durable, arguments=hyphened)
    queue, done = declare_queue(node.vhost, properties, None)
    if done is not None:
        await done
    return queue


async def source_of(node: Node, *, durable: bool = False, **more: object) -> Queue:
    arguments = {key.replace("-", "_"): value for key, value in TO_MORGUE.items()}
    return await declared(node, "source", durable=durable, **(arguments | more))


def reject(queue: Queue, count: int) -> None:
    while count > 0:
        delivery = queue.partitions[0].take(count, 1 << 20)
        assert delivery is not None
        end = delivery.offset + delivery.count
        delivery.partition.settle(delivery.offset, end, Reason.REJECTED)
        count -= delivery.count


def content(queue: Queue) -> list[str]:
    taker = Taker()
    queue.add_consumer(taker)
    while queue.has_turn:
        queue._scheduler._pass()
    queue.detach([taker])
    return taker.bodies()


def test_letters_have_an_address_only_with_an_exchange() -> None:
    assert letter_address({}) is None
    address = letter_address(TO_MORGUE)
    assert address is not None
    assert (address.exchange, address.routing_key, address.at_least_once) == ("", b"morgue", False)


def test_a_stored_policys_key_is_cut_to_what_a_frame_can_carry() -> None:
    policy = Policy(
        "p", "", {"dead-letter-exchange": "", "dead-letter-routing-key": "k" + 128 * "ö"}
    )
    address = letter_address(effective_arguments({}, policy, None).values)
    assert address is not None
    assert address.routing_key == ("k" + 127 * "ö").encode()


@pytest.mark.parametrize(
    ("overflow", "expected"),
    [("reject-publish", True), ("drop-head", False), (None, False), ("reject-publish-dlx", False)],
)
def test_at_least_once_needs_a_queue_that_refuses(overflow: str | None, expected: bool) -> None:
    arguments = {**TO_MORGUE, "x-dead-letter-strategy": "at-least-once", "x-overflow": overflow}
    address = letter_address(arguments)
    assert address is not None
    assert address.at_least_once is expected


async def test_a_queue_without_rules_has_none(node: Node) -> None:
    queue = await declared(node, "plain")
    assert queue.rules is None
    assert queue.partitions[0].rules is None


async def test_a_stream_obeys_no_rules(node: Node) -> None:
    stream = await declared(node, "s", durable=True, x_queue_type="stream")
    stream.apply(TO_MORGUE)
    assert stream.rules is None


async def test_an_original_is_settled_when_its_letter_is_durable(node: Node) -> None:
    morgue = await declared(node, "morgue", durable=True)
    source = await source_of(node, durable=True)
    fill(source, 10)
    reject(source, 10)
    node.turns.run()
    cursor = source.partitions[0].cursor
    assert cursor.low_water == 0
    journal = node.logs.journal
    position = morgue.publish(records("behind"), waited=True)
    await reached(node, position)
    assert journal.durable >= position
    assert cursor.low_water == 10
    assert content(morgue) == [*numbered(0, 10), "behind"]


async def test_a_letter_is_handed_out_when_its_block_is_durable(node: Node) -> None:
    # Were it lost with its block, its consumer would get it once more from its old place, and not be told.
    morgue = await declared(node, "morgue", durable=True, x_message_ttl=60_000)
    source = await source_of(node, durable=True)
    taker = Taker()
    morgue.add_consumer(taker)
    await reached(node, source.publish(records("dead"), waited=True))
    reject(source, 1)
    node.turns.run()
    position = morgue.publish(records("behind"), waited=True)
    node.turns.run()
    assert (taker.bodies(), morgue.ready, morgue.coming) == ([], 0, 2)
    await reached(node, position)
    node.turns.run()
    assert (taker.bodies(), morgue.coming) == (["dead", "behind"], 0)


async def test_a_letter_that_is_not_handed_out_yet_takes_room_and_expires(node: Node) -> None:
    arguments = {"x_max_length": 1, "x_overflow": "reject-publish", "x_message_ttl": 1}
    morgue = await declared(node, "morgue", durable=True, **arguments)
    source = await source_of(node, durable=True)
    await reached(node, source.publish(records("dead"), waited=True))
    reject(source, 1)
    node.turns.run()
    assert not morgue.takes(1, 1)
    with pytest.raises(QueueNotEmpty):
        node.vhost.delete_queue(morgue, if_empty=True)
    async with asyncio.timeout(60):
        while morgue.partitions[0].cursor.low_water < 1:
            node.turns.pass_seconds(1)
            await asyncio.sleep(0.001)
    assert morgue.takes(1, 1)


async def test_a_transient_letter_waits_for_nothing(node: Node) -> None:
    await declared(node, "morgue")
    source = await source_of(node)
    fill(source, 3)
    reject(source, 3)
    node.turns.run()
    assert source.partitions[0].cursor.low_water == 3


@pytest.fixture
async def hasty(tmp_path: Path) -> AsyncIterator[Node]:
    """A node whose turns are over with the second look at the clock."""
    async with running_node(tmp_path, clocked=True) as node:
        node.turns.clock.look_microseconds = round(2_000_000 * CLIENT_SECONDS)
        yield node


async def test_a_million_deaths_are_written_in_slices(hasty: Node) -> None:
    node, morgue = hasty, await declared(hasty, "morgue")
    source = await source_of(node)
    node.vhost.post._ways = replace(node.vhost.post._ways, clock=StoppedClock())
    count = 5 * LETTERS_MAX + 5
    fill(source, count, batch=1000)
    reject(source, count)
    slices = []
    while node.turns.one():
        slices.append(morgue.ready)
    assert max(after - before for before, after in pairwise(slices)) <= LETTERS_MAX
    assert slices[-1] == count
    node.turns.clock.look_microseconds = 0
    assert content(morgue) == numbered(0, count)


async def test_all_queues_share_the_time_for_dead_letters(hasty: Node) -> None:
    morgue = await declared(hasty, "morgue")
    arguments = {key.replace("-", "_"): value for key, value in TO_MORGUE.items()}
    sources = [await declared(hasty, f"source {number}", **arguments) for number in range(6)]
    for source in sources:
        fill(source, 3)
        reject(source, 3)
    while not morgue.ready:
        hasty.turns.one()
    assert morgue.ready == 3  # of one queue
    hasty.turns.run()
    assert morgue.ready == 3 * len(sources)
    assert all(source.partitions[0].cursor.low_water == 3 for source in sources)


async def test_letters_wait_while_publishers_do(node: Node) -> None:
    morgue = await declared(node, "morgue")
    source = await source_of(node)
    fill(source, 3)
    node.logs.pressures.reasons = frozenset({"disk"})
    reject(source, 3)
    node.turns.run()
    assert (morgue.ready, source.rules and source.rules.dead_letters.waiting) == (0, 3)
    node.logs.pressures.reasons = frozenset()
    node.turns.pass_seconds(PRESSED_SECONDS)
    assert morgue.ready == 3


async def test_at_least_once_tries_again_what_no_queue_took(node: Node) -> None:
    source = await source_of(
        node, x_overflow="reject-publish", x_dead_letter_strategy="at-least-once"
    )
    fill(source, 3)
    reject(source, 3)
    node.turns.pass_seconds(3 * RETRY_SECONDS)
    assert source.partitions[0].cursor.low_water == 0
    morgue = await declared(node, "morgue")
    node.turns.pass_seconds(RETRY_SECONDS)
    assert content(morgue) == numbered(0, 3)
    assert source.partitions[0].cursor.low_water == 3


@pytest.mark.parametrize(
    "limit", [{"x_max_length": 10}, {"x_max_length_bytes": 10}], ids=["count", "bytes"]
)
async def test_letters_that_no_queue_takes_fill_the_queue(
    node: Node, limit: dict[str, object]
) -> None:
    arguments = {"x_dead_letter_exchange": "gone", "x_dead_letter_strategy": "at-least-once"}
    source = await source_of(node, x_overflow="reject-publish", **limit, **arguments)
    for number in range(10):
        source.publish(records(str(number)), waited=False)
        if number != 5:
            reject(source, 1)  # 5 stays in somebody's hands
        else:
            held = got(source)
        node.turns.pass_seconds(1)
    assert source.ready == 0
    source.publish(records("x"), waited=False)
    with pytest.raises(PublishRefused):
        source.publish(records("y"), waited=False)
    assert held is not None
    settle(held)
    reject(source, 1)
    for _ in range(3):
        node.turns.pass_seconds(RETRY_SECONDS)
        with pytest.raises(PublishRefused):
            source.publish(records("z"), waited=False)
    assert source.rules is not None
    assert len(source.rules.dead_letters._retry_ranges) == 2  # not one for each letter
    with pytest.raises(QueueNotEmpty):
        node.vhost.delete_queue(source, if_empty=True)
    node.vhost.declare_exchange(Exchange("gone", "fanout"))
    node.vhost.bind(Binding("gone", (await declared(node, "morgue")).name, "queue", ""))
    node.turns.pass_seconds(RETRY_SECONDS)
    assert source.takes(10, 10)
    assert source.rules.dead_letters.kept == (0, 0)
    assert source.rules.dead_letters.waiting == 0
    node.vhost.delete_queue(source, if_empty=True)


@pytest.mark.parametrize("to", ["retry", "work"], ids=["each other", "itself"])
async def test_kept_letters_leave_room_for_letters(node: Node, to: str) -> None:
    options = {
        "x_max_length": 3,
        "x_overflow": "reject-publish",
        "x_dead_letter_exchange": "",
        "x_dead_letter_strategy": "at-least-once",
    }
    work = await declared(node, "work", x_dead_letter_routing_key=to, **options)
    queues = [work]
    if to == "retry":
        queues.append(await declared(node, "retry", x_dead_letter_routing_key="work", **options))
    for queue in queues:
        queue.publish(records(*numbered(0, 3)), waited=False)
    for queue in queues:
        reject(queue, 3)
    for _ in range(2):
        node.turns.pass_seconds(RETRY_SECONDS)
    assert [queue.ready for queue in queues] == [3] * len(queues)
    with pytest.raises(PublishRefused):
        work.publish(records("x"), waited=False)


async def full_queue(node: Node) -> tuple[Queue, Queue]:
    """`morgue`, which is full and makes dead letters of what it refuses, and where these go."""
    second = await declared(node, "second")
    arguments = {
        "x_max_length": 1,
        "x_overflow": "reject-publish-dlx",
        "x_dead_letter_exchange": "",
        "x_dead_letter_routing_key": "second",
    }
    morgue = await declared(node, "morgue", **arguments)
    morgue.publish(records("first"), waited=False)
    return morgue, second


async def test_at_least_once_makes_no_letter_of_a_letter_that_is_tried_again(node: Node) -> None:
    morgue, second = await full_queue(node)
    source = await source_of(
        node, x_overflow="reject-publish", x_dead_letter_strategy="at-least-once"
    )
    fill(source, 1)
    reject(source, 1)
    node.turns.pass_seconds(3 * RETRY_SECONDS)
    assert second.ready == 0
    assert content(morgue) == ["first"]
    node.turns.pass_seconds(RETRY_SECONDS)
    assert content(morgue) == ["m0"]
    assert source.partitions[0].cursor.low_water == 1


@pytest.mark.parametrize("persistent", [True, False])
async def test_a_letter_that_is_tried_again_goes_only_to_who_has_not_got_it(
    node: Node, persistent: bool
) -> None:
    archive = await declared(node, "archive", durable=True)
    limit = {"x_max_length": 1, "x_overflow": "reject-publish"}
    full = [await declared(node, name, **limit) for name in ("full", "fuller")]
    for queue in (archive, *full):
        node.vhost.bind(Binding("amq.fanout", queue.name, "queue", ""))
    arguments = {"x_dead_letter_exchange": "amq.fanout", "x_dead_letter_strategy": "at-least-once"}
    source = await source_of(node, durable=True, x_overflow="reject-publish", **arguments)
    for queue in full:
        queue.publish(records("first"), waited=False)
    await reached(node, source.publish(records("m0", persistent=persistent), waited=True))
    reject(source, 1)
    node.turns.pass_seconds(3 * RETRY_SECONDS)
    for queue in full:  # one after the other has room
        assert content(queue) == ["first"]
        node.turns.pass_seconds(3 * RETRY_SECONDS)
        assert content(queue) == ["m0"]
    await reached(node, archive.publish(records("behind"), waited=True))
    assert content(archive) == ["m0", "behind"]
    assert source.partitions[0].cursor.low_water == 1


async def test_at_most_once_makes_one_letter_of_a_letter_that_is_refused(node: Node) -> None:
    _, second = await full_queue(node)
    source = await source_of(node)
    fill(source, 1)
    reject(source, 1)
    node.turns.pass_seconds(3 * RETRY_SECONDS)
    assert content(second) == ["m0"]
    assert source.partitions[0].cursor.low_water == 1


@pytest.mark.parametrize("outcome", ["sent", "failed"])
async def test_only_so_many_refused_messages_wait_to_be_letters(
    node: Node,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    outcome: str,
) -> None:
    morgue, second = await full_queue(node)
    memory = node.logs.memory
    before, size = memory.held_bytes, records("m0").batch_bytes
    monkeypatch.setattr(rule_services, "REFUSED_BYTES_MAX", 3 * size)
    node.logs.pressures.reasons = frozenset({"disk"})
    for body in numbered(0, 5):
        with pytest.raises(PublishRefused):
            morgue.publish(records(body), waited=False)
    node.turns.run()
    assert memory.held_bytes - before == 3 * size
    assert caplog.text.count("are dropped") == 1
    node.logs.pressures.reasons = frozenset()
    if outcome == "failed":
        letters = node.vhost.hosted._rule_services.letters
        monkeypatch.setattr(letters, "send", lambda *arguments: arguments[-1](None))
    node.turns.pass_seconds(PRESSED_SECONDS)
    assert memory.held_bytes == before
    assert content(second) == (numbered(0, 3) if outcome == "sent" else [])
    with pytest.raises(PublishRefused):  # larger than the limit, and alone
        morgue.publish(records("large", bytes(5 * size)), waited=False)
    assert memory.held_bytes > before + 3 * size


async def test_at_most_once_drops_what_no_queue_takes(node: Node) -> None:
    source = await source_of(node)
    fill(source, 3)
    reject(source, 3)
    node.turns.run()
    assert source.partitions[0].cursor.low_water == 3


async def test_an_address_can_change_while_letters_wait(node: Node) -> None:
    await declared(node, "morgue")
    other = await declared(node, "other")
    source = await source_of(node)
    fill(source, 2)
    reject(source, 2)
    source.apply({**TO_MORGUE, "x-dead-letter-routing-key": "other"})
    node.turns.run()
    assert content(other) == numbered(0, 2)
    source.apply({})
    assert source.rules is None
    fill(source, 1)
    reject(source, 1)
    assert source.partitions[0].cursor.low_water == 3


async def test_letters_of_a_queue_that_is_deleted_meanwhile_go_with_it(node: Node) -> None:
    morgue = await declared(node, "morgue")
    source = await source_of(node)
    fill(source, 3)
    reject(source, 3)
    node.vhost.delete_queue(source)
    node.turns.run()
    assert morgue.ready == 0


async def test_a_letter_that_cannot_be_made_stops_no_other_and_comes_again_with_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(
        properties: bytes, keys: Sequence[bytes], body: bytes, *more: Any
    ) -> OutgoingMessage:
        if body == b"m1":
            raise ZeroDivisionError
        return OutgoingMessage(properties, keys, body, *more)

    async with running_node(tmp_path) as node:
        morgue = await declared(node, "morgue", durable=True)
        source = await source_of(node, durable=True)
        with monkeypatch.context() as patch:
            patch.setattr(death, "OutgoingMessage", failing)
            fill(source, 3)
            reject(source, 3)
            node.turns.run()
        fill(source, 1)
        reject(source, 1)
        node.turns.run()
        await reached(node, morgue.publish(records("behind"), waited=True))
        assert (morgue.ready, source.ready) == (4, 0)
        assert content(morgue) == ["m0", "m2", "m0", "behind"]
        assert source.partitions[0].cursor.low_water == 1
    async with running_node(tmp_path) as node:
        assert node.vhost.queues["source"].ready == 1


async def test_a_letter_keeps_whether_it_is_persistent(node: Node) -> None:
    morgue = await declared(node, "morgue", durable=True)
    source = await source_of(node, durable=True)
    source.publish(records("kept"), waited=False)
    source.publish(records("lost", persistent=False), waited=False)
    reject(source, 2)
    node.turns.run()
    await reached(node, morgue.publish(records("behind"), waited=True))
    kept = []
    while (delivery := morgue.partitions[0].take(1, 1 << 20)) is not None:
        kept.append((bodies(delivery)[0], delivery.records.persistent))
    assert kept == [("kept", True), ("lost", False), ("behind", True)]


async def reached(node: Node, position: int) -> None:
    durable = asyncio.Event()
    node.logs.progress.receipt(0, position).when_covered(durable.set)
    async with asyncio.timeout(60):
        await durable.wait()
