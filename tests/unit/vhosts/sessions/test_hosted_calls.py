"""Calls of a front: what they answer, what they refuse, and what only a broken front sends."""

import asyncio
from typing import Any

import msgspec
import pytest
from support.queue_samples import (
    Node,
    Taker,
    declare_queue,
    delete_queue,
    got,
    numbered,
)
from support.waiting import until
from unit.log_backend.open_store import flushed
from unit.vhosts.sessions.hand_front import ACTOR, HandFront, declared

from routelog.exchanges import (
    Binding,
    ExchangeInequivalent,
    ExchangeInUse,
    ExchangeNotFound,
    QueueNotFound,
    ReservedName,
)
from routelog.log_backend import MetadataUnavailable
from routelog.vhosts import (
    GetRefused,
    InvalidQueueArgument,
    Queue,
    QueueInequivalent,
    QueueInUse,
    QueueLocked,
    QueueNotEmpty,
    QueueProperties,
    SessionLost,
    VhostNotFound,
    current_actor,
    encoded_arguments,
)
from routelog.vhosts.sessions.session_message import (
    OUTBOX_BYTES_MAX,
    BadSessionMessage,
    Kind,
    records_of,
)

NO_ARGUMENTS = encoded_arguments({})
EXCHANGE: dict[str, Any] = {
    "kind": "topic",
    "durable": True,
    "auto_delete": False,
    "internal": False,
    "arguments": NO_ARGUMENTS,
}
QUEUE: dict[str, Any] = {
    "durable": True,
    "exclusive": False,
    "auto_delete": False,
    "arguments": NO_ARGUMENTS,
    "server_named": False,
}


# -- get


async def test_get_hands_out_one_message(front: HandFront, queue: Queue, subject: int) -> None:
    front.publish(subject, *numbered(0, 3))
    got = front.answer(front.call("get", False, subject=subject))
    assert records_of(got.pop("batch")).body(0) == b"m0"
    assert got == {"ready": 2, "partition": 0, "offset": 0, "redelivered": False, "count": 0}
    assert (queue.unacked, queue.counters.get) == (1, 1)
    front.settle(subject, 0, 1)
    assert queue.unacked == 0
    got = front.answer(front.call("get", False, subject=subject))
    front.give_back(subject, 1, 2)
    got = front.answer(front.call("get", False, subject=subject))
    assert (got["offset"], got["redelivered"], got["count"]) == (1, True, 1)


async def test_large_messages_are_got(front: HandFront, subject: int) -> None:
    front.publish(subject, b"x" * 1_000_000)
    got = front.answer(front.call("get", False, subject=subject))
    assert records_of(got["batch"]).body(0) == b"x" * 1_000_000


async def test_get_waits_for_the_disk(
    node: Node, front: HandFront, queue: Queue, subject: int
) -> None:
    front.publish(subject, "m0", "m1")
    await flushed(node.logs)
    queue.partitions[0].log.evict(10**9)
    first = front.call("get", False, subject=subject)
    assert not front.has_answer(first)
    got = await front.answered(first)
    assert got["offset"] == 0


async def test_what_was_got_too_late_comes_back(
    node: Node, front: HandFront, queue: Queue, subject: int
) -> None:
    front.publish(subject, "m0", "m1")
    await flushed(node.logs)
    queue.partitions[0].log.evict(10**9)
    front.call("get", False, subject=subject)
    front.close()
    await until(lambda: not front.session._calls)
    assert (queue.unacked, queue.ready) == (0, 2)
    assert not front.take(Kind.ANSWER)


async def test_a_paused_queue_gives_to_operators_only(
    front: HandFront, queue: Queue, subject: int
) -> None:
    front.publish(subject, "m0")
    queue.pause()
    assert front.answer(front.call("get", False, subject=subject)) is None
    assert front.answer(front.call("get", True, subject=subject))["offset"] == 0


async def test_a_single_active_consumer_gets_all(node: Node, front: HandFront) -> None:
    subject = front.bind(await declared(node, x_single_active_consumer=True))
    with pytest.raises(GetRefused):
        front.answer(front.call("get", False, subject=subject))


async def test_what_was_got_is_not_a_consumers(
    front: HandFront, queue: Queue, subject: int
) -> None:
    front.publish(subject, "m0")
    consumer = front.consume(subject)
    front.run()
    with pytest.raises(BadSessionMessage, match=r"not unsettled"):
        front.settle(subject, 0, 1)
    front.settle(consumer, 0, 1)
    assert queue.unacked == 0


async def test_what_was_got_comes_back_with_the_end(
    node: Node, front: HandFront, queue: Queue, subject: int
) -> None:
    queue.add_consumer(taker := Taker(0))
    front.publish(subject, *numbered(0, 3))
    for _ in range(2):
        front.answer(front.call("get", False, subject=subject))
    front.close()
    assert (queue.unacked, queue.ready) == (0, 3)
    taker.prefetch = None
    queue.wake()
    front.run()
    assert taker.bodies() == numbered(0, 3)


async def test_a_get_that_nobody_waits_for_takes_nothing(
    front: HandFront, queue: Queue, subject: int
) -> None:
    front.publish(subject, "m0")
    content = msgspec.msgpack.encode(["get", False])
    front.send(Kind.CALL, subject=subject, content=content)
    assert (queue.ready, queue.unacked) == (1, 0)
    assert not front.take(Kind.ANSWER)


# -- other calls of a queue


async def test_who_declares_passively_uses_the_queue(node: Node, front: HandFront) -> None:
    queue = await declared(node, "e", x_expires=10_000)
    subject = front.bind(queue)
    for _ in range(3):
        node.turns.pass_seconds(9)
        front.call("counts", subject=subject)
    assert not queue.deleted
    node.turns.pass_seconds(10)
    assert queue.deleted


async def test_a_call_of_number_0_is_not_answered(
    front: HandFront, queue: Queue, subject: int
) -> None:
    front.publish(subject, "m")
    front.send(Kind.CALL, subject=subject, content=msgspec.msgpack.encode(["purge"]))
    front.send(Kind.CALL, content=msgspec.msgpack.encode(["connection_closed", "nowhere", 3]))
    assert queue.ready == 0
    assert not front.take(Kind.ANSWER)


@pytest.mark.parametrize("method", ["get", "purge", "counts", "consume", "stand_aside"])
async def test_a_deleted_queue_is_not_found(
    node: Node, front: HandFront, queue: Queue, subject: int, method: str
) -> None:
    delete_queue(node.vhost, queue)
    usual: dict[str, list[Any]] = {
        "get": [False],
        "consume": [front.wanted(consumer=9)],
        "stand_aside": [9],
    }
    with pytest.raises(QueueNotFound, match=r"no queue 'q' in vhost '/'"):
        front.answer(front.call(method, *usual.get(method, ()), subject=subject))
    assert not front.session._consumers


async def test_consumers_are_those_of_the_queue(node: Node, front: HandFront, subject: int) -> None:
    other = front.bind(await declared(node, "other"))
    consumer = front.consume(subject)
    for method, argument in (("cancel", consumer), ("detach", [consumer])):
        with pytest.raises(BadSessionMessage, match=r"another queue"):
            front.call(method, argument, subject=other)
    with pytest.raises(BadSessionMessage, match=r"another queue"):
        front.call("stand_aside", consumer, subject=other)


BROKEN: list[tuple[str, list[Any]]] = [
    ("get", []),
    ("get", [1]),
    ("get", [False, 1]),
    ("purge", [1]),
    ("cancel", ["x"]),
    ("cancel", [0]),
    ("cancel", [1 << 32]),
    ("lapsed", [1, -1]),
    ("lapsed", [1, 1 << 32]),
    ("detach", [1]),
    ("detach", [["x"]]),
    ("consume", []),
    ("consume", [{}]),
    ("consume", [None]),
    ("redeliver", [{"consumer": 1, "partition": 0, "first": -1, "end": 1}]),
    ("redeliver", [{"consumer": 9, "partition": 0, "first": 0, "end": 1}]),
    ("declare_queue", []),
    ("_consume", []),
    ("", []),
]


@pytest.mark.parametrize(("method", "arguments"), BROKEN)
async def test_what_no_front_sends_ends_the_session(
    front: HandFront, subject: int, method: str, arguments: list[Any]
) -> None:
    with pytest.raises(BadSessionMessage):
        front.call(method, *arguments, subject=subject)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("consumer", 0),
        ("consumer", 1),
        ("tag", 7),
        ("no_ack", 1),
        ("priority", 1 << 63),
        ("prefetch", -1),
        ("group", ["g"]),
        ("group", ["g", -1, None]),
        ("filter", []),
        ("unknown", 1),
    ],
)
async def test_keywords_of_consume_have_their_types(
    front: HandFront, subject: int, key: str, value: object
) -> None:
    with pytest.raises(BadSessionMessage):
        front.consume(subject, **{"consumer": 9, key: value})
    assert not front.session._consumers


@pytest.mark.parametrize("content", [b"", b"\xc1", b"\x90", b"\x91\x01", b"\x80", b"\x91\xc4\x01x"])
async def test_what_is_no_call_ends_the_session(front: HandFront, content: bytes) -> None:
    with pytest.raises(BadSessionMessage):
        front.send(Kind.CALL, number=1, content=content)


async def test_calls_that_wait_have_a_limit(
    node: Node, front: HandFront, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("routelog.vhosts.sessions.hosted_session.CALLS_MAX", 2)
    for at in range(2):
        front.define("declare_queue", name=f"q{at}", **QUEUE)
    with pytest.raises(BadSessionMessage, match=r"call 2"):
        front.define("declare_queue", name="q2", **QUEUE)
    await until(lambda: not front.session._calls)


# -- definitions


async def test_a_queue_is_declared(node: Node, front: HandFront) -> None:
    arguments = encoded_arguments({"x-max-length": 7, "x-partitions": 2})
    said = QUEUE | {"arguments": arguments}
    number = front.define("declare_queue", name="new", **said)
    assert not front.has_answer(number)
    assert await front.answered(number) == [0, 0]
    queue = node.vhost.queues["new"]
    assert len(queue.partitions) == 2
    assert queue.properties.arguments == {"x-max-length": 7, "x-partitions": 2}
    assert queue.properties.user == "guest"
    front.publish(front.bind(queue), "m")
    again = front.define("declare_queue", name="new", **said)
    assert await front.answered(again) == [1, 0]


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"name": "amq.q"}, ReservedName),
        ({"name": "q", "auto_delete": True}, QueueInequivalent),
        (
            {"name": "new", "arguments": encoded_arguments({"x-max-length": "x"})},
            InvalidQueueArgument,
        ),
    ],
)
async def test_declarations_are_refused(
    front: HandFront, queue: Queue, changes: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        await front.answered(front.define("declare_queue", **(QUEUE | changes)))


async def test_an_exclusive_queue_is_of_one_connection(node: Node, front: HandFront) -> None:
    said = QUEUE | {"name": "mine", "exclusive": True, "durable": False}
    await front.answered(front.define("declare_queue", 5, **said))
    queue = node.vhost.queues["mine"]
    await front.answered(front.define("declare_queue", 5, **said))
    for connection in (6, 7):
        with pytest.raises(QueueLocked):
            await front.answered(front.define("declare_queue", connection, **said))
        conditions = {"name": "mine", "if_unused": False, "if_empty": False}
        with pytest.raises(QueueLocked):
            await front.answered(front.define("delete_queue", connection, **conditions))
    other = HandFront(node, "other")
    with pytest.raises(QueueLocked):
        await other.answered(other.define("declare_queue", 5, **said))
    await front.answered(front.call("connection_closed", "/", 6))
    assert not queue.deleted
    await front.answered(front.call("connection_closed", "/", 5))
    assert queue.deleted
    await front.answered(front.call("connection_closed", "/", 5))


@pytest.mark.parametrize("method", ["detach", "cancel"])
async def test_consumers_have_left_when_the_queue_that_goes_with_them_is_gone(
    node: Node, front: HandFront, method: str
) -> None:
    properties = QueueProperties("auto", durable=True, auto_delete=True)
    queue, durable = declare_queue(node.vhost, properties, object())
    assert durable is not None
    await durable
    subject = front.bind(queue)
    consumers = [front.consume(subject) for _ in range(2)]
    argument = [[each] for each in consumers] if method == "detach" else consumers
    assert front.answer(front.call(method, argument[0], subject=subject)) is None
    left = front.call(method, argument[1], subject=subject)
    assert queue.deleted
    assert not front.has_answer(left)
    await front.answered(left)
    assert node.vhost.undecided() is None


async def test_what_was_sent_before_is_carried_out(front: HandFront) -> None:
    assert front.answer(front.call("carried_out")) is None


async def test_a_queue_is_deleted(node: Node, front: HandFront, queue: Queue, subject: int) -> None:
    front.publish(subject, "m0")
    consumer = front.consume(subject, prefetch=1)
    front.publish(subject, "m1")
    front.run()
    for conditions, error in (
        ({"if_unused": True, "if_empty": False}, QueueInUse),
        ({"if_unused": False, "if_empty": True}, QueueNotEmpty),
    ):
        with pytest.raises(error):
            front.answer(front.define("delete_queue", name="q", **conditions))
    conditions = {"if_unused": False, "if_empty": False}
    assert await front.answered(front.define("delete_queue", name="q", **conditions)) == 1
    assert front.ended() == [(consumer, None)]
    assert "q" not in node.vhost.queues
    assert await front.answered(front.define("delete_queue", name="q", **conditions)) == 0


async def test_a_front_asks_again_for_a_deletion_that_waited_for_consumers(
    node: Node, front: HandFront, queue: Queue
) -> None:
    conditions = {"name": "q", "if_unused": True, "if_empty": False}
    node.vhosts.await_consumers()
    asked = front.define("delete_queue", **conditions)
    front.run()
    assert not front.has_answer(asked)
    node.vhosts.consumers_back()
    with pytest.raises(SessionLost):
        await front.answered(asked)
    assert not queue.deleted
    assert await front.answered(front.define("delete_queue", **conditions)) == 0
    assert queue.deleted


async def test_exchanges_and_bindings(node: Node, front: HandFront) -> None:
    await front.answered(front.define("declare_exchange", name="x", **EXCHANGE))
    await front.answered(front.define("declare_exchange", name="y", **EXCHANGE))
    await front.answered(front.define("exchange_declared", name="x"))
    await front.answered(front.define("declare_queue", name="q", **QUEUE))
    ends = {"source": "x", "routing_key": "a.*", "arguments": encoded_arguments({"n": 1})}
    await front.answered(front.define("bind_queue", destination="q", **ends))
    await front.answered(front.define("bind_exchange", destination="y", **ends))
    assert node.vhost.binding_count == 2
    with pytest.raises(ExchangeInUse):
        front.answer(front.define("delete_exchange", name="x", if_unused=True))
    await front.answered(front.define("unbind_queue", destination="q", **ends))
    await front.answered(front.define("unbind_exchange", destination="y", **ends))
    assert node.vhost.binding_count == 0
    await front.answered(front.define("delete_exchange", name="x", if_unused=True))
    with pytest.raises(ExchangeNotFound):
        front.answer(front.define("exchange_declared", name="x"))
    with pytest.raises(ExchangeInequivalent):
        front.answer(front.define("declare_exchange", name="y", **(EXCHANGE | {"kind": "fanout"})))
    with pytest.raises(QueueNotFound):
        front.answer(front.define("bind_queue", destination="no", **(ends | {"source": "y"})))


async def test_an_unknown_vhost(front: HandFront) -> None:
    with pytest.raises(VhostNotFound):
        front.answer(front.call("exchange_declared", "nowhere", ACTOR, 1, {"name": "x"}))


async def test_changes_are_of_the_clients_user(
    node: Node, front: HandFront, monkeypatch: pytest.MonkeyPatch
) -> None:
    actors: list[object] = []
    monkeypatch.setattr(node.vhost, "exchange_declared", lambda _: actors.append(current_actor()))
    front.define("exchange_declared", name="x")
    (actor,) = actors
    assert actor is not None
    assert [actor.user, actor.address, actor.door] == ACTOR  # type: ignore[attr-defined]
    assert current_actor() is None


async def test_a_name_with_bindings_left_is_waited_for(node: Node, front: HandFront) -> None:
    queue = await declared(node)
    for key in range(1_000):
        node.vhost.bind(Binding("amq.topic", "q", "queue", f"k{key}"))
    delete_queue(node.vhost, queue)
    assert node.vhost.routing.has_departed("queue", "q")
    number = front.define("declare_queue", name="q", **QUEUE)
    mine = front.define(
        "declare_queue", 5, **(QUEUE | {"name": "q", "exclusive": True, "durable": False})
    )
    front.call("connection_closed", "/", 5)
    assert await front.answered(number) == [0, 0]
    assert node.vhost.queues["q"].number > queue.number
    with pytest.raises((QueueNotFound, QueueInequivalent)):
        await front.answered(mine)


async def test_a_closed_journal_refuses_changes(node: Node, front: HandFront) -> None:
    node.writer.stop()
    with pytest.raises(MetadataUnavailable):
        front.answer(front.define("declare_queue", name="q", **QUEUE))


async def test_a_fault_of_ours_is_answered(
    node: Node,
    front: HandFront,
    subject: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(node.vhost, "exchange_declared", lambda _: 1 // 0)
    with pytest.raises(RuntimeError, match=r"an error of the broker"):
        front.answer(front.define("exchange_declared", name="x"))
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("exchange_declared", []),
        ("exchange_declared", ["/", ACTOR, 1]),
        ("exchange_declared", ["/", ACTOR, 1, {}]),
        ("exchange_declared", ["/", ACTOR, 1, {"name": 1}]),
        ("exchange_declared", ["/", ACTOR, -1, {"name": "x"}]),
        ("exchange_declared", ["/", ["guest"], 1, {"name": "x"}]),
        ("exchange_declared", ["/", ACTOR, 1, {"name": "x", "more": 1}]),
        ("declare_exchange", ["/", ACTOR, 1, EXCHANGE | {"name": "x", "arguments": b"\xff"}]),
        ("connection_closed", []),
        ("connection_closed", ["/", "x"]),
        ("purge", []),
        ("clear", ["/", ACTOR, 1, {}]),
    ],
)
async def test_broken_definitions_end_the_session(
    front: HandFront, method: str, arguments: list[Any]
) -> None:
    with pytest.raises(BadSessionMessage):
        front.call(method, *arguments)


async def test_a_subject_that_was_not_named_is_not_called(front: HandFront) -> None:
    with pytest.raises(BadSessionMessage, match=r"was named"):
        front.call("purge", subject=3)


async def test_deleted_queues_that_are_forgotten_are_not_found(
    node: Node, front: HandFront, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("routelog.vhosts.sessions.hosted_session.SWEEP_MIN", 1)
    front.session._sweep_at = 1
    queue, _ = declare_queue(node.vhost, QueueProperties("gone"), object())
    gone = front.bind(queue)
    delete_queue(node.vhost, queue)
    front.bind(await declared(node))
    front.bind(await declared(node))
    assert gone not in front.session._queues
    with pytest.raises(QueueNotFound):
        front.answer(front.call("purge", subject=gone))
    assert front.answer(front.call("detach", [77], subject=gone)) is None
    assert got(node.vhost.queues["q"]) is None


async def test_get_waits_while_much_is_unsent(front: HandFront, queue: Queue, subject: int) -> None:
    front.publish(subject, *numbered(0, 4))
    front.outbox = OUTBOX_BYTES_MAX + 1
    calls = [front.call("get", False, subject=subject) for _ in range(3)]
    await settled_down(front)
    assert queue.ready == 4
    front.outbox = 0
    late = front.call("get", False, subject=subject)  # behind the others
    await settled_down(front)
    front.session.drained()
    offsets = [(await front.answered(each))["offset"] for each in (*calls, late)]
    assert offsets == [0, 1, 2, 3]
    assert front.session.room() is None


async def test_gets_wait_again_when_one_fills_the_outbox(
    front: HandFront, queue: Queue, subject: int
) -> None:
    front.publish(subject, *numbered(0, 2))
    front.outbox = OUTBOX_BYTES_MAX + 1
    first, second = (front.call("get", False, subject=subject) for _ in range(2))
    front.outbox = 0
    front.session.drained()
    front.outbox = OUTBOX_BYTES_MAX + 1  # of the first one
    await front.answered(first)
    await settled_down(front)
    assert not front.has_answer(second)
    front.close()
    await settled_down(front)
    assert (queue.ready, queue.unacked) == (2, 0)
    delivery = got(queue)
    assert delivery is not None
    assert not front.session._calls


async def settled_down(front: HandFront) -> None:
    for _ in range(5):
        front.run()
        await asyncio.sleep(0)
