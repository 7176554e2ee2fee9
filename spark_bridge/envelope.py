"""The columns of a record as Spark sees them, and the choice of some of them."""

import pyarrow as pa
from pyspark.sql.types import (
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

from spark_bridge.errors import BadSchema

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

_ARROW_TYPES = {
    BinaryType(): pa.binary(),
    IntegerType(): pa.int32(),
    LongType(): pa.int64(),
    MapType(StringType(), StringType()): pa.map_(pa.string(), pa.string()),
    StringType(): pa.string(),
    TimestampType(): pa.timestamp("us", tz="UTC"),
}


def check_projection(schema: StructType) -> None:
    """Refuse a schema that is not a choice of the envelope's columns, in any order.

    `properties` may be a struct of some of its fields.

    Raises:
        BadSchema: names the column at fault.
    """
    _check_chosen(schema, ENVELOPE, "column ")


def _check_chosen(schema: StructType, offered: StructType, place: str) -> None:
    types = {field.name: field.dataType for field in offered}
    for field in schema:
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
    """The Arrow schema that Spark expects of batches for a checked schema."""
    return pa.schema(_arrow_fields(schema))


def _arrow_fields(schema: StructType) -> list[pa.Field]:
    return [pa.field(each.name, _arrow_type(each.dataType), each.nullable) for each in schema]


def _arrow_type(data_type: DataType) -> pa.DataType:
    if isinstance(data_type, StructType):
        return pa.struct(_arrow_fields(data_type))
    return _ARROW_TYPES[data_type]
