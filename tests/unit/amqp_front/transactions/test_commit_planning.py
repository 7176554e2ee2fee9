"""The plan of a commit over several turns: what others do in between counts."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest
from support.frame_samples import publish, some_properties
from support.intake_samples import share
from support.loop_services import scheduler_on
from support.queue_samples import Node
from unit.amqp_front.publishing_channel import Channel, HastyClock, carry_out, held, runs

from routelog.amqp_front.publishing.publisher import Publisher
from routelog.amqp_front.transactions import commit_plan
from routelog.amqp_front.transactions.commit_plan import CommitPlan
from routelog.amqp_front.transactions.commit_planning import TRIES_MAX, CommitPlanning
from routelog.amqp_front.transactions.transaction import Kept, Transaction
from routelog.amqp_front.wire.command import PublishRun
from routelog.amqp_front.wire.errors import (
    NOT_IMPLEMENTED,
    PRECONDITION_FAILED,
    HardError,
    SoftError,
)
from routelog.amqp_front.wire.single_run import LOOKED_AT_MAX
from routelog.exchanges import Binding, Exchange, ExchangeNotFound
from routelog.log_backend import Progress
from routelog.vhosts import QueueProperties

TURNS_MAX = 1_000


@pytest.fixture
def planning(channel: Channel, publisher: Publisher) -> Callable[..., CommitPlanning]:
    """Makes the planning of messages, each read alone; its clock is hasty, or stands still."""

    def plan(*messages: bytes, hasty: bool = True) -> CommitPlanning:
        if hasty:
            channel.services.scheduler = scheduler_on(None, HastyClock())
        of_channel = cast(Any, channel), publisher.returns
        return CommitPlanning(*of_channel, kept(publisher, *messages))

    return plan


def kept(publisher: Publisher, *messages: bytes) -> Sequence[Kept]:
    """What a transaction makes of them."""
    transaction = Transaction(share())
    for message in messages:
        for run in runs(message):
            for checked in publisher.check(run):
                transaction.publish(checked)
    return transaction.kept


def turns_of(planning: CommitPlanning) -> tuple[int, CommitPlan]:
    """In how many turns a plan is made, and the plan."""
    for turn in range(TURNS_MAX):
        plan = planning.go_on()
        if plan is not None:
            return turn + 1, plan
    raise AssertionError("there is no end to it")


def commit(node: Node, planning: CommitPlanning) -> int:
    """Plan what is left, and carry it out; returns in how many turns."""
    turns, plan = turns_of(planning)
    carry_out(node.vhost.hosted.logs.transaction(), plan)
    return turns


def to(key: str, *bodies: str, exchange: str = "", **options: Any) -> bytes:
    """Messages for a key, in one read."""
    return b"".join(publish(1, exchange, key, each.encode(), **options) for each in bodies)


# Of two exchanges, to a queue that both lead to.
PARTS = to("one", "a", "b"), to("x", "c", exchange="amq.fanout")
TURNS = 3  # of their plan, when a turn bears one step


@pytest.fixture
def bound(node: Node) -> None:
    """Both queues get what is published to amq.fanout."""
    for name in ("one", "two"):
        node.vhost.bind(Binding("amq.fanout", name, "queue", ""))


def test_a_small_transaction_is_planned_in_one_turn(
    node: Node, planning: Callable[..., CommitPlanning], bound: None
) -> None:
    assert commit(node, planning(*PARTS, hasty=False)) == 1
    assert (held(node, "one"), held(node, "two")) == (["a", "b", "c"], ["c"])


def test_a_transaction_is_of_one_journal(
    node: Node, planning: Callable[..., CommitPlanning]
) -> None:
    queue: Any = node.vhost.queues["one"]
    queue.progress = Progress(lambda call: None, float)
    with pytest.raises(HardError, match="queue 'one' in vhost '/', which another node") as raised:
        planning(*PARTS, hasty=False).go_on()
    assert raised.value.code == NOT_IMPLEMENTED


def test_a_long_one_takes_turns_and_nothing_of_it_happens_before_the_last(
    node: Node, planning: Callable[..., CommitPlanning], bound: None
) -> None:
    slow = planning(*PARTS)
    for _ in range(TURNS - 1):
        assert slow.go_on() is None
    assert (held(node, "one"), held(node, "two")) == ([], [])
    assert commit(node, slow) == 1
    assert (held(node, "one"), held(node, "two")) == (["a", "b", "c"], ["c"])


def test_a_run_is_planned_in_parts_and_keeps_its_order(
    node: Node, planning: Callable[..., CommitPlanning]
) -> None:
    node.vhost.declare_exchange(Exchange("h", "headers"))
    node.vhost.bind(Binding("h", "one", "queue", "", {"x-match": "all"}))
    bodies = [f"m{at}" for at in range(3 * LOOKED_AT_MAX)]
    node.vhost.firehose = _Nobody()
    assert commit(node, planning(to("k", *bodies, exchange="h"))) > 3
    assert held(node, "one") == bodies


class _Nobody:
    """A firehose that nobody listens to: messages are looked at one by one."""

    def published(self, *_: object) -> None:
        """See `Firehose`."""


def test_what_others_publish_meanwhile_stands_before_all_of_it(
    node: Node,
    channel: Channel,
    planning: Callable[..., CommitPlanning],
    bound: None,
) -> None:
    slow = planning(*PARTS)
    slow.go_on()
    other = Publisher(cast(Any, channel))
    for run in runs(to("one", "between")):
        other.publish(run)
    commit(node, slow)
    assert held(node, "one") == ["between", "a", "b", "c"]


def test_a_queue_that_is_deleted_meanwhile_gets_nothing_and_what_nobody_gets_is_returned(
    node: Node,
    channel: Channel,
    planning: Callable[..., CommitPlanning],
    bound: None,
) -> None:
    slow = planning(to("one", "a", mandatory=True), PARTS[1])
    slow.go_on()
    node.vhost.delete_queue(node.vhost.queues["one"])
    commit(node, slow)
    assert held(node, "two") == ["c"]
    assert [each.routing_key for each in channel.sent()] == ["one"]


def test_a_queue_that_is_declared_anew_meanwhile_gets_all_of_it(
    node: Node, planning: Callable[..., CommitPlanning], bound: None
) -> None:
    slow = planning(*PARTS)
    slow.go_on()
    slow.go_on()
    node.vhost.delete_queue(node.vhost.queues["one"])
    node.vhost.declare_queue(QueueProperties("one"), object())
    commit(node, slow)
    assert (held(node, "one"), held(node, "two")) == (["a", "b"], ["c"])


def test_a_binding_that_comes_or_goes_meanwhile_counts(
    node: Node, planning: Callable[..., CommitPlanning]
) -> None:
    node.vhost.bind(Binding("amq.fanout", "one", "queue", ""))
    slow = planning(PARTS[1])
    slow.go_on()
    node.vhost.unbind(Binding("amq.fanout", "one", "queue", ""))
    node.vhost.bind(Binding("amq.fanout", "two", "queue", ""))
    commit(node, slow)
    assert (held(node, "one"), held(node, "two")) == ([], ["c"])


@pytest.mark.parametrize("turns", [1, 2])
def test_an_exchange_that_is_deleted_meanwhile_refuses_all_of_it(
    node: Node, planning: Callable[..., CommitPlanning], turns: int
) -> None:
    node.vhost.declare_exchange(Exchange("x", "fanout"))
    node.vhost.bind(Binding("x", "one", "queue", ""))
    slow = planning(PARTS[0], to("k", "c", exchange="x"))
    for _ in range(turns):
        slow.go_on()
    node.vhost.delete_exchange("x", if_unused=False)
    with pytest.raises(ExchangeNotFound):
        turns_of(slow)
    assert held(node, "one") == []


def test_a_queue_that_is_filled_meanwhile_refuses_all_of_it(
    node: Node, channel: Channel, planning: Callable[..., CommitPlanning]
) -> None:
    arguments = {"x-max-length": 2, "x-overflow": "reject-publish"}
    node.vhost.declare_queue(QueueProperties("full", arguments=arguments), object())
    slow = planning(*PARTS, to("full", "c", "d"))
    slow.go_on()
    for run in runs(to("full", "first")):
        Publisher(cast(Any, channel)).publish(run)
    with pytest.raises(SoftError) as caught:
        turns_of(slow)
    assert caught.value.code == PRECONDITION_FAILED
    assert (held(node, "one"), held(node, "full")) == ([], ["first"])


def test_one_that_takes_turns_waits_for_another_and_sees_what_became_of_the_queues(
    node: Node, planning: Callable[..., CommitPlanning], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_plan, "AT_ONCE_MAX", 0)
    other = node.vhost.hosted.logs.transaction()
    other.pause()
    slow = planning(to("one", "a"), to("two", "b"), hasty=False)
    for _ in range(5):
        assert slow.go_on() is None
    monkeypatch.setattr(commit_plan, "AT_ONCE_MAX", 64)
    assert planning(to("one", "small"), hasty=False).go_on() is not None
    monkeypatch.setattr(commit_plan, "AT_ONCE_MAX", 0)
    node.vhost.delete_queue(node.vhost.queues["two"])
    other.end()
    assert slow.go_on() is None  # nobody is handed what it appended so far
    carry_out(other)
    assert commit(node, slow) <= TURNS
    assert held(node, "one") == ["a"]


@pytest.mark.parametrize("is_limited", [False, True])
def test_only_what_nobody_can_refuse_takes_turns(
    node: Node,
    planning: Callable[..., CommitPlanning],
    monkeypatch: pytest.MonkeyPatch,
    is_limited: bool,
) -> None:
    monkeypatch.setattr(commit_plan, "AT_ONCE_MAX", 0)
    arguments = {"x-max-length": 20, "x-overflow": "reject-publish" if is_limited else "drop-head"}
    node.vhost.declare_queue(QueueProperties("limited", arguments=arguments), object())
    plan = planning(to("one", "a"), to("limited", "b"), hasty=False).go_on()
    assert plan is not None
    assert plan.takes_turns is not is_limited


def test_a_queue_that_is_deleted_while_it_is_appended_costs_nothing(
    node: Node, planning: Callable[..., CommitPlanning], bound: None
) -> None:
    _, plan = turns_of(planning(*(part for _ in range(16) for part in PARTS)))
    scheduler = scheduler_on(None, HastyClock())
    assert not plan.carry_out(scheduler, whole=False)
    node.vhost.delete_queue(node.vhost.queues["two"])
    while not plan.carry_out(scheduler, whole=False):
        pass
    assert held(node, "one") == ["a", "b", "c"] * 16


def test_a_queue_that_is_limited_while_it_is_appended_may_refuse_the_rest(
    node: Node, planning: Callable[..., CommitPlanning], bound: None
) -> None:
    _, plan = turns_of(planning(*(part for _ in range(16) for part in PARTS)))
    scheduler = scheduler_on(None, HastyClock())
    assert not plan.carry_out(scheduler, whole=False)
    node.vhost.queues["one"].apply({"x-max-length": 3, "x-overflow": "reject-publish"})
    with pytest.raises(HardError) as caught:
        plan.carry_out(scheduler)
    assert caught.value.code == PRECONDITION_FAILED


def test_a_transaction_that_is_too_large_is_refused_as_soon_as_that_is_known(
    planning: Callable[..., CommitPlanning], bound: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_plan, "COMMIT_BYTES_MAX", 200)
    slow = planning(*PARTS, to("one", "more"))
    assert slow.go_on() is None
    with pytest.raises(SoftError) as caught:
        slow.go_on()
    assert caught.value.code == PRECONDITION_FAILED


def test_topology_that_never_rests_delays_a_commit_a_few_times_only(
    node: Node, planning: Callable[..., CommitPlanning], bound: None
) -> None:
    slow = planning(*PARTS)
    turns, plan = 0, None
    while plan is None:
        turns += 1
        node.vhost.declare_queue(QueueProperties(f"other {turns}"), object())
        plan = slow.go_on()
    assert turns == TURNS * TRIES_MAX
    carry_out(node.vhost.hosted.logs.transaction(), plan)
    assert (held(node, "one"), held(node, "two")) == (["a", "b", "c"], ["c"])


def test_nor_does_it_let_a_queue_get_anything_that_is_gone(
    node: Node, planning: Callable[..., CommitPlanning], bound: None
) -> None:
    slow = planning(*PARTS)
    for turn in range(TURNS * TRIES_MAX - 1):
        node.vhost.declare_queue(QueueProperties(f"other {turn}"), object())
        assert slow.go_on() is None
    node.vhost.delete_queue(node.vhost.queues["one"])
    assert slow.go_on() is None
    commit(node, slow)
    assert held(node, "two") == ["c"]


def test_what_an_exchange_has_seen_meanwhile_is_a_duplicate(
    node: Node, channel: Channel, planning: Callable[..., CommitPlanning]
) -> None:
    kind, once = "x-message-deduplication", {"x-cache-size": 10}
    node.vhost.declare_exchange(Exchange("d", kind, arguments=once))
    node.vhost.bind(Binding("d", "one", "queue", ""))

    def keyed(*keys: str) -> bytes:
        return b"".join(
            publish(
                1, "d", "", key.encode(), some_properties(headers={"x-deduplication-header": key})
            )
            for key in keys
        )

    slow = planning(keyed("a", "b", "a"), to("two", "c"))
    slow.go_on()
    for run in runs(keyed("b", "x")):
        Publisher(cast(Any, channel)).publish(run)
    commit(node, slow)
    assert held(node, "one") == ["b", "x", "a"]
    commit(node, planning(keyed("a", "b", "d")))
    assert held(node, "one") == ["d"]


def test_replies_returns_and_traces_follow_what_is_appended(
    node: Node, publisher: Publisher, channel: Channel, planning: Callable[..., CommitPlanning]
) -> None:
    told: list[object] = []

    class Asker:
        def reply(self, records: Any) -> None:
            told.append(records.body(0).decode())

    class Firehose:
        def published(self, _: object, run: PublishRun, index: int, queues: object) -> None:
            told.append((run.body(index).decode(), queues))

    node.vhost.firehose = Firehose()
    address = channel.services.replies.open(Asker())
    _, plan = turns_of(planning(to(address, "r"), to("one", "m"), to("none", "n", mandatory=True)))
    assert told == []
    node.vhost.hosted.logs.transaction().append(lambda: plan.carry_out(scheduler_on(None)))
    assert told == []
    for tell in plan.told:
        tell()
    assert told == ["r", ("r", []), ("m", ["one"]), ("n", [])]
    assert [each.routing_key for each in channel.sent()] == ["none"]
    publisher.close()
    for tell in plan.told:
        tell()
    assert channel.sent() == []
