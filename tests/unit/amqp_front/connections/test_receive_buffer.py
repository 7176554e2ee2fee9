"""Reads of a connection: whatever their sizes, the same messages, and large bodies at once in their place."""

from __future__ import annotations

import random
import struct
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pamqp import commands
from support.intake_samples import share
from support.sampling import examples

from routelog.amqp_front.connections.body_receiver import DIRECT_BYTES_MIN, NEXT_BYTES_MAX
from routelog.amqp_front.connections.receive_buffer import ReceiveBuffer
from routelog.amqp_front.publishing.content import PartialContent
from routelog.amqp_front.wire.command import BegunPublish, Frame, PublishRun
from routelog.amqp_front.wire.errors import FRAME_ERROR, HardError
from routelog.amqp_front.wire.frame_cutter import FrameCutter
from routelog.vhosts import NodeCounters

FRAME_BYTES = 131_072
MESSAGE_BYTES_MAX = 4 << 20
PUBLISH = commands.Basic.Publish(0, "x", "k", False, False)
# Something else, on another channel
ACK = struct.pack(">BHIHHQB", 1, 2, 13, 60, 80, 1, 0) + b"\xce"


def frame(kind: int, payload: bytes, channel: int = 1) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + b"\xce"


class Client:
    """A connection's channels, as far as content goes, fed from a stream in reads of some sizes."""

    def __init__(self) -> None:
        self.cutter = FrameCutter(FRAME_BYTES)
        self.gate = SimpleNamespace(closed=False)
        self.contents: dict[int, PartialContent] = {}
        self.received: list[bytes] = []
        self.others = 0
        self.body_frames: list[int] = []  # sizes of those that were cut out of the buffer
        services = SimpleNamespace(cutter=self.cutter, gate=self.gate)
        self.receive_buffer = ReceiveBuffer(
            cast(Any, services), cast(Any, self), NodeCounters().connection()
        )
        self.receive_buffer.frame_limit = FRAME_BYTES
        self.reads: list[int] = []

    @property
    def assembling(self) -> tuple[int, ...]:
        return tuple(self.contents)

    def partial(self, number: int) -> PartialContent | None:
        return self.contents.get(number)

    def feed(self, stream: bytes, sizes: random.Random | None = None) -> None:
        at = 0
        while at < len(stream):
            room = self.receive_buffer.room()
            most = len(room) if sizes is None else sizes.choice((1, 7, 8, 9, 20_000, 140_000))
            piece = stream[at : at + min(most, len(room))]
            room[: len(piece)] = piece
            at += len(piece)
            self.reads.append(len(piece))
            if self.receive_buffer.received(len(piece)):
                self.carry_out()

    def carry_out(self) -> None:
        while (command := self.cutter.next(bool(self.contents))) is not None:
            if isinstance(command, PublishRun):
                self.received += [command.body(at) for at in range(command.count)]
            elif isinstance(command, BegunPublish):
                self.contents[1] = PartialContent.begun(command, share())
            elif isinstance(command, Frame) and command.channel == 1:
                self._content(command)
            else:
                self.others += 1
        self.receive_buffer.keep()

    def _content(self, command: Frame) -> None:
        if command.kind == 1:
            self.contents[1] = PartialContent.of_method(PUBLISH, MESSAGE_BYTES_MAX, share())
            return
        if command.kind == 3:
            self.body_frames.append(len(command.payload))
        run = self.contents[1].add(command)
        if run is not None:
            del self.contents[1]
            self.received.append(run.records(0, 1).body(0))


def message(body: bytes, pieces: list[int]) -> bytes:
    method = struct.pack(">HHH", 60, 40, 0) + b"\x01x\x01k\x00"
    stream = frame(1, method) + frame(2, struct.pack(">HHQ", 60, 0, len(body)) + b"\0\0")
    at = 0
    for size in pieces:
        stream += frame(3, body[at : at + size])
        at += size
    assert at == len(body)
    return stream


def cut(total: int, chance: random.Random) -> list[int]:
    sizes = []
    while total:
        sizes.append(min(total, chance.choice((1, 5, 4_000, 16_384, 40_000, 131_064, 131_072))))
        total -= sizes[-1]
    return sizes


@pytest.mark.parametrize("seed", range(examples(30)))
def test_messages_are_the_same_whatever_the_reads_and_frames(seed: int) -> None:
    chance = random.Random(seed)
    bodies = [chance.randbytes(chance.choice((0, 10, 70_000, 300_000))) for _ in range(12)]
    stream = b""
    for body in bodies:
        stream += message(body, cut(len(body), chance)) + ACK * chance.randrange(3)
    client = Client()
    client.feed(stream, chance)
    assert client.received == bodies


def test_a_large_body_is_copied_by_no_more_than_its_beginning() -> None:
    body = random.Random(1).randbytes(1 << 20)
    pieces = [131_064] * 8 + [64]
    client = Client()
    client.feed(message(body, pieces) * 3 + ACK)
    assert client.received == [body] * 3
    assert client.others == 1
    # Only the first message met a large read; the end of a body comes with what follows, in a short one.
    assert client.body_frames == [131_064, 131_064, 64, 64, 64]
    assert len(client.reads) == 8 + 9 + 9
    assert max(client.reads[1:-1]) <= 131_064 + 8
    assert NEXT_BYTES_MAX in client.reads


def test_a_small_rest_of_a_frame_is_read_with_what_follows() -> None:
    body = bytes(DIRECT_BYTES_MIN + 1_000)
    client = Client()
    stream = message(body + b"x", [len(body), 1])
    client.feed(stream[: -DIRECT_BYTES_MIN + 5])
    assert len(client.receive_buffer.room()) > FRAME_BYTES
    client.feed(stream[-DIRECT_BYTES_MIN + 5 :])
    assert client.received == [body + b"x"]


def test_a_closed_gate_is_met_at_the_next_frame() -> None:
    body = random.Random(2).randbytes(400_000)
    stream = message(body, [131_064] * 3 + [6_808])
    client = Client()
    client.feed(stream[:200])
    client.gate.closed = True
    client.feed(stream[200:])
    assert client.received == [body]
    assert client.body_frames == [0, 0, 0, 6_808]  # each is seen by who looks at the gate


def test_a_frame_without_its_end_is_refused() -> None:
    body = bytes(300_000)
    stream = bytearray(message(body, [131_064, 131_064, 37_872]))
    first_end = stream.index(b"\x03\x00\x01") + 7 + 131_064
    assert stream[first_end] == 0xCE
    stream[first_end] = 0
    client = Client()
    client.feed(bytes(stream[:5_000]))
    with pytest.raises(HardError) as caught:
        client.feed(bytes(stream[5_000:]))
    assert caught.value.code == FRAME_ERROR
    assert client.received == []


def test_more_body_than_announced_is_left_to_who_refuses_it() -> None:
    body = bytes(200_000)
    client = Client()
    stream = message(body, [131_064, 68_936])
    more = stream[: -68_936 - 8] + frame(3, bytes(68_937))
    client.feed(stream[:5_000])
    with pytest.raises(HardError) as caught:
        client.feed(more[5_000:])
    assert caught.value.code == FRAME_ERROR


def test_the_limit_of_runs_holds_for_reads_and_for_what_is_cut_again() -> None:
    client = Client()
    message = frame(1, b"\0\x3c\0\x28\0\0\0\0\0") + frame(2, b"\0\x3c" + bytes(12))
    client.receive_buffer.run_limit = 2
    room = client.receive_buffer.room()
    room[: 5 * len(message)] = message * 5
    assert client.receive_buffer.received(5 * len(message))
    first = client.cutter.next(False)
    assert isinstance(first, PublishRun)
    client.receive_buffer.keep()
    client.receive_buffer.run_limit = 3
    client.receive_buffer.again()
    second = client.cutter.next(False)
    assert isinstance(second, PublishRun)
    assert (first.count, second.count) == (2, 3)
