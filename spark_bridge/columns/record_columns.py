"""Builds the columns of the envelope as Arrow arrays; only those that are asked for."""

from collections.abc import Callable
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc

from routelog.log_backend.records.record_batch import RECORDS_MAX, Records
from routelog.spark_bridge.columns.property_list import (
    header_bytes,
    header_texts,
    parse_property_list,
)
from routelog.spark_bridge.columns.row_group import BatchSlice, RowGroup
from routelog.spark_bridge.logs.errors import DamagedBatch

FEW_ROWS = 8  # of a slice: to make an Arrow array of it takes longer than to read each record
LOG_APPEND_TIME = 1  # in Kafka: the timestamp is the broker's

_Column = Callable[[RowGroup, pa.DataType], pa.Array]


def arrow_batch(group: RowGroup, schema: pa.Schema) -> pa.RecordBatch:
    """Return the records of a group, with the columns of a checked schema.

    Bodies are not copied if the group is one slice.

    Raises:
        DamagedBatch: offset columns are inconsistent.
    """
    columns = [_COLUMNS[field.name](group, field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _vhosts(group: RowGroup, arrow_type: pa.DataType) -> pa.Array:
    return group.constant(group.partition.vhost, arrow_type)


def _queues(group: RowGroup, arrow_type: pa.DataType) -> pa.Array:
    return group.constant(group.partition.queue, arrow_type)


def _partitions(group: RowGroup, arrow_type: pa.DataType) -> pa.Array:
    return group.constant(group.partition.partition, arrow_type)


def _offsets(group: RowGroup, arrow_type: pa.DataType) -> pa.Array:
    # In a slice, the difference of offset and row number is constant.
    differences = [
        each.batch.base_offset + each.stop - end
        for each, end in zip(group.slices, group.run_ends, strict=True)
    ]
    row_numbers = _row_numbers().slice(0, group.rows)
    return pc.add(row_numbers, group.spread(differences, arrow_type))


@cache
def _row_numbers() -> pa.Array:
    return pa.array(range(RECORDS_MAX), pa.int64())


def _timestamps(group: RowGroup, arrow_type: pa.DataType) -> pa.Array:
    return group.spread([each.batch.records.time for each in group.slices], arrow_type)


def _exchanges(group: RowGroup, arrow_type: pa.DataType) -> pa.Array:
    names = [_text(each.batch.records.exchange) for each in group.slices]
    return group.spread(names, arrow_type)


def _routing_keys(group: RowGroup, arrow_type: pa.DataType) -> pa.Array:
    if any(each.batch.records.has_key_column for each in group.slices):
        return _texts(_byte_strings(group, Records.routing_key, _key_column))
    keys = [_text(each.batch.records.routing_key(0)) for each in group.slices]
    return group.spread(keys, arrow_type)


def _key_column(each: BatchSlice) -> pa.Array:
    records = each.batch.records
    if records.has_key_column:
        return _payload_column(each, 2, records.keys_at, records.keys_bytes)
    return pa.repeat(pa.scalar(records.routing_key(0), pa.binary()), each.rows)


def _properties(group: RowGroup, arrow_type: pa.DataType) -> pa.Array:
    lists = _property_lists(group)
    values = [parse_property_list(each) for each in lists.dictionary.to_pylist()]
    columns = [
        pa.array([None if each is None else each.get(field.name) for each in values], field.type)
        for field in arrow_type.fields
    ]
    malformed = pa.array([each is None for each in values])
    structs = pa.StructArray.from_arrays(columns, fields=arrow_type.fields, mask=malformed)
    return structs.take(lists.indices)


def _headers(group: RowGroup, arrow_type: pa.DataType) -> pa.Array:
    lists = _property_lists(group)
    of_table = header_texts if pa.types.is_map(arrow_type) else _kafka_headers
    tables = [
        (parse_property_list(each) or {}).get("headers") for each in lists.dictionary.to_pylist()
    ]
    values = [of_table(each) if isinstance(each, bytes) else None for each in tables]
    return pa.array(values, arrow_type).take(lists.indices)


def _kafka_headers(table: bytes) -> list[dict[str, str | bytes | None]] | None:
    values = header_bytes(table)
    return (
        None
        if values is None
        else [{"key": name, "value": value} for name, value in values.items()]
    )


def _property_lists(group: RowGroup) -> pa.DictionaryArray:
    """Property lists, dictionary-encoded: a publisher often sends the same one."""
    return _byte_strings(group, Records.properties, _property_column).dictionary_encode()


def _property_column(each: BatchSlice) -> pa.Array:
    records = each.batch.records
    return _payload_column(each, 1, records.properties_at, records.properties_bytes)


def _bodies(group: RowGroup, _: pa.DataType) -> pa.Array:
    return _byte_strings(group, Records.body, _body_column)


def _body_column(each: BatchSlice) -> pa.Array:
    records = each.batch.records
    return _payload_column(each, 0, records.bodies_at, records.bodies_bytes)


def _keys(group: RowGroup, _: pa.DataType) -> pa.Array:
    return _byte_strings(group, Records.routing_key, _key_column)


def _timestamp_types(group: RowGroup, arrow_type: pa.DataType) -> pa.Array:
    return group.constant(LOG_APPEND_TIME, arrow_type)


def _byte_strings(
    group: RowGroup,
    of_record: Callable[[Records, int], bytes],
    of_slice: Callable[[BatchSlice], pa.Array],
) -> pa.Array:
    """A column of the records: slice by slice, or record by record if slices are small."""
    if len(group.slices) == 1 or group.rows > len(group.slices) * FEW_ROWS:
        return group.gathered(of_slice)
    values = [
        of_record(each.batch.records, index)
        for each in group.slices
        for index in range(each.first, each.stop)
    ]
    return pa.array(values, pa.binary())


def _payload_column(each: BatchSlice, column: int, column_at: int, size: int) -> pa.Array:
    """A column of the payload, not copied: its offsets and bytes have Arrow's layout."""
    records = each.batch.records
    payload = memoryview(records.payload)
    table_bytes = 4 * (records.count + 1)
    offsets = pa.py_buffer(payload[column * table_bytes : (column + 1) * table_bytes])
    data = pa.py_buffer(payload[column_at : column_at + size])
    whole = pa.Array.from_buffers(pa.binary(), records.count, [None, offsets, data])
    part = whole.slice(each.first, each.rows)
    try:
        part.validate(full=True)
    except pa.ArrowInvalid as error:
        raise DamagedBatch(each.batch.base_offset, str(error)) from None
    return part


def _texts(values: pa.Array) -> pa.Array:
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:  # not UTF-8
        return pa.array(map(_text, values.to_pylist()), pa.string())


def _text(name: bytes) -> str:
    return name.decode(errors="replace")


_COLUMNS: dict[str, _Column] = {
    "vhost": _vhosts,
    "queue": _queues,
    "partition": _partitions,
    "offset": _offsets,
    "timestamp": _timestamps,
    "exchange": _exchanges,
    "routing_key": _routing_keys,
    "properties": _properties,
    "headers": _headers,
    "body": _bodies,
    "key": _keys,
    "value": _bodies,
    "topic": _queues,
    "timestampType": _timestamp_types,
}
