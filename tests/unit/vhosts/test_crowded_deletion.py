"""What is deleted with very many bindings: gone at once, also for a restart in the middle."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from support.queue_samples import Node, Taker, declare_queue, running_node

from routelog.exchanges import Binding, Exchange, QueueNotFound
from routelog.exchanges.topology.binding_graph import AT_ONCE_MAX, DEPARTED_BINDINGS_MAX
from routelog.log_backend import Change, MetadataUnavailable
from routelog.vhosts import Durable, QueueProperties, VirtualHost, pending
from routelog.vhosts.stored.topology_record import prefix

COUNT = AT_ONCE_MAX + DEPARTED_BINDINGS_MAX + 5
CONNECTION = object()
DURABLE = {"durable": True, "auto_delete": False, "internal": False, "arguments": {}}


async def crowd(vhost: VirtualHost) -> None:
    """A durable queue with many bindings from a durable exchange, and another queue with one."""
    vhost.declare_exchange(Exchange("from", "topic", **DURABLE | {"auto_delete": True}))
    for name in ("to", "beside"):
        durable = declare_queue(vhost, QueueProperties(name, durable=True), CONNECTION)[1]
        assert durable is not None
        await durable
    last: Durable = None
    for number in range(COUNT):
        last = vhost.bind(Binding("from", "to", "queue", f"{number}.*"))
    vhost.bind(Binding("amq.topic", "beside", "queue", "kept"))
    assert last is not None
    await last


def stored(node: Node, kind: str) -> int:
    return sum(1 for _ in node.logs.metadata.scan(prefix(kind, "/")))


def delete_queue(vhost: VirtualHost) -> Durable:
    return pending(vhost.delete_queue(vhost.queues["to"], if_unused=True, if_empty=True))


def delete_exchange(vhost: VirtualHost) -> Durable:
    return vhost.delete_exchange("from", if_unused=False)


@pytest.mark.parametrize("delete", [delete_queue, delete_exchange])
async def test_who_asked_for_it_waits_until_all_bindings_are_gone(
    tmp_path: Path, delete: Callable[[VirtualHost], Durable]
) -> None:
    async with running_node(tmp_path) as node:
        await crowd(node.vhost)
        done = delete(node.vhost)
        assert done is not None
        assert node.vhost.routing._graph.departed
        await done
        assert not node.vhost.routing._graph.departed
        assert stored(node, "bindings") == 1


@pytest.mark.parametrize("delete", [delete_queue, delete_exchange])
async def test_a_restart_in_the_middle_shows_it_gone_and_goes_on(
    tmp_path: Path, delete: Callable[[VirtualHost], Durable]
) -> None:
    async with running_node(tmp_path) as node:
        vhost = node.vhost
        await crowd(vhost)
        delete(vhost)
        vhost._keeper.go_on().cancel()  # before its first turn
        await node.writer.submit([])
        assert stored(node, "bindings") == COUNT + 1 - AT_ONCE_MAX
    async with running_node(tmp_path) as node:
        vhost = node.vhost
        assert ("to" in vhost.queues, vhost.routing.has_exchange("from")) == (
            (False, True) if delete is delete_queue else (True, False)
        )
        assert len([each for each in vhost.routing.bindings() if each.source]) == 1
        vhost.go_on()
        await vhost.until_free("queue", "to")
        await vhost.until_free("exchange", "from")
        assert stored(node, "bindings") == 1
        assert not vhost.routing.has_exchange("from")  # it went with the last of them
        done = declare_queue(vhost, QueueProperties("to", durable=True), CONNECTION)[1]
        if done is not None:
            await done
    async with running_node(tmp_path) as node:
        assert len(node.vhost.routing.bindings_to_queue("to")) == 1


async def test_nothing_of_its_name_is_declared_before_its_bindings_are_gone(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        vhost = node.vhost
        await crowd(vhost)
        delete_queue(vhost)
        with pytest.raises(ValueError, match="'to' has bindings left"):
            vhost.declare_queue(QueueProperties("to", durable=True), CONNECTION)
        assert "to" not in vhost.queues
        with pytest.raises(QueueNotFound):
            vhost.bind(Binding("from", "to", "queue", "new"))
        await vhost.until_free("queue", "to")
        vhost.declare_queue(QueueProperties("to"), CONNECTION)
        assert len(vhost.routing.bindings_to_queue("to")) == 1


@pytest.mark.parametrize("how", ["exclusive", "auto-delete", "expired"])
async def test_what_is_deleted_unasked_is_gone_at_once_too(node: Node, how: str) -> None:
    vhost = node.vhost
    properties = QueueProperties("q", exclusive=how == "exclusive", auto_delete=how != "exclusive")
    queue, _ = declare_queue(vhost, properties, CONNECTION)
    for number in range(COUNT):
        vhost.bind(Binding("amq.topic", "q", "queue", f"{number}.*"))
    closed = None
    if how == "exclusive":
        closed = vhost.connection_closed(CONNECTION)
        assert closed is not None
    elif how == "expired":
        vhost._expire("q")
    else:
        taker = Taker()
        queue.add_consumer(taker)
        queue.detach([taker])
        vhost.consumers_left(queue.name)
    assert "q" not in vhost.queues
    assert vhost.routing.route("amq.topic", f"{COUNT - 1}.x".encode()) == ()
    assert vhost.routing._graph.departed
    await (closed or vhost.until_free("queue", "q"))
    assert not vhost.routing._graph.departed


async def test_who_leaves_while_waiting_takes_nobody_along(node: Node) -> None:
    vhost = node.vhost
    await crowd(vhost)
    done = delete_queue(vhost)
    assert done is not None
    waiting = asyncio.ensure_future(vhost.until_free("queue", "to"))
    await asyncio.sleep(0)
    waiting.cancel()
    await done
    assert not vhost.routing._graph.departed


async def test_bindings_that_cannot_be_stored_go_all_the_same(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    vhost = node.vhost
    await crowd(vhost)
    done = delete_queue(vhost)

    class Full:
        def check(self) -> None:
            raise MetadataUnavailable("the disk is full")

        def submit(self, changes: list[Change]) -> None:
            self.check()

    vhost._writer = vhost._keeper._writer = Full()  # type: ignore[assignment]
    assert done is not None
    await done
    assert not vhost.routing._graph.departed
    assert "bindings of what was deleted in '/' stay stored: the disk is full" in caplog.text


async def test_a_vhost_is_cleared_when_the_last_binding_is_gone(node: Node) -> None:
    vhost = node.vhost
    await crowd(vhost)
    await vhost.clear()
    assert not vhost.routing._graph.departed
    assert stored(node, "bindings") == stored(node, "queues") == stored(node, "exchanges") == 0
