"""What goes with a connection or a channel, also when nothing more can be stored."""

import asyncio
from collections.abc import Sequence

import pytest
from support.queue_samples import Node, Taker, declare_queue

from routelog.exchanges import Binding, Exchange
from routelog.log_backend import Change, MetadataUnavailable
from routelog.vhosts import QueueProperties, VirtualHost

CONNECTION, OTHER = object(), object()


class Writer:
    """Takes everything until it is full, and then nothing."""

    def __init__(self) -> None:
        self.full = False

    def check(self) -> None:
        if self.full:
            raise MetadataUnavailable("the disk is full")

    def submit(self, changes: Sequence[Change]) -> asyncio.Future[int]:
        self.check()
        stored: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        stored.set_result(1)
        return stored


@pytest.fixture
def writer() -> Writer:
    return Writer()


@pytest.fixture
async def vhost(node: Node, writer: Writer) -> VirtualHost:
    return node.vhost_with(writer)


async def test_exclusive_queues_go_when_nothing_can_be_stored(
    vhost: VirtualHost, writer: Writer, caplog: pytest.LogCaptureFixture
) -> None:
    declared = {"durable": True, "auto_delete": True, "internal": False, "arguments": {}}
    for name in ("one", "two"):
        vhost.declare_exchange(Exchange(f"x-{name}", "fanout", **declared))
        vhost.declare_queue(QueueProperties(name, exclusive=True), CONNECTION)
        vhost.bind(Binding(f"x-{name}", name, "queue", ""))
    writer.full = True
    vhost.connection_closed(CONNECTION)
    assert vhost.queues == {}
    assert "what ended with queue 'one' in vhost '/' may come back with a restart" in caplog.text
    vhost.declare_queue(QueueProperties("one", exclusive=True), OTHER)


async def test_an_auto_delete_queue_stays_when_nothing_can_be_stored(
    vhost: VirtualHost, writer: Writer, caplog: pytest.LogCaptureFixture
) -> None:
    properties = QueueProperties("q", durable=True, auto_delete=True)
    queue, durable = declare_queue(vhost, properties, CONNECTION)
    assert durable is not None
    await durable
    taker = Taker()
    queue.add_consumer(taker)
    vhost.consumers_left(queue.name)
    assert "q" in vhost.queues
    writer.full = True
    queue.detach([taker])
    vhost.consumers_left(queue.name)
    assert vhost.routing.route("", b"q") == ("q",)
    assert "queue 'q' in vhost '/' has lost its last consumer, and stays" in caplog.text
    writer.full = False
    vhost.consumers_left(queue.name)
    assert "q" not in vhost.queues
