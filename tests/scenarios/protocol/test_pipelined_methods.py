"""What a client sends in one piece happens in its order: consumers, limits and expiry come in between."""

from __future__ import annotations

import uuid
from collections import Counter
from typing import Any

import pytest
from pamqp import commands, frame, header
from pamqp.commands import Basic, Confirm, Exchange, Queue
from scenarios.clients.bad_input import Peer
from scenarios.clients.raw_client import (
    content_body,
    content_header,
    message,
    method,
    publish,
    queue_declare,
    short,
)


def pipelined(peer: Peer, *parts: bytes | Any) -> None:
    """Send messages and methods in one piece."""
    peer.send_bytes(
        b"".join(
            part if isinstance(part, bytes) else frame.marshal(part, 1)  #
            for part in parts
        )
    )


def consume(peer: Peer, queue: str, tag: str = "c", **options: Any) -> None:
    peer.call(Basic.Consume(queue=queue, consumer_tag=tag, **options), Basic.ConsumeOk)


def delivered(peer: Peer) -> bytes:
    peer.expect(Basic.Deliver)
    return peer.receive_content()[1]


def test_a_consumer_comes_before_a_get_that_follows_the_message(peer: Peer) -> None:
    consume(peer, peer.queue)
    pipelined(peer, message(peer.queue, b"x"), Basic.Get(queue=peer.queue))
    assert delivered(peer) == b"x"
    peer.expect(Basic.GetEmpty)


def test_messages_with_ever_new_keys_come_in_order_and_once(peer: Peer) -> None:
    # More than one turn of the loop carries out; a method follows them.
    for exchange, key in (("amq.topic", "#"), ("amq.headers", "")):
        peer.call(Queue.Bind(queue=peer.queue, exchange=exchange, routing_key=key), Queue.BindOk)
        bodies = [b"%d" % number for number in range(6_000)]
        pipelined(
            peer,
            *(
                publish(exchange, f"k.{at}") + content_header(len(each)) + content_body(each)
                for at, each in enumerate(bodies)
            ),
            Queue.Declare(queue=peer.queue, passive=True),
        )
        assert peer.expect(Queue.DeclareOk).message_count == len(bodies)
        consume(peer, peer.queue, exchange, no_ack=True)
        assert [delivered(peer) for _ in bodies] == bodies
        peer.call(Basic.Cancel(exchange), Basic.CancelOk)


def test_a_purge_leaves_alone_what_a_consumer_is_due(peer: Peer) -> None:
    consume(peer, peer.queue)
    pipelined(peer, message(peer.queue, b"x"), Queue.Purge(queue=peer.queue))
    assert delivered(peer) == b"x"
    assert peer.expect(Queue.PurgeOk).message_count == 0


def test_a_purge_leaves_alone_what_was_there_for_a_new_consumer(peer: Peer) -> None:
    pipelined(peer, message(peer.queue, b"x"), Queue.Declare(queue=peer.queue, passive=True))
    assert peer.expect(Queue.DeclareOk).message_count == 1
    pipelined(peer, Basic.Consume(queue=peer.queue, no_ack=True), Queue.Purge(queue=peer.queue))
    peer.expect(Basic.ConsumeOk)
    assert delivered(peer) == b"x"
    assert peer.expect(Queue.PurgeOk).message_count == 0


def test_what_a_consumer_is_due_does_not_count_as_ready(peer: Peer) -> None:
    consume(peer, peer.queue)
    pipelined(peer, message(peer.queue, b"x"), Queue.Declare(queue=peer.queue, passive=True))
    assert delivered(peer) == b"x"
    assert peer.expect(Queue.DeclareOk).message_count == 0
    pipelined(peer, message(peer.queue, b"y"), Queue.Delete(queue=peer.queue, if_empty=True))
    assert delivered(peer) == b"y"
    assert peer.expect(Queue.DeleteOk).message_count == 0


def test_a_consumer_gets_what_came_before_it_is_cancelled(peer: Peer) -> None:
    consume(peer, peer.queue)
    pipelined(peer, message(peer.queue, b"x"), Basic.Cancel(consumer_tag="c"))
    assert delivered(peer) == b"x"
    peer.expect(Basic.CancelOk)


def test_what_comes_back_to_a_full_queue_pushes_out_the_oldest_at_once(peer: Peer) -> None:
    queue = peer.declare(arguments={"x-max-length": 1})
    pipelined(peer, message(queue, b"old"), Basic.Get(queue=queue))
    tag = peer.expect(Basic.GetOk).delivery_tag
    assert peer.receive_content()[1] == b"old"
    pipelined(
        peer,
        message(queue, b"new"),
        Basic.Reject(delivery_tag=tag, requeue=True),
        Basic.Get(queue=queue),
    )
    assert peer.expect(Basic.GetOk).message_count == 0
    assert peer.receive_content()[1] == b"new"


def test_a_message_without_any_time_is_gone_where_nobody_consumes(peer: Peer) -> None:
    queue = peer.declare(arguments={"x-message-ttl": 0})
    pipelined(peer, message(queue, b"x"), Basic.Get(queue=queue))
    peer.expect(Basic.GetEmpty)
    consume(peer, queue, no_ack=True)
    pipelined(peer, message(queue, b"y"), Queue.Declare(queue=queue, passive=True))
    assert delivered(peer) == b"y"
    peer.expect(Queue.DeclareOk)


def test_a_return_comes_behind_the_confirms_of_what_was_published_before_it(peer: Peer) -> None:
    peer.call(Confirm.Select(), Confirm.SelectOk)
    lost = f"nowhere.{uuid.uuid4().hex}"
    mandatory = frame.marshal(Basic.Publish(routing_key=lost, mandatory=True), 1) + frame.marshal(
        header.ContentHeader(0, 0), 1
    )
    pipelined(peer, message(lost, b""), mandatory)
    first = peer.expect(Basic.Ack)
    assert (first.delivery_tag, first.multiple) == (1, False)
    peer.expect(Basic.Return)
    peer.receive_content()
    second = peer.expect(Basic.Ack)
    assert (second.delivery_tag, second.multiple) == (2, False)


def test_queues_take_turns_for_the_prefetch_of_a_channel(peer: Peer) -> None:
    queues = [peer.declare() for _ in range(3)]
    for queue in queues:
        pipelined(peer, *(message(queue, b"%d" % number) for number in range(40)))
    peer.call(Basic.Qos(prefetch_count=1, global_=True), Basic.QosOk)
    served: Counter[str | None] = Counter()
    for tag in queues:
        peer.send(Basic.Consume(queue=tag, consumer_tag=tag, nowait=True), 1)

    def serve() -> None:
        delivery = peer.expect(Basic.Deliver)
        peer.receive_content()
        served[delivery.consumer_tag] += 1
        peer.send(Basic.Ack(delivery.delivery_tag), 1)

    while len(served) < len(queues):  # through another node, one may begin later than the others
        serve()
    served.clear()
    for _ in range(12):
        serve()
    assert set(served) == set(queues)
    assert min(served.values()) >= 3, served


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\n\r\n"])
def test_line_ends_are_left_out_of_names(peer: Peer, ends: str) -> None:
    name = f"lines.{uuid.uuid4().hex}"
    spelled = f"{name[:8]}{ends}{name[8:]}{ends}"
    auto_delete, exclusive, no_table = b"\x04", 4, b"\0\0\0\0"
    peer.send_bytes(queue_declare(spelled, exclusive))
    assert peer.expect(Queue.DeclareOk).queue == name
    fanout = b"\0\0" + short(spelled) + short("fanout") + auto_delete + no_table
    peer.send_bytes(method(40, 10, fanout))
    peer.expect(Exchange.DeclareOk)
    peer.call(Queue.Bind(queue=name, exchange=name), Queue.BindOk)
    peer.send_bytes(method(40, 20, b"\0\0" + short(spelled) + b"\0"))
    peer.expect(Exchange.DeleteOk)
    peer.send_bytes(method(50, 40, b"\0\0" + short(spelled) + b"\0"))
    peer.expect(Queue.DeleteOk)
    for gone in (
        Exchange.Declare(exchange=name, passive=True),
        Queue.Declare(queue=name, passive=True),
    ):
        peer.send(gone, 1)
        assert peer.expect(commands.Channel.Close).reply_code == 404
        peer.send(commands.Channel.CloseOk(), 1)
        peer.open_channel()


def test_a_reply_address_is_there_as_long_as_its_channel_and_cannot_be_guessed(peer: Peer) -> None:
    pseudo = "amq.rabbitmq.reply-to"
    consume(peer, pseudo, no_ack=True)
    served = peer.queue
    consume(peer, served, "s", no_ack=True)
    properties = commands.Basic.Properties(reply_to=pseudo)
    pipelined(
        peer,
        Basic.Publish(routing_key=served),
        frame.marshal(header.ContentHeader(0, 0, properties), 1),
    )
    peer.expect(Basic.Deliver)
    address = peer.receive_content()[0].reply_to
    assert address is not None
    assert address.startswith(f"{pseudo}.")
    assert address.endswith("==")
    passive = 1
    peer.send_bytes(queue_declare(address, passive))
    peer.expect(Queue.DeclareOk)
    peer.send_bytes(queue_declare(f"{address[:-5]}xxxxx", passive))
    assert peer.expect(commands.Channel.Close).reply_code == 404
