"""Mistakes in consuming, acknowledging and transactions."""

from __future__ import annotations

from pamqp import commands
from scenarios.clients.bad_input import (
    Broker,
    Peer,
    Row,
    assert_nobody_noticed,
    assert_row_holds,
    each,
)
from scenarios.clients.bystander import Bystander
from scenarios.clients.raw_client import message

Basic, Queue, Tx, Confirm = commands.Basic, commands.Queue, commands.Tx, commands.Confirm

CONSUMERS_MAX = 4_096  # per channel
REPLY_TO = "amq.rabbitmq.reply-to"


def does(*values):
    """Send these methods on channel 1."""
    return lambda peer: peer.do(*values)


def gets_one(peer: Peer, no_ack: bool = False) -> int:
    """Publish a message, get it, and return its delivery tag."""
    peer.send_bytes(message(peer.queue, b"x"))
    got = peer.call(Basic.Get(queue=peer.queue, no_ack=no_ack), Basic.GetOk)
    peer.receive_content()
    assert got.delivery_tag is not None
    return got.delivery_tag


def settles_twice(settle):
    """Get a message and settle it twice."""

    def act(peer: Peer) -> None:
        tag = gets_one(peer)
        peer.do(settle(tag), settle(tag))

    return act


def acks_a_no_ack_message(peer: Peer) -> None:
    peer.do(Basic.Ack(gets_one(peer, no_ack=True)))


def acks_tag_zero_alone(peer: Peer) -> None:
    gets_one(peer)
    peer.do(Basic.Ack(0, multiple=False))


def acks_many_up_to_an_unknown_tag(peer: Peer) -> None:
    peer.do(Basic.Ack(gets_one(peer) + 1, multiple=True))


def acks_on_another_channel(peer: Peer) -> None:
    peer.queue  # noqa: B018
    peer.open_channel(2)
    peer.send_bytes(message(peer.queue, b"x"))
    peer.call(Queue.Declare(queue=peer.queue, passive=True), Queue.DeclareOk)
    peer.call(Basic.Get(queue=peer.queue), Basic.GetOk, channel=2)
    peer.receive_content()
    peer.do(Basic.Ack(1))


def uses_a_consumer_tag_twice(peer: Peer) -> None:
    peer.call(Basic.Consume(queue=peer.queue, consumer_tag="same"), Basic.ConsumeOk)
    peer.do(Basic.Consume(queue=peer.queue, consumer_tag="same"))


def uses_a_consumer_tag_twice_for_no_queue(peer: Peer) -> None:
    peer.call(Basic.Consume(queue=peer.queue, consumer_tag="same"), Basic.ConsumeOk)
    peer.do(Basic.Consume(queue=peer.name, consumer_tag="same"))


def consumes_beside(first_exclusive: bool, second_exclusive: bool):
    """Consume twice from a queue."""

    def act(peer: Peer) -> None:
        peer.call(Basic.Consume(queue=peer.queue, exclusive=first_exclusive), Basic.ConsumeOk)
        peer.do(Basic.Consume(queue=peer.queue, exclusive=second_exclusive))

    return act


def consumes_with(**options):
    """Consume from the peer's queue like this."""
    return lambda peer: peer.do(Basic.Consume(queue=peer.queue, **options))


def consumes_too_often(peer: Peer) -> None:
    queue = peer.queue
    for number in range(CONSUMERS_MAX + 1):
        peer.do(Basic.Consume(queue=queue, consumer_tag=f"c{number}", nowait=True))


def consumes_replies_twice(peer: Peer) -> None:
    peer.call(Basic.Consume(queue=REPLY_TO, no_ack=True), Basic.ConsumeOk)
    peer.do(Basic.Consume(queue=REPLY_TO, no_ack=True))


UNKNOWN_TAG = "PRECONDITION_FAILED - unknown delivery tag"

CONSUMERS = [
    Row(
        "consume from a missing queue",
        does(Basic.Consume(queue="nowhere")),
        *("channel", 404, "NOT_FOUND - no queue 'nowhere' in vhost '/'"),
    ),
    Row(
        "get from a missing queue",
        does(Basic.Get(queue="nowhere")),
        *("channel", 404, "NOT_FOUND - no queue 'nowhere' in vhost '/'"),
    ),
    Row(
        "a consumer tag in use",
        uses_a_consumer_tag_twice,
        *("connection", 530, "attempt to reuse consumer tag 'same'"),
    ),
    Row(
        "a consumer tag in use for a queue that is not there",
        uses_a_consumer_tag_twice_for_no_queue,
        *("connection", 530, "attempt to reuse consumer tag 'same'"),
    ),
    Row("consume beside an exclusive consumer", consumes_beside(True, False), "channel", 403),
    Row("consume exclusively beside a consumer", consumes_beside(False, True), "channel", 403),
    Row(
        "more consumers than the limit",
        consumes_too_often,
        *("connection", 530),
        rabbit="has no limit unless configured",
    ),
    Row("consume replies with acks", does(Basic.Consume(queue=REPLY_TO)), "channel", 406),
    Row("consume replies twice", consumes_replies_twice, "channel", 406),
    Row(
        "a consumer priority that is a string",
        consumes_with(arguments={"x-priority": "high"}),
        *("channel", 406),
    ),
    Row("cancel an unknown consumer", does(Basic.Cancel("nobody")), "ok"),
    Row("a prefetch size", does(Basic.Qos(prefetch_size=1)), "connection", 540),
]

ACKS = [
    Row("ack an unknown tag", does(Basic.Ack(99)), "channel", 406, f"{UNKNOWN_TAG} 99"),
    Row("nack an unknown tag", does(Basic.Nack(99)), "channel", 406, f"{UNKNOWN_TAG} 99"),
    Row("reject an unknown tag", does(Basic.Reject(99)), "channel", 406, f"{UNKNOWN_TAG} 99"),
    Row("ack twice", settles_twice(Basic.Ack), "channel", 406, f"{UNKNOWN_TAG} 1"),
    Row("reject twice", settles_twice(Basic.Reject), "channel", 406, f"{UNKNOWN_TAG} 1"),
    Row("ack a message that needs none", acks_a_no_ack_message, "channel", 406, UNKNOWN_TAG),
    Row("ack tag zero alone", acks_tag_zero_alone, "channel", 406, f"{UNKNOWN_TAG} 0"),
    Row("ack many up to an unknown tag", acks_many_up_to_an_unknown_tag, "channel", 406),
    Row("ack everything when there is nothing", does(Basic.Ack(0, multiple=True)), "ok"),
    Row("nack everything when there is nothing", does(Basic.Nack(0, multiple=True)), "ok"),
    Row("ack on another channel", acks_on_another_channel, "channel", 406, f"{UNKNOWN_TAG} 1"),
    Row("recover without requeue", does(Basic.Recover(requeue=False)), "connection", 540),
    Row(
        "recover asynchronously without requeue",
        does(Basic.RecoverAsync(requeue=False)),
        *("connection", 540),
    ),
]

TRANSACTIONS = [
    Row("commit without select", does(Tx.Commit()), "channel", 406, "channel is not transactional"),
    Row(
        "roll back without select",
        does(Tx.Rollback()),
        *("channel", 406, "channel is not transactional"),
    ),
    Row(
        "confirms on a transactional channel",
        does(Tx.Select(), Confirm.Select()),
        *("channel", 406, "cannot switch from tx to confirm mode"),
    ),
    Row(
        "a transaction on a confirm channel",
        does(Confirm.Select(), Tx.Select()),
        *("channel", 406, "cannot switch from confirm to tx mode"),
    ),
]


@each(CONSUMERS)
def test_a_consumer_mistake_ends_as_written(broker: Broker, bystander: Bystander, row: Row):
    assert_row_holds(broker, bystander, row)


@each(ACKS)
def test_an_acknowledgement_mistake_ends_as_written(broker: Broker, bystander: Bystander, row: Row):
    assert_row_holds(broker, bystander, row)


@each(TRANSACTIONS)
def test_a_transaction_mistake_ends_as_written(broker: Broker, bystander: Bystander, row: Row):
    assert_row_holds(broker, bystander, row)


def test_an_unacked_message_of_a_closed_channel_is_delivered_again(
    broker: Broker, bystander: Bystander
):
    with Peer(broker.host, broker.port) as peer:
        peer.open()
        peer.open_channel()
        gets_one(peer)
        peer.do(Basic.Ack(77))
        assert peer.outcome().code == 406
        got = peer.call(Basic.Get(queue=peer.queue), Basic.GetOk)
        assert got.redelivered
    assert_nobody_noticed(broker, bystander)
