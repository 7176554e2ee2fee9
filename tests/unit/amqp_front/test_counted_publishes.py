"""What a publisher counts, and a transaction when it is appended, is the same, with real queues."""

from typing import Any, cast

import pytest
from support.frame_samples import publish
from support.queue_samples import Node
from unit.amqp_front.publishing_channel import Channel, carry_out, runs

from routelog.amqp_front.publishing.publisher import Publisher
from routelog.amqp_front.transactions.commit_plan import CommitPlan
from routelog.amqp_front.transactions.run_planner import RunPlanner
from routelog.exchanges import Binding, Exchange
from routelog.vhosts import Counters, QueueProperties

# Each is one run: a cutter's table is good for one.
READS = [
    [publish(1, "", key, b"m") for key in ("one", "two", "none")],
    [publish(1, "amq.fanout", "", b"m") for _ in range(2)],
    [publish(1, "", key, b"m", mandatory=True) for key in ("none", "none", "one")],
]


def counted(counters: Counters) -> dict[str, int]:
    pairs = zip(counters.NAMES, counters.values(), strict=True)
    return {name: value for name, value in pairs if value}


@pytest.fixture
def bound(node: Node) -> Node:
    """Both queues get what comes to `amq.fanout`."""
    for name in ("one", "two"):
        node.vhost.bind(Binding("amq.fanout", name, "queue", ""))
    return node


def check(node: Node, channel: Channel, **more: int) -> None:
    of_channel = {"publish": 8, "return_unroutable": 2, "drop_unroutable": 1, **more}
    vhost = node.vhost.counters
    for each in (channel.counters, vhost.channels, node.vhosts.counters.channels):
        assert counted(each) == of_channel
    assert counted(vhost.exchange("")) == {"publish_in": 6, "publish_out": 3}
    assert counted(vhost.exchange("amq.fanout")) == {"publish_in": 2, "publish_out": 4}
    arrived = {name: counted(node.vhost.queues[name].counters) for name in ("one", "two")}
    assert arrived == {"one": {"publish": 4}, "two": {"publish": 3}}
    assert counted(node.vhosts.counters.queues["classic"]) == {"publish": 7}


def test_a_channel_counts_what_it_publishes(bound: Node, channel: Channel) -> None:
    publisher = Publisher(cast(Any, channel))
    for read in READS:
        (run,) = runs(b"".join(read))
        assert publisher.carry(run) == run.count
    check(bound, channel)


def test_confirms_are_counted_when_they_are_sent(bound: Node, channel: Channel) -> None:
    publisher = Publisher(cast(Any, channel))
    publisher.confirming = True
    for read in READS:
        (run,) = runs(b"".join(read))
        publisher.carry(run)
    bound.turns.run()
    check(bound, channel, confirm=8)


def test_a_transaction_is_counted_when_it_is_appended(bound: Node, channel: Channel) -> None:
    publisher = Publisher(cast(Any, channel))
    plan = CommitPlan(bound.vhost.routing.version)
    planner = RunPlanner(cast(Any, channel), publisher.returns, plan)
    for read in READS:
        (run,) = runs(b"".join(read))
        for checked in publisher.check(run):
            planner.add(checked)
    assert counted(channel.counters) == {}
    carry_out(bound.vhost.hosted.logs.transaction(), plan)
    check(bound, channel)


async def test_what_a_full_queue_refuses_has_not_come_to_it(node: Node, channel: Channel) -> None:
    arguments = {"x-max-length": 2, "x-overflow": "reject-publish"}
    node.vhost.declare_queue(QueueProperties("small", arguments=arguments), object())
    publisher = Publisher(cast(Any, channel))
    (run,) = runs(b"".join(publish(1, "", "small", b"%d" % at) for at in range(5)))
    publisher.carry(run)
    assert counted(channel.counters) == {"publish": 5}
    assert counted(node.vhost.queues["small"].counters) == {"publish": 2}


async def test_what_a_full_queue_drops_is_counted(node: Node, channel: Channel) -> None:
    node.vhost.declare_queue(QueueProperties("small", arguments={"x-max-length": 2}), object())
    publisher = Publisher(cast(Any, channel))
    (run,) = runs(b"".join(publish(1, "", "small", b"%d" % at) for at in range(5)))
    publisher.carry(run)
    node.turns.run()
    assert counted(node.vhost.queues["small"].counters) == {"publish": 5, "maxlen": 3}


def test_an_exchange_that_is_deleted_takes_its_counts_along(node: Node, channel: Channel) -> None:
    for _ in range(2):
        node.vhost.declare_exchange(Exchange("x", "fanout"))
        publisher = Publisher(cast(Any, channel))
        (run,) = runs(publish(1, "x", "", b"a"))
        publisher.carry(run)
        assert counted(node.vhost.counters.exchanges["x"]) == {"publish_in": 1}
        node.vhost.delete_exchange("x", if_unused=False)
        assert "x" not in node.vhost.counters.exchanges


def test_queues_that_come_and_go_are_counted(node: Node) -> None:
    churn = node.vhosts.counters.churn
    assert (churn.queue_declared, churn.queue_created, churn.queue_deleted) == (2, 2, 0)
    node.vhost.declare_queue(QueueProperties("one"), object())
    node.vhost.delete_queue(node.vhost.queues["one"])
    assert (churn.queue_declared, churn.queue_created, churn.queue_deleted) == (3, 2, 1)
