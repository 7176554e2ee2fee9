"""Mistakes in the framing and the encoding of methods on an open connection."""

from __future__ import annotations

import socket
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
    FRAME_METHOD,
    RawClient,
    content_body,
    content_header,
    frame,
    long,
    method,
    nested_table,
    publish,
    queue_declare,
    short,
)

NESTING_MAX = 32
CRASHES = "drops the socket instead"


def sends(*raw: bytes):
    """Send these bytes."""
    return lambda peer: peer.send_bytes(b"".join(raw))


def declares(**parts):
    """Declare the peer's queue, with something wrong in it."""
    return lambda peer: peer.send_bytes(queue_declare(peer.name, **parts))


def declares_table(entries: bytes):
    """Declare the peer's queue with these bytes as the entries of its argument table."""
    return declares(table=long(entries))


def frame_head(kind: int, size: int) -> bytes:
    """The first seven bytes of a frame on channel 1, and nothing after them."""
    return struct.pack(">BHI", kind, 1, size)


def wrong_frame_end(peer: Peer) -> None:
    peer.send_bytes(queue_declare(peer.name)[:-1] + b"\xcd")


def truncated_arguments(peer: Peer) -> None:
    peer.send_bytes(method(50, 10, b"\0\0" + short(peer.name) + b"\0\0\0"))


def trailing_byte(peer: Peer) -> None:
    peer.send_bytes(queue_declare(peer.name, table=b"\0\0\0\0\0"))


def deliver_to_the_server(peer: Peer) -> None:
    peer.do(commands.Basic.Deliver("t", 1, False, "", "q"))
    peer.send_bytes(content_header(1) + content_body(b"x"))


def on_channel(number: int, *values):
    """Send well-formed frames on this channel."""
    return lambda peer: peer.do(*values, channel=number)


def half_a_header_on_a_short_string(peer: Peer) -> None:
    peer.send_bytes(method(50, 10, b"\0\0\xff" + peer.name.encode() + b"\0" * 5))


FRAMING = [
    Row("a wrong frame end", wrong_frame_end, "connection", 501),
    *[
        Row(f"frame type {kind}", sends(frame(kind, 1, b"payload")), "connection", 501)
        for kind in (0, 4, 9)
    ],
    *[
        Row(
            f"a payload of {size} bytes on a frame of type {kind}",
            sends(frame_head(kind, size)),
            *("connection", 501),
        )
        for kind in (FRAME_METHOD, FRAME_HEADER, FRAME_BODY)
        for size in (FRAME_BYTES_MAX + 1, 0xFFFF_FFFF)
    ],
    Row("a heartbeat with payload", sends(frame(FRAME_HEARTBEAT, 0, b"x")), "connection", 501),
    Row("a heartbeat on channel 1", sends(frame(FRAME_HEARTBEAT, 1, b"")), "connection", 505),
    Row("an empty method frame", sends(frame(FRAME_METHOD, 1, b"")), "connection", 501),
    Row("a method frame of 3 bytes", sends(frame(FRAME_METHOD, 1, b"\0\x32\0")), "connection", 501),
    Row("a content header on channel 0", sends(content_header(1, channel=0)), "connection", 505),
    Row("a content body on channel 0", sends(content_body(b"x", channel=0)), "connection", 505),
]

METHODS = [
    Row(
        "connection.open on channel 1", on_channel(1, commands.Connection.Open()), "connection", 503
    ),
    Row(
        "connection.close on channel 1",
        on_channel(1, commands.Connection.Close(200, "bye", 0, 0)),
        *("connection", 503),
    ),
    Row(
        "queue.declare on channel 0",
        lambda peer: peer.send_bytes(queue_declare(peer.name, channel=0)),
        *("connection", 504),
    ),
    Row("channel.open on channel 0", on_channel(0, commands.Channel.Open()), "connection", 504),
    Row("an unknown class", sends(method(99, 10)), "connection", 540, rabbit=CRASHES),
    Row("an unknown method", sends(method(50, 99)), "connection", 540, rabbit=CRASHES),
    Row(
        "an unknown class on channel 0",
        sends(method(99, 10, channel=0)),
        *("connection", 540),
        rabbit=CRASHES,
    ),
    Row("queue.declare-ok", on_channel(1, commands.Queue.DeclareOk("q", 0, 0)), "connection", 503),
    Row("basic.deliver with content", deliver_to_the_server, "connection", 503),
    Row("connection.start", on_channel(0, commands.Connection.Start()), "connection", 504),
    Row("connection.open again", on_channel(0, commands.Connection.Open()), "connection", 504),
    Row("tune-ok again", on_channel(0, commands.Connection.TuneOk(0, 0, 0)), "connection", 504),
    Row("connection.close-ok", on_channel(0, commands.Connection.CloseOk()), "connection", 504),
]

ENCODING = [
    Row("truncated arguments", truncated_arguments, "connection", 501),
    Row("a byte after the last argument", trailing_byte, "connection", 501),
    Row("a short string beyond its frame", half_a_header_on_a_short_string, "connection", 501),
    Row("a table beyond its frame", declares(table=b"\0\0\1\0"), "connection", 501),
    Row(
        "an unknown type in a table",
        declares_table(short("k") + b"?1234"),
        *("connection", 502),
        rabbit=CRASHES,
    ),
    Row(
        "a value longer than its table",
        declares_table(short("k") + b"S\0\0\0\x64abc"),
        *("connection", 501),
        rabbit=CRASHES,
    ),
    Row(
        "a name without a value at the end of a table",
        declares_table(short("k")),
        *("connection", 501),
        rabbit=CRASHES,
    ),
    Row("tables nested to the limit", declares(flags=4, table=nested_table(NESTING_MAX)), "ok"),
    Row(
        "tables nested beyond the limit",
        declares(table=nested_table(NESTING_MAX + 1)),
        *("connection", 501),
        rabbit="accepts any depth",
    ),
    Row(
        "tables nested ten thousand deep",
        declares(table=nested_table(10_000)),
        *("connection", 501),
        rabbit="accepts any depth",
    ),
    Row("a name in invalid utf-8", sends(queue_declare(b"\xff\xfe\xc3")), "connection", 501),
    *[
        Row(
            f"a queue name with {what}",
            sends(queue_declare(f"a{character}b", flags=4)),
            *("channel", 406),
            rabbit="accepts it",
        )
        for what, character in [
            ("nul", "\0"),
            ("escape", "\x1b"),
            ("a c1 control", "\x85"),
        ]
    ],
    # As RabbitMQ, whose Java client counts on it: they are left out.
    Row("a queue name with cr and lf", sends(queue_declare("a\r\nb", flags=4)), "ok"),
    Row("a queue name like a path", sends(queue_declare("../../etc/passwd", flags=4)), "ok"),
    Row("a queue name like markup", sends(queue_declare("<script>'\";--%2f", flags=4)), "ok"),
    Row("a queue name of 255 bytes", sends(queue_declare("n" * 255, flags=4)), "ok"),
    Row("a queue name beyond ascii", sends(queue_declare("žluťoučký 🐇", flags=4)), "ok"),
    Row(
        "a key twice in a table",
        declares(flags=4, table=long((short("k") + b"t\1") * 2)),
        "ok",
    ),
    Row(
        "a key of 200 characters in a table",
        declares(flags=4, table=long(short("1" * 200) + b"t\1")),
        "ok",
    ),
]


@each(FRAMING)
def test_a_framing_mistake_ends_as_written(broker: Broker, bystander: Bystander, row: Row):
    assert_row_holds(broker, bystander, row)


@each(METHODS)
def test_a_method_out_of_place_ends_as_written(broker: Broker, bystander: Bystander, row: Row):
    assert_row_holds(broker, bystander, row)


@each(ENCODING)
def test_an_encoding_mistake_ends_as_written(broker: Broker, bystander: Bystander, row: Row):
    assert_row_holds(broker, bystander, row)


def test_a_payload_of_exactly_frame_max_bytes_is_tolerated(peer: Peer):
    payload = bytes(FRAME_BYTES_MAX)
    queue = peer.queue
    peer.send_bytes(publish("", queue) + content_header(len(payload)) + content_body(payload))
    assert peer.get(queue) == payload


def test_frames_to_a_client_keep_to_the_frame_max_it_asked_for(broker: Broker):
    payload = bytes(range(256)) * 64
    with RawClient(broker.host, broker.port) as client:
        client.open(frame_max=4_096)
        client.open_channel()
        queue = client.declare()
        client.send_bytes(publish("", queue) + content_header(len(payload)))
        for start in range(0, len(payload), 4_000):
            client.send_bytes(content_body(payload[start : start + 4_000]))
        client.call(commands.Basic.Get(queue=queue, no_ack=True), commands.Basic.GetOk)
        _, head = client.receive()
        sizes, received = [], b""
        while len(received) < head.body_size:
            _, part = client.receive()
            sizes.append(len(part.value))
            received += part.value
        assert received == payload
        assert max(sizes) <= 4_096 - 8


def test_a_frame_beyond_the_frame_max_a_client_asked_for_is_refused(
    broker: Broker, bystander: Bystander
):
    with RawClient(broker.host, broker.port) as client:
        client.open(frame_max=4_096)
        client.open_channel()
        client.send_bytes(frame_head(FRAME_BODY, 4_097))
        outcome = client.outcome()
        assert (outcome.scope, outcome.code) == ("connection", 501)
    assert_nobody_noticed(broker, bystander)


@pytest.mark.differs_from_rabbitmq(CRASHES)
def test_the_close_names_the_method_that_was_unknown(peer: Peer):
    peer.send_bytes(method(50, 99))
    outcome = peer.outcome()
    assert (outcome.class_id, outcome.method_id) == (50, 99)


def test_half_a_frame_and_then_the_end_is_the_end(broker: Broker, bystander: Bystander, peer: Peer):
    peer.send_bytes(queue_declare(peer.name)[:20])
    peer.socket.shutdown(socket.SHUT_WR)
    peer.wait_until_dropped()
    assert_nobody_noticed(broker, bystander)


def test_frames_may_arrive_one_byte_at_a_time(peer: Peer):
    raw = queue_declare(peer.name, flags=4)
    for index in range(len(raw)):
        peer.send_bytes(raw[index : index + 1])
    assert peer.expect(commands.Queue.DeclareOk).queue == peer.name
