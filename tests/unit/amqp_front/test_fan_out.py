"""A run of publishes to more queues than one turn of the loop is to serve."""

import asyncio
from collections.abc import AsyncIterator, Callable
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from support.frame_samples import publish
from support.loop_services import scheduler_on
from support.queue_samples import Node, running_node
from unit.amqp_front.publishing.test_publisher import outcomes
from unit.amqp_front.publishing_channel import Channel, HastyClock, held, runs
from unit.amqp_front.transactions.test_commit_planning import commit, kept

from routelog.amqp_front.publishing.publisher import Publisher
from routelog.amqp_front.transactions.commit_planning import CommitPlanning
from routelog.amqp_front.wire.command import PublishRun
from routelog.exchanges import Binding
from routelog.log_backend import JournalFailed, Progress
from routelog.vhosts import QueueProperties
from routelog.vhosts.publishing.appending import QUEUES_BETWEEN_LOOKS

TURN = QUEUES_BETWEEN_LOOKS  # a turn is over at the first look
QUEUES = [f"q{number:03}" for number in range(5 * TURN)]
LAST = QUEUES[-1]


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    async with running_node(tmp_path) as running:
        for name in QUEUES[:-1]:
            running.vhost.declare_queue(QueueProperties(name), object())
            running.vhost.bind(Binding("amq.fanout", name, "queue", ""))
        yield running


@pytest.fixture
def last(node: Node) -> None:
    """The last queue is one as all others."""
    _bind_last(node, {})


@pytest.fixture
def full(node: Node) -> None:
    """The last queue takes one message."""
    _bind_last(node, {"x-max-length": 1, "x-overflow": "reject-publish"})


def _bind_last(node: Node, arguments: dict[str, object]) -> None:
    node.vhost.declare_queue(QueueProperties(LAST, arguments=arguments), object())
    node.vhost.bind(Binding("amq.fanout", LAST, "queue", ""))


@pytest.fixture
async def channel(node: Node) -> Channel:
    channel = Channel(node.vhost, Progress(node.turns.call_soon, float))
    loop = asyncio.get_running_loop()
    channel.services.clock = HastyClock()
    channel.services.loop = SimpleNamespace(
        create_future=loop.create_future, call_soon=node.turns.call_soon
    )
    channel.services.scheduler = scheduler_on(channel.services.loop, HastyClock())
    return channel


@pytest.fixture
def publisher(channel: Channel) -> Publisher:
    publisher = Publisher(cast(Any, channel))
    publisher.confirming = True
    return publisher


def to_all(*texts: str) -> PublishRun:
    (run,) = runs(b"".join(publish(1, "amq.fanout", "", text.encode()) for text in texts))
    return run


def counts(node: Node) -> list[int]:
    """Messages of each queue."""
    return [node.vhost.queues[name].ready for name in QUEUES if name in node.vhost.queues]


def test_a_turn_serves_some_queues_and_the_confirm_waits_for_the_last(
    node: Node, channel: Channel, publisher: Publisher, last: None
) -> None:
    node.vhost.routing.route("amq.fanout", b"")
    assert publisher.carry(to_all("a", "b")) == 2
    assert counts(node) == [2] * TURN + [0] * (len(QUEUES) - TURN)
    served = []
    while channel.arrived is not None and not channel.arrived.done():  # type: ignore[attr-defined]
        assert not outcomes(channel)
        node.turns.one()
        served.append(sum(count == 2 for count in counts(node)))
    steps = [count for count, _ in groupby(served)]
    assert steps[-4:] == [2 * TURN, 3 * TURN, 4 * TURN, 5 * TURN]
    assert publisher.fan_out is None
    assert not channel.services.scheduler._jobs
    node.turns.run()
    assert outcomes(channel) == [("Basic.Ack", 2, True)]
    assert all(held(node, name) == ["a", "b"] for name in QUEUES)


def test_few_queues_are_served_in_one_turn(
    node: Node, channel: Channel, publisher: Publisher
) -> None:
    for name in QUEUES[: TURN - 1]:
        node.vhost.bind(Binding("amq.direct", name, "queue", "few"))
    node.vhost.routing.route("amq.direct", b"few")
    publisher.carry(*runs(publish(1, "amq.direct", "few", b"a")))
    assert sum(counts(node)) == TURN - 1
    assert channel.arrived is None


@pytest.mark.parametrize("by_headers", [False, True])
def test_behind_a_long_way_that_took_its_time_a_run_is_cut(
    node: Node, publisher: Publisher, monkeypatch: pytest.MonkeyPatch, by_headers: bool
) -> None:
    exchange = "amq.headers" if by_headers else "amq.fanout"
    for name in QUEUES[:2]:
        node.vhost.bind(Binding("amq.headers", name, "queue", "", {"x-match": "all"}))
    frames = b"".join(publish(1, exchange, key, b"m") for key in ("k1", "k2", "k3"))
    (run,) = runs(frames)
    monkeypatch.setattr("routelog.vhosts.publishing.decision.LONG_ROUTE", 1)
    assert publisher.carry(run) == 1
    assert sum(counts(node)) == (2 if by_headers else QUEUES_BETWEEN_LOOKS)


def test_a_queue_that_is_deleted_meanwhile_gets_nothing_whoever_takes_its_name(
    node: Node, channel: Channel, publisher: Publisher, full: None
) -> None:
    publisher.carry(to_all("a"))
    for name in (QUEUES[0], QUEUES[-2], LAST):
        node.vhost.delete_queue(node.vhost.queues[name])
    node.vhost.declare_queue(QueueProperties(QUEUES[-2]), object())
    node.turns.run()
    assert outcomes(channel) == [("Basic.Ack", 1, False)]
    assert counts(node) == [1] * (len(QUEUES) - 3) + [0]


def test_a_refusal_in_a_later_turn_is_told_of_its_message(
    node: Node, channel: Channel, publisher: Publisher, full: None
) -> None:
    publisher.carry(to_all("a", "b", "c"))
    node.turns.run()
    assert outcomes(channel) == [("Basic.Ack", 1, False), ("Basic.Nack", 3, True)]
    assert counts(node) == [3] * (len(QUEUES) - 1) + [1]
    publisher.carry(to_all("d"))
    node.turns.run()
    assert outcomes(channel) == [("Basic.Nack", 4, False)]


def test_messages_that_are_traced_are_under_way_together(
    node: Node, channel: Channel, publisher: Publisher, full: None
) -> None:
    told: list[tuple[int, int]] = []
    trace = SimpleNamespace(published=lambda _, __, at, queues: told.append((at, len(queues))))
    node.vhost.firehose = trace
    assert publisher.carry(to_all("a", "b", "c")) == 3
    assert told == [(at, len(QUEUES)) for at in range(3)]
    node.turns.run()
    assert outcomes(channel) == [("Basic.Ack", 1, False), ("Basic.Nack", 3, True)]
    assert held(node, QUEUES[-2]) == ["a", "b", "c"]


@pytest.fixture
def two_ways(
    node: Node, last: None, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], list[PublishRun]]:
    """Makes a run whose keys lead to all queues and to the later ones, which may be shared out in turns."""
    monkeypatch.setattr("routelog.vhosts.publishing.client_publish.SHARED_AT_ONCE", 1)
    monkeypatch.setattr("routelog.vhosts.publishing.fan_out.NAMES_AT_ONCE", TURN)
    for name in QUEUES:
        node.vhost.bind(Binding("amq.direct", name, "queue", "all"))
        if name >= QUEUES[TURN]:
            node.vhost.bind(Binding("amq.direct", name, "queue", "later"))
    keys = "all", "later", "all", "later"
    frames = [publish(1, "amq.direct", key, b"%d" % at) for at, key in enumerate(keys)]
    return lambda: runs(b"".join(frames))


def test_two_long_ways_are_shared_out_in_turns_and_each_queue_keeps_the_order(
    node: Node, channel: Channel, publisher: Publisher, two_ways: Callable[[], list[PublishRun]]
) -> None:
    (run,) = two_ways()
    assert publisher.carry(run) == 4
    run.source[:] = bytes(len(run.source))  # the next read
    turns = 0
    while publisher.fan_out is not None:
        assert not outcomes(channel)
        node.turns.one()
        turns += 1
    assert turns >= 2 * len(QUEUES) / TURN  # as many to share out as to append
    node.turns.run()
    assert outcomes(channel) == [("Basic.Ack", 4, True)]
    assert all(held(node, name) == ["0", "2"] for name in QUEUES[:TURN])
    assert all(held(node, name) == ["0", "1", "2", "3"] for name in QUEUES[TURN:])


def test_what_is_deleted_while_ways_are_shared_out_gets_nothing(
    node: Node, publisher: Publisher, two_ways: Callable[[], list[PublishRun]]
) -> None:
    publisher.carry(*two_ways())
    for name in (QUEUES[0], LAST):
        node.vhost.delete_queue(node.vhost.queues[name])
    node.vhost.declare_queue(QueueProperties(LAST), object())
    node.turns.run()
    assert counts(node) == [2] * (TURN - 1) + [4] * (len(QUEUES) - TURN - 1) + [0]


def test_it_arrives_though_its_channel_is_gone_and_tells_nobody(
    node: Node, channel: Channel, publisher: Publisher, full: None
) -> None:
    publisher.carry(to_all("a", "b"))
    publisher.close()
    node.turns.run()
    assert counts(node) == [2] * (len(QUEUES) - 1) + [1]
    assert not channel.written


def test_a_broker_that_stops_lets_it_arrive_at_once(
    node: Node, channel: Channel, publisher: Publisher, last: None
) -> None:
    publisher.carry(to_all("a"))
    channel.services.scheduler.finish()
    assert counts(node) == [1] * len(QUEUES)
    node.turns.run()
    assert counts(node) == [1] * len(QUEUES)
    assert not channel.services.scheduler._jobs


def test_when_the_journal_fails_meanwhile_it_is_nacked(
    node: Node, channel: Channel, publisher: Publisher, last: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fail_later(node, publisher, monkeypatch)
    assert channel.arrived is not None
    assert channel.arrived.result() is None  # type: ignore[attr-defined]
    assert outcomes(channel) == [("Basic.Nack", 2, True)]


def test_what_its_last_queue_refuses_comes_back_as_it_was_published(
    node: Node, channel: Channel, full: None
) -> None:
    channel.returns_refused = True
    publisher = Publisher(cast(Any, channel))
    publisher.confirming = True
    frames = [publish(1, "amq.fanout", "", text, mandatory=True) for text in (b"aaa", b"bbb")]
    (run,) = runs(b"".join(frames))
    node.vhost.routing.route("amq.fanout", b"")
    publisher.carry(run)
    assert publisher.fan_out is not None
    run.source[:] = bytes(len(run.source))  # another client is read
    node.turns.run()
    assert channel.written.count(b"bbb") == 1
    returned, *confirms = channel.sent()
    assert (returned.reply_code, returned.reply_text) == (
        311,
        f"maxlen: queue '{LAST}' in vhost '/'",
    )
    assert [each.name for each in confirms] == ["Basic.Ack", "Basic.Nack"]


def test_without_confirms_a_journal_that_fails_meanwhile_is_an_error(
    node: Node, channel: Channel, publisher: Publisher, last: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher.confirming = False
    _fail_later(node, publisher, monkeypatch)
    with pytest.raises(JournalFailed):
        channel.arrived.result()
    assert publisher.fan_out is None
    assert not channel.services.scheduler._jobs


def _fail_later(node: Node, publisher: Publisher, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        """A queue that has met the failure."""

        name, deleted = LAST, False

        def publish(self, *_: object) -> int:
            raise JournalFailed("the disk is gone")

    monkeypatch.setattr(
        node.vhost.hosted.delays, "recipient", lambda name: Broken() if name == LAST else None
    )
    publisher.carry(to_all("a", "b"))
    node.turns.run()


def test_a_commit_appends_to_all_queues_in_the_turn_that_carries_it_out(
    node: Node, channel: Channel, publisher: Publisher, last: None
) -> None:
    publisher.confirming = False
    messages = kept(publisher, publish(1, "amq.fanout", "", b"a"))
    of_channel = cast(Any, channel), publisher.returns
    commit(node, CommitPlanning(*of_channel, messages))
    assert counts(node) == [1] * len(QUEUES)
    assert publisher.fan_out is None
