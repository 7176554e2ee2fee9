"""A vhost whose changes become durable late, or never."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from queue_samples import Node, running_node
from unit.log_backend.open_store import until

from exchanges import QueueNotFound
from log_backend import Change, JournalFailed, MetadataUnavailable
from vhosts import Durable, QueueProperties, VhostRecord, VirtualHost

CONNECTION, OTHER = object(), object()


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    async with running_node(tmp_path) as running:
        yield running


async def when_durable(*changes: Durable) -> None:
    for change in changes:
        if change is not None:
            await change


class SlowDisk:
    """A writer that syncs when the test says so."""

    def __init__(self) -> None:
        self.futures: list[asyncio.Future[int]] = []

    def submit(self, changes: Sequence[Change]) -> asyncio.Future[int]:
        self.futures.append(asyncio.get_running_loop().create_future())
        return self.futures[-1]


async def test_a_queue_is_routed_to_when_its_declaration_is_durable(node: Node) -> None:
    disk = SlowDisk()
    vhost = VirtualHost(VhostRecord("/"), node.logs, disk, node.vhosts, node.turns.call_soon)
    queue, done = vhost.declare_queue(QueueProperties("q", durable=True), CONNECTION)
    assert vhost.routing.route("", b"q") == ()
    with pytest.raises(QueueNotFound):
        vhost.bind_queue("q", "amq.direct", "k", {})
    # Whoever declares it meanwhile waits for the same.
    assert vhost.declare_queue(QueueProperties("q", durable=True), OTHER) == (queue, done)
    disk.futures[0].set_result(1)
    await when_durable(done)
    assert vhost.routing.route("", b"q") == ("q",)
    assert vhost.declare_queue(QueueProperties("q", durable=True), OTHER) == (queue, None)


async def test_a_queue_that_cannot_be_stored_is_gone(node: Node) -> None:
    disk = SlowDisk()
    vhost = VirtualHost(VhostRecord("/"), node.logs, disk, node.vhosts, node.turns.call_soon)
    _, done = vhost.declare_queue(QueueProperties("q", durable=True), CONNECTION)
    disk.futures[0].set_exception(MetadataUnavailable("the disk is full"))
    with pytest.raises(MetadataUnavailable):
        await when_durable(done)
    assert vhost.queues == {}
    assert vhost.routing.route("", b"q") == ()


class FullDisk:
    """A writer that takes nothing."""

    def submit(self, changes: Sequence[Change]) -> asyncio.Future[int]:
        raise MetadataUnavailable("the disk is full")


def test_a_declaration_that_cannot_be_stored_leaves_no_queue(node: Node) -> None:
    vhost = VirtualHost(VhostRecord("/"), node.logs, FullDisk(), node.vhosts, node.turns.call_soon)
    with pytest.raises(MetadataUnavailable):
        vhost.declare_queue(QueueProperties("q", durable=True), CONNECTION)
    assert vhost.queues == {}
    assert vhost.routing.route("", b"q") == ()
    queue, _ = vhost.declare_queue(QueueProperties("q"), CONNECTION)
    assert queue.ready == 0


async def test_a_deletion_that_fails_stops_the_log(node: Node) -> None:
    disk = SlowDisk()
    vhost = VirtualHost(VhostRecord("/"), node.logs, disk, node.vhosts, node.turns.call_soon)
    queue, declared = vhost.declare_queue(QueueProperties("q", durable=True), CONNECTION)
    disk.futures[0].set_result(1)
    await when_durable(declared)
    _, deleted = vhost.delete_queue(queue)
    disk.futures[1].set_exception(MetadataUnavailable("made to fail"))
    with pytest.raises(MetadataUnavailable):
        await when_durable(deleted)
    await until(lambda: node.logs.journal.failure)
    with pytest.raises(JournalFailed, match="made to fail"):
        node.logs.journal.check()


async def test_a_deletion_that_cannot_be_stored_stops_the_log(node: Node) -> None:
    disk = SlowDisk()
    vhost = VirtualHost(VhostRecord("/"), node.logs, disk, node.vhosts, node.turns.call_soon)
    queue, declared = vhost.declare_queue(QueueProperties("q", durable=True), CONNECTION)
    disk.futures[0].set_result(1)
    await when_durable(declared)
    vhost._writer = FullDisk()
    with pytest.raises(MetadataUnavailable):
        vhost.delete_queue(queue)
    with pytest.raises(JournalFailed, match="the disk is full"):
        node.logs.journal.check()
