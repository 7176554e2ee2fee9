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
