"""Mistakes in the life of a channel, and in the order and shape of content."""

from __future__ import annotations

import struct

import pytest
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
from scenarios.clients.raw_client import (
    FRAME_BODY,
    FRAME_BYTES_MAX,
    FRAME_HEADER,
    FRAME_HEARTBEAT,
    RawClient,
    content_body,
    content_header,
    frame,
    long,
    message,
    method,
    nested_table,
    publish,
    queue_declare,
    short,
)

MESSAGE_BYTES_MAX = 128 * 1_048_576
EMPTY_BODIES_MAX = 1_000  # body frames without a byte, one after another
HAS_HEADERS, HAS_DELIVERY_MODE, HAS_REPLY_TO, HAS_EXPIRATION, HAS_USER_ID = (
    struct.pack(">H", 1 << bit) for bit in (13, 12, 9, 8, 4)
)
INTERNAL = "541"


def sends(*raw: bytes):
    """Send these bytes."""
    return lambda peer: peer.send_bytes(b"".join(raw))


def on_channel(number: int, *values):
    """Send well-formed frames on this channel."""
    return lambda peer: peer.do(*values, channel=number)


def publishes(properties: bytes):
    """Publish a message whose header frame ends in these bytes."""
    return lambda peer: peer.send_bytes(message(peer.queue, b"x", properties))


def publishes_headers(entries: bytes):
    """Publish a message with these bytes as the entries of its header table."""
    return publishes(HAS_HEADERS + long(entries))


def array(*values: bytes) -> bytes:
    """A field array of encoded values."""
    return b"A" + long(b"".join(values))


PUBLISH = publish("", "nobody")
HEADER = content_header(4)
BODY = content_body(b"body")

CHANNELS = [
    Row(
        "a method on a channel never opened",
        lambda peer: peer.send_bytes(queue_declare(peer.name, channel=7)),
        *("connection", 504),
        channel=7,
    ),
    Row("channel.open twice", on_channel(1, commands.Channel.Open()), "connection", 504),
    Row(
        "channel.close on a channel never opened",
        on_channel(7, commands.Channel.Close(200, "", 0, 0)),
        *("connection", 504),
        channel=7,
    ),
    Row("channel.close-ok", on_channel(1, commands.Channel.CloseOk()), "connection", 503),
    Row(
        "a channel above channel-max",
        on_channel(2_048, commands.Channel.Open()),
        *("connection", 530),
        rabbit="counts channels, whatever their numbers",
    ),
]

CONTENT_ORDER = [
    Row(
        "a method where a header is due",
        lambda peer: peer.send_bytes(PUBLISH + queue_declare(peer.name)),
        *("connection", 505),
    ),
    Row("a body where a header is due", sends(PUBLISH, BODY), "connection", 505),
    Row("a header without a publish", sends(HEADER), "connection", 505),
    Row("a body without a publish", sends(BODY), "connection", 505),
    Row("two headers", sends(PUBLISH, HEADER, HEADER), "connection", 505),
    Row(
        "a method where a body is due",
        lambda peer: peer.send_bytes(PUBLISH + HEADER + queue_declare(peer.name)),
        *("connection", 505),
    ),
    Row(
        "a body after an empty message", sends(PUBLISH, content_header(0), BODY), "connection", 505
    ),
    Row("a header of class 50", sends(PUBLISH, content_header(4, class_id=50)), "connection", 505),
    Row("a header with weight 1", sends(PUBLISH, content_header(4, weight=1)), "connection", 505),
    Row(
        "a header of 11 bytes",
        sends(PUBLISH, frame(FRAME_HEADER, 1, b"\0\x3c\0\0" + b"\0" * 7)),
        *("connection", 501),
    ),
    Row(
        "a body longer than declared",
        sends(PUBLISH, HEADER, content_body(b"body and more")),
        *("connection", 501),
        rabbit="waits for ever",
    ),
    Row(
        "a second body frame longer than declared",
        sends(PUBLISH, HEADER, content_body(b"bod"), content_body(b"yx")),
        *("connection", 501),
        rabbit="waits for ever",
    ),
    Row(
        "empty body frames without end",
        sends(PUBLISH, HEADER, content_body(b"") * (EMPTY_BODIES_MAX + 1)),
        *("connection", 501),
        rabbit="has no limit",
    ),
]

SIZES = [
    Row(
        f"a message of {size} bytes announced",
        sends(PUBLISH, content_header(size)),
        *("channel", 406),
        text="PRECONDITION_FAILED",
        rabbit="waits for the bodies",
    )
    for size in (MESSAGE_BYTES_MAX + 1, 600_000_000, 1 << 63, (1 << 64) - 1)
]

PROPERTIES = [
    Row("properties cut short", publishes(b"\x80\0\x10abc"), "connection", 501, rabbit=INTERNAL),
    Row("bytes after the properties", publishes(b"\0\0\0"), "connection", 501, rabbit=INTERNAL),
    Row("no property flags", publishes(b""), "connection", 501, rabbit=INTERNAL),
    Row("a second flag word", publishes(b"\0\1\0\0"), "connection", 501, rabbit=INTERNAL),
    Row(
        "an unknown type in the headers",
        publishes_headers(short("k") + b"?1234"),
        *("connection", 502),
        rabbit=INTERNAL,
    ),
    Row(
        "headers nested a thousand deep",
        publishes(HAS_HEADERS + nested_table(1_000)),
        *("connection", 501),
        rabbit="accepts any depth",
    ),
    Row("delivery-mode 9", publishes(HAS_DELIVERY_MODE + b"\x09"), "channel", 406),
    Row("delivery-mode 0", publishes(HAS_DELIVERY_MODE + b"\0"), "channel", 406),
    *[
        Row(f"expiration {text}", publishes(HAS_EXPIRATION + short(text)), "channel", 406)
        for text in ("abc", "-1", "1.5", "10 s")
    ],
    Row(
        "another user's user-id",
        publishes(HAS_USER_ID + short("root")),
        *("channel", 406),
        text="user_id property set to 'root' but authenticated user was 'guest'",
    ),
    Row("the own user-id", publishes(HAS_USER_ID + short("guest")), "ok"),
    Row(
        "cc that is a string",
        publishes_headers(short("CC") + b"S" + long(b"key")),
        *("channel", 406),
    ),
    Row(
        "cc that holds a number",
        publishes_headers(short("CC") + array(b"S" + long(b"key"), b"I\0\0\0\1")),
        *("channel", 406),
        rabbit="passes over what is no string",
    ),
    Row(
        "bcc that is a table",
        publishes_headers(short("BCC") + b"F" + long(b"")),
        *("channel", 406),
    ),
    Row(
        "a direct reply-to without a consumer",
        publishes(HAS_REPLY_TO + short("amq.rabbitmq.reply-to")),
        *("channel", 406),
    ),
]


@each(CHANNELS)
def test_a_channel_mistake_ends_as_written(broker: Broker, bystander: Bystander, row: Row):
    assert_row_holds(broker, bystander, row)


@each(CONTENT_ORDER)
def test_content_out_of_order_ends_as_written(broker: Broker, bystander: Bystander, row: Row):
    assert_row_holds(broker, bystander, row)


@each(SIZES)
def test_a_message_too_large_is_refused_at_its_header(
    broker: Broker, bystander: Bystander, row: Row
):
    assert_row_holds(broker, bystander, row)


@each(PROPERTIES)
def test_a_bad_property_ends_as_written(broker: Broker, bystander: Bystander, row: Row):
    assert_row_holds(broker, bystander, row)


def test_one_channel_more_than_agreed_is_refused(broker: Broker, bystander: Bystander):
    with RawClient(broker.host, broker.port) as client:
        client.open(channel_max=2)
        client.open_channel(1)
        client.open_channel(2)
        client.send(commands.Channel.Open(), 3)
        outcome = client.outcome()
        assert (outcome.scope, outcome.code) == ("connection", 530)
    assert_nobody_noticed(broker, bystander)


def test_everything_on_a_closed_channel_is_ignored_until_close_ok(peer: Peer):
    target = peer.queue
    peer.do(commands.Queue.Declare(queue="nowhere", passive=True))
    peer.send_bytes(queue_declare(peer.name, flags=4))
    peer.send_bytes(message(target, b"late"))
    peer.send_bytes(message(target, b"later", HAS_EXPIRATION + short("nonsense")))
    assert peer.expect(commands.Channel.Close).reply_code == 404
    peer.send_bytes(message(target, b"latest") + queue_declare(peer.name, flags=4))
    peer.do(commands.Channel.CloseOk())
    peer.open_channel()
    assert peer.get(target) is None
    peer.do(commands.Queue.Declare(queue=peer.name, passive=True))
    assert peer.expect(commands.Channel.Close).reply_code == 404


@pytest.mark.differs_from_rabbitmq("decides after the last body")
def test_bodies_of_a_refused_message_are_discarded_while_the_channel_closes(peer: Peer):
    peer.send_bytes(PUBLISH + content_header(MESSAGE_BYTES_MAX + 1))
    for _ in range(4):
        peer.send_bytes(content_body(bytes(100_000)))
    outcome = peer.outcome()
    assert (outcome.scope, outcome.code) == ("channel", 406)
    assert peer.get(peer.queue) is None


def test_a_channel_that_crosses_its_close_with_the_server_s_can_be_opened_again(peer: Peer):
    peer.do(commands.Queue.Declare(queue="nowhere", passive=True))
    peer.do(commands.Channel.Close(200, "bye", 0, 0))
    assert peer.expect(commands.Channel.Close).reply_code == 404
    peer.expect(commands.Channel.CloseOk)
    peer.do(commands.Channel.CloseOk())
    peer.open_channel()
    assert peer.outcome().scope == "ok"


def test_a_pause_of_the_flow_is_not_implemented(peer: Peer):
    peer.do(commands.Channel.Flow(False))
    outcome = peer.outcome()
    assert (outcome.scope, outcome.code) == ("connection", 540)


def test_a_flow_that_is_already_on_is_confirmed(peer: Peer):
    assert peer.call(commands.Channel.Flow(True), commands.Channel.FlowOk).active is True


def test_access_request_gets_ticket_one(peer: Peer):
    peer.send_bytes(method(30, 10, short("/data") + b"\x1f"))
    assert peer.receive_bytes(14) == method(30, 11, b"\0\1")


@pytest.mark.differs_from_rabbitmq("refuses it with 504 when the commit takes a moment")
def test_a_method_behind_a_tx_commit_waits_for_it(peer: Peer):
    queue = peer.declare(peer.name, durable=True)
    peer.call(commands.Tx.Select(), commands.Tx.SelectOk)
    peer.send_bytes(message(queue, b"x", HAS_DELIVERY_MODE + b"\2"))
    peer.do(commands.Tx.Commit(), commands.Queue.Declare(queue=queue, passive=True))
    peer.expect(commands.Tx.CommitOk)
    assert peer.expect(commands.Queue.DeclareOk).message_count == 1


def test_a_heartbeat_between_header_and_body_is_legal(peer: Peer):
    queue = peer.queue
    peer.send_bytes(publish("", queue) + HEADER + frame(FRAME_HEARTBEAT, 0, b"") + BODY)
    assert peer.get(queue) == b"body"


def test_messages_of_two_channels_may_be_interleaved(peer: Peer):
    queue = peer.queue
    peer.open_channel(2)
    peer.send_bytes(publish("", queue) + publish("", queue, channel=2))
    peer.send_bytes(content_header(4) + content_header(4, channel=2))
    peer.send_bytes(content_body(b"on") + content_body(b"on", 2) + content_body(b"e2", 2))
    peer.send_bytes(content_body(b"e1"))
    barrier = commands.Queue.Declare(queue=queue, passive=True)
    peer.call(barrier, commands.Queue.DeclareOk, channel=2)
    assert sorted([peer.get(queue) or b"", peer.get(queue) or b""]) == [b"one1", b"one2"]


def test_an_empty_body_frame_is_legal(peer: Peer):
    queue = peer.queue
    peer.send_bytes(publish("", queue) + HEADER + content_body(b"") + BODY)
    assert peer.get(queue) == b"body"


def test_a_message_of_exactly_the_limit_is_taken(peer: Peer):
    queue = peer.queue
    payload = bytes(MESSAGE_BYTES_MAX)
    part = FRAME_BYTES_MAX - 8
    frames = [content_body(payload[at : at + part]) for at in range(0, MESSAGE_BYTES_MAX, part)]
    peer.send_bytes(publish("", queue) + content_header(len(payload)) + b"".join(frames))
    assert peer.get(queue) == payload


def test_half_a_message_at_the_end_of_a_connection_is_no_message(broker: Broker, peer: Peer):
    peer.declare(peer.name, exclusive=False, auto_delete=True)
    with Peer(broker.host, broker.port) as other:
        other.open()
        other.open_channel()
        other.send_bytes(publish("", peer.name) + content_header(8) + BODY)
        other.do(commands.Connection.Close(200, "bye", 0, 0), channel=0)
        other.expect(commands.Connection.CloseOk)
    assert peer.get(peer.name) is None
    peer.call(commands.Queue.Delete(queue=peer.name), commands.Queue.DeleteOk)


def test_half_a_message_at_the_end_of_a_channel_is_no_message(peer: Peer):
    queue = peer.queue
    peer.open_channel(2)
    peer.send_bytes(publish("", queue, channel=2) + content_header(8, channel=2))
    peer.send_bytes(content_body(b"body", 2))
    outcome_of_close = commands.Channel.Close(200, "bye", 0, 0)
    peer.send(outcome_of_close, 2)
    outcome = peer.outcome()
    assert (outcome.scope, outcome.code) == ("connection", 505)


def test_a_body_frame_head_without_a_body_holds_up_nobody(
    broker: Broker, bystander: Bystander, peer: Peer
):
    peer.send_bytes(PUBLISH + HEADER + struct.pack(">BHI", FRAME_BODY, 1, 4))
    assert_nobody_noticed(broker, bystander)
