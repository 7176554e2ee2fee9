# cython: annotation_typing=False
"""Encodes deliveries: slices of a record batch between frame headers, in one buffer.

    method   01 | channel u16 | size u32 | 60 u16 | 60 u16 | consumer tag | delivery tag u64 | redelivered u8
             | exchange | routing key | CE
    header   02 | channel u16 | size u32 | 60 u16 | 0 u16 | body size u64 | property list | CE
    body     03 | channel u16 | size u32 | up to frame-max - 8 bytes | CE         as often as needed

Source: AMQP 0-9-1 specification, sections 4.2.3 to 4.2.6 and class basic, method deliver.
"""

import struct

import cython

from log_backend import Records, new_buffer


def encode_deliveries(
    records: Records,
    first: int,
    count: int,
    channel: int,
    consumer_tag: bytes,
    delivery_tag: int,
    redelivered: bool,
    body_frame_max: int,
) -> bytearray:
    """The basic.deliver frames with content for a slice of a batch.

    Args:
        records: content of the batch.
        first, count: the slice, by index.
        consumer_tag: name on the wire, at most 255 bytes.
        delivery_tag: of the first delivery; the others follow by one.
        body_frame_max: largest body payload of a frame: frame-max - 8.

    Raises:
        ValueError: the slice is not inside of the batch.
    """
    if first < 0 or count < 1 or first + count > records.count:
        raise ValueError(f"records {first} to {first + count} of a batch of {records.count}")
    exchange = records.exchange
    head = struct.pack(">HH", 60, 60) + bytes((len(consumer_tag),)) + consumer_tag
    tail = bytes((redelivered, len(exchange))) + exchange
    keyed = records.has_key_column
    if not keyed:
        key = records.routing_key(0)
        tail += bytes((len(key),)) + key
    return _encode(
        memoryview(records.payload),
        records.offset_columns(),
        records.count + 1,
        records.bodies_at,
        records.properties_at,
        records.keys_at if keyed else -1,
        first,
        count,
        channel,
        head,
        tail,
        delivery_tag,
        body_frame_max,
    )


@cython.cfunc
@cython.locals(
    payload=cython.uchar[::1],
    offsets=cython.uint[::1],
    table=cython.Py_ssize_t,
    bodies_at=cython.Py_ssize_t,
    properties_at=cython.Py_ssize_t,
    keys_at=cython.Py_ssize_t,
    first=cython.Py_ssize_t,
    count=cython.Py_ssize_t,
    channel=cython.uint,
    delivery_tag=cython.ulonglong,
    body_frame_max=cython.Py_ssize_t,
    head_bytes=cython.Py_ssize_t,
    tail_bytes=cython.Py_ssize_t,
    prefix_bytes=cython.Py_ssize_t,
    body=cython.Py_ssize_t,
    properties=cython.Py_ssize_t,
    key=cython.Py_ssize_t,
    size=cython.Py_ssize_t,
    start=cython.Py_ssize_t,
    piece=cython.Py_ssize_t,
    at=cython.Py_ssize_t,
    i=cython.Py_ssize_t,
    last=cython.Py_ssize_t,
    shift=cython.int,
    template=cython.uchar[::1],
    target=cython.uchar[::1],
)
def _encode(
    payload: memoryview,
    offsets: memoryview,
    table: int,
    bodies_at: int,
    properties_at: int,
    keys_at: int,
    first: int,
    count: int,
    channel: int,
    head: bytes,
    tail: bytes,
    delivery_tag: int,
    body_frame_max: int,
) -> bytearray:
    # The offsets come from a checked batch, yet each copy below is checked against both buffers.
    head_bytes, tail_bytes = len(head), len(tail)
    last = first + count
    # The part of the method frame that all deliveries share: frame header, then head, tag, tail.
    template = memoryview(bytearray(struct.pack(">BHI", 1, channel, 0) + head + bytes(8) + tail))
    prefix_bytes = 7 + head_bytes + 8 + tail_bytes
    size = count * (prefix_bytes + 1 + 19 + 1)
    if keys_at >= 0:
        size += count + _sum(offsets, 2 * table, first, last)
    size += _sum(offsets, table, first, last) + _sum(offsets, 0, first, last)
    for i in range(first, last):
        body = cython.cast(cython.Py_ssize_t, offsets[i + 1]) - offsets[i]
        if body:
            size += 8 * ((body - 1) // body_frame_max + 1)
    out = new_buffer(size)
    target = memoryview(out)
    at = 0
    for i in range(first, last):
        body = cython.cast(cython.Py_ssize_t, offsets[i + 1]) - offsets[i]
        properties = cython.cast(cython.Py_ssize_t, offsets[table + i + 1]) - offsets[table + i]
        key = 0
        if keys_at >= 0:
            key = (
                cython.cast(cython.Py_ssize_t, offsets[2 * table + i + 1]) - offsets[2 * table + i]
            )
        if (
            body < 0
            or properties < 0
            or key < 0
            or at + prefix_bytes + (key + 1 if keys_at >= 0 else 0) + properties + body + 21 > size
            or bodies_at + offsets[i] + body > payload.shape[0]
            or properties_at + offsets[table + i] + properties > payload.shape[0]
        ):
            raise ValueError("the offset columns of a batch do not add up")
        # method frame
        if cython.compiled:
            memcpy(cython.address(target[at]), cython.address(template[0]), prefix_bytes)
        else:
            target[at : at + prefix_bytes] = template
        for shift in range(8):
            target[at + 7 + head_bytes + shift] = (delivery_tag >> (56 - 8 * shift)) & 0xFF
        delivery_tag += 1
        piece = prefix_bytes - 7
        if keys_at >= 0:
            piece += 1 + key
        _put_u32(target, at + 3, piece)
        at += prefix_bytes
        if keys_at >= 0:
            target[at] = key
            at += 1
            start = keys_at + offsets[2 * table + i]
            if start + key > payload.shape[0]:
                raise ValueError("the routing key column of a batch does not add up")
            if key:
                if cython.compiled:
                    memcpy(cython.address(target[at]), cython.address(payload[start]), key)
                else:
                    target[at : at + key] = payload[start : start + key]
            at += key
        target[at] = 0xCE
        at += 1
        # header frame
        target[at] = 2
        target[at + 1] = (channel >> 8) & 0xFF
        target[at + 2] = channel & 0xFF
        _put_u32(target, at + 3, 12 + properties)
        _put_u32(target, at + 7, 0x003C0000)
        _put_u32(target, at + 11, body >> 32)
        _put_u32(target, at + 15, body & 0xFFFFFFFF)
        at += 19
        start = properties_at + offsets[table + i]
        if properties:
            if cython.compiled:
                memcpy(cython.address(target[at]), cython.address(payload[start]), properties)
            else:
                target[at : at + properties] = payload[start : start + properties]
        at += properties
        target[at] = 0xCE
        at += 1
        # body frames
        start = bodies_at + offsets[i]
        while body > 0:
            piece = body if body < body_frame_max else body_frame_max
            if at + piece + 8 > size:
                raise ValueError("the body column of a batch does not add up")
            target[at] = 3
            target[at + 1] = (channel >> 8) & 0xFF
            target[at + 2] = channel & 0xFF
            _put_u32(target, at + 3, piece)
            at += 7
            if cython.compiled:
                memcpy(cython.address(target[at]), cython.address(payload[start]), piece)
            else:
                target[at : at + piece] = payload[start : start + piece]
            at += piece
            target[at] = 0xCE
            at += 1
            start += piece
            body -= piece
    return out


@cython.cfunc
@cython.inline
@cython.returns(cython.Py_ssize_t)
@cython.exceptval(check=True)
@cython.locals(
    offsets=cython.uint[::1],
    column=cython.Py_ssize_t,
    first=cython.Py_ssize_t,
    last=cython.Py_ssize_t,
)
def _sum(offsets: memoryview, column: int, first: int, last: int) -> int:
    return cython.cast(cython.Py_ssize_t, offsets[column + last]) - offsets[column + first]


@cython.cfunc
@cython.inline
@cython.exceptval(check=True)
@cython.returns(cython.int)
@cython.locals(target=cython.uchar[::1], at=cython.Py_ssize_t, value=cython.ulonglong)
def _put_u32(target: memoryview, at: int, value: int) -> int:
    target[at] = (value >> 24) & 0xFF
    target[at + 1] = (value >> 16) & 0xFF
    target[at + 2] = (value >> 8) & 0xFF
    target[at + 3] = value & 0xFF
    return 0
