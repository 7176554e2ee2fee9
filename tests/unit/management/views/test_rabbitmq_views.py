"""What only RabbitMQ has, and what is answered instead."""

import pytest
from unit.management.managed_node import ManagedNode

from routelog.management.calls.failures import Refused
from routelog.management.views import rabbitmq_views

HERE = {"node": "routelog@here"}


async def test_what_is_not_here_is_empty(node: ManagedNode) -> None:
    assert await node.ask(rabbitmq_views.nothing) == []
    assert await node.ask(rabbitmq_views.get_attempts, **HERE) == []
    assert await node.ask(rabbitmq_views.delete_attempts, **HERE) == 204
    assert await node.ask(rabbitmq_views.done) == 204
    assert (await node.ask(rabbitmq_views.auth))["enable_uaa"] is False


async def test_memory_is_told_of_this_node_alone_and_in_all(node: ManagedNode) -> None:
    used = await node.ask(rabbitmq_views.memory, **HERE)
    assert used["memory"]["total"]["rss"] > 1_000_000
    assert await node.ask(rabbitmq_views.relative_memory, **HERE) == {"memory": {"total": 100}}
    with pytest.raises(Refused) as refused:
        await node.ask(rabbitmq_views.memory, node="n@x")
    assert refused.value.status == 404


async def test_actions_of_a_queue_are_known_and_do_nothing(node: ManagedNode) -> None:
    await node.queue("q")
    sync, dance = {"action": "sync"}, {"action": "dance"}
    assert await node.ask(rabbitmq_views.act_on_queue, name="q", body=sync) == 204
    for name, body, status in (("absent", sync, 404), ("q", dance, 400), ("q", {}, 400)):
        with pytest.raises(Refused) as refused:
            await node.ask(rabbitmq_views.act_on_queue, name=name, body=body)
        assert refused.value.status == status


async def test_a_vhost_runs_on_each_node_that_runs(node: ManagedNode) -> None:
    assert await node.ask(rabbitmq_views.start_vhost, **HERE) == 204
    with pytest.raises(Refused, match="nodedown"):
        await node.ask(rabbitmq_views.start_vhost, node="n@x")
