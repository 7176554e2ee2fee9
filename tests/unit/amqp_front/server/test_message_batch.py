"""A batch on a node without sockets: who may begin one, what it charges, and how many turns it takes."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from support.queue_samples import Node, declare_queue, running_node

from routelog.amqp_front.server.message_batch import MessageBatch, MessageRefused
from routelog.broker import Gate, IntakeFull, PublishersWait, PublishRates
from routelog.broker.node.direct_reply import DirectReplies
from routelog.broker.waiting.intake_budget import IntakeBudget, IntakeLimits
from routelog.exchanges import Binding, Exchange, ExchangeNotFound
from routelog.log_backend import scheduler_of
from routelog.vhosts import (
    AccessRefused,
    BatchOutcome,
    Permission,
    PermissionBook,
    QueueProperties,
    SharedCounts,
)

TURNS = 100


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    async with running_node(tmp_path) as running:
        for name in ("allowed", "other"):
            flags = {"durable": False, "auto_delete": False, "internal": False}
            running.vhost.declare_exchange(Exchange(name, "direct", **flags))
        yield running


@pytest.fixture
async def services(node: Node) -> Any:
    """What a batch needs of its broker."""
    loop = asyncio.get_running_loop()
    book = PermissionBook()
    book.put("ann", "/", Permission("", "^allowed$", ""))
    users = SimpleNamespace(permissions=book, impersonates=lambda user: False, users=list)
    return SimpleNamespace(
        loop=loop,
        clock=node.logs.clock,
        scheduler=scheduler_of(loop),
        progress=node.logs.journal.progress,
        replies=DirectReplies(),
        gate=Gate(loop),
        intake=IntakeBudget(loop, IntakeLimits(4_000, 2_000, 4_000), lambda size: None),
        users=users,
        publish_rates=PublishRates(
            cast(Any, users),
            node.vhosts,
            SharedCounts(),
            node.logs.clock,
            cast(Any, loop.call_later),
        ),
        config=SimpleNamespace(message_bytes_max=1_000),
    )


def begun(services: Any, node: Node, user: str | None = None, exchange: str = "") -> MessageBatch:
    return MessageBatch(services, node.vhost, user, exchange)


async def test_none_begins_while_publishers_wait(services: Any, node: Node) -> None:
    services.gate.close_for({"disk", "memory"})
    with pytest.raises(PublishersWait, match=r"^publishers wait: disk, memory$"):
        begun(services, node)
    services.gate.close_for(frozenset())
    begun(services, node)


async def test_none_begins_behind_what_its_node_may_not_know(services: Any, node: Node) -> None:
    services.gate.lapses_at = services.clock.monotonic()
    services.gate.lapse = lambda: services.gate.close_for({"leader"})
    with pytest.raises(PublishersWait, match=r"^publishers wait: leader$"):
        begun(services, node)


async def test_a_user_who_has_too_much_under_way_waits(services: Any, node: Node) -> None:
    first = begun(services, node)
    first.receive(1_000)
    second = begun(services, node)
    with pytest.raises(IntakeFull, match="2000 bytes incomplete or unread, of 2000"):
        second.receive(1_000)
    with pytest.raises(PublishersWait, match="publishers wait: memory"):
        begun(services, node)
    del first, second
    assert services.intake.node.bytes == 0
    begun(services, node).receive(1_000)


async def test_one_counts_in_its_users_rate(services: Any, node: Node) -> None:
    services.users.on_limits("ann", {"max-publish-rate": 10, "max-publish-bytes-rate": 1_000})
    batch = begun(services, node, "ann", "allowed")
    for _ in range(20):
        batch.add("k", {}, b"x" * 600)
    assert (await batch.publish()).unroutable == list(range(20))
    with pytest.raises(PublishersWait, match=r"^publish rate of user 'ann'$") as waits:
        begun(services, node, "ann", "allowed")
    assert 1 < waits.value.seconds <= 11  # for its bytes: for its messages it is 1
    begun(services, node)


async def test_one_begins_where_its_user_may_publish(services: Any, node: Node) -> None:
    begun(services, node, "ann", "allowed")
    with pytest.raises(AccessRefused):
        begun(services, node, "ann", "other")
    with pytest.raises(ExchangeNotFound):
        begun(services, node, exchange="absent")


async def test_a_message_that_is_too_large_is_refused(services: Any, node: Node) -> None:
    batch = begun(services, node)
    batch.add("q", {}, b"x" * 1_000)
    with pytest.raises(MessageRefused, match="larger than message_bytes_max"):
        batch.add("q", {}, b"x" * 1_001)


async def test_indexes_are_those_of_the_batch_in_however_many_turns(
    services: Any, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    # To more queues than one look at the clock is for, with keys that nobody has looked for.
    for number in range(40):
        queue, _ = declare_queue(node.vhost, QueueProperties(f"q{number}", durable=False), object())
        node.vhost.bind(Binding("amq.fanout", queue.name, "queue", ""))
    properties = QueueProperties(
        "full", durable=False, arguments={"x-max-length": 1, "x-overflow": "reject-publish"}
    )
    declare_queue(node.vhost, properties, object())
    monkeypatch.setattr(services.scheduler, "is_over", lambda: True)
    everywhere = begun(services, node, exchange="amq.fanout")
    for _ in range(3):
        everywhere.add("k", {}, b"x")
    assert await everywhere.publish() == BatchOutcome(3, [], [])
    assert [queue.ready for queue in node.vhost.queues.values()].count(3) == 40

    batch = begun(services, node)
    keys = [f"nowhere {at}" if at % 3 == 0 else "full" for at in range(TURNS)]
    for at, key in enumerate(keys):
        batch.add(key, {"delivery_mode": 1 + at % 2}, b"x")
    outcome = await batch.publish()
    assert outcome.unroutable == list(range(0, TURNS, 3))
    assert outcome.refused == [at for at in range(2, TURNS) if at % 3]
    assert (outcome.confirmed, outcome.refusal) == (1, "maxlen: queue 'full' in vhost '/'")


async def test_a_batch_is_one_batch_of_the_log_and_one_block_of_the_journal(
    services: Any, node: Node
) -> None:
    queue, declared = declare_queue(node.vhost, QueueProperties("q", durable=True), object())
    assert declared is not None
    await declared
    batch = begun(services, node)
    for number in range(3_000):
        batch.add("q", {"delivery_mode": 2}, b"%d" % number)
    before = node.logs.journal.durable
    assert (await batch.publish()).confirmed == 3_000
    first = queue.partitions[0].log.read(0)
    assert first is not None
    assert first.records.count == 3_000
    assert node.logs.journal.durable == before + 1


async def test_one_is_freed_without_the_garbage_collector(services: Any, node: Node) -> None:
    declare_queue(node.vhost, QueueProperties("q"), None)
    gc.disable()
    try:
        with begun(services, node) as batch:
            batch.add("q", {}, b"x")
            channel = weakref.ref(batch._channel)
            assert (await batch.publish()).confirmed == 1
        del batch
        assert channel() is None
    finally:
        gc.enable()


async def test_a_large_one_is_several_runs(services: Any, node: Node) -> None:
    batch = begun(services, node)
    for number in range(5_000):
        batch.add("q", {"delivery_mode": 2} if number == 4_500 else {}, b"x" * 500)
    sizes = [run.count for run in batch._runs()]
    assert sum(sizes) == 5_000
    assert max(sizes) <= 4_096
    assert max(run.bodies_bytes(run.count) for run in batch._runs()) <= 1_049_000
    assert [run.count for run in batch._runs() if run.persistent] == [1]
