"""The columns of a record in Spark, in two styles, and the choice of some of them."""

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from routelog.spark_bridge.logs.errors import BadOption, BadSchema

PROPERTIES = StructType(
    [
        StructField("content_type", StringType()),
        StructField("content_encoding", StringType()),
        StructField("delivery_mode", IntegerType()),
        StructField("priority", IntegerType()),
        StructField("correlation_id", StringType()),
        StructField("reply_to", StringType()),
        StructField("expiration", StringType()),
        StructField("message_id", StringType()),
        StructField("timestamp", TimestampType()),
        StructField("type", StringType()),
        StructField("user_id", StringType()),
        StructField("app_id", StringType()),
    ]
)

ENVELOPE = StructType(
    [
        StructField("vhost", StringType()),
        StructField("queue", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("exchange", StringType()),
        StructField("routing_key", StringType()),
        StructField("properties", PROPERTIES),
        StructField("headers", MapType(StringType(), StringType())),
        StructField("body", BinaryType()),
    ]
)

KAFKA_HEADERS = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())])
)

# As in Spark's Kafka source, so that queries written for it work.
KAFKA_ENVELOPE = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
        StructField("headers", KAFKA_HEADERS),
    ]
)

_ENVELOPES = {"routelog": ENVELOPE, "kafka": KAFKA_ENVELOPE}

_ARROW_TYPES = {
    BinaryType(): pa.binary(),
    IntegerType(): pa.int32(),
    LongType(): pa.int64(),
    MapType(StringType(), StringType()): pa.map_(pa.string(), pa.string()),
    StringType(): pa.string(),
    TimestampType(): pa.timestamp("us", tz="UTC"),
}


def offered_columns(style: str, *, headers: bool) -> StructType:
    """Return all columns of a style, `routelog` or `kafka`."""
    return StructType([each for each in _ENVELOPES[style] if headers or each.name != "headers"])


def chosen_columns(offered: StructType, names: Sequence[str] | None) -> StructType:
    """Return the columns with these names, in this order; None: all.

    Raises:
        BadOption: there is no such column.
    """
    if names is None:
        return offered
    if unknown := [name for name in names if name not in offered.names]:
        there_are = ", ".join(offered.names)
        raise BadOption("columns", f"there is no column {unknown[0]}; there are {there_are}")
    return StructType([offered[name] for name in names])


def check_projection(schema: StructType, offered: StructType) -> None:
    """Refuse a schema with other columns than those offered; the order does not matter.

    `properties` may be a struct of some of its fields.

    Raises:
        BadSchema: names the column at fault.
    """
    if not schema:  # an Arrow batch without columns does not tell Spark its number of rows
        raise BadSchema(f"it names no column; there are {', '.join(offered.names)}")
    _check_chosen(schema, offered, "column ")


def _check_chosen(schema: StructType, offered: StructType, place: str) -> None:
    types = {field.name: field.dataType for field in offered}
    for index, field in enumerate(schema):
        if field.name in schema.names[:index]:
            raise BadSchema(f"{place}{field.name} is named twice")
        known = types.get(field.name)
        if known is None:
            there_are = ", ".join(types)
            raise BadSchema(f"there is no {place}{field.name}; there are {there_are}")
        if isinstance(known, StructType) and isinstance(field.dataType, StructType):
            _check_chosen(field.dataType, known, f"{place}{field.name}.")
        elif field.dataType != known:
            found = field.dataType.simpleString()
            raise BadSchema(f"{place}{field.name} is {known.simpleString()}, not {found}")


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema that Spark expects of batches for a checked schema."""
    return pa.schema(_arrow_fields(schema))


def _arrow_fields(schema: StructType) -> list[pa.Field]:
    return [pa.field(each.name, _arrow_type(each.dataType), each.nullable) for each in schema]


def _arrow_type(data_type: DataType) -> pa.DataType:
    if isinstance(data_type, StructType):
        return pa.struct(_arrow_fields(data_type))
    if isinstance(data_type, ArrayType):
        return pa.list_(_arrow_type(data_type.elementType))
    return _ARROW_TYPES[data_type]
