"""What rules of queues know of their node: whether consumers of other nodes are to come back."""

from pathlib import Path

from support.queue_samples import declare_queue, running_node

from routelog.vhosts import QueueProperties


async def test_a_lease_begins_anew_when_the_consumers_of_other_nodes_are_back(
    tmp_path: Path,
) -> None:
    async with running_node(tmp_path) as node:
        node.vhosts.await_consumers()
        node.vhosts.await_consumers()  # it was about to hand over, and goes on
        declare_queue(node.vhost, QueueProperties("q", arguments={"x-expires": 1_000}), object())
        for _ in range(3):
            node.turns.pass_seconds(0.9)
        node.vhosts.consumers_back()
        node.turns.pass_seconds(0.9)
        assert "q" in node.vhost.queues
        node.turns.pass_seconds(0.2)
        assert "q" not in node.vhost.queues


async def test_a_lease_goes_on_that_was_not_over_when_consumers_came_back(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        declare_queue(node.vhost, QueueProperties("q", arguments={"x-expires": 1_000}), object())
        for _ in range(3):  # sessions may end often
            node.vhosts.await_consumers()
            node.turns.pass_seconds(0.3)
            node.vhosts.consumers_back()
        assert "q" in node.vhost.queues
        node.turns.pass_seconds(0.2)
        assert "q" not in node.vhost.queues
