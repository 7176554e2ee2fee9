"""Property lists in parts, compared with pamqp's view of the same bytes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pamqp import commands, encode
from support.sampling import examples

from routelog.log_backend import EXPIRATION, MalformedProperties
from routelog.vhosts.messages.property_list import PropertyList, expiration, priority

FULL = commands.Basic.Properties(
    content_type="text/plain",
    content_encoding="utf-8",
    headers={"a": 1, "b": ["x", {"c": None}], "d": bytearray(b"\xff")},
    delivery_mode=2,
    priority=7,
    correlation_id="c",
    reply_to="r",
    expiration="60000",
    message_id="m",
    message_type="t",
    user_id="u",
    app_id="a",
)


def unmarshal(properties: commands.Basic.Properties, octets: bytes) -> None:
    properties.unmarshal(int.from_bytes(octets[:2], "big"), octets[2:])


def raw(properties: commands.Basic.Properties) -> bytes:
    return properties.marshal()


def test_what_is_not_changed_comes_out_as_it_went_in() -> None:
    assert PropertyList(raw(FULL)).encode() == raw(FULL)
    assert PropertyList(b"\0\0").encode() == b"\0\0"


def test_a_property_that_is_removed_leaves_the_others() -> None:
    parts = PropertyList(raw(FULL))
    assert parts.pop(EXPIRATION) == b"60000"
    assert parts.pop(EXPIRATION) is None
    left = commands.Basic.Properties()
    unmarshal(left, parts.encode())
    assert left.expiration is None
    assert (left.headers, left.message_id, left.priority) == (FULL.headers, "m", 7)


def test_a_header_can_be_added_where_there_was_none() -> None:
    parts = PropertyList(raw(commands.Basic.Properties(content_type="x", message_id="m")))
    parts.headers[b"new"] = b"S" + encode.long_string("value")
    made = commands.Basic.Properties()
    unmarshal(made, parts.encode())
    assert made.headers == {"new": "value"}
    assert (made.content_type, made.message_id) == ("x", "m")


@pytest.mark.parametrize("end", range(2, len(raw(FULL))))
def test_a_list_that_is_cut_off_is_malformed(end: int) -> None:
    with pytest.raises(MalformedProperties):
        PropertyList(raw(FULL)[:end])


@pytest.mark.parametrize("octets", [b"", b"\0", b"\0\1", b"\0\0x", raw(FULL) + b"x"])
def test_what_is_no_list_is_malformed(octets: bytes) -> None:
    with pytest.raises(MalformedProperties):
        PropertyList(octets)
    assert expiration(octets) is None or octets.startswith(raw(FULL))


@settings(max_examples=examples(500), deadline=None, derandomize=True)
@given(st.binary(max_size=60))
def test_any_bytes_are_a_list_or_malformed(octets: bytes) -> None:
    assert expiration(octets) is None or octets[0] & 1
    assert 0 <= priority(octets) <= 255
    try:
        parts = PropertyList(octets)
    except MalformedProperties:
        return
    assert PropertyList(parts.encode()).headers == parts.headers


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0", 0), ("60000", 60000), ("", None), ("-1", None), ("1e3", None), ("9" * 16, None)],
)
def test_an_expiration_is_a_number_of_milliseconds(text: str, expected: int | None) -> None:
    properties = commands.Basic.Properties(headers={"h": "x"}, priority=3, expiration=text)
    # pamqp leaves out what is empty
    assert expiration(raw(properties)) == expected
    assert priority(raw(properties)) == 3


def test_without_the_property_there_is_none() -> None:
    assert expiration(b"\0\0") is None
    assert priority(b"\0\0") == 0
