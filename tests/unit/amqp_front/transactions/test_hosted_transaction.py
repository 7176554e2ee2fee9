"""A transaction at the leader's end: nothing of it happens before its end, and only its front's settlements."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from support.queue_samples import Node, records
from unit.vhosts.sessions.hand_front import HandFront, declared

from routelog.log_backend import Reason
from routelog.vhosts.errors import TransactionRefused
from routelog.vhosts.sessions import hosted_transaction
from routelog.vhosts.sessions.session_message import (
    PART,
    BadSessionMessage,
    Kind,
    SessionMessage,
    batch_pieces,
)


@pytest.fixture
async def front(node: Node) -> AsyncIterator[HandFront]:
    front = HandFront(node)
    yield front
    front.close()


def batch(front: HandFront, subject: int, *contents: str) -> None:
    """A part that publishes."""
    message = SessionMessage(Kind.PUBLISH, PART, subject=subject)
    front._deliver(batch_pieces(message, records(*contents)))


def settlement(front: HandFront, source: int, first: int, end: int) -> None:
    """A part that settles."""
    fields: dict[str, Any] = {"subject": source, "first": first, "count": end - first}
    front.send(Kind.SETTLE, flags=Reason.ACKED | PART, **fields)


def end(front: HandFront, number: int = 1_000) -> int:
    """The end of the parts; returns the number of the call."""
    front.send(Kind.TRANSACTION, number=number)
    return number


async def test_nothing_happens_before_the_end_and_then_all(node: Node, front: HandFront) -> None:
    queue, other = await declared(node), await declared(node, "other")
    subject, target = front.bind(queue), front.bind(other)
    front.publish(subject, "a", "b", "c")
    consumer = front.consume(subject, prefetch=3)
    assert front.bodies() == ["a", "b", "c"]
    batch(front, target, "x", "y")
    settlement(front, consumer, 0, 2)
    batch(front, target, "z")
    front.publish(subject, "d")
    front.run()
    assert (other.ready, queue.partitions[0].in_flight) == (0, 3)
    assert await front.answered(end(front)) is None
    assert other.ready == 3
    assert front.bodies() == ["d"]
    assert queue.partitions[0].in_flight == 2


async def test_its_messages_come_in_when_the_leader_has_them(node: Node, front: HandFront) -> None:
    queue = await declared(node)
    before = node.logs.now()
    batch(front, front.bind(queue), "a")
    await front.answered(end(front))
    stored = queue.partitions[0].log.read(0)
    assert stored is not None
    assert before <= stored.records.time == stored.records.last_time <= node.logs.now()


async def test_its_batches_have_no_number(node: Node, front: HandFront) -> None:
    subject = front.bind(await declared(node))
    batch(front, subject, "a")
    await front.answered(end(front))
    await front.confirmed_up_to(front.publish(subject, "b"))


async def test_an_empty_one_is_answered(front: HandFront) -> None:
    assert await front.answered(end(front)) is None


async def test_what_is_not_unsettled_ends_the_session_and_all_comes_back(
    node: Node, front: HandFront
) -> None:
    queue, other = await declared(node), await declared(node, "other")
    subject = front.bind(queue)
    front.publish(subject, "a", "b")
    consumer = front.consume(subject)
    front.run()
    batch(front, front.bind(other), "x")
    settlement(front, consumer, 0, 1)
    settlement(front, consumer, 1, 3)
    with pytest.raises(BadSessionMessage, match=r"messages 1 to 3 .* are not unsettled"):
        end(front)
    front.close()
    assert (queue.ready, other.ready) == (2, 0)


async def test_a_session_that_ends_between_parts_and_end_leaves_nothing(
    node: Node, front: HandFront
) -> None:
    queue, other = await declared(node), await declared(node, "other")
    subject = front.bind(queue)
    front.publish(subject, "a", "b")
    consumer = front.consume(subject)
    front.run()
    batch(front, front.bind(other), "x")
    settlement(front, consumer, 0, 2)
    front.close()
    assert (queue.ready, other.ready) == (2, 0)


async def test_what_a_refused_one_would_settle_comes_back_once(
    node: Node, front: HandFront
) -> None:
    full = await declared(node, "full", x_max_length=1, x_overflow="reject-publish")
    queue = await declared(node)
    subject, target = front.bind(queue), front.bind(full)
    front.publish(subject, "a", "b")
    consumer = front.consume(subject, prefetch=2)
    front.run()
    batch(front, target, "x", "y")
    settlement(front, consumer, 0, 1)
    number = end(front)
    with pytest.raises(TransactionRefused, match=r"queue 'full' .* is full"):
        await front.answered(number)
    (first, again) = front.deliveries()
    assert (first.bodies, first.redelivered) == (("a", "b"), False)
    assert (again.bodies, again.redelivered) == (("a",), True)
    front.close()
    assert (queue.ready, full.ready) == (2, 0)


async def test_a_consumer_that_has_left_settles_the_last_it_had(
    node: Node, front: HandFront
) -> None:
    queue = await declared(node)
    subject = front.bind(queue)
    front.publish(subject, "a")
    consumer = front.consume(subject)
    front.run()
    front.call("detach", [consumer], subject=subject)
    settlement(front, consumer, 0, 1)
    assert await front.answered(end(front)) is None
    assert (queue.ready, queue.partitions[0].in_flight) == (0, 0)
    with pytest.raises(BadSessionMessage, match=r"has nothing unsettled"):
        front.settle(consumer, 0, 1)


async def test_a_deleted_queue_gets_nothing(node: Node, front: HandFront) -> None:
    queue, other = await declared(node), await declared(node, "other")
    subject, target = front.bind(queue), front.bind(other)
    content = msgspec.msgpack.encode(["/", "nowhere"])
    nowhere = front.subject()
    front.send(Kind.QUEUE, subject=nowhere, number=999, content=content)
    batch(front, subject, "x")
    batch(front, nowhere, "y")
    batch(front, target, "z")
    node.vhost.delete_queue(queue)
    assert await front.answered(end(front)) is None
    assert other.ready == 1


async def test_one_that_is_too_large_ends_the_session(
    node: Node, front: HandFront, monkeypatch: pytest.MonkeyPatch
) -> None:
    subject = front.bind(await declared(node))
    monkeypatch.setattr(hosted_transaction, "PARTS_BYTES_MAX", 400)
    batch(front, subject, "x")
    with pytest.raises(BadSessionMessage, match=r"more than 400 bytes"):
        batch(front, subject, "x" * 300)


async def test_a_settlement_for_no_reason_ends_the_session(front: HandFront) -> None:
    with pytest.raises(BadSessionMessage, match=r"settled for reason"):
        front.send(Kind.SETTLE, flags=63 | PART, subject=1, count=1)
