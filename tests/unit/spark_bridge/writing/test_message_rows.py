"""Rows as messages: which columns they may have, and what becomes of them."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from pyspark.sql import Row
from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from routelog.spark_bridge.columns.envelope import ENVELOPE, PROPERTIES
from routelog.spark_bridge.logs.errors import BadRow, BadSchema
from routelog.spark_bridge.writing.message_rows import (
    DEDUPLICATION_HEADER,
    Message,
    check_message_schema,
    keyed_message_of,
    message_of,
)
from routelog.spark_bridge.writing.write_options import parse_write_options

OPTIONS = parse_write_options({"url": "amqp://localhost", "exchange": "events"})
KEYED = replace(OPTIONS, routing_key="k")


def schema(**types: object) -> StructType:
    return StructType([StructField(name, kind) for name, kind in types.items()])


BODY = schema(body=BinaryType())


def test_options_go_before_columns() -> None:
    row = Row(body=b"x", exchange="e", routing_key="r")
    assert message_of(row, replace(OPTIONS, exchange=None))[:2] == ("e", "r")
    assert message_of(row, KEYED)[:2] == ("events", "k")


def test_text_is_sent_as_utf_8_and_persistent() -> None:
    message = message_of(Row(body="größe"), KEYED)
    assert message == Message("events", "k", {"delivery_mode": 2}, "größe".encode())
    transient = message_of(Row(body=bytearray(b"x")), replace(KEYED, persistent=False))
    assert transient == Message("events", "k", {"delivery_mode": 1}, b"x")


def test_properties_that_are_given_are_sent() -> None:
    properties = Row(
        message_id="m", priority=None, delivery_mode=1, timestamp=datetime.fromtimestamp(7, UTC)
    )
    row = Row(body=b"x", properties=properties, headers={"tenant": "acme", "none": None})
    assert message_of(row, KEYED).properties == {
        "message_id": "m",
        "delivery_mode": 1,
        "timestamp": 7,
        "headers": {"tenant": "acme", "none": None},
    }
    bare = Row(body=b"x", properties=None, headers=None)
    assert message_of(bare, KEYED).properties == {"delivery_mode": 2}


def test_a_row_is_told_from_another_in_its_place_by_all_that_it_says() -> None:
    options = replace(OPTIONS, application="app")
    row = {"body": b"x", "routing_key": "k"}
    rows = [
        row,
        row | {"body": b"y"},
        row | {"routing_key": "l"},
        row | {"headers": {"a": "1", "b": "2"}},
        row | {"headers": {"a": "1"}},
        row | {"properties": Row(message_id="m")},
        row | {"properties": Row(message_id="m", timestamp=datetime.fromtimestamp(7, UTC))},
    ]

    def key(columns: dict[str, object], place: str = "0/0/0") -> str:
        message = keyed_message_of(Row(**columns), options, place)
        return str(message.properties["headers"][DEDUPLICATION_HEADER])

    keys = [key(each) for each in rows]
    assert len(set(keys)) == len(rows)
    assert keys == [key(each) for each in rows]
    # A map has no order of its own, and a column of nulls says nothing.
    assert key(row | {"headers": {"b": "2", "a": "1"}}) == key(rows[3])
    assert key(row | {"headers": None, "properties": None}) == keys[0]
    assert key(row, "0/0/1") not in keys


@pytest.mark.parametrize(
    ("row", "column"),
    [
        (Row(body=None, routing_key="k"), "body"),
        (Row(body=b"x", routing_key=None), "routing_key"),
    ],
)
def test_a_row_without_what_every_message_has_is_an_error(row: Row, column: str) -> None:
    with pytest.raises(BadRow, match=f"null in column {column}"):
        message_of(row, OPTIONS)


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        (schema(value=BinaryType()), "there is no column body"),
        (schema(body=LongType()), "column body is binary or string, not bigint"),
        (schema(body=BinaryType(), headers=StringType()), "column headers is map<string,string>"),
        (schema(body=BinaryType(), properties=StringType()), "column properties is a struct, not"),
        (
            schema(body=BinaryType(), properties=schema(id=StringType())),
            "no property id; there are content_type",
        ),
        (
            schema(body=BinaryType(), properties=schema(priority=LongType())),
            "column properties.priority is int, not bigint",
        ),
        (schema(body=BinaryType(), offset=LongType()), "column offset is no part of a message"),
    ],
)
def test_columns_that_make_no_message_are_named(columns: StructType, complaint: str) -> None:
    with pytest.raises(BadSchema, match=complaint):
        check_message_schema(columns, KEYED)


def test_exchange_and_routing_key_come_from_somewhere() -> None:
    with pytest.raises(BadSchema, match="no column routing_key, and no option routingKey"):
        check_message_schema(BODY, OPTIONS)
    with pytest.raises(BadSchema, match="no column exchange, and no option exchange"):
        check_message_schema(BODY, replace(KEYED, exchange=None))
    check_message_schema(BODY, KEYED)


def test_what_was_read_can_be_written_again() -> None:
    headers = MapType(StringType(), StringType(), valueContainsNull=False)
    some = schema(message_id=StringType(), priority=IntegerType())
    check_message_schema(schema(body=StringType(), headers=headers, properties=some), KEYED)
    check_message_schema(schema(body=BinaryType(), properties=PROPERTIES), KEYED)
    check_message_schema(ENVELOPE, replace(KEYED, ignore_unknown_columns=True))
