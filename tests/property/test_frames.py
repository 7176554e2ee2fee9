"""The kernel of the wire: compiled against uncompiled, and both against pamqp frame by frame."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pamqp import body, commands, header
from pamqp import frame as pamqp_frame
from support.frame_samples import (
    ACK,
    PROPERTIES,
    RARE,
    SAMPLES,
    Cut,
    byte_by_byte,
    cut,
    heartbeat_frame,
    method,
    publish_frames,
    reference,
    settlement,
    source_module,
)

from routelog.amqp_front.wire import deliver_frames, frame_cutter
from routelog.amqp_front.wire.added_headers import AddedHeaders
from routelog.amqp_front.wire.command import Command
from routelog.amqp_front.wire.content_frames import deliveries_in_parts
from routelog.amqp_front.wire.errors import AmqpError
from routelog.amqp_front.wire.properties import Properties
from routelog.log_backend import Records, encode_records

uncompiled_cutter = source_module("routelog.amqp_front.wire.frame_cutter")
uncompiled_deliver = source_module("routelog.amqp_front.wire.deliver_frames")

is_compiled = not str(frame_cutter.__file__).endswith(".py")
needs_compiled = pytest.mark.skipif(not is_compiled, reason="the kernel runs uncompiled")

FRAME_MAX = 4096  # small, so that its edges are met
CUTTERS = [frame_cutter.FrameCutter(FRAME_MAX), uncompiled_cutter.FrameCutter(FRAME_MAX)]

bounded = settings(max_examples=150, deadline=None, derandomize=True)

# -- streams of frames; an element is the frames that must follow each other on its channel

channels = st.integers(1, 3)
names = st.sampled_from(["", "x", "logs", "a.b", "n" * 127])
keys = st.sampled_from(["", "k", "key", "a.b.c", "k" * 255]) | st.text(max_size=20)
bodies = st.binary(max_size=40) | st.integers(1, 3 * FRAME_MAX).map(bytes)
tables = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.text(max_size=5)
    | st.floats(width=32, allow_nan=False),
    lambda values: (
        st.lists(values, max_size=3) | st.dictionaries(st.text(max_size=4), values, max_size=3)
    ),
    max_leaves=6,
)
properties = st.sampled_from(list(PROPERTIES.values())) | st.builds(
    commands.Basic.Properties,
    headers=st.none() | st.dictionaries(st.sampled_from(["a", "CC", "BCC", "x-y"]), tables),
    delivery_mode=st.none() | st.sampled_from([1, 2]),
    priority=st.none() | st.integers(0, 255),
    correlation_id=st.none() | st.text(max_size=10),
)


@st.composite
def publishes(draw: st.DrawFn) -> list[bytes]:
    content = draw(bodies)
    pieces = list(range(FRAME_MAX, len(content), FRAME_MAX))
    if content and draw(st.integers(0, 3)) == 0:
        pieces = sorted([*pieces, *draw(st.lists(st.integers(0, len(content) - 1), max_size=4))])
    frames = publish_frames(
        draw(channels),
        draw(names),
        draw(keys),
        content,
        draw(properties),
        mandatory=draw(st.booleans()),
        immediate=draw(st.integers(0, 9)) == 0,
        pieces=tuple(pieces),
    )
    return frames * draw(st.sampled_from([1, 1, 2, 5]))


@st.composite
def settled(draw: st.DrawFn) -> list[bytes]:
    channel, outcome, first = draw(channels), draw(st.integers(0, 2)), draw(st.integers(0, 1000))
    multiple, reject = draw(st.booleans()), outcome != ACK and draw(st.booleans())
    return [
        method(channel, settlement(outcome, tag, multiple=multiple, reject=reject))
        for tag in range(first, first + draw(st.integers(1, 6)))
    ]


rare = st.sampled_from(RARE).map(lambda each: [method(*each)])
heartbeats = st.just([heartbeat_frame()])
elements = publishes() | settled() | rare | heartbeats


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """Elements one behind the other; now and then heartbeats or another channel in between."""
    stream = b""
    for element in draw(st.lists(elements, max_size=8)):
        between = draw(st.sampled_from([None, None, "heartbeat", "other"]))
        if between == "heartbeat":
            stream += heartbeat_frame().join(element)
        elif between == "other":
            own = element[0][1:3]
            guests = [frame for frame in draw(settled()) if frame[1:3] != own]
            stream += b"".join(frame + b"".join(guests[:1]) for frame in element)
        else:
            stream += b"".join(element)
    return stream


@st.composite
def splits(draw: st.DrawFn, stream: bytes) -> list[bytes]:
    cuts = sorted(draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    return [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]


def fed(stream: bytes) -> list[bytes]:
    """Reads as large as the receive buffer allows."""
    return [stream[at : at + 200_000] for at in range(0, len(stream), 200_000)]


@pytest.mark.parametrize("cutter", CUTTERS, ids=["taken", "uncompiled"])
@bounded
@given(data=st.data())
def test_streams_are_cut_as_pamqp_reads_them(
    cutter: frame_cutter.FrameCutter, data: st.DataObject
) -> None:
    stream = data.draw(streams())
    expected = Cut(reference(stream), None, b"")
    assert cut(cutter, fed(stream), FRAME_MAX) == expected
    assert cut(cutter, data.draw(splits(stream)), FRAME_MAX) == expected
    if len(stream) < 2000:
        assert cut(cutter, byte_by_byte(stream), FRAME_MAX) == expected


@bounded
@given(data=st.data())
def test_a_cut_off_stream_ends_where_its_last_whole_message_ends(data: st.DataObject) -> None:
    stream = data.draw(streams())
    end = data.draw(st.integers(0, len(stream)))
    whole = cut(CUTTERS[0], fed(stream), FRAME_MAX).commands
    for cutter in CUTTERS:
        part = cut(cutter, fed(stream[:end]), FRAME_MAX)
        assert part.error is None
        assert part.commands == whole[: len(part.commands)]
        rest = cut(cutter, [*fed(stream[:end]), *fed(stream[end:])], FRAME_MAX)
        assert rest == Cut(whole, None, b"")


# -- broken streams

Mutation = Callable[[bytes], bytes]


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A valid stream with octets changed, removed, put in or swapped with those of another place."""
    stream = bytearray(draw(streams() | st.sampled_from(list(SAMPLES.values()))))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, min(len(stream), 400) - 1)))
        octets = draw(
            st.binary(min_size=1, max_size=4)
            | st.sampled_from([b"\xce", b"\xff\xff\xff\xff", b"\0\0\0\0", b"\0\x3c\0\x28", b"\x7f"])
        )
        kept = draw(st.sampled_from([0, len(octets), len(octets), len(octets)]))
        stream[at : at + kept] = octets
        if draw(st.integers(0, 5)) == 0:
            del stream[at : at + draw(st.integers(1, 9))]
    return bytes(stream)


def soiled(cutter: frame_cutter.FrameCutter, octet: int) -> frame_cutter.FrameCutter:
    """The cutter with every octet of its buffer set: what is behind the read must not matter."""
    buffer = cutter.receive_into(b"")
    buffer[:] = bytes((octet,)) * len(buffer)
    return cutter


@settings(bounded, max_examples=400)
@given(data=st.data())
def test_a_broken_stream_is_refused_alike_however_it_comes(data: st.DataObject) -> None:
    stream = data.draw(mutated())
    expected = cut(soiled(CUTTERS[0], 0), fed(stream), FRAME_MAX)
    for cutter in CUTTERS:
        assert cut(soiled(cutter, 0xCE), fed(stream), FRAME_MAX) == expected
        assert cut(soiled(cutter, 0x02), data.draw(splits(stream)), FRAME_MAX) == expected


class Hesitant:
    """A cutter whose connection gives commands back now and then, while others use the buffer."""

    def __init__(self, cutter: frame_cutter.FrameCutter, data: st.DataObject) -> None:
        self._cutter = cutter
        self._data = data
        self.receive_into = cutter.receive_into
        self.received = cutter.received
        self.unread = cutter.unread

    def next(self, assembling: bool) -> Command | None:
        while (command := self._cutter.next(assembling)) is not None:
            if not self._data.draw(st.booleans()):
                return command
            self._cutter.give_back()
            kept = self._cutter.unread()
            others = self._data.draw(streams())
            self._cutter.receive_into(others)
            self._cutter.received(0, FRAME_MAX)
            self._cutter.next(False)
            self._cutter.receive_into(kept)
            self._cutter.received(0, FRAME_MAX)
        return None


@pytest.mark.parametrize("cutter", CUTTERS, ids=["taken", "uncompiled"])
@settings(bounded, max_examples=60)
@given(data=st.data())
def test_what_is_given_back_is_cut_as_if_it_had_not_been(
    cutter: frame_cutter.FrameCutter, data: st.DataObject
) -> None:
    stream = data.draw(streams() | mutated())
    expected = cut(cutter, fed(stream), FRAME_MAX)
    assert cut(Hesitant(cutter, data), data.draw(splits(stream)), FRAME_MAX) == expected


@bounded
@given(stream=st.binary(max_size=200), assembling=st.booleans())
def test_noise_is_refused_with_an_amqp_error_or_awaits_more(
    stream: bytes, assembling: bool
) -> None:
    outcomes = []
    for cutter in CUTTERS:
        soiled(cutter, 1)
        cutter.receive_into(b"")[: len(stream)] = stream
        cutter.received(len(stream), FRAME_MAX)
        seen: list[str] = []
        try:
            while (command := cutter.next(assembling)) is not None:
                seen.append(type(command).__name__)
        except AmqpError as error:
            seen.append(error.reason)
        outcomes.append(seen)
    assert outcomes[0] == outcomes[1]


@needs_compiled
@bounded
@given(tags=st.lists(st.sampled_from([0, 1, 2, 2**63, 2**64 - 2, 2**64 - 1]), max_size=8))
def test_tags_at_the_edges_settle_alike(tags: list[int]) -> None:
    frames = [
        b"\x01\0\x01\0\0\0\x0d\0\x3c\0\x50" + struct.pack(">QBB", tag, 0, 206) for tag in tags
    ]
    outcomes = [cut(cutter, [b"".join(frames)], FRAME_MAX) for cutter in CUTTERS]
    assert outcomes[0] == outcomes[1]
    assert [flat.parts[1] for flat in outcomes[0].commands] == tags


# -- deliveries


@st.composite
def batches(draw: st.DrawFn) -> Records:
    count = draw(st.integers(1, 6))
    large = draw(st.booleans())
    rows, source = array("i"), bytearray()
    for _ in range(count):
        body_bytes = draw(st.integers(0, 60) | (st.integers(0, 9000) if large else st.just(3)))
        name = draw(st.sampled_from(["none", "persistent", "headers", "all"]))
        marshalled = PROPERTIES[name].marshal()
        for part in (draw(st.binary(max_size=12)), marshalled, bytes(range(256)) * 36):
            length = body_bytes if len(part) > 9000 else len(part)
            rows.extend((len(source), length))
            source += part[:length]
    shared = draw(st.none() | st.binary(max_size=255))
    exchange = draw(st.binary(max_size=255))
    records: Records = encode_records(
        memoryview(source), memoryview(rows), None, count, exchange, shared, 0, 5
    )
    return records


def deliveries(stream: bytes) -> list[tuple[object, ...]]:
    """Channel, tag, delivery tag, redelivered, exchange, key, properties and body of each."""
    found: list[tuple[object, ...]] = []
    at = 0
    while at < len(stream):
        kind, channel, size = struct.unpack_from(">BHI", stream, at)
        payload = stream[at + 7 : at + 7 + size]
        assert stream[at + 7 + size] == 0xCE
        at += size + 8
        if kind == 1:
            assert payload[:4] == b"\0\x3c\0\x3c"
            place, tag = 4, b""
            tag, place = _short_string(payload, place)
            delivery_tag, redelivered = struct.unpack_from(">QB", payload, place)
            exchange, place = _short_string(payload, place + 9)
            key, place = _short_string(payload, place)
            assert place == size
            begun = (channel, tag, delivery_tag, redelivered, exchange, key)
        elif kind == 2:
            class_id, weight, missing = struct.unpack_from(">HHQ", payload)
            assert (class_id, weight) == (60, 0)
            found.append((*begun, payload[12:], b""))
        else:
            assert 0 < size <= missing
            missing -= size
            found[-1] = (*found[-1][:-1], found[-1][-1] + payload)  # type: ignore[operator]
    return found


def _short_string(payload: bytes, at: int) -> tuple[bytes, int]:
    end = at + 1 + payload[at]
    return payload[at + 1 : end], end


@bounded
@given(data=st.data())
def test_deliveries_carry_the_records_compiled_or_not(data: st.DataObject) -> None:
    records = data.draw(batches())
    first = data.draw(st.integers(0, records.count - 1))
    count = data.draw(st.integers(1, records.count - first))
    tag = data.draw(st.sampled_from([b"", b"tag", b"t" * 255]))
    delivery_tag = data.draw(st.sampled_from([1, 2**32, 2**64 - 10]))
    redelivered, limit = data.draw(st.booleans()), data.draw(st.sampled_from([1, 7, 4088, 131_064]))
    if limit < 8:
        limit = max(limit, records.bodies_bytes // 300)
    arguments = (records, first, count, 300, tag, delivery_tag, redelivered, limit)
    frames = bytes(deliver_frames.encode_deliveries(*arguments))
    assert bytes(uncompiled_deliver.encode_deliveries(*arguments)) == frames
    assert deliveries(frames) == [
        (
            300,
            tag,
            delivery_tag + at,
            redelivered,
            records.exchange,
            records.routing_key(first + at),
            records.properties(first + at),
            records.body(first + at),
        )
        for at in range(count)
    ]


@bounded
@given(data=st.data())
def test_added_headers_stand_in_front_of_the_published_ones(data: st.DataObject) -> None:
    records = data.draw(batches())
    first = data.draw(st.integers(0, records.count - 1))
    count = data.draw(st.integers(1, records.count - first))
    names = data.draw(
        st.lists(st.sampled_from([b"x-offset", b"x-n", b"y"]), min_size=1, unique=True)
    )
    numbers = st.lists(st.integers(0, 2**63 - 1), min_size=count, max_size=count)
    added = AddedHeaders(count, {name: data.draw(numbers) for name in names})
    limit = max(8, records.bodies_bytes // 300)
    arguments = (records, first, count, 300, b"tag", 1, False, limit, added)
    frames = bytes(deliver_frames.encode_deliveries(*arguments))
    assert bytes(uncompiled_deliver.encode_deliveries(*arguments)) == frames
    parts = deliveries_in_parts(
        *arguments[:-1],
        (
            Properties(records.properties(first + at)).with_integers(added.of(at))
            for at in range(count)
        ),
    )
    assert b"".join(parts) == frames


@pytest.mark.parametrize("module", [deliver_frames, uncompiled_deliver], ids=["taken", "source"])
@pytest.mark.parametrize("size", [0, 1, 4087, 4088, 4089, 8176, 8177])
@pytest.mark.parametrize("shared", [b"key", None], ids=["shared key", "keyed"])
def test_pamqp_reads_a_delivery(module: object, size: int, shared: bytes | None) -> None:
    properties = PROPERTIES["all"].marshal()
    source = b"own" + properties + bytes(size)
    rows = array("i", (0, 3, 3, len(properties), 3 + len(properties), size))
    view = memoryview(bytearray(source))
    records = encode_records(view, memoryview(rows), None, 1, b"logs", shared, 0, 5)
    stream = bytes(module.encode_deliveries(records, 0, 1, 9, b"tag", 77, True, 4088))  # type: ignore[attr-defined]
    read = []
    while stream:
        used, channel, frame = pamqp_frame.unmarshal(stream)
        assert channel == 9
        assert used <= 4096
        read.append(frame)
        stream = stream[used:]
    deliver, head, *pieces = read
    assert isinstance(deliver, commands.Basic.Deliver)
    key = "key" if shared else "own"
    assert dict(deliver) == {
        "consumer_tag": "tag",
        "delivery_tag": 77,
        "redelivered": True,
        "exchange": "logs",
        "routing_key": key,
    }
    assert isinstance(head, header.ContentHeader)
    assert (head.body_size, head.properties.app_id) == (size, "app")
    sizes = [len(piece) for piece in pieces if isinstance(piece, body.ContentBody)]
    assert sum(sizes) == size
    assert len(pieces) == len(sizes) == -(-size // 4088)
