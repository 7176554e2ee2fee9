# cython: annotation_typing=False
# mypy: allow-untyped-decorators, no-warn-return-any, disable-error-code="index,name-defined"
"""Encodes batches: gathers records that lie scattered in a receive buffer into columns.

A record table says where the parts of each record are. Its rows have six numbers: routing key start and length,
properties start and length, body start and length.
"""

from array import array

import cython

from routelog.log_backend.records.record_batch import (
    BATCH_ALIGNMENT,
    BATCH_BYTES_MAX,
    KEY_COLUMN,
    RECORDS_MAX,
    Records,
    new_buffer,
    new_records,
    put_octets,
    put_u32,
    put_u64,
)

ROW_COLUMNS = 6

# Compiled code reads these as C variables: a module's names it reads as slowly as Python does.
_ROW_COLUMNS = cython.declare(cython.Py_ssize_t, ROW_COLUMNS)
_BATCH_ALIGNMENT = cython.declare(cython.Py_ssize_t, BATCH_ALIGNMENT)


@cython.locals(
    source=cython.uchar[::1],
    rows=cython.int[::1],
    selection=cython.int[::1],
    count=cython.Py_ssize_t,
)
def encode_records(
    source: memoryview,
    rows: memoryview,
    selection: memoryview | None,
    count: int,
    exchange: bytes,
    routing_key: bytes | None,
    attributes: int,
    time: int,
) -> Records:
    """Gather records that lie scattered in a buffer into the columns of a batch.

    Args:
        source: the buffer that the rows point into.
        rows: record table, ROW_COLUMNS numbers a record.
        selection: indexes of the rows to take, in order; None: the first `count` rows.
        count: number of records, 1 to 65,535.
        exchange: name on the wire.
        routing_key: shared by all records; None: each record has its own, in its row.
        attributes: bits of `record_batch`; KEY_COLUMN is added here.
        time: microseconds since 1970.

    Raises:
        ValueError: no record, too many, or a row that points outside of the buffer.
    """
    return _encode(source, rows, selection, 0, count, exchange, routing_key, attributes, time)


@cython.locals(
    source=cython.uchar[::1],
    rows=cython.int[::1],
    order=cython.int[::1],
    first=cython.Py_ssize_t,
    end=cython.Py_ssize_t,
    selections=list,
    selection=list,
    parts=list,
)
def encode_parts(
    source: memoryview,
    rows: memoryview,
    selections: list[list[int]],
    exchange: bytes,
    routing_key: bytes | None,
    attributes: int,
    time: int,
) -> list[Records]:
    """Gather records into several batches; as `encode_records`, once for each selection."""
    parts = []
    order = array("i", bytes(4 * sum(map(len, selections))))
    first = end = 0
    for selection in selections:
        for row in selection:
            order[end] = row
            end += 1
        parts.append(
            _encode(
                source, rows, order, first, end - first, exchange, routing_key, attributes, time
            )
        )
        first = end
    return parts


@cython.locals(
    source=cython.uchar[::1],
    rows=cython.int[::1],
    count=cython.Py_ssize_t,
    row=cython.Py_ssize_t,
    i=cython.Py_ssize_t,
    keys=list,
)
def routing_keys(source: memoryview, rows: memoryview, count: int) -> list[bytes]:
    """The routing keys of the first records of a record table; see `encode_records`."""
    keys = []
    for i in range(count):
        row = _ROW_COLUMNS * i
        _check_row(rows, row, source.shape[0] if cython.compiled else len(source))
        if rows[row + 1] == 0:
            keys.append(b"")
        elif cython.compiled:
            keys.append(
                PyBytes_FromStringAndSize(
                    cython.cast(cython.p_char, cython.address(source[rows[row]])), rows[row + 1]
                )
            )
        else:
            keys.append(bytes(source[rows[row] : rows[row] + rows[row + 1]]))
    return keys


@cython.cfunc
@cython.locals(
    source=cython.uchar[::1],
    rows=cython.int[::1],
    selection=cython.int[::1],
    first=cython.Py_ssize_t,
    count=cython.Py_ssize_t,
    payload=bytearray,
    selected=cython.bint,
    i=cython.Py_ssize_t,
    row=cython.Py_ssize_t,
    column=cython.Py_ssize_t,
    exchange_at=cython.Py_ssize_t,
    key_at=cython.Py_ssize_t,
    property_at=cython.Py_ssize_t,
    body_at=cython.Py_ssize_t,
    size=cython.Py_ssize_t,
    bodies=cython.Py_ssize_t,
    properties=cython.Py_ssize_t,
    keys=cython.Py_ssize_t,
    keys_bytes=cython.Py_ssize_t,
    properties_bytes=cython.Py_ssize_t,
    bodies_bytes=cython.Py_ssize_t,
    source_bytes=cython.Py_ssize_t,
    keyed=cython.bint,
)
def _encode(
    source: memoryview,
    rows: memoryview,
    selection: memoryview | None,
    first: int,
    count: int,
    exchange: bytes,
    routing_key: bytes | None,
    attributes: int,
    time: int,
) -> Records:
    keyed = routing_key is None
    selected = selection is not None
    keys_bytes = 0
    properties_bytes = 0
    bodies_bytes = 0
    source_bytes = source.shape[0]
    if not 1 <= count <= RECORDS_MAX:
        raise ValueError(f"a batch holds 1 to {RECORDS_MAX} records, not {count}")
    for i in range(first, first + count):
        row = _ROW_COLUMNS * (selection[i] if selected else i)
        _check_row(rows, row, source_bytes)
        keys_bytes += rows[row + 1]
        properties_bytes += rows[row + 3]
        bodies_bytes += rows[row + 5]
    if routing_key is not None:
        keys_bytes = len(routing_key)
    column = 4 * (count + 1)
    exchange_at = (3 if keyed else 2) * column
    key_at = exchange_at + len(exchange)
    property_at = key_at + keys_bytes
    body_at = property_at + properties_bytes
    size = body_at + bodies_bytes
    if size > BATCH_BYTES_MAX:
        raise ValueError(f"a batch of {size} bytes is too large")
    size += -size % _BATCH_ALIGNMENT
    payload = new_buffer(size)
    put_u64(payload, size - 8, 0)  # the padding, and bytes before it that are overwritten below
    put_octets(payload, exchange_at, exchange)
    if not keyed:
        put_octets(payload, key_at, routing_key)
    bodies = 0
    properties = 0
    keys = 0
    for i in range(count):
        row = _ROW_COLUMNS * (selection[first + i] if selected else i)
        put_u32(payload, 4 * i, bodies)
        put_u32(payload, column + 4 * i, properties)
        _copy(payload, body_at + bodies, source, rows[row + 4], rows[row + 5])
        bodies += rows[row + 5]
        _copy(payload, property_at + properties, source, rows[row + 2], rows[row + 3])
        properties += rows[row + 3]
        if keyed:
            put_u32(payload, 2 * column + 4 * i, keys)
            _copy(payload, key_at + keys, source, rows[row], rows[row + 1])
            keys += rows[row + 1]
    put_u32(payload, 4 * count, bodies)
    put_u32(payload, column + 4 * count, properties)
    if keyed:
        put_u32(payload, 2 * column + 4 * count, keys)
    return new_records(
        payload,
        count,
        attributes | KEY_COLUMN if keyed else attributes,
        exchange,
        keys_bytes,
        properties_bytes,
        bodies_bytes,
        time,
    )


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
    # Compiled code does not check the places.
    if length:
        if cython.compiled:
            memcpy(PyByteArray_AS_STRING(target) + at, cython.address(source[start]), length)
        else:
            target[at : at + length] = source[start : start + length]
    return 0


@cython.cfunc
@cython.inline
@cython.exceptval(-1, check=False)
@cython.returns(cython.int)
@cython.locals(
    rows=cython.int[::1],
    row=cython.Py_ssize_t,
    source_bytes=cython.Py_ssize_t,
    part=cython.int,
)
def _check_row(rows: memoryview, row: int, source_bytes: int) -> int:
    for part in range(0, 6, 2):
        if rows[row + part] < 0 or rows[row + part + 1] < 0:
            raise ValueError("a row of the record table is negative")
        if rows[row + part] > source_bytes - rows[row + part + 1]:
            raise ValueError("a row of the record table points outside of its buffer")
    return 0
