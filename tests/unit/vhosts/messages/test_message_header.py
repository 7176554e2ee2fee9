"""A header found in a property list, among strangers' bytes."""

from __future__ import annotations

import struct
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from pamqp.commands import Basic

from routelog.log_backend import header_key
from routelog.vhosts.messages.message_header import header_scalar, header_values


def listed(headers: dict[str, object] | None, **properties: object) -> bytes:
    """A property list as a client sends it."""
    return Basic.Properties(headers=headers, **properties).marshal()


def with_field(kind: bytes, value: bytes) -> bytes:
    """A property list whose headers are one field `k`."""
    field = b"\x01k" + kind + value
    return b"\x20\x00" + struct.pack(">I", len(field)) + field


@pytest.mark.parametrize(
    ("value", "key"),
    [
        ("tenant-7", b"tenant-7"),
        ("größe", "größe".encode()),
        ("", b""),
        (bytearray(b"\xff\x00"), b"\xff\x00"),
        (0, b"0"),
        (-5, b"-5"),
        (70_000, b"70000"),
        (2**40, b"1099511627776"),
    ],
)
def test_texts_octets_and_integers_are_keys(value: object, key: bytes) -> None:
    assert header_key(listed({"k": value}), b"k") == key


@pytest.mark.parametrize(
    "value",
    [True, 1.5, Decimal("1.5"), datetime(2024, 1, 1, tzinfo=UTC), None, {"k": "x"}, ["k", "x"]],
    ids=repr,
)
def test_other_values_are_no_key_and_are_passed_over(value: object) -> None:
    assert header_key(listed({"k": value}), b"k") is None
    assert header_key(listed({"before": value, "k": "found"}), b"k") == b"found"


@pytest.mark.parametrize(
    ("kind", "layout"),
    [
        (b"b", ">b"),
        (b"B", ">B"),
        (b"s", ">h"),
        (b"U", ">h"),
        (b"u", ">H"),
        (b"I", ">i"),
        (b"i", ">I"),
        (b"l", ">q"),
        (b"L", ">q"),
    ],
)
def test_an_integer_is_the_same_key_in_every_width(kind: bytes, layout: str) -> None:
    assert header_key(with_field(kind, struct.pack(layout, 42)), b"k") == b"42"
    top = 255 if layout[1].isupper() else -1
    value = struct.pack(layout, top) if layout[1].isupper() else b"\xff" * struct.calcsize(layout)
    assert header_key(with_field(kind, value), b"k") == b"%d" % top
    assert kind + value in header_values(b"%d" % top)
    assert kind + struct.pack(layout, 42) in header_values(b"42")


@pytest.mark.parametrize("key", [b"", b"a", b"42", b"-1", b"255", b"-128", b"70000", b"%d" % 2**63])
def test_the_values_of_a_key_give_that_key(key: bytes) -> None:
    values = header_values(key)
    assert {value[:1] for value in values} >= {b"S", b"x"}
    for value in values:
        assert header_key(with_field(value[:1], value[1:]), b"k") == key


@pytest.mark.parametrize("key", [b"042", b"-0", b"-", b"1.5", b"1" * 5_000, b"%d" % 2**64])
def test_what_is_no_integer_as_a_key_is_a_text(key: bytes) -> None:
    assert [value[:1] for value in header_values(key)] == [b"S", b"x"]


def test_properties_around_the_headers_are_passed_over() -> None:
    around = {"content_type": "a/b", "content_encoding": "gzip", "delivery_mode": 2, "app_id": "x"}
    assert header_key(listed({"a": 1, "k": "v"}, **around), b"k") == b"v"
    assert header_key(listed({"k": "v"}, content_encoding="gzip"), b"k") == b"v"
    assert header_key(listed(None, **around), b"k") is None
    assert header_key(listed({}, **around), b"k") is None


def test_a_header_with_another_name_is_no_key() -> None:
    assert header_key(listed({"kk": "v", "": "v", "K": "v"}), b"k") is None
    assert header_key(b"\x00\x00", b"k") is None


def test_whatever_is_cut_off_or_runs_over_has_no_headers() -> None:
    whole = listed({"first": {"a": [1, 2]}, "k": "value"}, content_type="a/b", message_id="m")
    after_headers = 3  # of the message id: a length and a letter, with the header's last octet
    for end in range(len(whole) - after_headers + 1):
        assert header_key(whole[:end], b"k") is None
    assert header_key(whole, b"k") == b"value"
    assert header_key(with_field(b"S", struct.pack(">I", 9) + b"value"), b"k") is None
    assert header_key(with_field(b"S", struct.pack(">I", 2**32 - 1)), b"k") is None
    assert header_key(with_field(b"?", b"value"), b"k") is None
    assert header_key(b"\xe0\x00\xffshort", b"k") is None


@pytest.mark.parametrize(
    ("value", "scalar"),
    [
        ("größe", "größe".encode()),
        (bytearray(b"\xff\x00"), b"\xff\x00"),
        (-5, -5),
        (2**40, 2**40),
        (1.5, 1.5),
        (Decimal("-1.25"), -1.25),
        (True, True),
        (False, False),
        (datetime(1970, 1, 2, tzinfo=UTC), 86_400),
        (None, None),
        ([1], None),
        ({"a": 1}, None),
    ],
)
def test_a_scalar_is_a_text_a_number_a_boolean_or_a_time(value: object, scalar: object) -> None:
    found = header_scalar(listed({"k": value}), b"k")
    assert (type(found), found) == (type(scalar), scalar)
    assert header_scalar(listed({"k": value}), b"l") is None


@pytest.mark.parametrize(
    ("kind", "content", "scalar"),
    [(b"f", struct.pack(">f", 0.5), 0.5), (b"B", b"\xff", 255), (b"t", b"\x02", True)],
)
def test_a_scalar_of_other_types(kind: bytes, content: bytes, scalar: object) -> None:
    found = header_scalar(with_field(kind, content), b"k")
    assert (type(found), found) == (type(scalar), scalar)
