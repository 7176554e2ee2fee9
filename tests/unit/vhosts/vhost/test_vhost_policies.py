"""Policies of a vhost at work: queues and exchanges that come and go, restarts included."""

import asyncio
from collections.abc import Coroutine, Mapping
from pathlib import Path

import pytest
from support.queue_samples import Node, declare_queue, records, running_node
from support.waiting import until

from routelog.exchanges import Binding, Exchange
from routelog.log_backend import Durability, Scheduler
from routelog.vhosts import (
    InvalidPolicy,
    Policy,
    PolicyNotFound,
    Queue,
    QueueProperties,
    VirtualHost,
)
from routelog.vhosts.arguments.pattern import MatchBudget
from routelog.vhosts.vhost.vhost import DELETIONS_MAX

CONNECTION = object()
STREAM = {"x-queue-type": "stream"}


@pytest.fixture
def vhost(node: Node) -> VirtualHost:
    return node.vhost


async def declare(
    vhost: VirtualHost, name: str = "q", arguments: Mapping[str, object] | None = None
) -> Queue:
    queue, done = declare_queue(
        vhost, QueueProperties(name, True, arguments=arguments or {}), CONNECTION
    )
    if done is not None:
        await done
    return queue


async def test_a_policy_reaches_queues_that_are_there_and_those_that_come(
    vhost: VirtualHost,
) -> None:
    before = await declare(vhost, "before")
    await vhost.policies.put(Policy("p", ".*", {"max-length": 10}))
    after = await declare(vhost, "after", {"x-max-length": 5})
    assert before.effective.values == {"x-max-length": 10}
    assert before.rules is not None
    assert before.rules.length is not None
    assert before.rules.length.options.count_max == 10
    assert after.effective.values == {"x-max-length": 5}
    await vhost.policies.put(Policy("p", ".*", {"max-length": 3}))
    assert after.effective.values == {"x-max-length": 3}
    await vhost.policies.delete("p", operator=False)
    assert before.rules is None
    assert after.effective.values == {"x-max-length": 5}
    assert after.effective.policy is None


async def test_a_policy_that_changes_no_value_begins_nothing_anew(vhost: VirtualHost) -> None:
    queue = await declare(vhost)
    await vhost.policies.put(Policy("p", ".*", {"expires": 60_000}))
    assert queue.rules is not None
    lease = queue.rules.lease  # begun anew by each change of what the queue goes by
    assert lease is not None
    await vhost.policies.put(Policy("first", ".*", {"expires": 60_000}, 5))
    assert queue.rules.lease is lease
    assert queue.effective.policy is not None
    assert queue.effective.policy.name == "first"


async def test_retention_and_durability_follow_at_once(vhost: VirtualHost) -> None:
    stream = await declare(vhost, "stream", STREAM)
    queue = await declare(vhost, "queue")
    definition = {"max-age": "1h", "max-length-bytes": 1000, "durability": "os"}
    await vhost.policies.put(Policy("p", ".*", definition))
    retention = stream.partitions[0].log.retention
    assert retention is not None
    assert (retention.age_max, retention.bytes_max) == (3_600_000_000, 1000)
    assert queue.durability is stream.durability is Durability.OS
    assert queue.partitions[0].log.retention is None
    await vhost.policies.delete("p", operator=False)
    retention = stream.partitions[0].log.retention
    assert retention is not None
    assert (retention.age_max, retention.bytes_max) == (None, None)
    assert queue.durability is Durability.DISK


async def test_a_queue_that_keeps_nothing_promises_nothing_by_policy(vhost: VirtualHost) -> None:
    queue, _ = declare_queue(vhost, QueueProperties("q"), CONNECTION)
    await vhost.policies.put(Policy("p", ".*", {"durability": "disk"}))
    assert queue.durability is Durability.MEMORY


async def test_an_alternate_exchange_of_a_policy_gets_what_is_routed_nowhere(
    vhost: VirtualHost,
) -> None:
    await declare(vhost)
    for name in ("early", "spare", "own"):
        arguments = {"alternate-exchange": "nowhere"} if name == "own" else {}
        vhost.declare_exchange(Exchange(name, "fanout", arguments=arguments))
    vhost.bind(Binding("spare", "q", "queue", ""))
    assert vhost.routing.route("early", b"") == ()
    await vhost.policies.put(Policy("p", "^(early|late|own)$", {"alternate-exchange": "spare"}))
    vhost.declare_exchange(Exchange("late", "fanout"))
    routes = {name: vhost.routing.route(name, b"") for name in ("early", "late", "own")}
    assert routes == {"early": ("q",), "late": ("q",), "own": ()}
    await vhost.policies.delete("p", operator=False)
    assert vhost.routing.route("early", b"") == ()


async def turns_of(work: Coroutine[None, None, None]) -> int:
    """How many turns of the event loop something takes at least: others had so many."""
    task = asyncio.ensure_future(work)
    turns = 0
    while not task.done():
        await asyncio.sleep(0)
        turns += 1
    await task
    return turns


async def test_many_exchanges_follow_a_policy_and_go_in_many_turns(
    vhost: VirtualHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 80
    monkeypatch.setattr(Scheduler, "is_over", lambda self: True)  # behind each exchange
    for number in range(count):
        kind = {"durable": False, "auto_delete": False, "internal": False, "arguments": {}}
        vhost.declare_exchange(Exchange(f"x{number}", "direct", **kind))
    assert await turns_of(vhost.policies._follow_all()) > count
    assert await turns_of(vhost.clear()) > count // DELETIONS_MAX
    assert all(each in vhost.routing.predeclared for each in vhost.routing.exchanges())


async def test_policies_are_there_after_a_restart(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        await declare(node.vhost, "a/b", STREAM)
        await node.vhost.policies.put(Policy("p/ é", "a/", {"max-age": "1h"}, 3, "streams"))
        await node.vhost.policies.put(Policy("o", "", {"expires": 5}, is_operator=True))
        await node.vhost.policies.put(Policy("gone", "", {"expires": 1}))
        await node.vhost.policies.delete("gone", operator=False)
    async with running_node(tmp_path) as node:
        queue = node.vhost.queues["a/b"]
        assert queue.effective.values == STREAM | {"x-max-age": "1h", "x-expires": 5}
        retention = queue.partitions[0].log.retention
        assert retention is not None
        assert retention.age_max == 3_600_000_000
        with pytest.raises(PolicyNotFound):
            await node.vhost.policies.delete("gone", operator=False)


DEAD_LETTERS = {"dead-letter-exchange": "", "dead-letter-routing-key": "dead"}


@pytest.mark.parametrize(
    ("arguments", "definition", "left", "letters"),
    [
        ({"x-message-ttl": 10}, DEAD_LETTERS, 0, 2),
        ({"x-max-length": 1}, DEAD_LETTERS, 1, 1),
        ({"x-max-length": 1}, {"overflow": "reject-publish"}, 2, 0),
    ],
)
async def test_no_rule_acts_by_arguments_alone_in_a_start_that_takes_long(
    tmp_path: Path,
    arguments: Mapping[str, object],
    definition: Mapping[str, object],
    left: int,
    letters: int,
) -> None:
    async with running_node(tmp_path, clocked=True) as node:
        vhost, time = node.vhost, node.turns.clock.now()
        await declare(vhost, "dead")
        queue = await declare(vhost, "q", arguments)
        # Two are ready where there is room for one, as after a crash of who had one of them
        queue.partitions[0].log.append(records("a", "b", time=time), waited=True)
        await declare(vhost, "z")  # opened behind it
        await vhost.policies.put(Policy("p", "^q$", definition))
    async with running_node(tmp_path, clocked=True, slow=True) as node:
        queue, dead = node.vhost.queues["q"], node.vhost.queues["dead"]

        def all_sent() -> bool:
            node.turns.pass_seconds(1)
            return queue.rules is not None and not queue.rules.dead_letters.waiting

        await until(all_sent)  # letters wait until the journal takes entries
        assert (queue.ready, dead.ready + dead.coming) == (left, letters)


HARD = "^(a|aa)+$"
HARD_NAME = "a" * 200 + "!"


async def test_a_pattern_that_takes_years_for_a_queue_that_is_there_is_refused(
    vhost: VirtualHost,
) -> None:
    queue = await declare(vhost, HARD_NAME)
    with pytest.raises(InvalidPolicy, match=f"takes too long to match with '{HARD_NAME}'"):
        await vhost.policies.put(Policy("p", HARD, {"max-length": 3}))
    assert vhost.policies.book.all(operator=False) == []
    assert queue.effective.values == {}
    await vhost.policies.put(Policy("p", HARD, {"max-length": 3}, apply_to="streams"))


async def test_of_a_queue_that_comes_all_patterns_share_the_time(
    vhost: VirtualHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(40):
        await vhost.policies.put(Policy(f"p{number}", f"{HARD}|{number}", {"max-length": 3}, 9))
    await vhost.policies.put(Policy("last", "!$", {"max-length": 4}))
    await vhost.policies.put(Policy("own", "!$", {"max-length": 5}, is_operator=True))
    budgets: list[MatchBudget] = []

    def counted() -> MatchBudget:
        budgets.append(MatchBudget())
        return budgets[-1]

    monkeypatch.setattr("routelog.vhosts.stored.policy_book.MatchBudget", counted)
    queue = await declare(vhost, HARD_NAME)
    assert len(budgets) == 2  # of the policies, and of the operator's, who loses nothing by them
    assert queue.effective.values == {"x-max-length": 5}
    ran_out = [policy.ran_out_for for policy in vhost.policies.book.all(operator=False)]
    assert HARD_NAME in ran_out
    other = await declare(vhost, "aaa")
    assert other.effective.policy is not None
    assert other.effective.policy.name == "p0"


async def test_a_pattern_is_tried_with_very_many_names_in_turns(
    vhost: VirtualHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Scheduler, "is_over", lambda self: True)
    for number in range(3):
        kind = {"durable": False, "auto_delete": False, "internal": False, "arguments": {}}
        vhost.declare_exchange(Exchange(f"x{number}", "direct", **kind))
    assert (
        await turns_of(vhost.policies._try_out(Policy("p", "^x", {"alternate-exchange": ""}))) >= 3
    )
