"""Arguments as bytes: every value that a client can send comes back equal."""

import math
import struct
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.sampling import examples

from routelog.vhosts.arguments.argument_table import decode_arguments, encode_arguments

VALUES: list[object] = [
    True,
    False,
    0,
    -1,
    2**31,
    2**63 - 1,
    -(2**63),
    2**64 - 1,
    253_402_300_800,
    0.1,
    -0.0,
    1e300,
    math.inf,
    Decimal("3.15"),
    Decimal("-2147483648"),
    Decimal(0).scaleb(-7),
    Decimal("2147483647E-255"),
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC),
    "",
    "text ☃",
    "y" * 70_000,
    b"",
    b"\xff\xfe",
    [],
    [1, "a", None, [b"b", {"c": 1.5}]],
    {},
    {"": None, "deep": {"deeper": {"deepest": [True]}}},
    None,
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: repr(value)[:30])
def test_a_value_comes_back_with_its_type(value: object) -> None:
    read = decode_arguments(encode_arguments({"before": 1, "value": value, "x-after": "z"}))
    assert read == {"before": 1, "value": value, "x-after": "z"}
    assert type(read["value"]) is type(value)
    assert str(read["value"]) == str(value)


def test_not_a_number_comes_back() -> None:
    (value,) = decode_arguments(encode_arguments({"x": math.nan})).values()
    assert isinstance(value, float)
    assert math.isnan(value)


@pytest.mark.parametrize("name", ["", "n" * 129, "n" * 255, "é" * 127, "a/b"])
def test_a_name_comes_back_whole(name: str) -> None:
    assert decode_arguments(encode_arguments({name: 1})) == {name: 1}


def test_equal_arguments_give_equal_bytes() -> None:
    one = {"a": 1, "b": {"c": 2, "d": 3}}
    other = {"b": {"d": 3, "c": 2}, "a": 1}
    assert encode_arguments(one) == encode_arguments(other)
    assert encode_arguments({}) == b""


def test_the_layout_is_a_field_table() -> None:
    encoded = encode_arguments({"n": 5, "s": "x", "l": [True]})
    assert encoded == (
        b"\x01lA\0\0\0\x02t\x01" + b"\x01nl" + struct.pack(">q", 5) + b"\x01sS\0\0\0\x01x"
    )


@pytest.mark.parametrize(
    "seconds", [253_402_300_800, 10**12, 2**56 + 1, 2**62, 2**63 - 1, 2**64 - 1]
)
def test_a_time_beyond_the_year_9999_is_a_number_of_seconds(seconds: int) -> None:
    assert decode_arguments(b"\x01xT" + seconds.to_bytes(8, "big")) == {"x": seconds}


@pytest.mark.parametrize("value", [object(), {1, 2}, (1,), 1j])
def test_what_no_client_can_send_is_refused(value: object) -> None:
    with pytest.raises(TypeError):
        encode_arguments({"x": value})


values = st.recursive(
    st.sampled_from([value for value in VALUES if not isinstance(value, list | dict)]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=10,
)


@settings(max_examples=examples(100), deadline=None, derandomize=True)
@given(arguments=st.dictionaries(st.text(max_size=60), values, max_size=5))
def test_tables_come_back_and_give_the_same_bytes_again(arguments: dict[str, object]) -> None:
    encoded = encode_arguments(arguments)
    read = decode_arguments(encoded)
    assert read == arguments
    assert encode_arguments(read) == encoded
