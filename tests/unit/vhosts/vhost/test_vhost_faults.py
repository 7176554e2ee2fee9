"""A vhost whose changes become durable late, or never."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest
from support.queue_samples import Node, SlowDisk, Taker, declare_queue, delete_queue, records
from support.waiting import until

from routelog.exchanges import Binding, Exchange, ExchangeNotFound, QueueNotFound
from routelog.log_backend import Change, JournalFailed, MetadataUnavailable
from routelog.vhosts import ConsumeOptions, Durable, QueueProperties, VirtualHost

CONNECTION, OTHER = object(), object()


async def when_durable(*changes: Durable) -> None:
    for change in changes:
        if change is not None:
            await change


async def test_a_queue_is_routed_to_when_its_declaration_is_durable(node: Node) -> None:
    disk = SlowDisk()
    vhost = node.vhost_with(disk)
    queue, done = declare_queue(vhost, QueueProperties("q", durable=True), CONNECTION)
    assert vhost.routing.route("", b"q") == ()
    with pytest.raises(QueueNotFound):
        vhost.bind(Binding("amq.direct", "q", "queue", "k"))
    # Whoever declares it meanwhile waits for the same.
    assert declare_queue(vhost, QueueProperties("q", durable=True), OTHER) == (queue, done)
    disk.futures[0].set_result(1)
    await when_durable(done)
    assert vhost.routing.route("", b"q") == ("q",)
    assert declare_queue(vhost, QueueProperties("q", durable=True), OTHER) == (queue, None)


async def test_a_queue_that_cannot_be_stored_is_gone(node: Node) -> None:
    disk = SlowDisk()
    vhost = node.vhost_with(disk)
    _, done = declare_queue(vhost, QueueProperties("q", durable=True), CONNECTION)
    disk.futures[0].set_exception(MetadataUnavailable("the disk is full"))
    with pytest.raises(MetadataUnavailable):
        await when_durable(done)
    assert vhost.queues == {}
    assert vhost.routing.route("", b"q") == ()


class FullDisk:
    """A writer that takes nothing."""

    def known(self) -> None:
        """See `MetadataWriter`."""

    def check(self) -> None:
        raise MetadataUnavailable("the disk is full")

    def submit(self, changes: Sequence[Change]) -> asyncio.Future[int]:
        raise MetadataUnavailable("the disk is full")


def test_a_declaration_that_cannot_be_stored_leaves_no_queue(node: Node) -> None:
    vhost = node.vhost_with(FullDisk())
    with pytest.raises(MetadataUnavailable):
        vhost.declare_queue(QueueProperties("q", durable=True), CONNECTION)
    assert vhost.queues == {}
    assert vhost.routing.route("", b"q") == ()
    queue, _ = declare_queue(vhost, QueueProperties("q"), CONNECTION)
    assert queue.ready == 0


async def test_who_consumes_from_a_queue_waits_for_its_declaration(node: Node) -> None:
    disk = SlowDisk()
    vhost = node.vhost_with(disk)
    queue, declared = declare_queue(vhost, QueueProperties("q", durable=True), CONNECTION)
    attached = queue.attach(Taker(), ConsumeOptions(), lambda source: None)
    assert isinstance(attached, asyncio.Future)
    await asyncio.sleep(0)
    assert not queue.consumers
    disk.futures[0].set_result(1)
    await when_durable(declared, attached)
    assert len(queue.consumers) == 1


async def test_a_deletion_that_fails_stops_the_log(node: Node) -> None:
    disk = SlowDisk()
    vhost = node.vhost_with(disk)
    queue, declared = declare_queue(vhost, QueueProperties("q", durable=True), CONNECTION)
    disk.futures[0].set_result(1)
    await when_durable(declared)
    deleted = delete_queue(vhost, queue)
    disk.futures[1].set_exception(MetadataUnavailable("made to fail"))
    with pytest.raises(MetadataUnavailable):
        await when_durable(deleted)
    await until(lambda: node.logs.journal.failure)
    with pytest.raises(JournalFailed, match="made to fail"):
        node.logs.journal.check()


async def test_a_deletion_that_cannot_be_stored_has_not_happened(node: Node) -> None:
    disk = SlowDisk()
    vhost = node.vhost_with(disk)
    queue, declared = declare_queue(vhost, QueueProperties("q", durable=True), CONNECTION)
    disk.futures[0].set_result(1)
    await when_durable(declared)
    vhost._writer = vhost._keeper._writer = cast(Any, FullDisk())
    with pytest.raises(MetadataUnavailable):
        vhost.delete_queue(queue)
    assert vhost.queues == {"q": queue}
    assert vhost.routing.route("", b"q") == ("q",)
    queue.publish(records("kept"), waited=True)
    taker = Taker()
    queue.add_consumer(taker)
    node.turns.run()
    assert taker.bodies() == ["kept"]


DURABLE: dict[str, Any] = {
    "durable": True,
    "auto_delete": False,
    "internal": False,
    "arguments": {},
}


@pytest.mark.parametrize(
    "change",
    [
        lambda vhost: vhost.declare_exchange(Exchange("new", "direct", **DURABLE)),
        lambda vhost: vhost.delete_exchange("middle", if_unused=False),
        lambda vhost: vhost.bind(Binding("middle", "q", "queue", "other")),
        lambda vhost: vhost.unbind(Binding("middle", "q", "queue", "k")),
        lambda vhost: vhost.bind(Binding("source", "middle", "exchange", "other")),
        lambda vhost: vhost.unbind(Binding("source", "middle", "exchange", "k")),
        lambda vhost: vhost.delete_queue(vhost.queues["q"]),
    ],
)
async def test_what_cannot_be_stored_leaves_the_topology_as_it_was(
    node: Node, change: Callable[[VirtualHost], Durable]
) -> None:
    vhost = node.vhost
    vhost.declare_exchange(Exchange("source", "topic", **DURABLE | {"auto_delete": True}))
    vhost.declare_exchange(Exchange("middle", "direct", **DURABLE | {"auto_delete": True}))
    _, declared = declare_queue(vhost, QueueProperties("q", durable=True), CONNECTION)
    await when_durable(declared)
    vhost.bind(Binding("source", "middle", "exchange", "k"))
    await when_durable(vhost.bind(Binding("middle", "q", "queue", "k")))
    before = (set(vhost.routing.bindings()), vhost.routing.exchanges(), dict(vhost.queues))
    vhost._writer = vhost._keeper._writer = cast(Any, FullDisk())
    with pytest.raises(MetadataUnavailable):
        change(vhost)
    after = (set(vhost.routing.bindings()), vhost.routing.exchanges(), dict(vhost.queues))
    assert sorted(after[1], key=lambda each: each.name) == sorted(
        before[1], key=lambda each: each.name
    )
    assert (after[0], after[2]) == (before[0], before[2])
    for exchange in ("source", "middle"):
        assert vhost.routing.route(exchange, b"k") == ("q",)
        assert vhost.routing.route(exchange, b"other") == ()


async def test_what_changes_nothing_is_answered_when_nothing_can_be_stored(node: Node) -> None:
    vhost = node.vhost
    await when_durable(vhost.declare_exchange(Exchange("x", "direct", **DURABLE)))
    vhost._writer = vhost._keeper._writer = cast(Any, FullDisk())
    assert vhost.declare_exchange(Exchange("x", "direct", **DURABLE)) is None
    assert vhost.exchange_declared("x") is None
    assert (
        vhost.declare_exchange(Exchange("transient", "direct", **DURABLE | {"durable": False}))
        is None
    )


async def test_whoever_asks_for_an_exchange_waits_until_a_crash_cannot_forget_it(
    node: Node,
) -> None:
    disk = SlowDisk()
    vhost = node.vhost_with(disk)
    declared = vhost.declare_exchange(Exchange("x", "direct", **DURABLE))
    waits = [
        vhost.exchange_declared("x"),
        vhost.declare_exchange(Exchange("x", "direct", **DURABLE)),
    ]
    assert waits == [declared, declared]
    disk.futures[0].set_result(1)
    await when_durable(*waits)
    assert vhost.exchange_declared("x") is None
    with pytest.raises(ExchangeNotFound):
        vhost.exchange_declared("y")
