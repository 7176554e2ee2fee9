"""Records as Arrow columns, compared with the same records read one by one."""

import random
from collections.abc import Sequence

import pyarrow as pa
import pytest
from pamqp.commands import Basic
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ByteType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)
from support.sampling import examples
from unit.spark_bridge.log_files import TIME, records

from routelog.log_backend.records.record_batch import RecordBatch, Records
from routelog.spark_bridge.columns.envelope import (
    ENVELOPE,
    KAFKA_ENVELOPE,
    PROPERTIES,
    arrow_schema,
    check_projection,
    chosen_columns,
    offered_columns,
)
from routelog.spark_bridge.columns.record_columns import arrow_batch
from routelog.spark_bridge.columns.row_group import row_groups
from routelog.spark_bridge.logs.errors import BadOption, BadSchema, DamagedBatch
from routelog.spark_bridge.logs.readable_logs import LogPartition, OffsetRange

PARTITION = LogPartition("v", "audit", 3)
PERSISTENT = Basic.Properties(delivery_mode=2, message_id="m-1").marshal()
WITH_HEADERS = Basic.Properties(headers={"tenant": "acme", "try": 2}).marshal()
WITH_NONE = Basic.Properties(headers={}).marshal()


def table(*contents: Records, base_offset: int = 100, gap: int = 0) -> pa.Table:
    """Batches with these contents, one behind the other, as all columns."""
    batches = []
    at = base_offset
    for content in contents:
        batches.append(RecordBatch(content, at, 1))
        at += content.count + gap
    return arrow_table(batches, 0, at)


def arrow_table(
    batches: Sequence[RecordBatch], start: int, end: int, schema: StructType = ENVELOPE
) -> pa.Table:
    arrow = arrow_schema(schema)
    groups = row_groups(OffsetRange(PARTITION, start, end, 0), batches)
    found = [arrow_batch(group, arrow) for group in groups]
    for each in found:
        each.validate(full=True)
    return pa.Table.from_batches(found, arrow)


@pytest.mark.parametrize("envelope", [ENVELOPE, KAFKA_ENVELOPE])
def test_the_types_are_those_that_spark_expects(envelope: StructType) -> None:
    try:
        expected = to_arrow_schema(envelope, timezone="UTC")
    except TypeError:  # PySpark before 4.2
        expected = to_arrow_schema(envelope)
    assert arrow_schema(envelope).equals(expected)


def test_a_batch_with_one_key_for_all() -> None:
    found = table(records([b"a", b"", b"ccc"], routing_key=b"log.info", exchange=b"logs"))
    assert found["vhost"].to_pylist() == ["v"] * 3
    assert found["queue"].to_pylist() == ["audit"] * 3
    assert found["partition"].to_pylist() == [3] * 3
    assert found["offset"].to_pylist() == [100, 101, 102]
    assert found["timestamp"].cast(pa.int64()).to_pylist() == [TIME] * 3
    assert found["exchange"].to_pylist() == ["logs"] * 3
    assert found["routing_key"].to_pylist() == ["log.info"] * 3
    assert found["properties"].to_pylist() == [dict.fromkeys(PROPERTIES.names)] * 3
    assert found["headers"].to_pylist() == [None] * 3
    assert found["body"].to_pylist() == [b"a", b"", b"ccc"]


def test_a_batch_with_a_key_for_each() -> None:
    found = table(records([b"x"] * 3, routing_keys=[b"a", b"", b"c.d"], exchange=b""))
    assert found["routing_key"].to_pylist() == ["a", "", "c.d"]
    assert found["exchange"].to_pylist() == [""] * 3


def test_properties_and_headers_belong_to_their_records() -> None:
    lists = [PERSISTENT, b"\x00\x00", WITH_HEADERS, PERSISTENT, WITH_NONE, b"\xff\xff"]
    found = table(records([b""] * 6, properties=lists))
    properties = found["properties"].to_pylist()
    assert [each and each["message_id"] for each in properties] == [
        "m-1", None, None, "m-1", None, None,
    ]  # fmt: skip
    assert [each and each["delivery_mode"] for each in properties[:2]] == [2, None]
    assert properties[5] is None
    assert found["headers"].to_pylist() == [
        None, None, [("tenant", "acme"), ("try", "2")], None, [], None,
    ]  # fmt: skip


def test_bodies_are_all_empty() -> None:
    found = table(records([b""] * 20))
    assert found["body"].to_pylist() == [b""] * 20


def test_names_that_are_not_utf8_are_replaced() -> None:
    shared = table(records([b""], routing_key=b"a\xff", exchange=b"\xfe"))
    assert shared["routing_key"].to_pylist() == ["a\ufffd"]
    assert shared["exchange"].to_pylist() == ["\ufffd"]
    each = table(records([b""] * 20, routing_keys=[b"a\xff", "é".encode()] * 10))
    assert each["routing_key"].to_pylist() == ["a\ufffd", "é"] * 10


def test_bodies_of_a_large_batch_are_not_copied() -> None:
    batch = RecordBatch(records([b"x" * 100] * 100), 0, 1)
    (group,) = row_groups(OffsetRange(PARTITION, 0, 100, 0), [batch])
    column = arrow_batch(group, arrow_schema(StructType([ENVELOPE["body"]]))).column(0)
    payload = pa.py_buffer(batch.records.payload)
    assert payload.address <= column.buffers()[2].address < payload.address + payload.size


def one_by_one(batches: Sequence[RecordBatch], start: int, end: int) -> list[tuple[object, ...]]:
    return [
        (
            batch.base_offset + index,
            batch.records.time,
            batch.records.exchange.decode(),
            batch.records.routing_key(index).decode(),
            batch.records.body(index),
            batch.records.properties(index) == PERSISTENT,
        )
        for batch in batches
        for index in range(batch.records.count)
        if start <= batch.base_offset + index < end
    ]


@pytest.mark.parametrize("seed", range(examples(30)))
def test_any_mixture_of_batches_reads_as_record_by_record(seed: int) -> None:
    chance = random.Random(seed)
    batches = []
    at = chance.randrange(1_000)
    for number in range(chance.randrange(1, 12)):
        count = chance.choice([1, 1, 2, 9, 40, 300])
        keys = [b"k%d" % chance.randrange(5) for _ in range(count)]
        content = records(
            [chance.randbytes(chance.randrange(20)) for _ in range(count)],
            exchange=b"x%d" % chance.randrange(3),
            routing_keys=keys if chance.random() < 0.5 else (),
            properties=[chance.choice([PERSISTENT, b"\x00\x00"]) for _ in range(count)],
            time=TIME + number,
        )
        batches.append(RecordBatch(content, at, 1))
        at += count + chance.choice([0, 0, 17])
    start = chance.randrange(batches[0].base_offset, at)
    end = chance.randrange(start, at) + 1
    found = arrow_table(batches, start, end)
    persistent = [each["delivery_mode"] == 2 for each in found["properties"].to_pylist()]
    times = found["timestamp"].cast(pa.int64()).to_pylist()
    columns = [found[name].to_pylist() for name in ("exchange", "routing_key", "body")]
    rows = list(zip(found["offset"].to_pylist(), times, *columns, persistent, strict=True))
    assert rows == one_by_one(batches, start, end)


@pytest.mark.parametrize("column", [0, 1, 2])
def test_offset_columns_that_contradict_themselves_are_damage(column: int) -> None:
    content = records([b"abc"] * 20, routing_keys=[b"key"] * 20)
    offsets = memoryview(content.payload)[: content.columns_at].cast("I")
    offsets[21 * column + 7] = 1_000_000
    with pytest.raises(DamagedBatch, match="offset 100"):
        table(content)


def test_properties_are_left_alone_when_nobody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: bytes) -> None:
        raise AssertionError("a property list was decoded")

    monkeypatch.setattr("routelog.spark_bridge.columns.record_columns.parse_property_list", fail)
    names = [name for name in ENVELOPE.names if name not in {"properties", "headers"}]
    schema = StructType([ENVELOPE[name] for name in names])
    batch = RecordBatch(records([b"a"] * 3, properties=WITH_HEADERS), 0, 1)
    assert arrow_table([batch], 0, 3, schema).num_rows == 3
    with pytest.raises(AssertionError):
        arrow_table([batch], 0, 3)


def test_a_projection_may_take_some_columns_in_any_order() -> None:
    some = StructType(
        [StructField("message_id", StringType()), StructField("priority", IntegerType())]
    )
    schema = StructType([ENVELOPE["body"], StructField("properties", some), ENVELOPE["offset"]])
    check_projection(schema, ENVELOPE)
    batch = RecordBatch(records([b"a"], properties=PERSISTENT), 5, 1)
    assert arrow_table([batch], 0, 6, schema).to_pylist() == [
        {"body": b"a", "properties": {"message_id": "m-1", "priority": None}, "offset": 5}
    ]


@pytest.mark.parametrize(
    ("field", "complaint"),
    [
        (StructField("value", StringType()), "no column value; there are vhost, queue, "),
        (StructField("offset", IntegerType()), "column offset is bigint, not int"),
        (StructField("body", StringType()), "column body is binary, not string"),
        (StructField("headers", MapType(StringType(), LongType())), "column headers is map<str"),
        (
            StructField("properties", StructType([StructField("id", StringType())])),
            "no column properties.id; there are content_type, ",
        ),
        (
            StructField("properties", StructType([StructField("priority", ByteType())])),
            "column properties.priority is int, not tinyint",
        ),
        (StructField("properties", StringType()), "column properties is struct<.*, not string"),
        (StructField("queue", StringType()), "column queue is named twice"),
        (
            StructField("properties", StructType([StructField("type", StringType())] * 2)),
            "column properties.type is named twice",
        ),
    ],
)
def test_a_projection_must_fit_the_columns(field: StructField, complaint: str) -> None:
    with pytest.raises(BadSchema, match=complaint):
        check_projection(StructType([ENVELOPE["queue"], field]), ENVELOPE)


def test_a_projection_has_a_column() -> None:
    with pytest.raises(BadSchema, match="it names no column; there are vhost, queue, "):
        check_projection(StructType(), ENVELOPE)


def test_the_columns_of_kafka() -> None:
    with_headers = Basic.Properties(
        headers={"raw": bytearray(b"\xff"), "tenant": "acme", "try": 2}
    ).marshal()
    batch = RecordBatch(
        records(
            [b"one", b"two"], routing_keys=[b"a", b"\xff"], properties=[with_headers, b"\x00\x00"]
        ),
        7,
        1,
    )
    first, second = arrow_table([batch], 7, 9, KAFKA_ENVELOPE).to_pylist()
    assert first.pop("timestamp").timestamp() == TIME / 1_000_000
    assert first == {
        "key": b"a",
        "value": b"one",
        "topic": "audit",
        "partition": 3,
        "offset": 7,
        "timestampType": 1,
        "headers": [
            {"key": "raw", "value": b"\xff"},
            {"key": "tenant", "value": b"acme"},
            {"key": "try", "value": b"2"},
        ],
    }
    assert (second["key"], second["headers"]) == (b"\xff", None)


def test_kafka_keys_that_records_share() -> None:
    batches = [RecordBatch(records([b"x"] * n, routing_key=b"k"), 10 * n, 1) for n in (1, 3)]
    column = arrow_table(batches, 0, 100, StructType([KAFKA_ENVELOPE["key"]])).column(0)
    assert column.to_pylist() == [b"k"] * 4


def test_columns_are_chosen_by_name() -> None:
    kafka = offered_columns("kafka", headers=False)
    assert kafka.names == KAFKA_ENVELOPE.names[:-1]
    assert offered_columns("routelog", headers=True) == ENVELOPE
    assert chosen_columns(kafka, None) == kafka
    assert chosen_columns(kafka, ("value", "offset")).names == ["value", "offset"]
    with pytest.raises(BadOption, match="option columns: there is no column headers; there are k"):
        chosen_columns(kafka, ("value", "headers"))
