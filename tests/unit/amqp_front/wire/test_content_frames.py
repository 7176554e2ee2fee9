"""basic.get-ok and basic.return as pamqp reads them; large deliveries as those of the kernel."""

from array import array

import pytest
from pamqp import body, commands, header
from pamqp import frame as pamqp_frame

from routelog.amqp_front.wire.content_frames import (
    LARGE_BODY_BYTES,
    content_frames,
    deliveries_in_parts,
    is_large,
)
from routelog.amqp_front.wire.deliver_frames import encode_deliveries
from routelog.log_backend import Records, encode_records


@pytest.mark.parametrize("size", [0, 1, 99, 100, 101, 200, 201])
def test_a_message_is_cut_into_frames(size: int) -> None:
    properties = commands.Basic.Properties(app_id="app", headers={"a": 1}).marshal()
    content = bytes(at % 251 for at in range(size))
    parts = content_frames(
        7,
        100,
        properties,
        content,
        commands.Basic.Return,
        reply_code=312,
        reply_text="NO_ROUTE",
        exchange=b"x",
        routing_key=b"k",
    )
    (stream,) = map(bytes, parts)
    read = []
    while stream:
        used, channel, frame = pamqp_frame.unmarshal(stream)
        assert channel == 7
        read.append(frame)
        stream = stream[used:]
    method, head, *pieces = read
    assert isinstance(method, commands.Basic.Return)
    assert (method.reply_code, method.exchange, method.routing_key) == (312, "x", "k")
    assert isinstance(head, header.ContentHeader)
    assert (head.body_size, head.properties.app_id) == (size, "app")
    bodies = [piece.value for piece in pieces if isinstance(piece, body.ContentBody)]
    sizes = [len(each) for each in bodies]
    assert sizes == [100] * (size // 100) + [size % 100] * (size % 100 > 0)
    assert len(bodies) == len(pieces)
    assert b"".join(bodies) == content


def large_records(sizes: list[int], *, keyed: bool) -> Records:
    source = bytearray(at % 251 for at in range(sum(sizes) + 1))
    keys, properties = b"k1k2", commands.Basic.Properties(app_id="app").marshal()
    rows, at = array("i"), 0
    for index, size in enumerate(sizes):
        end = len(source)
        rows.extend((end, 2 * index, end + 4, len(properties), at, size))
        at += size
    source += keys + properties
    shared = None if keyed else b"key"
    return encode_records(
        memoryview(source), memoryview(rows), None, len(sizes), b"logs", shared, 0, 1
    )


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("frame_max", [4_088, 131_064, LARGE_BODY_BYTES, 1 << 20])
def test_deliveries_in_parts_are_those_of_the_kernel_in_parts(frame_max: int, keyed: bool) -> None:
    records = large_records([LARGE_BODY_BYTES * 2 - 7, 131_064, LARGE_BODY_BYTES], keyed=keyed)
    arguments = (records, 1, 2, 9, b"tag", 77, True, frame_max)
    parts = deliveries_in_parts(*arguments, map(records.properties, (1, 2)))
    assert b"".join(parts) == encode_deliveries(*arguments)
    views = [part for part in parts if isinstance(part, memoryview)]
    assert sum(map(len, views)) == 131_064 + LARGE_BODY_BYTES
    assert all(view.obj is records.payload for view in views)


def test_a_batch_is_large_by_the_mean_of_its_bodies() -> None:
    assert is_large(large_records([LARGE_BODY_BYTES], keyed=False))
    assert is_large(large_records([2 * LARGE_BODY_BYTES, 0], keyed=False))
    assert not is_large(large_records([2 * LARGE_BODY_BYTES - 1, 0], keyed=False))
