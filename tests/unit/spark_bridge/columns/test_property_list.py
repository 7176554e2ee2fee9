"""Property lists and headers as values, malformed ones included."""

import struct
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from pamqp import encode
from pamqp.commands import Basic

from routelog.spark_bridge.columns.property_list import header_texts, parse_property_list


def wire(**values: object) -> bytes:
    """A property list as pamqp writes it."""
    return Basic.Properties(**values).marshal()


FULL = {
    "content_type": "text/plain",
    "content_encoding": "utf-8",
    "headers": {"a": 1},
    "delivery_mode": 2,
    "priority": 9,
    "correlation_id": "c",
    "reply_to": "r",
    "expiration": "60000",
    "message_id": "m",
    "timestamp": datetime(2024, 2, 3, 4, 5, 6, tzinfo=UTC),
    "message_type": "t",
    "user_id": "u",
    "app_id": "a",
}


def test_no_properties_are_no_values() -> None:
    assert parse_property_list(b"\x00\x00") == {}


def test_all_properties_are_read() -> None:
    assert parse_property_list(wire(**FULL)) == {
        "content_type": "text/plain",
        "content_encoding": "utf-8",
        "headers": encode.field_table({"a": 1}),
        "delivery_mode": 2,
        "priority": 9,
        "correlation_id": "c",
        "reply_to": "r",
        "expiration": "60000",
        "message_id": "m",
        "timestamp": 1_706_933_106_000_000,
        "type": "t",
        "user_id": "u",
        "app_id": "a",
    }


@pytest.mark.parametrize("name", FULL)
def test_a_property_alone_is_read_as_among_others(name: str) -> None:
    alone = parse_property_list(wire(**{name: FULL[name]}))
    name = "type" if name == "message_type" else name
    among = parse_property_list(wire(**FULL))
    assert alone is not None
    assert among is not None
    assert alone == {name: among[name]}


def test_every_cut_of_a_list_is_malformed() -> None:
    data = wire(**FULL)
    assert all(parse_property_list(data[:end]) is None for end in range(len(data)))


def test_a_second_word_of_flags_is_malformed() -> None:
    assert parse_property_list(b"\x00\x01\x00\x00") is None


def test_text_that_is_not_utf8_is_replaced() -> None:
    values = parse_property_list(struct.pack(">HB", 1 << 7, 3) + b"a\xffb")
    assert values == {"message_id": "a\ufffdb"}


@pytest.mark.parametrize(
    ("seconds", "microseconds"),
    [
        (0, 0),
        (253_402_300_799, 253_402_300_799_000_000),
        (253_402_300_800, None),
        (2**64 - 1, None),
    ],
)
def test_times_behind_the_year_9999_are_left_out(seconds: int, microseconds: int | None) -> None:
    data = struct.pack(">HQ", 1 << 6, seconds)
    assert parse_property_list(data) == {"timestamp": microseconds}


def table(*fields: bytes) -> bytes:
    content = b"".join(fields)
    return struct.pack(">I", len(content)) + content


def field(name: str, kind: bytes, value: bytes) -> bytes:
    return bytes([len(name.encode())]) + name.encode() + kind + value


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (b"t", b"\x01", "true"),
        (b"t", b"\x00", "false"),
        (b"b", b"\xff", "-1"),
        (b"B", b"\xff", "255"),
        (b"s", b"\xff\xfe", "-2"),
        (b"u", b"\xff\xfe", "65534"),
        (b"I", b"\xff\xff\xff\xfe", "-2"),
        (b"i", b"\xff\xff\xff\xfe", "4294967294"),
        (b"l", b"\xff" * 8, "-1"),
        (b"f", struct.pack(">f", 1.5), "1.5"),
        (b"d", struct.pack(">d", -0.1), "-0.1"),
        (b"D", b"\x02" + struct.pack(">I", 12345), "123.45"),
        (b"S", struct.pack(">I", 3) + "aé".encode(), "aé"),
        (b"S", struct.pack(">I", 2) + b"\xff\xfe", "//4="),
        (b"x", struct.pack(">I", 2) + b"ab", "YWI="),
        (b"T", struct.pack(">Q", 1_706_933_106), "2024-02-03T04:05:06+00:00"),
        (b"V", b"", None),
        (b"A", table(b"b\x01", b"t\x01", b"V"), "[1, true, null]"),
        (b"F", table(field("é", b"x", b"\0\0\0\1a")), '{"é": "YQ=="}'),
        (b"F", table(field("t", b"T", bytes(8))), '{"t": "1970-01-01T00:00:00+00:00"}'),
    ],
)
def test_a_header_of_each_type_has_a_text(kind: bytes, value: bytes, text: str | None) -> None:
    other = field("z", b"b", b"\x07")
    assert header_texts(table(field("h", kind, value), other)) == {"h": text, "z": "7"}


def test_headers_as_clients_write_them() -> None:
    headers: Mapping[str, object] = {"n": 2**40, "price": Decimal("9.90"), "list": ["a", {"b": 1}]}
    assert header_texts(encode.field_table(headers)) == {
        "n": "1099511627776",
        "price": "9.90",
        "list": '["a", {"b": 1}]',
    }


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00\x00\x00",
        b"\x00\x00\x00\x05a",
        table(field("a", b"?", b"")),
        table(b"\x09a"),
        table(field("a", b"T", b"\xff" * 8)),
        table(field("a", b"D", b"\x00")),
        table(b"A" * 5) * 2,
    ],
)
def test_a_malformed_table_has_no_texts(data: bytes) -> None:
    assert header_texts(data) is None


def test_a_table_nested_beyond_reason_has_no_texts() -> None:
    nested = b"V"
    for _ in range(5_000):
        nested = b"A" + struct.pack(">I", len(nested)) + nested
    assert header_texts(table(field("a", nested[:1], nested[1:]))) is None
