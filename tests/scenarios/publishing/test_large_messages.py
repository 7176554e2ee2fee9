"""Messages of many frames, in whatever reads they arrive: the same bytes come back."""

from __future__ import annotations

import random
import time

import pytest
from pamqp import body, commands
from scenarios.clients.bad_input import Broker, Peer
from scenarios.clients.raw_client import (
    FRAME_BYTES_MAX,
    RawClient,
    content_body,
    content_header,
    publish,
)

SIZES = (1, 70_000, 131_064, 131_072, 1 << 20, 3_000_000)


def message(queue: str, payload: bytes, frame_bytes: int) -> bytes:
    frames = [
        content_body(payload[at : at + frame_bytes]) for at in range(0, len(payload), frame_bytes)
    ]
    return publish("", queue) + content_header(len(payload)) + b"".join(frames)


def delivered(client: RawClient) -> bytes:
    client.expect(commands.Basic.Deliver)
    _, head = client.receive()
    payload = bytearray()
    while len(payload) < head.body_size:
        payload += client.expect(body.ContentBody).value
    return bytes(payload)


@pytest.mark.parametrize("frame_bytes", [4_000, 50_000, FRAME_BYTES_MAX - 8])
def test_large_messages_are_delivered_as_they_were_sent(peer: Peer, frame_bytes: int):
    queue, chance = peer.queue, random.Random(frame_bytes)
    payloads = [chance.randbytes(size) for size in SIZES]
    stream = b"".join(message(queue, payload, frame_bytes) for payload in payloads)
    at = 0
    while at < len(stream):
        size = chance.choice((1, 7, 8, 9, 100_000, 500_000))
        peer.send_bytes(stream[at : at + size])
        at += size
        if size < 10:
            time.sleep(0.001)  # so that these bytes are a read of their own, now and then
    peer.call(commands.Basic.Consume(queue=queue, no_ack=True), commands.Basic.ConsumeOk)
    assert [delivered(peer) for _ in payloads] == payloads


def test_a_large_body_whose_frame_has_no_end_closes_the_connection(broker: Broker):
    with Peer(broker.host, broker.port) as peer:
        peer.open()
        peer.open_channel()
        stream = bytearray(message(peer.queue, bytes(1 << 20), FRAME_BYTES_MAX - 8))
        stream[-FRAME_BYTES_MAX * 2 :] = bytes(FRAME_BYTES_MAX * 2)
        peer.send_bytes(bytes(stream))
        outcome = peer.outcome()
    assert (outcome.scope, outcome.code) == ("connection", 501)


def test_two_channels_take_turns_with_the_frames_of_large_bodies(peer: Peer):
    queue = peer.queue
    peer.open_channel(2)
    one, two = bytes(range(256)) * 2_048, bytes(reversed(range(256))) * 2_048
    for channel, payload in ((1, one), (2, two)):
        head = publish("", queue, channel=channel)
        peer.send_bytes(head + content_header(len(payload), channel=channel))
    step = 65_536
    for at in range(0, len(one), step):
        peer.send_bytes(content_body(one[at : at + step]) + content_body(two[at : at + step], 2))
    peer.call(commands.Basic.Consume(queue=queue, no_ack=True), commands.Basic.ConsumeOk)
    assert [delivered(peer), delivered(peer)] == [one, two]
