"""Converts rows of a data frame to messages."""

import json
from collections.abc import Mapping
from datetime import datetime
from hashlib import blake2b
from typing import Any, NamedTuple

from pyspark.sql import Row
from pyspark.sql.types import BinaryType, DataType, MapType, StringType, StructType

from routelog.spark_bridge.columns.envelope import PROPERTIES
from routelog.spark_bridge.logs.errors import BadRow, BadSchema
from routelog.spark_bridge.writing.write_options import WriteOptions

DEDUPLICATION_HEADER = "x-deduplication-header"

_PERSISTENT, _TRANSIENT = 2, 1
_TEXT = (StringType(),)
_HEADERS = (MapType(StringType(), StringType()),)
_BODY = (BinaryType(), StringType())

# Columns that make a message, and the types they may have.
_COLUMNS: dict[str, tuple[DataType, ...]] = {
    "body": _BODY,
    "deduplication_key": _TEXT,
    "exchange": _TEXT,
    "headers": _HEADERS,
    "properties": (PROPERTIES,),
    "routing_key": _TEXT,
}


class Message(NamedTuple):
    """The arguments of `basic.publish`; properties by name, without those that are not given."""

    exchange: str
    routing_key: str
    properties: dict[str, Any]
    body: bytes


def check_message_schema(schema: StructType, options: WriteOptions) -> None:
    """Refuse rows that cannot become messages.

    Raises:
        BadSchema: names the column that is missing, unknown or of another type.
    """
    names = set(schema.names)
    if "body" not in names:
        raise BadSchema("there is no column body")
    for column, option, given in (
        ("exchange", "exchange", options.exchange),
        ("routing_key", "routingKey", options.routing_key),
    ):
        if given is None and column not in names:
            raise BadSchema(f"there is no column {column}, and no option {option}")
    if "deduplication_key" in names and not options.application:
        raise BadSchema("column deduplication_key is of no use without the option applicationId")
    for field in schema:
        types = _COLUMNS.get(field.name)
        if types is None:
            if not options.ignore_unknown_columns:
                there_may_be = ", ".join(_COLUMNS)
                reason = f"column {field.name} is no part of a message; there may be {there_may_be}"
                raise BadSchema(f"{reason}; or set ignoreUnknownColumns=true")
        elif field.name == "properties":
            _check_properties(field.dataType)
        elif not any(_is(field.dataType, each) for each in types):
            expected = " or ".join(each.simpleString() for each in types)
            raise BadSchema(
                f"column {field.name} is {expected}, not {field.dataType.simpleString()}"
            )


def message_of(row: Row, options: WriteOptions) -> Message:
    """Return the message of one row with a checked schema; options take precedence over columns.

    Raises:
        BadRow: it has no body, exchange or routing key.
    """
    given = row.asDict()
    body = given["body"]
    if body is None:
        raise BadRow("body")
    properties = _properties(given.get("properties"), given.get("headers"))
    properties.setdefault("delivery_mode", _PERSISTENT if options.persistent else _TRANSIENT)
    return Message(
        _chosen("exchange", options.exchange, given),
        _chosen("routing_key", options.routing_key, given),
        properties,
        body.encode() if isinstance(body, str) else bytes(body),
    )


def keyed_message_of(row: Row, options: WriteOptions, place: str) -> Message:
    """As `message_of`, with the key by which the exchange recognizes duplicates.

    The key is that of the row, or it consists of the row's place and a hash of its content. When a task or
    micro-batch runs again, each row has the same place, unless Spark divides the rows in another way. Then
    another row may have
    this place: because of the hash, it is published, and not taken for a duplicate.

    Args:
        place: micro-batch, task and number of the row.

    Raises:
        BadRow: it has no body, exchange, routing key or key.
    """
    message = message_of(row, options)
    given = row.asDict()
    if "deduplication_key" in given:
        own = given["deduplication_key"]
        if own is None:
            raise BadRow("deduplication_key")
        key = f"{options.application}/{own}"
    else:
        told = json.dumps([message.routing_key, message.properties], sort_keys=True)
        # The JSON contains no zero byte, so it cannot run into the body.
        content = blake2b(told.encode(), digest_size=16)
        content.update(b"\0" + message.body)
        key = f"{options.application}/{place}/{content.hexdigest()}"
    headers = message.properties.setdefault("headers", {})
    headers[DEDUPLICATION_HEADER] = key
    return message


def _chosen(column: str, option: str | None, given: Mapping[str, Any]) -> str:
    value: str | None = option if option is not None else given[column]
    if value is None:
        raise BadRow(column)
    return value


def _properties(row: Row | None, headers: Mapping[str, str] | None) -> dict[str, Any]:
    given = row.asDict() if row is not None else {}
    values = {name: value for name, value in given.items() if value is not None}
    if isinstance(timestamp := values.get("timestamp"), datetime):
        values["timestamp"] = int(timestamp.timestamp())
    if headers is not None:
        values["headers"] = dict(headers)
    return values


def _check_properties(found: DataType) -> None:
    if not isinstance(found, StructType):
        raise BadSchema(f"column properties is a struct, not {found.simpleString()}")
    for field in found:
        if field.name not in PROPERTIES.names:
            there_are = ", ".join(PROPERTIES.names)
            raise BadSchema(f"there is no property {field.name}; there are {there_are}")
        known = PROPERTIES[field.name].dataType
        if field.dataType != known:
            types = f"{known.simpleString()}, not {field.dataType.simpleString()}"
            raise BadSchema(f"column properties.{field.name} is {types}")


def _is(found: DataType, expected: DataType) -> bool:
    if isinstance(expected, MapType) and isinstance(found, MapType):
        return (found.keyType, found.valueType) == (expected.keyType, expected.valueType)
    return found == expected
