# cython: annotation_typing=False
# mypy: allow-untyped-decorators, no-warn-return-any, disable-error-code="index,name-defined"
"""Joins the records of batches that follow one another, and cuts some out of a batch, column by column."""

from collections.abc import Sequence

import cython

from routelog.log_backend.records.record_batch import (
    BATCH_ALIGNMENT,
    KEY_COLUMN,
    Records,
    new_buffer,
    new_records,
    put_octets,
    put_u32,
    put_u64,
)

_KEY_COLUMN = cython.declare(cython.uint, KEY_COLUMN)
_ALIGNMENT = cython.declare(cython.Py_ssize_t, BATCH_ALIGNMENT)


@cython.locals(
    records=Records,
    count=cython.Py_ssize_t,
    keyed=cython.bint,
    exchange=bytes,
    key=bytes,
    first=Records,
    joined=Records,
    keys_bytes=cython.Py_ssize_t,
    properties_bytes=cython.Py_ssize_t,
    bodies_bytes=cython.Py_ssize_t,
    column=cython.Py_ssize_t,
    key_at=cython.Py_ssize_t,
    property_at=cython.Py_ssize_t,
    body_at=cython.Py_ssize_t,
    size=cython.Py_ssize_t,
    payload=bytearray,
    source=cython.uchar[::1],
    own_column=cython.Py_ssize_t,
    start=cython.Py_ssize_t,
    place=cython.Py_ssize_t,
    keys=cython.Py_ssize_t,
    properties=cython.Py_ssize_t,
    bodies=cython.Py_ssize_t,
    own_keys=cython.bint,
    i=cython.Py_ssize_t,
)
def join_records(parts: Sequence[Records]) -> Records:
    """The records of several batches as those of one, in their order.

    Args:
        parts: of one exchange, with the same attributes but for KEY_COLUMN; at most 65,535 records together.

    Cost:
        One copy of each byte.
    """
    first = parts[0]
    exchange = first.exchange
    keyed = first.attributes & _KEY_COLUMN != 0
    key = b"" if keyed else first.routing_key(0)
    count = keys_bytes = properties_bytes = bodies_bytes = 0
    for records in parts:
        count += records.count
        if records.attributes & _KEY_COLUMN:
            keyed = True
            keys_bytes += records.keys_bytes
        else:
            keyed = keyed or records.routing_key(0) != key
            keys_bytes += records.keys_bytes * records.count
        properties_bytes += records.properties_bytes
        bodies_bytes += records.bodies_bytes
    if not keyed:
        keys_bytes = first.keys_bytes
    column = 4 * (count + 1)
    key_at = (3 if keyed else 2) * column + len(exchange)
    property_at = key_at + keys_bytes
    body_at = property_at + properties_bytes
    size = body_at + bodies_bytes
    size += -size % _ALIGNMENT
    payload = new_buffer(size)
    put_u64(payload, size - 8, 0)  # the padding, and bytes before it that are overwritten below
    put_octets(payload, key_at - len(exchange), exchange)
    if not keyed:
        put_octets(payload, key_at, key)
    place = keys = properties = bodies = 0
    for records in parts:
        source = records.payload if cython.compiled else memoryview(records.payload)
        own_keys = records.attributes & _KEY_COLUMN != 0
        own_column = 4 * (records.count + 1)
        start = (3 if own_keys else 2) * own_column + len(exchange)
        for i in range(records.count):
            put_u32(payload, 4 * place, bodies + _u32(source, 4 * i))
            put_u32(payload, column + 4 * place, properties + _u32(source, own_column + 4 * i))
            if keyed and own_keys:
                put_u32(
                    payload, 2 * column + 4 * place, keys + _u32(source, 2 * own_column + 4 * i)
                )
            elif keyed:
                put_u32(payload, 2 * column + 4 * place, keys)
                _copy(payload, key_at + keys, source, start, records.keys_bytes)
                keys += records.keys_bytes
            place += 1
        if own_keys:
            _copy(payload, key_at + keys, source, start, records.keys_bytes)
            keys += records.keys_bytes
        start += records.keys_bytes
        _copy(payload, property_at + properties, source, start, records.properties_bytes)
        properties += records.properties_bytes
        start += records.properties_bytes
        _copy(payload, body_at + bodies, source, start, records.bodies_bytes)
        bodies += records.bodies_bytes
    put_u32(payload, 4 * count, bodies)
    put_u32(payload, column + 4 * count, properties)
    if keyed:
        put_u32(payload, 2 * column + 4 * count, keys)
    attributes = first.attributes & ~KEY_COLUMN | (KEY_COLUMN if keyed else 0)
    joined = new_records(
        payload,
        count,
        attributes,
        exchange,
        keys_bytes,
        properties_bytes,
        bodies_bytes,
        first.time,
    )
    joined.last_time = records.last_time
    return joined


@cython.locals(
    records=Records,
    index=cython.Py_ssize_t,
    count=cython.Py_ssize_t,
    cut=Records,
    columns=cython.Py_ssize_t,
    column=cython.Py_ssize_t,
    own_column=cython.Py_ssize_t,
    place=cython.Py_ssize_t,
    exchange_bytes=cython.Py_ssize_t,
    key_at=cython.Py_ssize_t,
    at=cython.Py_ssize_t,
    source_at=cython.Py_ssize_t,
    size=cython.Py_ssize_t,
    payload=bytearray,
    source=cython.uchar[::1],
    i=cython.Py_ssize_t,
    first=cython.uint,
    keys_first=cython.uint,
    properties_first=cython.uint,
    bodies_first=cython.uint,
    keys_bytes=cython.longlong,
    properties_bytes=cython.longlong,
    bodies_bytes=cython.longlong,
)
def slice_records(records: Records, index: int, count: int) -> Records:
    """The records [index, index + count) of a batch; the same object if these are all.

    Args:
        records: their payload is writable, as that of `encode_records`.

    Raises:
        ValueError: the slice is not inside of the batch, or the columns are not those of a batch.

    Cost:
        One copy of each byte of the slice.
    """
    if index < 0 or count < 1 or index + count > records.count:
        raise ValueError(f"records {index} to {index + count} of a batch of {records.count}")
    if count == records.count:
        return records
    source = records.payload if cython.compiled else memoryview(records.payload)
    columns = 3 if records.attributes & _KEY_COLUMN else 2
    column, own_column = 4 * (records.count + 1), 4 * (count + 1)
    exchange_bytes = len(records.exchange)
    source_at = columns * column + exchange_bytes
    size = source_at + records.keys_bytes + records.properties_bytes + records.bodies_bytes
    if len(source) < size:
        raise ValueError("the columns are cut off")
    bodies_first = _u32(source, 4 * index)
    bodies_bytes = _checked(bodies_first, _u32(source, 4 * (index + count)), records.bodies_bytes)
    place = column + 4 * index
    properties_first = _u32(source, place)
    properties_bytes = _checked(
        properties_first, _u32(source, place + 4 * count), records.properties_bytes
    )
    keys_first, keys_bytes = 0, records.keys_bytes
    if columns == 3:
        place += column
        keys_first = _u32(source, place)
        keys_bytes = _checked(keys_first, _u32(source, place + 4 * count), records.keys_bytes)
    key_at = columns * own_column + exchange_bytes
    size = key_at + keys_bytes + properties_bytes + bodies_bytes
    size += -size % _ALIGNMENT
    payload = new_buffer(size)
    put_u64(payload, size - 8, 0)  # the padding, and bytes before it that are overwritten below
    for i in range(count + 1):
        put_u32(payload, 4 * i, _u32(source, 4 * (index + i)) - bodies_first)
    at, place = own_column, column + 4 * index
    for i in range(count + 1):
        put_u32(payload, at + 4 * i, _u32(source, place + 4 * i) - properties_first)
    if columns == 3:
        at, place = at + own_column, place + column
        for i in range(count + 1):
            put_u32(payload, at + 4 * i, _u32(source, place + 4 * i) - keys_first)
    put_octets(payload, key_at - exchange_bytes, records.exchange)
    _copy(payload, key_at, source, source_at + keys_first, keys_bytes)
    at, source_at = key_at + keys_bytes, source_at + records.keys_bytes
    _copy(payload, at, source, source_at + properties_first, properties_bytes)
    at, source_at = at + properties_bytes, source_at + records.properties_bytes
    _copy(payload, at, source, source_at + bodies_first, bodies_bytes)
    cut = new_records(
        payload,
        count,
        records.attributes,
        records.exchange,
        keys_bytes,
        properties_bytes,
        bodies_bytes,
        records.time,
    )
    cut.last_time = records.last_time
    return cut


@cython.cfunc
@cython.returns(cython.longlong)
@cython.exceptval(-1)
@cython.locals(first=cython.longlong, end=cython.longlong, size=cython.longlong)
def _checked(first: int, end: int, size: int) -> int:
    # Memory is copied by these: a checksum says that they are what was written, not what they should be.
    if not first <= end <= size:
        raise ValueError("an offset is outside of its column")
    return end - first


@cython.cfunc
@cython.inline
@cython.returns(cython.Py_ssize_t)
@cython.exceptval(-1, check=False)
@cython.locals(source=cython.uchar[::1], at=cython.Py_ssize_t, number=cython.uint)
def _u32(source: memoryview, at: int) -> int:
    number = 0
    if not cython.compiled:
        return int.from_bytes(source[at : at + 4], "little")
    memcpy(cython.address(number), cython.address(source[at]), 4)
    return number


@cython.cfunc
@cython.inline
@cython.exceptval(-1, check=False)
@cython.returns(cython.int)
@cython.locals(
    target=bytearray,
    at=cython.Py_ssize_t,
    source=cython.uchar[::1],
    start=cython.Py_ssize_t,
    length=cython.Py_ssize_t,
)
def _copy(target: bytearray, at: int, source: memoryview, start: int, length: int) -> int:
    # The columns are those of a checked batch.
    if length:
        if cython.compiled:
            memcpy(PyByteArray_AS_STRING(target) + at, cython.address(source[start]), length)
        else:
            target[at : at + length] = source[start : start + length]
    return 0
