# cython: annotation_typing=False
# mypy: allow-untyped-decorators, no-warn-return-any, disable-error-code="index,name-defined"
"""Encodes deliveries: slices of a record batch between frame headers, in one buffer.

    method   01 | channel u16 | size u32 | 60 u16 | 60 u16 | consumer tag | delivery tag u64 | redelivered u8
             | exchange | routing key | CE
    header   02 | channel u16 | size u32 | 60 u16 | 0 u16 | body size u64 | property list | CE
    body     03 | channel u16 | size u32 | up to frame-max - 8 bytes | CE         as often as needed

Headers that the broker adds stand in front of those that the message was published with.

Source: AMQP 0-9-1 specification, sections 4.2.3 to 4.2.6 and class basic, method deliver.
"""

import struct
from typing import Any

import cython

from routelog.amqp_front.wire.added_headers import NO_HEADERS, AddedHeaders
from routelog.log_backend.records.property_list import FIRST_FLAG, HEADERS
from routelog.log_backend.records.record_batch import KEY_COLUMN, Records, new_buffer, put_octets

_HEAD = struct.Struct(">BHIHHB")  # of the method frame, up to the length of the consumer tag
_KEY_COLUMN = cython.declare(cython.uint, KEY_COLUMN)
# Flags in the first octet of a property list
_CONTENT_TYPE = cython.declare(cython.uint, FIRST_FLAG >> 8)
_CONTENT_ENCODING = cython.declare(cython.uint, FIRST_FLAG >> 9)
_HEADERS = cython.declare(cython.uint, HEADERS >> 8)


@cython.locals(records=Records, payload=cython.uchar[::1])
def encode_deliveries(
    records: Records,
    first: int,
    count: int,
    channel: int,
    consumer_tag: bytes,
    delivery_tag: int,
    redelivered: bool,
    body_frame_max: int,
    added: AddedHeaders = NO_HEADERS,
) -> bytearray:
    """The basic.deliver frames with content for a slice of a batch.

    Args:
        records: content of the batch.
        first, count: the slice, by index.
        consumer_tag: name on the wire, at most 255 bytes.
        delivery_tag: of the first delivery; the others follow by one.
        body_frame_max: largest body payload of a frame: frame-max - 8.
        added: for the `count` messages; none of them was published with a header of these names.

    Raises:
        ValueError: the slice is not inside of the batch.
    """
    if first < 0 or count < 1 or first + count > records.count:
        raise ValueError(f"records {first} to {first + count} of a batch of {records.count}")
    payload = records.payload if cython.compiled else memoryview(records.payload)
    head = _HEAD.pack(1, channel, 0, 60, 60, len(consumer_tag)) + consumer_tag
    tail = bytes((redelivered, len(records.exchange))) + records.exchange
    keyed = records.attributes & _KEY_COLUMN
    if not keyed:
        tail += bytes((records.keys_bytes,)) + records.routing_key(0)
    return _encode(
        payload,
        records,
        first,
        count,
        channel,
        head,
        tail,
        keyed,
        delivery_tag,
        body_frame_max,
        added,
    )


@cython.cfunc
@cython.locals(
    payload=cython.uchar[::1],
    records=Records,
    table=cython.Py_ssize_t,
    bodies_at=cython.Py_ssize_t,
    properties_at=cython.Py_ssize_t,
    keys_at=cython.Py_ssize_t,
    first=cython.Py_ssize_t,
    count=cython.Py_ssize_t,
    channel=cython.uint,
    head=bytes,
    tail=bytes,
    keyed=cython.bint,
    delivery_tag=cython.ulonglong,
    body_frame_max=cython.Py_ssize_t,
    tag_at=cython.Py_ssize_t,
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
    out=bytearray,
    target=cython.p_uchar,
    fields=bytes,
    values=cython.longlong[::1],
    list_at=cython.Py_ssize_t,
    grown=cython.Py_ssize_t,
    field_count=cython.Py_ssize_t,
)
def _encode(
    payload: memoryview,
    records: Records,
    first: int,
    count: int,
    channel: int,
    head: bytes,
    tail: bytes,
    keyed: bool,
    delivery_tag: int,
    body_frame_max: int,
    added: AddedHeaders,
) -> bytearray:
    # The offsets come from a checked batch, yet each copy below is checked against both buffers.
    table = records.count + 1
    keys_at = (3 if keyed else 2) * 4 * table + len(records.exchange)
    properties_at = keys_at + records.keys_bytes
    bodies_at = properties_at + records.properties_bytes
    last = first + count
    # What the method frames of all deliveries share: head, tag, tail.
    tag_at = len(head)
    prefix_bytes = tag_at + 8 + len(tail)
    size = count * (prefix_bytes + 1 + 19 + 1)
    if keyed:
        size += count + _sum(payload, 2 * table, first, last)
    size += _sum(payload, table, first, last) + _sum(payload, 0, first, last)
    for i in range(first, last):
        body = _sum(payload, 0, i, i + 1)
        if body:
            size += 8 * ((body - 1) // body_frame_max + 1)
    if size < prefix_bytes:
        raise ValueError("the offset columns of a batch do not add up")
    fields, field_count = added.fields, len(added.names)
    if field_count:
        values = added.values
        if len(values) != count * field_count:
            raise ValueError("the added headers have other values than one for each message")
        for i in range(first, last):
            size += _growth(payload, properties_at + _u32(payload, table + i), len(fields))
    out = new_buffer(size)
    put_octets(out, 0, head)
    put_octets(out, tag_at + 8, tail)
    target = cython.cast(cython.p_uchar, PyByteArray_AS_STRING(out)) if cython.compiled else out
    at = 0
    for i in range(first, last):
        body = _sum(payload, 0, i, i + 1)
        properties = _sum(payload, table, i, i + 1)
        key = _sum(payload, 2 * table, i, i + 1) if keyed else 0
        list_at = properties_at + _u32(payload, table + i)
        grown = properties
        if field_count:
            grown += _growth(payload, list_at, len(fields))
        if (
            body < 0
            or properties < 0
            or key < 0
            or at + prefix_bytes + (key + 1 if keyed else 0) + grown + body + 21 > size
        ):
            raise ValueError("the offset columns of a batch do not add up")
        # method frame
        if i > first:
            if cython.compiled:
                memcpy(target + at, target, prefix_bytes)
            else:
                target[at : at + prefix_bytes] = target[:prefix_bytes]
        for shift in range(8):
            target[at + tag_at + shift] = (delivery_tag >> (56 - 8 * shift)) & 0xFF
        delivery_tag += 1
        piece = prefix_bytes - 7
        if keyed:
            piece += 1 + key
        _put_u32(target, at + 3, piece)
        at += prefix_bytes
        if keyed:
            target[at] = key & 0xFF
            at += 1
            _copy(target, at, payload, keys_at + _u32(payload, 2 * table + i), key)
            at += key
        target[at] = 0xCE
        at += 1
        # header frame
        target[at] = 2
        target[at + 1] = (channel >> 8) & 0xFF
        target[at + 2] = channel & 0xFF
        _put_u32(target, at + 3, 12 + grown)
        _put_u32(target, at + 7, 0x003C0000)
        _put_u32(target, at + 11, 0)  # u64, of bodies whose offsets are u32
        _put_u32(target, at + 15, body)
        at += 19
        if field_count:
            _put_headed(
                target,
                at,
                payload,
                list_at,
                properties,
                fields,
                values,
                (i - first) * field_count,
                field_count,
            )
        else:
            _copy(target, at, payload, list_at, properties)
        at += grown
        target[at] = 0xCE
        at += 1
        # body frames
        start = bodies_at + _u32(payload, i)
        while body > 0:
            piece = body if body < body_frame_max else body_frame_max
            if at + piece + 8 > size:
                raise ValueError("the body column of a batch does not add up")
            target[at] = 3
            target[at + 1] = (channel >> 8) & 0xFF
            target[at + 2] = channel & 0xFF
            _put_u32(target, at + 3, piece)
            at += 7
            _copy(target, at, payload, start, piece)
            at += piece
            target[at] = 0xCE
            at += 1
            start += piece
            body -= piece
    return out


@cython.cfunc
@cython.inline
@cython.returns(cython.Py_ssize_t)
@cython.exceptval(-1)
@cython.locals(payload=cython.uchar[::1], list_at=cython.Py_ssize_t, size=cython.Py_ssize_t)
def _growth(payload: memoryview, list_at: int, size: int) -> int:
    # By so much a property list grows with `size` octets of headers: it may have no header table yet.
    return size if _octet(payload, list_at) & _HEADERS else size + 4


@cython.cfunc
@cython.returns(cython.int)
@cython.exceptval(-1)
@cython.locals(
    target=cython.p_uchar,
    at=cython.Py_ssize_t,
    payload=cython.uchar[::1],
    list_at=cython.Py_ssize_t,
    list_bytes=cython.Py_ssize_t,
    fields=bytes,
    values=cython.longlong[::1],
    first=cython.Py_ssize_t,
    count=cython.Py_ssize_t,
    flags=cython.uint,
    before=cython.Py_ssize_t,
    table_bytes=cython.Py_ssize_t,
    behind=cython.Py_ssize_t,
    source=cython.p_uchar,
    field=cython.Py_ssize_t,
    value=cython.ulonglong,
    shift=cython.int,
    i=cython.Py_ssize_t,
)
def _put_headed(
    target: Any,
    at: int,
    payload: memoryview,
    list_at: int,
    list_bytes: int,
    fields: bytes,
    values: memoryview,
    first: int,
    count: int,
) -> int:
    # A property list with `count` headers more, whose values begin at `first`; there is room for it.
    flags, before, table_bytes = _octet(payload, list_at), 2, 0
    if flags & _CONTENT_TYPE:
        before += 1 + _octet(payload, list_at + before)
    if flags & _CONTENT_ENCODING:
        before += 1 + _octet(payload, list_at + before)
    behind = before + 4 if flags & _HEADERS else before
    if behind > list_bytes:
        raise ValueError("a property list of a batch does not add up")
    if flags & _HEADERS:
        for i in range(before, behind):
            table_bytes = table_bytes << 8 | _octet(payload, list_at + i)
    _copy(target, at, payload, list_at, before)
    target[at] = flags | _HEADERS
    at += before
    _put_u32(target, at, table_bytes + len(fields))
    at += 4
    if cython.compiled:
        source = cython.cast(cython.p_uchar, PyBytes_AS_STRING(fields))
        memcpy(target + at, source, len(fields))
    else:
        target[at : at + len(fields)] = fields
    field = at
    for i in range(count):
        field += 1 + target[field] + 1  # behind its name and its type
        value = values[first + i]
        for shift in range(8):
            target[field + shift] = (value >> (56 - 8 * shift)) & 0xFF
        field += 8
    _copy(target, at + len(fields), payload, list_at + behind, list_bytes - behind)
    return 0


@cython.cfunc
@cython.inline
@cython.returns(cython.uint)
@cython.exceptval(check=True)
@cython.locals(payload=cython.uchar[::1], at=cython.Py_ssize_t)
def _octet(payload: memoryview, at: int) -> int:
    if cython.compiled and at >= payload.shape[0]:
        raise ValueError("the columns of a batch do not add up")
    return payload[at]


@cython.cfunc
@cython.inline
@cython.returns(cython.Py_ssize_t)
@cython.exceptval(-1)
@cython.locals(payload=cython.uchar[::1], index=cython.Py_ssize_t, number=cython.uint)
def _u32(payload: memoryview, index: int) -> int:
    # Of the offset columns, which begin a payload.
    number = 0
    if not cython.compiled:
        return int.from_bytes(payload[4 * index : 4 * index + 4], "little")
    if 4 * index + 4 > payload.shape[0]:
        raise ValueError("the offset columns of a batch do not fit into it")
    memcpy(cython.address(number), cython.address(payload[4 * index]), 4)
    return number


@cython.cfunc
@cython.inline
@cython.returns(cython.Py_ssize_t)
@cython.exceptval(-1, check=True)
@cython.locals(
    payload=cython.uchar[::1],
    column=cython.Py_ssize_t,
    first=cython.Py_ssize_t,
    last=cython.Py_ssize_t,
)
def _sum(payload: memoryview, column: int, first: int, last: int) -> int:
    return _u32(payload, column + last) - _u32(payload, column + first)


@cython.cfunc
@cython.inline
@cython.returns(cython.int)
@cython.exceptval(-1)
@cython.locals(
    target=cython.p_uchar,
    at=cython.Py_ssize_t,
    payload=cython.uchar[::1],
    start=cython.Py_ssize_t,
    size=cython.Py_ssize_t,
    payload_bytes=cython.Py_ssize_t,
)
def _copy(target: Any, at: int, payload: memoryview, start: int, size: int) -> int:
    # The caller answers for the target.
    payload_bytes = payload.shape[0] if cython.compiled else len(payload)
    if start + size > payload_bytes:
        raise ValueError("the columns of a batch do not add up")
    if size and cython.compiled:
        memcpy(target + at, cython.address(payload[start]), size)
    elif size:
        target[at : at + size] = payload[start : start + size]
    return 0


@cython.cfunc
@cython.inline
@cython.returns(cython.int)
@cython.exceptval(check=False)
@cython.locals(target=cython.p_uchar, at=cython.Py_ssize_t, value=cython.ulonglong)
def _put_u32(target: Any, at: int, value: int) -> int:
    target[at] = (value >> 24) & 0xFF
    target[at + 1] = (value >> 16) & 0xFF
    target[at + 2] = (value >> 8) & 0xFF
    target[at + 3] = value & 0xFF
    return 0
