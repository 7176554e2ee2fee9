"""All vhosts of a node, and partition numbers that are given once."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.loop_services import share_a_slow_loop
from support.queue_samples import Taker, declare_queue, delete_queue, fill, running_node
from support.waiting import until

from routelog.exchanges import Exchange, InvalidName
from routelog.vhosts import (
    ConsumptionRefused,
    InvalidLimit,
    InvalidQueueArgument,
    InvalidVhost,
    Policy,
    QueueInUse,
    QueueLimitReached,
    QueueProperties,
    VhostDirectory,
    VhostNotFound,
    VhostRecord,
    VirtualHost,
)
from routelog.vhosts.queues.queue_handle import ConsumeOptions, value_of
from routelog.vhosts.vhost.vhost import DELETIONS_MAX

CONNECTION = object()


async def test_a_vhost_is_made_once_and_found_again(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        vhost = await node.vhosts.add("a/b %")
        assert await node.vhosts.add("a/b %") is vhost
        assert node.vhosts.get("a/b %") is vhost
    async with running_node(tmp_path) as node:
        assert node.vhosts.get("a/b %").name == "a/b %"


async def test_two_who_add_one_vhost_get_the_same(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        first, second = await asyncio.gather(node.vhosts.add("v"), node.vhosts.add("v"))
        assert first is second


async def test_an_unknown_vhost_is_not_found(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        for name in ("", "nowhere", "//", "/ "):
            with pytest.raises(VhostNotFound) as caught:
                node.vhosts.get(name)
            assert str(caught.value) == f"vhost {name} not found"


async def test_a_bad_name_makes_no_vhost(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        with pytest.raises(InvalidName):
            await node.vhosts.add("v" * 256)
        with pytest.raises(VhostNotFound):
            node.vhosts.get("v" * 256)


async def test_vhosts_do_not_share_names(tmp_path: Path) -> None:
    properties = QueueProperties("q", durable=True)
    async with running_node(tmp_path) as node:
        for name, count in (("a", 1), ("a/q", 2), ("/", 3)):
            vhost = await node.vhosts.add(name)
            queue, done = declare_queue(vhost, properties, CONNECTION)
            assert done is not None
            await done
            fill(queue, count)
        await node.vhosts.add("b")
    async with running_node(tmp_path) as node:
        ready = {name: node.vhosts.get(name).queues["q"].ready for name in ("a", "a/q", "/")}
        assert ready == {"a": 1, "a/q": 2, "/": 3}
        assert node.vhosts.get("b").queues == {}


async def test_auto_delete_queues_stay_when_the_node_closes_its_clients(tmp_path: Path) -> None:
    properties = QueueProperties("q", durable=True, auto_delete=True)
    async with running_node(tmp_path) as node:
        queue, done = declare_queue(node.vhost, properties, CONNECTION)
        assert done is not None
        await done
        takers = Taker(), Taker()
        queue.add_consumer(takers[0])
        node.vhosts.keep_queues()
        queue.detach([takers[0]])
        node.vhost.consumers_left("q")
        assert "q" in node.vhost.queues
        queue.add_consumer(takers[1])  # the node goes on
        queue.detach([takers[1]])
        node.vhost.consumers_left("q")
        assert "q" not in node.vhost.queues


@pytest.mark.parametrize("again", [False, True])
async def test_an_auto_delete_queue_that_a_crash_deletes_ends_when_the_node_goes_on(
    tmp_path: Path, again: bool
) -> None:
    properties = QueueProperties("q", auto_delete=True)
    async with running_node(tmp_path) as node:
        queue, _ = declare_queue(node.vhost, properties, CONNECTION)
        queue.add_consumer(closed := Taker())
        node.vhosts.await_consumers()  # it is to hand over
        node.vhosts.keep_queues()
        queue.detach([closed])
        node.vhost.consumers_left("q")
        assert "q" in node.vhost.queues
        if again:
            declare_queue(node.vhost, properties, CONNECTION)
        node.vhosts.consumers_back()
        node.turns.run()
        assert ("q" in node.vhost.queues) == again
        if again:
            queue.add_consumer(left := Taker())
            queue.detach([left])
            node.vhost.consumers_left("q")
            assert "q" not in node.vhost.queues


async def test_partition_numbers_are_never_given_again(tmp_path: Path) -> None:
    numbers: list[int] = []
    for _ in range(3):
        async with running_node(tmp_path) as node:
            for at in range(3):
                properties = QueueProperties(f"q{at}", durable=at != 1)
                queue, done = declare_queue(node.vhost, properties, CONNECTION)
                if done is not None:
                    await done
                    numbers.append(queue.partitions[0].log.number)
                deleted = delete_queue(node.vhost, queue)
                if deleted is not None:
                    await deleted
    assert len(numbers) == 6
    assert numbers == sorted(set(numbers))


async def test_what_is_said_of_a_vhost_is_there_after_a_restart(tmp_path: Path) -> None:
    record = VhostRecord("v", "orders", ["eu"], "quorum", {"max-queues": 2})
    async with running_node(tmp_path) as node:
        await node.vhosts.put(VhostRecord("v"))
        vhost = node.vhosts.get("v")
        await node.vhosts.put(record)
        assert node.vhosts.get("v") is vhost
    async with running_node(tmp_path) as node:
        assert node.vhosts.get("v").record == record


@pytest.mark.parametrize(
    ("record", "error"),
    [
        (VhostRecord(""), InvalidName),
        (VhostRecord("v", "x" * 1025), InvalidVhost),
        (VhostRecord("v", tags=["x" * 256]), InvalidVhost),
        (VhostRecord("v", tags=["x"] * 33), InvalidVhost),
        (VhostRecord("v", default_queue_type="fast"), InvalidVhost),
        (VhostRecord("v", limits={"max-channels": 2}), InvalidLimit),
    ],
)
async def test_a_bad_word_about_a_vhost_changes_nothing(
    tmp_path: Path, record: VhostRecord, error: type[Exception]
) -> None:
    async with running_node(tmp_path) as node:
        with pytest.raises(error):
            await node.vhosts.put(record)
        assert [vhost.name for vhost in node.vhosts.all()] == ["/"]


async def test_a_deleted_vhost_takes_everything_with_it(tmp_path: Path) -> None:
    gone: list[str] = []
    async with running_node(tmp_path) as node:
        node.vhosts.on_deleted = gone.append
        vhost = await node.vhosts.add("v")
        for at in range(DELETIONS_MAX + 1):
            vhost.declare_queue(QueueProperties(f"q{at}", durable=True), CONNECTION)
        vhost.declare_exchange(Exchange("x", "fanout", durable=True))
        await vhost.policies.put(Policy("p", "", {"max-length": 1}))
        fill(vhost.queues["q0"], 3)
        deletion = asyncio.ensure_future(node.vhosts.delete("v"))
        await asyncio.sleep(0)
        with pytest.raises(VhostNotFound):
            node.vhosts.get("v")
        with pytest.raises(InvalidVhost, match="being deleted"):
            await node.vhosts.add("v")
        await deletion
        again = await node.vhosts.add("v")
        assert again is not vhost
    assert gone == ["v"]
    async with running_node(tmp_path) as node:
        vhost = node.vhosts.get("v")
        assert vhost.queues == {}
        assert not vhost.routing.has_exchange("x")
        assert vhost.policies.book.all(operator=False) == []
        await node.vhosts.delete("v")
        with pytest.raises(VhostNotFound):
            await node.vhosts.delete("v")
    async with running_node(tmp_path) as node:
        assert [vhost.name for vhost in node.vhosts.all()] == ["/"]


async def test_a_deleted_vhost_refuses_a_late_call(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        vhost = await node.vhosts.add("v")
        vhost.declare_queue(QueueProperties("q", durable=True), CONNECTION)
        deletion = asyncio.ensure_future(node.vhosts.delete("v"))
        await asyncio.sleep(0)
        with pytest.raises(VhostNotFound):
            vhost.declare_queue(QueueProperties("late", durable=True), CONNECTION)
        with pytest.raises(VhostNotFound):
            vhost.declare_exchange(Exchange("late", "fanout", durable=True))
        with pytest.raises(VhostNotFound):
            await vhost.policies.put(Policy("late", "", {"max-length": 1}))
        await deletion
        # Its files go later, and with them their tombstones.
        await until(lambda: all(b"/v/" not in key for key, _ in node.logs.metadata.scan(b"")))


async def test_the_number_of_queues_is_limited_by_vhost_or_by_default(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        vhosts = VhostDirectory(
            node.logs, node.writer, node.turns.scheduler, node.turns.call_later, queues_max=2
        )
        vhost = await vhosts.add("v")
        for name in ("a", "b", "a"):
            vhost.declare_queue(QueueProperties(name), CONNECTION)
        reason = "cannot declare queue 'c': queue limit in vhost 'v' \\(2\\) is reached"
        with pytest.raises(QueueLimitReached, match=reason):
            vhost.declare_queue(QueueProperties("c"), CONNECTION)
        await vhosts.put(VhostRecord("v", limits={"max-queues": -1}))
        vhost.declare_queue(QueueProperties("c"), CONNECTION)


async def test_a_disabled_type_is_not_declared_and_queues_that_exist_go_on(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        disabled: list[str] = []
        vhosts = VhostDirectory(
            node.logs,
            node.writer,
            node.turns.scheduler,
            node.turns.call_later,
            disabled_types=disabled,
        )
        vhost = await vhosts.add("v")
        old = QueueProperties("old", durable=True, arguments={"x-queue-type": "stream"})
        queue, durable = declare_queue(vhost, old, CONNECTION)
        assert durable is not None
        await durable
        disabled.append("stream")
        assert vhost.declare_queue(old, CONNECTION) is queue
        reason = (
            "invalid arg 'x-queue-type' for queue 'q' in vhost 'v': queues of type 'stream' are"
        )
        with pytest.raises(InvalidQueueArgument, match=reason):
            vhost.declare_queue(replace(old, name="q"), CONNECTION)
        await vhosts.put(VhostRecord("v", default_queue_type="stream"))
        with pytest.raises(InvalidQueueArgument, match=reason):
            vhost.declare_queue(QueueProperties("q", durable=True), CONNECTION)
        vhost.declare_queue(QueueProperties("classic"), CONNECTION)
        disabled.append("classic")
        with pytest.raises(InvalidQueueArgument, match="type 'classic' are disabled"):
            vhost.declare_queue(QueueProperties("other", exclusive=True), CONNECTION)
        assert {*vhost.queues} == {"classic", "old"}


async def test_a_default_type_is_for_queues_that_can_have_it(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        await node.vhosts.put(VhostRecord("/", default_queue_type="quorum"))
        plain = declare_queue(node.vhost, QueueProperties("plain", durable=True), CONNECTION)[0]
        again = declare_queue(node.vhost, QueueProperties("plain", durable=True), CONNECTION)[0]
        exclusive = QueueProperties("exclusive", exclusive=True)
        classic = QueueProperties("classic", True, arguments={"x-queue-type": "classic"})
        assert again is plain
        assert plain.type == "quorum"
        assert declare_queue(node.vhost, exclusive, CONNECTION)[0].type == "classic"
        assert declare_queue(node.vhost, classic, CONNECTION)[0].type == "classic"


async def test_opening_queues_goes_in_turns(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        for number in range(1_000):
            properties = QueueProperties(f"q{number}", durable=True)
            _, done = declare_queue(node.vhost, properties, CONNECTION)
            assert done is not None
            await done
    share_a_slow_loop()
    passes = 0

    async def count() -> None:
        nonlocal passes
        while True:
            passes += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    async with running_node(tmp_path) as node:
        assert len(node.vhost.queues) == 1_000
        assert passes > 100  # 2,000 steps of 1 ms and more, in turns of 20 ms
    counting.cancel()


async def test_nothing_is_judged_by_its_consumers_while_some_are_to_come_back(
    tmp_path: Path,
) -> None:
    async with running_node(tmp_path) as node:
        vhost = node.vhost
        node.vhosts.await_consumers()
        queues = {
            name: declare_queue(vhost, properties, CONNECTION)[0]
            for name, properties in {
                "left": QueueProperties("left", auto_delete=True),
                "shared": QueueProperties("shared", auto_delete=True),
                "lease": QueueProperties("lease", arguments={"x-expires": 200}),
                "used": QueueProperties("used", arguments={"x-expires": 200}),
                "unused": QueueProperties("unused"),
                "needed": QueueProperties("needed"),
            }.items()
        }
        for name in ("left", "shared"):
            queues[name].add_consumer(gone := Taker())
            queues[name].detach([gone])
            assert vhost.delete_left(name) is None
            vhost.consumers_left(name)
        node.turns.pass_seconds(60)
        deletions = [asyncio.ensure_future(_deleted(vhost, name)) for name in ("unused", "needed")]
        await asyncio.sleep(0)
        assert {*vhost.queues} == {*queues}
        for name in ("shared", "used", "needed"):
            queues[name].add_consumer(Taker())
        node.vhosts.consumers_back()
        unused, needed = await asyncio.gather(*deletions, return_exceptions=True)
        node.turns.run()
        assert unused == 0
        assert isinstance(needed, QueueInUse)
        assert {*vhost.queues} == {"shared", "lease", "used", "needed"}
        node.turns.pass_seconds(0.2)
        assert {*vhost.queues} == {"shared", "used", "needed"}


async def _deleted(vhost: VirtualHost, name: str) -> int:
    conditions = {"if_unused": True, "if_empty": False}
    return await value_of(vhost.delete_queue_of(name, CONNECTION, **conditions))


@pytest.mark.parametrize("exclusive", [False, True])
async def test_consumers_wait_for_those_that_come_back(tmp_path: Path, exclusive: bool) -> None:
    async with running_node(tmp_path) as node:
        queue, _ = declare_queue(node.vhost, QueueProperties("q"), CONNECTION)
        free, _ = declare_queue(node.vhost, QueueProperties("free"), CONNECTION)
        node.vhosts.await_consumers()
        begun: list[object] = []
        strangers: list[Any] = [
            each.attach(Taker(exclusive=exclusive), ConsumeOptions(), begun.append)
            for each in (queue, free)
        ]
        await asyncio.sleep(0)
        assert not begun
        comes_back = ConsumeOptions(comes_back=True)
        assert queue.attach(Taker(exclusive=True), comes_back, lambda _: None) is None
        node.vhosts.consumers_back()
        refused, taken = await asyncio.gather(
            *(value_of(each) for each in strangers), return_exceptions=True
        )
        assert isinstance(refused, ConsumptionRefused)
        assert taken is None
        assert begun == [free]
