"""An exchange with state, as a front's publishers see it; and direct replies."""

from __future__ import annotations

import asyncio

import pytest
from support.queue_samples import Node, records
from unit.vhosts.sessions.exchange_samples import (
    DELAYED,
    batch,
    declared,
    exchange,
    held,
)
from unit.vhosts.sessions.queue_places import Place
from unit.vhosts.sessions.session_pipe import PipedFront, ScriptedLeader

from routelog.exchanges import Binding, Exchange, held_name
from routelog.log_backend import PartitionLog
from routelog.vhosts import VirtualHost
from routelog.vhosts.publishing.appending import Appending
from routelog.vhosts.sessions.remote_exchange import RemoteExchange, RemoteExchanges


@pytest.fixture
async def vhost(node: Node) -> VirtualHost:
    """A vhost with queues `a` and `b`."""
    for name in ("a", "b"):
        await declared(node.vhost, name)
    return node.vhost


async def test_a_front_learns_what_no_queue_takes(
    node: Node, vhost: VirtualHost, place: Place
) -> None:
    if place.front is None:
        return
    exchange(vhost, DELAYED, "a", **{"x-delayed-type": "direct"})
    recipient = RemoteExchanges("/", place.front.link).recipient(held_name("x"))
    appending = place.appending
    for keys, returned in ((("a", "none", "a"), [1]), (("none",), [0]), (("a",), [])):
        appending.begin(True)
        messages = batch(*((key, key, {}) for key in keys))
        receipt = appending.append_run(messages, (recipient,), range(len(keys)))
        async with asyncio.timeout(30):
            while not appending.learn_outcomes():
                await place.rest()
        assert (appending.returned, appending.refused) == (returned, {})
        appending.returned.clear()
        await place.confirmed(receipt)
    assert held(vhost, "a") == [b"a"] * 3


async def test_messages_come_in_when_the_leader_has_them(
    node: Node, vhost: VirtualHost, place: Place
) -> None:
    if place.front is None:
        return
    exchange(vhost, DELAYED, "a", **{"x-delayed-type": "direct"})
    delayed = vhost.hosted.delays.held("x")
    exchanges = RemoteExchanges("/", place.front.link)
    assert delayed is not None
    before = node.logs.now()
    for recipient, headers in (
        (place.handle(vhost.queues["a"]), {}),
        (exchanges.recipient(held_name("x")), {}),
        (exchanges.recipient(held_name("x")), {"x-delay": 60_000}),
    ):
        messages = batch(("a", "m", headers))  # by a clock of 1970
        place.appending.begin(True)
        place.appending.append_run(messages, (recipient,), range(1))
    await place.rest()
    queued, held_log = vhost.queues["a"].partitions[0].log, next(filter(ended, delayed.logs))
    for log, offset in ((queued, 0), (queued, 1), (held_log, 0)):
        stored = log.read(offset)
        assert stored is not None
        assert before <= stored.records.time == stored.records.last_time <= node.logs.now()


def ended(log: PartitionLog) -> bool:
    return log.next_offset > 0


async def test_exchanges_that_are_deleted_are_forgotten_at_both_ends(
    node: Node, vhost: VirtualHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("routelog.vhosts.sessions.hosted_session.SWEEP_MIN", 4)
    place = Place(node, PipedFront(node))
    assert place.front is not None
    hosted, session = place.front.hosted, place.front.session
    hosted._sweep_at = 4
    exchanges = RemoteExchanges("/", place.front.link)
    kind = {"durable": False, "auto_delete": False, "internal": False}
    arguments = {"x-delayed-type": "fanout"}
    for at in range(20):
        name = f"x{at // 2}"  # each is declared again
        await place.value(
            vhost.declare_exchange(Exchange(name, DELAYED, arguments=arguments, **kind))
        )
        await place.value(vhost.bind(Binding(name, "a", "queue", "")))
        place.appending.begin(True)
        recipient = exchanges.recipient(held_name(name))
        receipt = place.appending.append_run(batch(("a", "m", {})), (recipient,), range(1))
        await place.confirmed(receipt)
        assert place.appending.learn_outcomes()
        await place.value(vhost.delete_exchange(name, if_unused=False))
        exchanges.forget(name)
        exchanges.forget(name)
    assert vhost.queues["a"].ready == 20
    assert (exchanges._exchanges, session._queues) == ({}, {})
    assert len(hosted._exchanges) <= 4
    place.front.cut()
    node.turns.run()


async def test_a_lost_session_refuses_nothing_and_confirms_nothing() -> None:
    leader = ScriptedLeader()
    leader.open()
    exchanges = RemoteExchanges("/", leader.link)
    recipient = exchanges.recipient(held_name("x"))
    assert isinstance(recipient, RemoteExchange)
    assert recipient is exchanges.recipient(held_name("x"))
    assert exchanges.recipient("x") is None
    assert str(recipient) == "exchange 'x' in vhost '/'"
    appending = Appending(leader.turns.scheduler)
    appending.begin(True)
    receipt = appending.append_run(records("a"), (recipient,), range(1))
    leader.session.lost("cut")
    assert appending.learn_outcomes()
    assert (appending.refused, appending.returned, receipt.is_covered()) == ({}, [], False)


async def test_replies_go_over_both_ways(node: Node) -> None:
    front = PipedFront(node)
    taken: list[tuple[bytes, bytes]] = []
    front.session.on_reply = lambda address, batch: taken.append((address, batch.body(0)))
    front.session.send_reply(b"there", records("to another node"))
    front.hosted.send_reply(b"here", records("to the front"))
    asked = [front.session.call("is_reply_open", each) for each in (b"open", b"closed")]
    front.carry()
    assert front.replies == [(b"there", b"to another node")]
    assert taken == [(b"here", b"to the front")]
    assert [await each for each in asked] == [True, False]
    front.hosted.outbox_bytes = lambda: 1 << 30
    front.hosted.send_reply(b"here", records("it does not read"))
    front.carry()
    assert len(taken) == 1
    front.cut()
    node.turns.run()
