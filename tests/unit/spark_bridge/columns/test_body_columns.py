"""Partner of spark_bridge/columns/body_columns.py."""

from __future__ import annotations

import io
import json
import random
from typing import Any

import fastavro
import msgspec
import pyarrow as pa
import pytest

from routelog.spark_bridge.columns.body_columns import BodyColumns

FIELDS = [pa.field("id", pa.int64()), pa.field("name", pa.string())]


def parsed(bodies: list[bytes], body_format: str = "json") -> list[tuple[Any, Any] | None]:
    """What each body gives; None for those that do not fit."""
    columns, bad = BodyColumns(FIELDS, body_format).of(pa.array(bodies, pa.binary()))
    rows = zip(*(column.to_pylist() for column in columns), strict=True)
    return [None if b else row for row, b in zip(rows, bad.to_pylist(), strict=True)]


def test_fields_are_columns_and_what_is_missing_is_null() -> None:
    bodies = [b'{"id": 1, "name": "a", "more": [1]}', b'{"name": null}', b"{}"]
    assert parsed(bodies) == [(1, "a"), (None, None), (None, None)]
    assert parsed([]) == []


def test_white_space_around_a_body_is_nothing() -> None:
    assert parsed([b' {"id": 1}\n', b'{"id": 2}\r\n', b'\t{\n"id": 3}']) == [
        (1, None),
        (2, None),
        (3, None),
    ]


@pytest.mark.parametrize(
    "bad",
    [
        *(
            b"",
            b" ",
            b"1",
            b"null",
            b"[]",
            b'"a"',
            b"{",
            b'{"id": "x"}',
            b'{"id": 1.5}',
            b"\xff\xfe",
        ),
        b'{"name": "caf\xe9"}',
        *(b'{"id": 99999999999999999999}', b'{"id": 1} {"id": 2}', b'{"id": 1}x', b'{"name": 5}'),
    ],
)
def test_a_body_that_does_not_fit_is_alone_in_it(bad: bytes) -> None:
    good = [b'{"id": %d}' % n for n in range(5)]
    for at in range(6):
        bodies = [*good[:at], bad, *good[at:]]
        expected: list[tuple[int, None] | None] = [(n, None) for n in range(5)]
        expected.insert(at, None)
        assert parsed(bodies) == expected


def test_no_body_can_shift_the_others() -> None:
    """Together these hold as many documents as there are bodies."""
    for crooked in (
        [b'{"id": 1}{"id": 2}', b""],
        [b'{"name": "}', b'{"}', b'{"id": 1}{"id": 2}'],
        [b'{"id": 1}\n{"id": 2}', b"\n"],
        [b'{"name": {', b"}}", b'{"id": 1} {"id": 2}'],
    ):
        assert parsed([*crooked, b'{"id": 9}']) == [*[None] * len(crooked), (9, None)]


def test_many_bodies_are_as_each_for_itself() -> None:
    choice = random.Random(1)
    bits = ["{", "}", '"id"', ":", "1", ",", '"name"', '"x"', "\n", " ", "[", "]", '"', "null"]
    bodies = [
        "".join(choice.choices(bits, k=choice.randrange(8))).encode()
        if choice.random() < 0.3
        else json.dumps({"id": n, "name": "}{" * (n % 3)}).encode()
        for n in range(400)
    ]
    together = parsed(bodies)
    assert together == [parsed([body])[0] for body in bodies]
    for body, found in zip(bodies, together, strict=True):
        try:
            value = json.loads(body)
        except ValueError:
            assert found is None, body
        else:
            fits = isinstance(value, dict) and isinstance(value.get("name", ""), str | None)
            assert (found is not None) == fits, body


def column(
    found: pa.DataType, bodies: list[bytes], body_format: str = "json"
) -> list[tuple[Any, bool]]:
    """The value of field c in each body, as text, and whether the body does not fit."""
    columns, bad = BodyColumns([pa.field("c", found)], body_format).of(
        pa.array(bodies, pa.binary())
    )
    values = [None if each is None else str(each) for each in columns[0].to_pylist()]
    return list(zip(values, bad.to_pylist(), strict=True))


def test_times_of_each_language_are_timestamps() -> None:
    written = {
        "2026-01-02T03:04:05Z": "2026-01-02 03:04:05+00:00",
        "2026-01-02T03:04:05.123Z": "2026-01-02 03:04:05.123000+00:00",  # JavaScript
        "2026-01-02T03:04:05.123456+00:00": "2026-01-02 03:04:05.123456+00:00",  # Python
        "2026-01-02T03:04:05.1234567Z": "2026-01-02 03:04:05.123456+00:00",  # .NET
        "2026-01-02T03:04:05.123456789+02:00": "2026-01-02 01:04:05.123456+00:00",  # Go
        "2026-01-02T03:04:05.123456789Z": "2026-01-02 03:04:05.123456+00:00",  # Java
        "9999-12-31T23:59:59Z": "9999-12-31 23:59:59+00:00",
    }
    bodies = [json.dumps({"c": text}).encode() for text in written]
    bodies.insert(3, b'{"c": "yesterday"}')
    expected: list[tuple[Any, bool]] = [(text, False) for text in written.values()]
    expected.insert(3, (None, True))
    assert column(pa.timestamp("us", tz="UTC"), bodies) == expected


def test_dates_are_texts_or_numbers_of_days() -> None:
    written = {
        '"2026-01-02"': "2026-01-02",
        '"1960-05-05"': "1960-05-05",
        '"9999-12-31"': "9999-12-31",
        '"2026-01-02T23:59:59.999Z"': "2026-01-02",  # JavaScript
        "20455": "2026-01-02",
    }
    bodies = [f'{{"c": {text}}}'.encode() for text in written]
    assert column(pa.date32(), bodies) == [(each, False) for each in written.values()]
    assert column(pa.date32(), [b'{"c": "x"}', b'{"c": null}']) == [(None, True), (None, False)]


def test_dates_and_times_are_read_within_lists_and_structs() -> None:
    stamp = pa.timestamp("us", tz="UTC")
    inner = pa.struct([pa.field("t", stamp), pa.field("d", pa.date32())])
    body = b'{"c": [{"t": "2026-01-02T03:04:05.1234567Z", "d": "9999-12-31"}, null, {"d": null}]}'
    columns, bad = BodyColumns([pa.field("c", pa.list_(inner))], "json").of(pa.array([body]))
    assert columns[0].type == pa.list_(inner)
    ((first, *rest),) = columns[0].to_pylist()
    assert (str(first["t"]), str(first["d"])) == (
        "2026-01-02 03:04:05.123456+00:00",
        "9999-12-31",
    )
    assert rest == [None, {"t": None, "d": None}]
    assert bad.to_pylist() == [False]


@pytest.mark.parametrize("found", [pa.date32(), pa.timestamp("us", tz="UTC"), pa.int64()], ids=str)
def test_a_number_that_is_none_does_not_fit(found: pa.DataType) -> None:
    bodies = [msgspec.msgpack.encode({"c": each}) for each in (float("nan"), float("inf"), None)]
    assert column(found, bodies, "msgpack") == [(None, True), (None, True), (None, False)]


def test_message_pack() -> None:
    bodies = [msgspec.msgpack.encode(each) for each in ({"id": 1, "name": "a"}, {"id": "x"}, 5)]
    assert parsed([*bodies, b"\xc1", b""], "msgpack") == [(1, "a"), None, None, None, None]


def test_avro() -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}

    def encoded(*records: dict[str, int]) -> bytes:
        target = io.BytesIO()
        fastavro.writer(target, schema, records)
        return target.getvalue()

    bodies = [encoded({"id": 7}), encoded({"id": 1}, {"id": 2}), encoded(), b"none"]
    assert parsed(bodies, "avro") == [(7, None), None, None, None]
