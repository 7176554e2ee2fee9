# cython: annotation_typing=False
# mypy: allow-untyped-decorators, no-warn-return-any, disable-error-code="index,name-defined"
"""Divides records among partitions: each partition gets a batch, in the order of publishing.

The partition of a key must never change, over restarts, versions and clients::

    partition = CRC-32C of the key's bytes, modulo the number of partitions
"""

from array import array

import cython

from routelog.log_backend.records.record_batch import KEY_COLUMN, Records, crc32c
from routelog.log_backend.records.record_encoding import ROW_COLUMNS, encode_records

_ROW_COLUMNS = cython.declare(cython.Py_ssize_t, ROW_COLUMNS)


def key_partition(key: bytes, partitions: int) -> int:
    """Index of the partition that a key belongs to."""
    return crc32c(key) % partitions


def split_by_routing_key(records: Records, partitions: int) -> list[tuple[int, Records]]:
    """Divide records that have a column of routing keys; see `split_records`."""
    places = array("i", bytes(4 * records.count))
    _place_keys(
        memoryview(records.payload),
        records.offset_columns(),
        records.count,
        records.keys_at,
        memoryview(_CRC_TABLE),
        memoryview(places),
        partitions,
    )
    return split_records(records, places, partitions)


def split_records(
    records: Records, places: "array[int]", partitions: int
) -> list[tuple[int, Records]]:
    """Divide records among partitions.

    Args:
        records: not changed; their payload is writable, as that of `encode_records`.
        places: the partition's index of each record, as C ints.
        partitions: number of partitions.

    Returns:
        Pairs of partition and records, ascending, without partitions that get none. If one partition gets all
        records, these are the records given, not a copy.

    Cost:
        Four passes over the records and one copy of each byte.
    """
    count = records.count
    selection = array("i", bytes(4 * count))
    ends = array("i", bytes(4 * (partitions + 1)))
    _group(memoryview(places), count, memoryview(selection), memoryview(ends), partitions)
    only = places[0]
    if ends[only] - (ends[only - 1] if only else 0) == count:
        return [(only, records)]
    keyed = records.has_key_column
    rows = array("i", bytes(4 * ROW_COLUMNS * count))
    _locate(
        records.offset_columns(),
        count,
        records.keys_at if keyed else -1,
        records.properties_at,
        records.bodies_at,
        memoryview(rows),
    )
    parts: list[tuple[int, Records]] = []
    first = 0
    for partition in range(partitions):
        end = ends[partition]
        if end > first:
            part = encode_records(
                memoryview(records.payload),
                memoryview(rows),
                memoryview(selection)[first:end],
                end - first,
                records.exchange,
                None if keyed else records.routing_key(0),
                records.attributes & ~KEY_COLUMN,
                records.time,
            )
            part.last_time = records.last_time
            parts.append((partition, part))
        first = end
    return parts


@cython.cfunc
@cython.exceptval(-1, check=False)
@cython.returns(cython.int)
@cython.locals(
    payload=cython.uchar[::1],
    offsets=cython.uint[::1],
    count=cython.Py_ssize_t,
    keys_at=cython.Py_ssize_t,
    table=cython.uint[::1],
    places=cython.int[::1],
    partitions=cython.uint,
    at=cython.Py_ssize_t,
    i=cython.Py_ssize_t,
    column=cython.Py_ssize_t,
    crc=cython.uint,
)
def _place_keys(
    payload: memoryview,
    offsets: memoryview,
    count: int,
    keys_at: int,
    table: memoryview,
    places: memoryview,
    partitions: int,
) -> int:
    column = 2 * (count + 1)
    for i in range(count):
        crc = 0xFFFFFFFF
        for at in range(keys_at + offsets[column + i], keys_at + offsets[column + i + 1]):
            crc = table[(crc ^ payload[at]) & 0xFF] ^ (crc >> 8)
        places[i] = (crc ^ 0xFFFFFFFF) % partitions
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
@cython.returns(cython.int)
@cython.locals(
    places=cython.int[::1],
    count=cython.Py_ssize_t,
    selection=cython.int[::1],
    ends=cython.int[::1],
    partitions=cython.Py_ssize_t,
    i=cython.Py_ssize_t,
    place=cython.Py_ssize_t,
)
def _group(
    places: memoryview, count: int, selection: memoryview, ends: memoryview, partitions: int
) -> int:
    # A counting sort: ends[p + 1] first counts the records of partition p; then it is the start of partition
    # p + 1; in the end ends[p] is the end of partition p.
    for i in range(count):
        ends[places[i] + 1] += 1
    for place in range(partitions):
        ends[place + 1] += ends[place]
    for i in range(count):
        place = places[i]
        selection[ends[place]] = i
        ends[place] += 1
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
@cython.returns(cython.int)
@cython.locals(
    offsets=cython.uint[::1],
    count=cython.Py_ssize_t,
    keys_at=cython.Py_ssize_t,
    properties_at=cython.Py_ssize_t,
    bodies_at=cython.Py_ssize_t,
    rows=cython.int[::1],
    i=cython.Py_ssize_t,
    row=cython.Py_ssize_t,
    properties=cython.Py_ssize_t,
    keys=cython.Py_ssize_t,
)
def _locate(
    offsets: memoryview,
    count: int,
    keys_at: int,
    properties_at: int,
    bodies_at: int,
    rows: memoryview,
) -> int:
    # Makes a record table that points into the payload; see `encode_records`.
    for i in range(count):
        row = _ROW_COLUMNS * i
        if keys_at >= 0:
            keys = 2 * (count + 1) + i
            rows[row] = keys_at + offsets[keys]
            rows[row + 1] = offsets[keys + 1] - offsets[keys]
        properties = count + 1 + i
        rows[row + 2] = properties_at + offsets[properties]
        rows[row + 3] = offsets[properties + 1] - offsets[properties]
        rows[row + 4] = bodies_at + offsets[i]
        rows[row + 5] = offsets[i + 1] - offsets[i]
    return 0


def _crc_table() -> "array[int]":
    entries = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        entries.append(value)
    return array("I", entries)


_CRC_TABLE = _crc_table()
