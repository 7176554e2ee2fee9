"""Partner of spark_bridge/columns/declared_columns.py."""

from __future__ import annotations

import pyarrow as pa
import pytest

from routelog.spark_bridge.columns.declared_columns import DeclaredColumn, parse_declared_columns
from routelog.spark_bridge.logs.errors import BadOption


def test_columns_come_from_bodies_headers_and_keys() -> None:
    text = "id long, `a name` string, tenant string from header x-tenant, area STRING from key 2"
    assert parse_declared_columns(text) == (
        DeclaredColumn("id", pa.int64()),
        DeclaredColumn("a name", pa.string()),
        DeclaredColumn("tenant", pa.string(), header="x-tenant"),
        DeclaredColumn("area", pa.string(), key_part=2),
    )


def test_types_may_be_nested() -> None:
    (column,) = parse_declared_columns("lines array<struct<sku: string, at timestamp, count: int>>")
    inner = [("sku", pa.string()), ("at", pa.timestamp("us", tz="UTC")), ("count", pa.int32())]
    assert column.type == pa.list_(pa.struct(inner))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "expected a column's name, not the end"),
        ("id", "expected a type, not the end"),
        ("id long,", "expected a column's name, not the end"),
        ("id number", "no type number; there are bigint, boolean"),
        ("id long id2 long", "expected a comma, not id2"),
        ("id long, id string", "column id is declared twice"),
        ("id array<long", "expected >, not the end"),
        ("id struct<>", "expected a field's name, not >"),
        ("id long from header x", "column id: of a header or key it is a string"),
        ("id string from query x", "expected from header or key, not query"),
        ("id string from key 0", "expected a part from 1 to 64, not 0"),
        ("id string from key x", "expected a part from 1 to 64, not x"),
        ("id ; long", "cannot be read from here on: '; long'"),
        ("id " + "array<" * 99 + "long" + ">" * 99, "nested more than 16 deep"),
    ],
)
def test_what_is_no_declaration_is_refused(text: str, reason: str) -> None:
    with pytest.raises(BadOption) as caught:
        parse_declared_columns(text)
    assert reason in str(caught.value)
    assert caught.value.option == "--columns"
