"""Field tables: every type letter, and every way to be wrong."""

import math
import struct
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pamqp import encode

from routelog.amqp_front.wire.errors import FRAME_ERROR, SYNTAX_ERROR, HardError
from routelog.amqp_front.wire.field_table import FIELDS_MAX, read_table
from routelog.log_backend.records.property_list import DEPTH_MAX


def read(data: bytes) -> dict[str, object]:
    return read_table(data, 0, len(data))


def refused(data: bytes) -> int:
    with pytest.raises(HardError) as caught:
        read(data)
    return caught.value.code


VALUES = [
    (b"t\x00", False),
    (b"t\x01", True),
    (b"t\x07", True),
    (b"b\xff", -1),
    (b"B\xff", 255),
    (b"s\xff\xfe", -2),
    (b"U\xff\xfe", -2),
    (b"u\xff\xfe", 65_534),
    (b"I\xff\xff\xff\xfe", -2),
    (b"i\xff\xff\xff\xfe", 2**32 - 2),
    (b"l" + b"\xff" * 8, -1),
    (b"L" + b"\xff" * 8, -1),
    (b"f\x3f\xc0\x00\x00", 1.5),
    (b"d" + struct.pack(">d", 0.1), 0.1),
    (b"D\x02\x00\x00\x01\x3b", Decimal("3.15")),
    (b"D\x00\xff\xff\xff\xff", Decimal(-1)),
    (b"D\xff\x7f\xff\xff\xff", Decimal("2147483647E-255")),
    (b"T" + struct.pack(">Q", 1_600_000_000), datetime(2020, 9, 13, 12, 26, 40, tzinfo=UTC)),
    (b"T" + struct.pack(">Q", 2**64 - 1), 2**64 - 1),
    (b"T" + struct.pack(">Q", 1_600_000_000_000), 1_600_000_000_000),
    (b"V", None),
    (b"S\x00\x00\x00\x03\xe2\x82\xac", "€"),
    (b"S\x00\x00\x00\x02\xff\xfe", b"\xff\xfe"),
    (b"S\x00\x00\x00\x00", ""),
    (b"x\x00\x00\x00\x02ab", b"ab"),
    (b"F\x00\x00\x00\x00", {}),
    (b"F\x00\x00\x00\x04\x01at\x01", {"a": True}),
    (b"A\x00\x00\x00\x00", []),
    (b"A\x00\x00\x00\x03b\x05V", [5, None]),
]


@pytest.mark.parametrize(("octets", "value"), VALUES, ids=lambda each: repr(each)[:30])
def test_a_value_of_each_type_is_read(octets: bytes, value: object) -> None:
    fields = read(b"\x01a" + octets + b"\x01zV")
    assert fields == {"a": value, "z": None}
    assert type(fields["a"]) is type(value)


@pytest.mark.parametrize(("octets", "value"), VALUES, ids=lambda each: repr(each)[:30])
def test_a_value_that_is_cut_off_is_refused(octets: bytes, value: object) -> None:
    field = b"\x03key" + octets
    for end in range(1, len(field)):
        assert refused(field[:end]) == FRAME_ERROR


@pytest.mark.parametrize("letter", sorted(set(range(256)) - set(b"tbBsUuIilLfdDTVSxFA")))
def test_an_unknown_type_is_refused(letter: int) -> None:
    assert refused(b"\x01a" + bytes((letter,)) + bytes(8)) == SYNTAX_ERROR


def test_inner_tables_and_arrays_must_be_filled_exactly() -> None:
    assert refused(b"\x01aF\x00\x00\x00\x03\x01at\x01") == FRAME_ERROR
    assert refused(b"\x01aA\x00\x00\x00\x02s\x00\x01") == FRAME_ERROR
    assert refused(b"\x01aF\xff\xff\xff\xff") == FRAME_ERROR


def test_a_name_is_utf8_and_may_be_empty_or_255_octets_long() -> None:
    assert refused(b"\x01\xffV") == FRAME_ERROR
    assert read(b"\x00V") == {"": None}
    assert read(b"\xff" + b"n" * 255 + b"V") == {"n" * 255: None}


def test_of_fields_with_one_name_the_last_counts() -> None:
    assert read(b"\x01ab\x01\x01ab\x02") == {"a": 2}


@pytest.mark.parametrize(("letter", "name"), [(b"F", b"\x01n"), (b"A", b"")])
def test_the_depth_is_limited(letter: bytes, name: bytes) -> None:
    def nested(depth: int) -> bytes:
        octets = b""
        for _ in range(depth - 2):
            octets = name + letter + len(octets).to_bytes(4, "big") + octets
        return b"\x01n" + letter + len(octets).to_bytes(4, "big") + octets

    assert read(nested(DEPTH_MAX))
    assert refused(nested(DEPTH_MAX + 1)) == FRAME_ERROR
    assert refused(nested(5000)) == FRAME_ERROR


def test_the_fields_are_limited_those_of_inner_tables_and_arrays_included() -> None:
    assert len(read(b"\x01aV" * FIELDS_MAX)) == 1
    assert refused(b"\x01aV" * (FIELDS_MAX + 1)) == FRAME_ERROR
    inner = b"V" * (FIELDS_MAX - 1)
    array = b"\x01aA" + len(inner).to_bytes(4, "big") + inner
    assert read(array)
    assert refused(array + b"\x01bV") == FRAME_ERROR


field_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.text(max_size=8)
    | st.floats(width=32)
    | st.integers(0, 253_402_300_799).map(lambda seconds: datetime.fromtimestamp(seconds, UTC)),
    lambda values: (
        st.lists(values, max_size=4) | st.dictionaries(st.text(max_size=9), values, max_size=4)
    ),
    max_leaves=12,
)


def same(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return one == other or (math.isnan(one) and math.isnan(other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


@settings(max_examples=100, deadline=None, derandomize=True)
@given(fields=st.dictionaries(st.text(max_size=9), field_values, max_size=5))
def test_what_pamqp_writes_is_read(fields: dict[str, object]) -> None:
    assert same(read(encode.field_table(fields)[4:]), fields)


@settings(max_examples=500, deadline=None, derandomize=True)
@given(data=st.binary(max_size=60))
def test_noise_is_refused_or_read(data: bytes) -> None:
    try:
        fields = read(data)
    except HardError:
        return
    assert len(fields) <= len(data)
