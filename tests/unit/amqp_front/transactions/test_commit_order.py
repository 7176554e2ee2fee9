"""What queues get of a commit has the order of its publishing, and few batches where that lets it."""

import random
from collections.abc import Callable
from typing import Any, cast

import pytest
from support.frame_samples import publish, some_properties
from support.intake_samples import share
from support.queue_samples import Node
from support.sampling import examples
from unit.amqp_front.publishing_channel import Channel, carry_out, held, runs

from routelog.amqp_front.publishing.publisher import Publisher
from routelog.amqp_front.transactions import run_planner, transaction
from routelog.amqp_front.transactions.commit_plan import Batch
from routelog.amqp_front.transactions.commit_planning import CommitPlanning
from routelog.amqp_front.transactions.transaction import Transaction
from routelog.exchanges import Binding, Exchange

Commit = Callable[..., list[Batch]]
KEYS = "one", "two", "a.b", "b.a", "none"


@pytest.fixture
def commit(node: Node, channel: Channel, publisher: Publisher) -> Commit:
    """Commits messages: each is exchange, key and body, with options."""

    def committed(*messages: bytes) -> list[Batch]:
        kept = Transaction(share())
        for message in messages:
            for run in runs(message):
                for checked in publisher.check(run):
                    kept.publish(checked)
        of_channel = cast(Any, channel), publisher.returns
        planning = CommitPlanning(*of_channel, kept.kept)
        while (plan := planning.go_on()) is None:
            pass
        batches = list(plan.batches)
        carry_out(node.vhost.hosted.logs.transaction(), plan)
        return batches

    return committed


@pytest.fixture
def bound(node: Node) -> None:
    """One exchange leads to each queue, and others to both."""
    bindings: tuple[Any, ...] = (
        ("first", "fanout", "one", "", {}),
        ("second", "fanout", "two", "", {}),
        ("both", "topic", "one", "#.b", {}),
        ("both", "topic", "two", "a.#", {}),
        ("read", "headers", "two", "", {"x-match": "all"}),
    )
    kinds = {exchange: kind for exchange, kind, *_ in bindings}
    for exchange, kind in kinds.items():
        node.vhost.declare_exchange(Exchange(exchange, kind))
    for exchange, _, queue, key, arguments in bindings:
        node.vhost.bind(Binding(exchange, queue, "queue", key, arguments))


def test_what_a_queue_gets_of_several_exchanges_keeps_its_order(
    node: Node, commit: Commit, bound: None
) -> None:
    turns = ("first", ""), ("second", ""), ("", "one")
    batches = commit(*(publish(1, *turns[at % 3], b"%d" % at) for at in range(9)))
    assert held(node, "one") == ["0", "2", "3", "5", "6", "8"]
    assert held(node, "two") == ["1", "4", "7"]
    assert len(batches) == 9


def test_what_goes_to_some_queues_of_a_way_keeps_its_order(
    node: Node, commit: Commit, bound: None
) -> None:
    commit(*(publish(1, "both", ("a.b", "x.b")[at % 2], b"%d" % at) for at in range(6)))
    assert held(node, "one") == ["0", "1", "2", "3", "4", "5"]
    assert held(node, "two") == ["0", "2", "4"]


def test_keys_by_turns_are_a_batch_for_each_way(node: Node, commit: Commit, bound: None) -> None:
    batches = commit(*(publish(1, "", ("one", "two")[at % 2], b"%d" % at) for at in range(6)))
    assert len(batches) == 2
    assert held(node, "one") == ["0", "2", "4"]


def test_what_nobody_gets_is_returned_in_order(
    channel: Channel, commit: Commit, bound: None
) -> None:
    exchanges = "", "amq.direct"
    commit(*(publish(1, exchanges[at % 2], f"{at}", b"", mandatory=True) for at in range(6)))
    assert [each.routing_key for each in channel.sent()] == [f"{at}" for at in range(6)]


@pytest.mark.parametrize("seed", range(examples(40)))
def test_each_queue_gets_what_it_would_get_of_single_publishes(
    node: Node,
    publisher: Publisher,
    commit: Commit,
    bound: None,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
) -> None:
    chance = random.Random(seed)
    for module, limit in (
        (transaction, "RUN_RECORDS_MAX"),
        (transaction, "RUN_BYTES_MAX"),
        (run_planner, "NAMES_MAX"),
    ):
        monkeypatch.setattr(module, limit, chance.choice((1, 2, 5, 1_000)))
    exchanges = chance.sample(("", "first", "second", "both", "read", "amq.direct"), 3)
    options = (
        some_properties(),
        some_properties(delivery_mode=2),
        some_properties(expiration="60000"),
        some_properties(headers={"CC": ["two"]}),
    )
    messages = [
        publish(
            1,
            exchange := chance.choice(exchanges),
            chance.choice(KEYS),
            b"%d" % at,
            chance.choice(options[: 1 + seed % 4]),
            mandatory=exchange == "both",
        )
        for at in range(chance.randrange(1, 60))
    ]
    for message in messages:
        for run in runs(message):
            for checked in publisher.check(run):
                publisher.publish(checked)
    expected = held(node, "one"), held(node, "two")
    commit(*messages)
    assert (held(node, "one"), held(node, "two")) == expected
