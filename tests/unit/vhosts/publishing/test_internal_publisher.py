"""What the broker itself publishes, in one turn of the event loop or in several."""

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import pytest
from support.queue_samples import Node, bodies, declare_queue, fill, numbered, records, running_node

from routelog.exchanges import Binding, Route
from routelog.log_backend import (
    CLIENT_SECONDS,
    NOTHING,
    JournalFailed,
    Reason,
    Records,
    SystemClock,
)
from routelog.vhosts import PublishRefused, Queue, QueueProperties
from routelog.vhosts.messages.recipient import Recipient
from routelog.vhosts.publishing import fan_out, internal_publish
from routelog.vhosts.publishing.appending import QUEUES_BETWEEN_LOOKS
from routelog.vhosts.publishing.internal_publish import InternalPublish, OutgoingMessage, Posted
from routelog.vhosts.rules.dead_letters import RETRY_SECONDS

QUEUES = [f"q{number:03}" for number in range(6 * QUEUES_BETWEEN_LOOKS)]
NO_PROPERTIES = b"\0\0"


class HastyClock(SystemClock):
    """Every look at it takes longer than a turn."""

    looks = 0

    def monotonic(self) -> float:
        self.looks += 1
        return super().monotonic() + self.looks * 2 * CLIENT_SECONDS


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    """All queues are bound to the fanout exchange, and there is never time for another look."""
    async with running_node(tmp_path) as node:
        for name in QUEUES:
            declared(node, name)
            node.vhost.bind(Binding("amq.fanout", name, "queue", ""))
        node.vhost.post._ways = replace(node.vhost.post._ways, clock=HastyClock())
        node.turns.hurry()
        yield node


def declared(node: Node, name: str, **arguments: object) -> Queue:
    hyphened = {key.replace("_", "-"): value for key, value in arguments.items()}
    properties = QueueProperties(name, arguments=hyphened)
    return declare_queue(node.vhost, properties, object())[0]


def outgoing(*texts: str, key: bytes = b"k") -> list[OutgoingMessage]:
    return [OutgoingMessage(NO_PROPERTIES, (key,), text.encode()) for text in texts]


def held(node: Node, name: str) -> list[str]:
    """Take what a queue has."""
    found: list[str] = []
    while (delivery := node.vhost.queues[name].partitions[0].take(100, 1 << 20)) is not None:
        found += bodies(delivery)
    return found


def served(node: Node, count: int = 1) -> int:
    """How many queues have so many messages."""
    return sum(node.vhost.queues[name].ready == count for name in QUEUES)


def begin(node: Node, exchange: str, messages: list[OutgoingMessage]) -> list[Posted | None]:
    done: list[Posted | None] = []
    node.vhost.post.begin(exchange, messages, 0, b"", done.append)
    return done


def dying(node: Node, name: str, count: int, **more: object) -> Queue:
    """A queue whose messages have all been rejected."""
    queue = declared(node, name, x_dead_letter_exchange="amq.fanout", **more)
    fill(queue, count)
    reject(queue)
    return queue


def reject(queue: Queue) -> None:
    while (delivery := queue.partitions[0].take(100, 1 << 20)) is not None:
        end = delivery.offset + delivery.count
        delivery.partition.settle(delivery.offset, end, Reason.REJECTED)


def test_what_goes_to_few_queues_is_there_at_once(node: Node) -> None:
    assert begin(node, "", outgoing("a", key=QUEUES[0].encode())) == [Posted(NOTHING, frozenset())]
    assert held(node, QUEUES[0]) == ["a"]
    assert node.turns.one() == 0


def test_very_many_queues_are_served_in_turns_and_it_is_told_behind_the_last(node: Node) -> None:
    done = begin(node, "amq.fanout", outgoing("a"))
    counts = [served(node)]
    while not done:
        node.turns.one()
        counts.append(served(node))
    steps = [count for count, _ in groupby(counts)]
    assert steps == [QUEUES_BETWEEN_LOOKS * each for each in range(1, 7)]
    assert done == [Posted(NOTHING, frozenset())]


def test_a_publish_is_carried_out_whole_when_it_is_asked_for(node: Node) -> None:
    node.vhost.post.publish("amq.fanout", outgoing("a", "b"), 0)
    assert served(node, 2) == len(QUEUES)


def test_what_comes_meanwhile_waits_behind_it(node: Node) -> None:
    first = begin(node, "amq.fanout", outgoing("a", "b"))
    before = served(node, 2)
    second = begin(node, "", outgoing("c", key=QUEUES[0].encode()))
    assert served(node, 2) == before
    while not first:
        assert not second
        node.turns.one()
    node.turns.run()
    assert second
    assert all(held(node, name) == ["a", "b"] for name in QUEUES[1:])
    assert held(node, QUEUES[0]) == ["a", "b", "c"]


def test_many_messages_to_few_queues_take_several_turns_too(node: Node) -> None:
    queue, key = node.vhost.queues[QUEUES[0]], QUEUES[0].encode()
    done = begin(node, "", outgoing(*numbered(0, 40), key=key))
    behind = [begin(node, "", outgoing(text, key=key)) for text in numbered(40, 43)]
    counts = [queue.ready]
    while node.turns.one():
        counts.append(queue.ready)
    # 16 between two looks at the clock, and then one publish for each turn.
    assert [count for count, _ in groupby(counts)] == [16, 32, 40, 41, 42, 43]
    assert all((done, *behind))
    assert held(node, QUEUES[0]) == numbered(0, 43)


def test_a_queue_that_is_deleted_meanwhile_gets_nothing(node: Node) -> None:
    done = begin(node, "amq.fanout", outgoing("a"))
    last = node.vhost.queues[QUEUES[-1]]
    node.vhost.delete_queue(last)
    again = declared(node, QUEUES[-1])
    node.turns.run()
    assert done == [Posted(NOTHING, frozenset())]
    assert (last.ready, again.ready) == (0, 0)
    assert served(node) == len(QUEUES) - 1


def test_a_queue_that_is_deleted_before_its_route_has_its_turn_gets_nothing(node: Node) -> None:
    for name in QUEUES:
        node.vhost.bind(Binding("amq.direct", name, "queue", "many"))
    for name in ("one", "other"):
        declared(node, name)
        node.vhost.bind(Binding("amq.direct", name, "queue", "few"))
    letters = [outgoing(key, key=key.encode())[0] for key in ("many", "few")]
    done = begin(node, "amq.direct", letters)
    node.vhost.delete_queue(node.vhost.queues["other"])
    again = declared(node, "other")
    node.turns.run()
    assert done == [Posted(NOTHING, frozenset())]
    assert (held(node, "one"), again.ready) == (["few"], 0)


@pytest.mark.parametrize("limit", [1, 6, 12, 4_096])
def test_long_ways_that_share_queues_go_one_after_the_other(
    node: Node, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr(internal_publish, "NAMES_MAX", limit)
    together: list[int] = []

    def disjoint(chosen: dict[Route, list[int]]) -> dict[Route, list[int]]:
        together.append(len(chosen))
        assert len(chosen) == 1 or sum(map(len, chosen)) <= limit
        return fan_out.disjoint(chosen)

    monkeypatch.setattr(internal_publish, "disjoint", disjoint)
    for number, name in enumerate(QUEUES[:8]):
        for key in ("even", "all", "most")[number % 2 : 3 - number % 3 // 2]:
            node.vhost.bind(Binding("amq.direct", name, "queue", key))
    letters = [
        outgoing(f"{key}{n}", key=key.encode())[0]
        for n in range(3)
        for key in ("even", "all", "most")
    ]
    posted = node.vhost.post.publish("amq.direct", letters, 0)
    assert posted == Posted(NOTHING, frozenset())
    assert max(together) == (3 if limit == 4_096 else 1 if limit < 12 else 2)
    names = ["even", "all", "most"]
    for number, name in enumerate(QUEUES[:8]):
        keys = names[number % 2 : 3 - number % 3 // 2]
        assert held(node, name) == [f"{key}{n}" for n in range(3) for key in names if key in keys]


def test_it_is_told_which_messages_no_queue_took(node: Node) -> None:
    declared(node, "full", x_max_length=1, x_overflow="reject-publish")
    letters = [
        *outgoing("taken", "refused", key=b"full"),
        *outgoing("nowhere", key=b"none"),
        *outgoing("too much", key=b"full"),
    ]
    expected = Posted(NOTHING, frozenset((1, 2, 3)), frozenset((1, 3)))
    assert node.vhost.post.publish("", letters, 0) == expected
    held(node, "full")
    assert begin(node, "none", letters) == [Posted(NOTHING, frozenset(range(4)))]


def test_a_letter_comes_to_no_queue_that_it_has_been_in(node: Node) -> None:
    not_to = QUEUES[1:]
    message = OutgoingMessage(NO_PROPERTIES, (b"k",), b"a", not_to)
    assert node.vhost.post.publish("amq.fanout", [message], 0) == Posted(NOTHING, frozenset())
    assert served(node) == 1
    message = OutgoingMessage(NO_PROPERTIES, (b"k",), b"a", QUEUES)
    assert node.vhost.post.publish("amq.fanout", [message], 0) == Posted(NOTHING, frozenset())
    assert served(node) == 1


def test_an_error_behind_the_last_message_stops_nothing_else(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(publish: InternalPublish) -> None:
        raise ZeroDivisionError

    key = QUEUES[0].encode()
    with monkeypatch.context() as patch:
        patch.setattr(InternalPublish, "_tell_later", failing)
        done = begin(node, "", outgoing("a", key=key))
        node.turns.run()
    assert len(done) == 1
    assert begin(node, "", outgoing("b", key=key)) == [Posted(NOTHING, frozenset())]


def test_a_stop_publishes_what_is_left(node: Node) -> None:
    done = begin(node, "amq.fanout", outgoing("a"))
    also = begin(node, "amq.fanout", outgoing("b"))
    node.turns.scheduler.finish()
    assert len(done + also) == 2
    assert served(node, 2) == len(QUEUES)
    node.turns.run()
    assert served(node, 2) == len(QUEUES)


class Faulty:
    """A queue that takes no batch in which one body is."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)

    def publish(self, batch: Records, waited: bool) -> int:
        if b"bad" in bytes(batch.payload):
            raise ZeroDivisionError
        return self._queue.publish(batch, waited)


def with_a_fault(node: Node, name: str) -> None:
    ways = node.vhost.post._ways

    def recipients(route: Route) -> Iterable[Recipient]:
        for queue in ways.recipients(route):
            yield Faulty(queue) if queue is node.vhost.queues[name] else queue

    node.vhost.post._ways = replace(ways, recipients=recipients)


@pytest.mark.parametrize("whole", [True, False])
def test_an_error_of_ours_stops_only_the_message_that_it_comes_with(
    node: Node, caplog: pytest.LogCaptureFixture, whole: bool
) -> None:
    with_a_fault(node, QUEUES[-1])
    letters = outgoing("a", "b", "bad", "c")
    if whole:
        done: list[Posted | None] = [node.vhost.post.publish("amq.fanout", letters, 0)]
    else:
        done = begin(node, "amq.fanout", letters)
        node.turns.run()
    assert done == [Posted(NOTHING, frozenset(), failed=frozenset((2,)))]
    assert held(node, QUEUES[-1]) == ["a", "b", "c"]
    assert all({"a", "b", "c"} < set(held(node, name)) for name in QUEUES[:-1])
    assert len(caplog.records) == 1
    assert begin(node, "", outgoing("on", key=QUEUES[0].encode())) == [Posted(NOTHING, frozenset())]


def test_what_an_error_of_ours_brings_twice_is_judged_by_the_second_time(node: Node) -> None:
    declared(node, "full", x_max_length=1, x_overflow="reject-publish")
    letters = [
        *outgoing("taken", "refused", key=b"full"),
        *outgoing("nowhere", key=b"none"),
        *outgoing("bad", "good", key=QUEUES[0].encode()),
    ]
    with_a_fault(node, QUEUES[0])
    posted = node.vhost.post.publish("", letters, 0)
    # The first one came twice, and then there was no room for it.
    assert posted == Posted(NOTHING, frozenset((0, 1, 2)), frozenset((0, 1)), frozenset((3,)))
    assert (held(node, "full"), held(node, QUEUES[0])) == (["taken"], ["good"])


def test_an_error_on_the_way_brings_nothing_twice(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    route_all = node.vhost.routing.route_all

    def failing(exchange: str, keys: Sequence[bytes], *more: Any) -> Route:
        if keys == (b"bad",):
            raise ZeroDivisionError
        return route_all(exchange, keys, *more)

    monkeypatch.setattr(node.vhost.routing, "route_all", failing)
    key = QUEUES[0].encode()
    letters = [*outgoing("a", "b", key=key), *outgoing("c", key=b"bad"), *outgoing("d", key=key)]
    assert begin(node, "", letters) == []  # an error ends a turn
    node.turns.run()
    assert held(node, QUEUES[0]) == ["a", "b", "d"]


def test_an_error_behind_what_was_published_keeps_nobody_waiting(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(posted: Posted | None) -> None:
        raise ZeroDivisionError

    node.vhost.post.begin("amq.fanout", outgoing("a"), 0, b"", failing)
    done = begin(node, "", outgoing("b", key=QUEUES[0].encode()))
    node.turns.run()
    assert done == [Posted(NOTHING, frozenset())]
    assert len(caplog.records) == 1


def test_letters_are_settled_behind_the_last_queue_and_come_in_order(node: Node) -> None:
    source = dying(node, "source", 3)
    rules = source.rules
    assert rules is not None
    node.turns.one()
    assert rules.dead_letters.waiting == 3
    fill(source, 2)
    reject(source)
    while served(node, 5) < len(QUEUES):
        assert source.partitions[0].cursor.low_water < 5
        assert rules.dead_letters.waiting
        assert node.turns.one()
    node.turns.run()
    assert (source.partitions[0].cursor.low_water, rules.dead_letters.waiting) == (5, 0)
    assert all(held(node, name) == [*numbered(0, 3), *numbered(0, 2)] for name in QUEUES)


def test_letters_of_several_queues_share_the_time_of_a_turn(node: Node) -> None:
    for name in ("one", "two", "three"):
        dying(node, name, 1)
    counts = []
    while node.turns.one():
        counts.append(sum(node.vhost.queues[name].ready for name in QUEUES))
    most = max(after - before for before, after in pairwise(counts))
    assert most <= 2 * QUEUES_BETWEEN_LOOKS
    assert counts[-1] == 3 * len(QUEUES)


def test_what_a_full_queue_refuses_becomes_letters_in_turns_and_in_order(node: Node) -> None:
    source = declared(
        node,
        "source",
        x_dead_letter_exchange="amq.fanout",
        x_max_length=1,
        x_overflow="reject-publish-dlx",
    )
    fill(source, 1)
    for text in numbered(1, 4):
        with pytest.raises(PublishRefused):
            source.publish(records(text), waited=False)
    node.turns.run()
    assert all(held(node, name) == numbered(1, 4) for name in QUEUES)


def test_a_letter_that_one_of_very_many_refuses_is_tried_again(node: Node) -> None:
    last = QUEUES[-1]
    node.vhost.delete_queue(node.vhost.queues[last])
    full = declared(node, last, x_max_length=1, x_overflow="reject-publish")
    node.vhost.bind(Binding("amq.fanout", last, "queue", ""))
    more = {"x_overflow": "reject-publish", "x_dead_letter_strategy": "at-least-once"}
    source = dying(node, "source", 2, **more)
    node.turns.run()
    cursor = source.partitions[0].cursor
    assert (full.ready, cursor.low_water) == (1, 1)
    assert held(node, last) == ["m0"]
    full.partitions[0].settle(0, 1)
    node.turns.pass_seconds(RETRY_SECONDS)
    assert held(node, last) == ["m1"]
    assert cursor.low_water == 2


def test_a_disk_that_fails_meanwhile_leaves_the_originals(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = dying(node, "source", 1)
    node.turns.one()

    def failed(*_: object) -> int:
        raise JournalFailed(OSError("gone"))

    with monkeypatch.context() as patch:
        patch.setattr(internal_publish.InternalPublish, "go_on", failed)
        node.turns.run()
    assert source.partitions[0].cursor.low_water == 0
    assert not node.vhost.post._under_way
    begin(node, "", outgoing("others go on", key=QUEUES[0].encode()))
    assert held(node, QUEUES[0])[-1] == "others go on"


def test_an_error_behind_the_last_message_is_not_tried_for_ever(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(internal_publish.InternalPublish, "_settle_some", broken)
    with pytest.raises(ZeroDivisionError):
        node.vhost.post.publish("", [OutgoingMessage(b"\0\0", (b"nowhere",), b"m")], 0)
