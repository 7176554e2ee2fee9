"""What fronts send to exchanges with state, at the leader."""

from __future__ import annotations

from array import array

import pytest
from support.queue_samples import Node
from unit.vhosts.sessions.exchange_samples import (
    DEDUPLICATION,
    DELAYED,
    HISTORY,
    batch,
    declared,
    exchange,
    held,
    named,
)
from unit.vhosts.sessions.hand_front import HandFront

from routelog.exchanges import Binding
from routelog.log_backend import BLIND_COPIES, PERSISTENT, Records
from routelog.vhosts import VirtualHost
from routelog.vhosts.sessions import exchange_batch
from routelog.vhosts.sessions.exchange_batch import route_batch
from routelog.vhosts.sessions.session_message import Kind


@pytest.fixture
async def vhost(node: Node) -> VirtualHost:
    """A vhost with queues `a` and `b`."""
    for name in ("a", "b"):
        await declared(node.vhost, name)
    return node.vhost


def routed(node: Node, records: Records) -> tuple[list[int], list[int]]:
    """What is refused, and what is returned, of a batch."""
    found = route_batch(node.vhost, "x", records, node.turns.scheduler, waited=True)
    return list(found.untaken.refused), list(found.untaken.returned)


async def test_what_comes_twice_is_stored_once(node: Node, vhost: VirtualHost) -> None:
    exchange(vhost, DEDUPLICATION, "a", **{"x-cache-size": 10})
    seen = {"x-deduplication-header": "1"}
    messages = batch(("a", "first", seen), ("a", "again", seen))
    assert routed(node, messages) == ([], [])
    assert routed(node, batch(("a", "later", seen))) == ([], [])
    assert held(vhost, "a") == [b"first"]


async def test_history_is_handed_to_a_queue_that_is_bound_later(
    node: Node, vhost: VirtualHost
) -> None:
    exchange(vhost, HISTORY, "a")
    count = 100  # more than are looked at at a time
    routed(node, batch(*(("a", f"m{at}", {}) for at in range(count))))
    assert held(vhost, "a") == [b"m%d" % at for at in range(count)]
    vhost.bind(Binding("x", "b", "queue", ""))
    assert held(vhost, "b")[-1] == b"m99"


async def test_a_delayed_message_is_held_and_another_is_routed(
    node: Node, vhost: VirtualHost
) -> None:
    exchange(vhost, DELAYED, "a", "b", **{"x-delayed-type": "direct"})
    messages = batch(("a", "late", {"x-delay": 60_000}), ("b", "m", {}), ("none", "m", {}))
    assert routed(node, messages) == ([], [2])
    delayed = vhost.hosted.delays.held("x")
    assert delayed is not None
    assert (delayed.count, held(vhost, "a"), held(vhost, "b")) == (1, [], [b"m"])


async def test_copies_are_routed_and_blind_ones_marked(node: Node, vhost: VirtualHost) -> None:
    exchange(vhost, HISTORY, "a", "b")
    message = ("none", "m", {"BCC": ["a"], "CC": ["b", "a"]})
    assert routed(node, batch(message, attributes=PERSISTENT | BLIND_COPIES)) == ([], [])
    delivery = vhost.queues["a"].get()
    assert delivery is not None
    assert delivery.records.attributes & BLIND_COPIES
    assert (held(vhost, "a"), held(vhost, "b")) == ([], [b"m"])


async def test_a_full_queue_refuses(node: Node, vhost: VirtualHost) -> None:
    await declared(vhost, "full", max_length=1, overflow="reject-publish")
    exchange(vhost, DEDUPLICATION, "full", **{"x-cache-size": 10})
    keyed = [("full", f"m{at}", {"x-deduplication-header": str(at)}) for at in range(2)]
    assert routed(node, batch(*keyed)) == ([1], [])
    assert held(vhost, "full") == [b"m0"]


async def test_an_exchange_that_is_gone_refuses(node: Node, vhost: VirtualHost) -> None:
    assert routed(node, batch(("a", "m", {}), ("a", "n", {}))) == ([0, 1], [])


async def test_an_error_of_the_broker_refuses_and_is_logged(
    node: Node,
    vhost: VirtualHost,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    exchange(vhost, HISTORY, "a")

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(exchange_batch, "batches_of", broken)
    assert routed(node, batch(("a", "m", {}))) == ([0], [])
    assert "an error of the broker" in caplog.text


async def test_a_session_says_what_became_of_a_batch(node: Node, vhost: VirtualHost) -> None:
    exchange(vhost, HISTORY)
    vhost.bind(Binding("x", "a", "queue", "k"))
    front = HandFront(node)
    subject = front.subject()
    front.send(Kind.QUEUE, subject=subject, content=named("/", "x"))
    front.publish(subject, "m", "n")
    front.publish(subject, "o")
    await front.confirmed_up_to(2)
    assert [(each.number, each.first, each.count) for each in front.take(Kind.ROUTED)] == [
        (1, 0, 0),
        (2, 0, 0),
    ]
    assert held(vhost, "a") == [b"m", b"n", b"o"]
    vhost.unbind(Binding("x", "a", "queue", "k"))
    front.publish(subject, "p", "q")
    vhost.delete_exchange("x", if_unused=False)
    front.publish(subject, "r")
    gone = front.subject()
    front.send(Kind.QUEUE, subject=gone, content=named("gone", "x"))
    front.publish(gone, "s")
    await front.confirmed_up_to(5)
    assert [(m.number, m.first, m.count, bytes(m.content)) for m in front.take(Kind.ROUTED)] == [
        (3, 0, 2, array("I", [0, 1]).tobytes()),
        (4, 1, 0, array("I", [0]).tobytes()),
        (5, 1, 0, array("I", [0]).tobytes()),
    ]
    front.close()
