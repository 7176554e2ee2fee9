"""Properties and headers are the publisher's bytes: they come back as they were sent."""

from __future__ import annotations

import struct

import pytest
from pamqp import commands
from scenarios.clients.bad_input import Broker, Peer
from scenarios.clients.raw_client import content_body, content_header, long, publish, short

HAS_HEADERS = b"\x20\0"
VALUES = {
    "boolean": b"t\x01",
    "signed 8 bit": b"b\xf9",
    "unsigned 8 bit": b"B\xf9",
    "signed 16 bit": b"s\xff\x01",
    "unsigned 16 bit": b"u\xff\x01",
    "signed 32 bit": b"I\xff\xff\xff\x01",
    "unsigned 32 bit": b"i\xff\xff\xff\x01",
    "signed 64 bit": b"l\xff\xff\xff\xff\xff\xff\xff\x01",
    "float": b"f" + struct.pack(">f", 1.5),
    "double": b"d" + struct.pack(">d", 1.1),
    "decimal": b"D\x02\x00\x00\x04\xd2",
    "long string": b"S" + long("žluť\0".encode()),
    "long string beyond utf-8": b"S" + long(b"\xff\xfe"),
    "array": b"A" + long(b"I\0\0\0\1" + b"S" + long(b"x") + b"V" + b"A" + long(b"")),
    "timestamp": b"T" + struct.pack(">Q", 1_900_000_000),
    "table": b"F" + long(short("k") + b"F" + long(short("l") + b"t\0")),
    "void": b"V",
    "byte array": b"x" + long(b"\0\xff"),
}
EVERY_PROPERTY = (
    b"\xff\xfc"
    + b"".join([short("text/plain"), short("gzip"), long(short("a") + b"t\1"), b"\2", b"\x09"])
    + b"".join([short("correlation"), short("reply-to"), short("60000"), short("message-id")])
    + struct.pack(">Q", 1_900_000_000)
    + b"".join([short("type"), short("guest"), short("app-id"), short("cluster-id")])
)


def returned_properties(broker: Broker, properties: bytes) -> bytes:
    """Publish a message with these property bytes, get it, and return its property bytes."""
    with Peer(broker.host, broker.port) as peer:
        peer.open()
        peer.open_channel()
        queue = peer.queue
        peer.send_bytes(publish("", queue) + content_header(1, properties) + content_body(b"x"))
        peer.call(commands.Basic.Get(queue=queue, no_ack=True), commands.Basic.GetOk)
        size = int.from_bytes(peer.receive_bytes(7)[3:], "big")
        return peer.receive_bytes(size + 1)[12:-1]


@pytest.mark.parametrize("kind", VALUES)
def test_a_header_value_of_any_type_comes_back_byte_for_byte(broker: Broker, kind: str):
    properties = HAS_HEADERS + long(short(kind) + VALUES[kind])
    assert returned_properties(broker, properties) == properties


def test_headers_of_all_types_together_keep_their_order(broker: Broker):
    entries = b"".join(short(kind) + value for kind, value in reversed(VALUES.items()))
    properties = HAS_HEADERS + long(entries)
    assert returned_properties(broker, properties) == properties


@pytest.mark.parametrize(
    "properties",
    [b"\0\0", EVERY_PROPERTY, HAS_HEADERS + long(b""), b"\x00\x08" + short("app")],
    ids=["none", "all", "an empty header table", "one"],
)
def test_properties_come_back_byte_for_byte(broker: Broker, properties: bytes):
    assert returned_properties(broker, properties) == properties


@pytest.mark.parametrize("pieces", [1, 2])
@pytest.mark.parametrize("key", [b"\xff\xfe.a", b"k\xc3\xa4se.a"], ids=["octets", "utf-8"])
def test_a_routing_key_of_any_octets_is_matched_and_comes_back(
    broker: Broker, key: bytes, pieces: int
):
    with Peer(broker.host, broker.port) as peer:
        peer.open()
        peer.open_channel()
        bind = commands.Queue.Bind(queue=peer.queue, exchange="amq.topic", routing_key="*.a")
        peer.call(bind, commands.Queue.BindOk)
        bodies = content_body(b"x" * (3 - pieces)) + content_body(b"x") * (pieces - 1)
        peer.send_bytes(publish("amq.topic", key) + content_header(2) + bodies)
        peer.send(commands.Basic.Get(queue=peer.queue, no_ack=True), 1)
        size = int.from_bytes(peer.receive_bytes(7)[3:], "big")
        assert short(key) in peer.receive_bytes(size + 1)
