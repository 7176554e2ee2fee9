"""Publisher confirms, returns and transactions, frame by frame."""

from __future__ import annotations

import pytest
from pamqp import commands
from scenarios.clients.bad_input import Peer
from scenarios.clients.raw_client import (
    content_body,
    content_header,
    message,
    method,
    publish,
    short,
)

Basic, Confirm, Queue, Tx = commands.Basic, commands.Confirm, commands.Queue, commands.Tx

MANDATORY = 1
PERSISTENT = b"\x10\0\2"  # flags and delivery-mode


@pytest.fixture
def confirming(peer: Peer) -> Peer:
    peer.queue  # noqa: B018
    peer.call(Confirm.Select(), Confirm.SelectOk)
    return peer


def confirmed_tags(peer: Peer, last: int) -> list[int]:
    """The tags acked, in order, until the last one is."""
    tags: list[int] = []
    while not tags or tags[-1] < last:
        ack = peer.expect(Basic.Ack)
        first = (tags[-1] + 1 if tags else 1) if ack.multiple else ack.delivery_tag
        tags.extend(range(first, ack.delivery_tag + 1))
    return tags


def test_tags_are_confirmed_once_each_from_one(confirming: Peer):
    for number in range(100):
        confirming.send_bytes(message(confirming.queue, b"%d" % number))
    assert sorted(confirmed_tags(confirming, 100)) == list(range(1, 101))


def test_messages_published_before_confirm_select_do_not_count(peer: Peer):
    peer.send_bytes(message(peer.queue, b"before"))
    peer.call(Confirm.Select(), Confirm.SelectOk)
    peer.send_bytes(message(peer.queue, b"after"))
    assert peer.expect(Basic.Ack).delivery_tag == 1


def test_select_twice_counts_on(confirming: Peer):
    confirming.send_bytes(message(confirming.queue, b"a"))
    assert confirming.expect(Basic.Ack).delivery_tag == 1
    confirming.call(Confirm.Select(), Confirm.SelectOk)
    confirming.send_bytes(message(confirming.queue, b"b"))
    assert confirming.expect(Basic.Ack).delivery_tag == 2


def test_select_without_wait_is_not_answered(peer: Peer):
    peer.do(Confirm.Select(nowait=True))
    peer.send_bytes(message("nobody", b"x"))
    assert peer.expect(Basic.Ack).delivery_tag == 1


def test_each_channel_counts_for_itself(confirming: Peer):
    confirming.open_channel(2)
    confirming.call(Confirm.Select(), Confirm.SelectOk, 2)
    for channel in (1, 2):
        confirming.send_bytes(message(confirming.queue, b"x", channel=channel))
    acked = [confirming.receive() for _ in range(2)]
    assert sorted((channel, ack.delivery_tag) for channel, ack in acked) == [(1, 1), (2, 1)]


def test_a_mandatory_message_is_returned_before_it_is_confirmed(confirming: Peer):
    content = content_header(4) + content_body(b"back")
    confirming.send_bytes(publish("amq.direct", "nobody", MANDATORY) + content)
    returned = confirming.expect(Basic.Return)
    assert (returned.reply_code, returned.reply_text) == (312, "NO_ROUTE")
    assert confirming.receive_content()[1] == b"back"
    assert confirming.expect(Basic.Ack).delivery_tag == 1


def test_a_mandatory_message_that_is_routed_is_not_returned(confirming: Peer):
    content = content_header(1) + content_body(b"x")
    confirming.send_bytes(publish("", confirming.queue, MANDATORY) + content)
    assert confirming.expect(Basic.Ack).delivery_tag == 1


def test_routed_and_unroutable_messages_are_confirmed_alike(confirming: Peer):
    for number in range(30):
        key = confirming.queue if number % 3 else "nobody"
        confirming.send_bytes(message(key, b"x", PERSISTENT))
    assert sorted(confirmed_tags_in_any_order(confirming, 30)) == list(range(1, 31))


def confirmed_tags_in_any_order(peer: Peer, count: int) -> set[int]:
    """The tags acked until there are this many; `multiple` covers all open ones up to it."""
    tags: set[int] = set()
    while len(tags) < count:
        ack = peer.expect(Basic.Ack)
        covered = range(1, ack.delivery_tag + 1) if ack.multiple else [ack.delivery_tag]
        tags.update(covered)
    return tags


def test_a_confirm_of_a_durable_queue_comes_without_further_input(confirming: Peer):
    queue = confirming.declare(confirming.name, exclusive=True, durable=True)
    confirming.send_bytes(message(queue, b"x", PERSISTENT))
    assert confirming.expect(Basic.Ack).delivery_tag == 1


def test_a_message_consumed_at_once_is_confirmed_too(confirming: Peer):
    confirming.call(Basic.Consume(queue=confirming.queue, no_ack=True), Basic.ConsumeOk)
    confirming.send_bytes(message(confirming.queue, b"x"))
    seen: set[str] = set()
    while seen != {"Basic.Ack", "Basic.Deliver"}:
        _, value = confirming.receive()
        seen |= {value.name} & {"Basic.Ack", "Basic.Deliver"}


def test_a_channel_closed_for_an_error_confirms_what_came_before(confirming: Peer):
    confirming.send_bytes(message(confirming.queue, b"good"))
    confirming.send_bytes(publish("nowhere", "k") + content_header(1) + content_body(b"x"))
    closed = None
    acked = set()
    while closed is None:
        _, value = confirming.receive()
        if isinstance(value, Basic.Ack):
            acked.add(value.delivery_tag)
        if isinstance(value, commands.Channel.Close):
            closed = value
    assert closed.reply_code == 404
    assert 2 not in acked
    confirming.do(commands.Channel.CloseOk())
    confirming.open_channel()
    assert confirming.get(confirming.queue) == b"good"


CLOSERS = {
    "404 of a publish": (publish("nowhere", "k") + content_header(1) + content_body(b"x"), 404),
    "404 of a passive declare": (method(50, 10, b"\0\0" + short("nowhere") + b"\1\0\0\0\0"), 404),
    "406 of an unknown tag": (method(60, 80, b"\0\0\0\0\0\0\0\x4d\0"), 406),
    "505 of a body without publish": (content_body(b"x"), 505),
    "channel.close": (method(20, 40, b"\0\xc8\0\0\0\0\0"), 0),
    "connection.close": (method(10, 50, b"\0\xc8\0\0\0\0\0", 0), 0),
}


@pytest.mark.parametrize("mandatory", [0, MANDATORY])
@pytest.mark.parametrize("closer", CLOSERS)
def test_what_is_confirmed_already_is_told_before_a_close(
    confirming: Peer, closer: str, mandatory: int
):
    unroutable = publish("", "nobody", mandatory) + content_header(1) + content_body(b"x")
    closing, code = CLOSERS[closer]
    confirming.send_bytes(unroutable + unroutable + closing)
    if mandatory:
        for _ in range(2):
            confirming.expect(Basic.Return)
            confirming.receive_content()
    assert confirmed_tags(confirming, 2) == [1, 2]
    _, closed = confirming.receive()
    assert closed.name.split(".")[1] == ("Close" if code else "CloseOk")
    assert getattr(closed, "reply_code", 0) == code


def test_commit_without_anything_is_answered(peer: Peer):
    peer.call(Tx.Select(), Tx.SelectOk)
    peer.call(Tx.Select(), Tx.SelectOk)
    for _ in range(3):
        peer.call(Tx.Commit(), Tx.CommitOk)
        peer.call(Tx.Rollback(), Tx.RollbackOk)


def test_a_transaction_returns_unroutable_messages_at_its_commit(peer: Peer):
    peer.call(Tx.Select(), Tx.SelectOk)
    peer.send_bytes(publish("", "nobody", MANDATORY) + content_header(1) + content_body(b"x"))
    assert peer.outcome().scope == "ok"
    peer.do(Tx.Commit())
    assert peer.expect(Basic.Return).reply_code == 312
    peer.receive_content()
    peer.expect(Tx.CommitOk)


def test_a_transaction_of_a_closed_channel_is_rolled_back(peer: Peer):
    queue = peer.queue
    peer.open_channel(2)
    peer.call(Tx.Select(), Tx.SelectOk, 2)
    peer.send_bytes(message(queue, b"never", channel=2))
    peer.call(commands.Channel.Close(200, "", 0, 0), commands.Channel.CloseOk, 2)
    assert peer.get(queue) is None
