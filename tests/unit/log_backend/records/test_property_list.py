"""Property lists and field tables: whole, cut at every byte, with trailing bytes; and against pamqp's coder."""

import math
import struct
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pamqp import commands, encode
from support.frame_samples import source_module
from support.sampling import examples

from routelog.log_backend.records import property_list
from routelog.log_backend.records.property_list import (
    DEPTH_MAX,
    FIRST_FLAG,
    HEADERS,
    PROPERTY_NAMES,
    MalformedProperties,
    PropertyWalk,
    UnknownFieldType,
    array_items,
    decode_table,
    header_value,
    property_places,
    table_fields,
)

UNCOMPILED = source_module("routelog.log_backend.records.property_list")

FULL = commands.Basic.Properties(
    content_type="text/plain",
    content_encoding="utf-8",
    headers={"a": 1, "b": ["x", {"c": None}], "d": bytearray(b"\xff"), "CC": ["k"]},
    delivery_mode=2,
    priority=7,
    correlation_id="c",
    reply_to="r",
    expiration="60000",
    message_id="m",
    timestamp=datetime(2024, 2, 3, 4, 5, 6, tzinfo=UTC),
    message_type="t",
    user_id="u",
    app_id="a",
).marshal()

SAMPLES = [
    b"\0\0",
    FULL,
    commands.Basic.Properties(headers={}).marshal(),
    commands.Basic.Properties(message_id="m").marshal(),
    commands.Basic.Properties(timestamp=datetime(2024, 2, 3, tzinfo=UTC), priority=0).marshal(),
    b"\x00\x04\x02id",  # cluster id
    b"\x20\x00\x00\x00\x00\x03\x01aV",
]

TABLES = [
    b"",
    b"\x01at\x01",
    b"\x00V\x01aV",
    b"\x01aS\x00\x00\x00\x02xy\x01bI\xff\xff\xff\xff",
    b"\x01aF\x00\x00\x00\x04\x01at\x01",
    b"\x01aA\x00\x00\x00\x03b\x05V",
    b"\x01aD\x02\x00\x00\x01\x3b",
    b"\xff" + b"n" * 255 + b"V",
]


def well_formed(data: bytes) -> bool:
    return len(data) > 1 and bool(PropertyWalk(memoryview(data)).well_formed(0, len(data)))


@pytest.mark.parametrize("data", SAMPLES)
def test_the_properties_of_a_list_follow_each_other_and_fill_it(data: bytes) -> None:
    assert well_formed(data)
    places = property_places(data)
    assert [start for _, start, _ in places] == [2, *(end for _, _, end in places)][
        :-1
    ] or not places
    assert (places[-1][2] if places else 2) == len(data)
    assert sum(flag for flag, _, _ in places) == int.from_bytes(data[:2], "big")


@pytest.mark.parametrize("data", SAMPLES)
def test_a_list_that_is_cut_or_has_trailing_bytes_is_malformed(data: bytes) -> None:
    for wrong in (*(data[:end] for end in range(len(data))), data + b"\0", data + data):
        assert not well_formed(wrong)
        with pytest.raises(MalformedProperties):
            property_places(wrong)


@pytest.mark.parametrize("data", SAMPLES)
def test_a_header_is_found_among_the_fields(data: bytes) -> None:
    tables = [(start + 4, end) for flag, start, end in property_places(data) if flag == HEADERS]
    fields = dict(table_fields(data, *tables[0])) if tables else {}
    for name in (*fields, b"", b"no", b"CC"):
        assert header_value(data, name) == fields.get(name)
    with pytest.raises(MalformedProperties):
        header_value(data + b"\0", b"a")


@pytest.mark.parametrize("flags", [b"\0\1", b"\0\2", b"\0\3"])
def test_flags_below_the_last_property_are_malformed(flags: bytes) -> None:
    with pytest.raises(MalformedProperties, match="flags"):
        property_places(flags)


def test_the_property_that_is_too_long_is_named() -> None:
    for place, name in enumerate(PROPERTY_NAMES):
        flag = FIRST_FLAG >> place
        with pytest.raises(MalformedProperties, match=f"property {name} is longer"):
            property_places(flag.to_bytes(2, "big"))


@pytest.mark.parametrize(("mode", "valid"), [(0, False), (1, True), (2, True), (3, False)])
def test_a_delivery_mode_that_there_is_not_is_none_for_the_kernel(mode: int, valid: bool) -> None:
    data = b"\x10\x00" + bytes((mode,))
    assert well_formed(data) is valid
    assert property_places(data) == [(1 << 12, 2, 3)]


@pytest.mark.parametrize("data", TABLES)
def test_the_fields_of_a_table_are_its_bytes(data: bytes) -> None:
    fields = table_fields(data, 0, len(data))
    assert b"".join(bytes((len(name),)) + name + value for name, value in fields) == data
    shifted = b"??" + data + b"??"
    assert table_fields(shifted, 2, 2 + len(data)) == fields
    assert decode_table(shifted, 2, 2 + len(data)) == decode_table(data, 0, len(data))


@pytest.mark.parametrize("data", TABLES)
def test_a_table_that_is_cut_or_has_trailing_bytes_is_malformed(data: bytes) -> None:
    ends = {0}
    for name, value in table_fields(data, 0, len(data)):
        ends.add(max(ends) + 1 + len(name) + len(value))
    cuts = [data[:end] for end in range(len(data)) if end not in ends]
    for wrong in (*cuts, data + b"\0", data + b"\x01a"):
        for read in (table_fields, decode_table):
            with pytest.raises(MalformedProperties):
                read(wrong, 0, len(wrong))


def test_the_items_of_an_array_are_its_bytes() -> None:
    data = b"b\x05VS\x00\x00\x00\x01xA\x00\x00\x00\x01V"
    assert array_items(data, 0, len(data)) == [b"b\x05", b"V", data[3:9], data[9:]]
    for wrong in (data[:1], data[:-1], data + b"S", data + b"\0"):
        with pytest.raises(MalformedProperties):
            array_items(wrong, 0, len(wrong))


@pytest.mark.parametrize("letter", sorted(set(range(256)) - set(b"tbBsUuIilLfdDTVSxFA")))
def test_an_unknown_letter_is_told_apart(letter: int) -> None:
    for data in (b"\x01a" + bytes((letter,)) + bytes(8), b"\x01aA\0\0\0\x01" + bytes((letter,))):
        with pytest.raises(UnknownFieldType):
            decode_table(data, 0, len(data))


@pytest.mark.parametrize("inner", [b"\x01nF", b"A"])
@pytest.mark.parametrize("read", [table_fields, decode_table])
def test_the_depth_is_limited(inner: bytes, read: Callable[[bytes, int, int], object]) -> None:
    def nested(depth: int) -> bytes:
        octets = b""
        for _ in range(depth - 2):
            octets = inner + len(octets).to_bytes(4, "big") + octets
        return b"\x01n" + inner[-1:] + len(octets).to_bytes(4, "big") + octets

    assert read(nested(DEPTH_MAX), 0, len(nested(DEPTH_MAX)))
    for depth in (DEPTH_MAX + 1, 5_000):
        with pytest.raises(MalformedProperties, match="deep"):
            read(nested(depth), 0, len(nested(depth)))


@pytest.mark.parametrize("inner", [b"F\0\0\0\3\1at\1", b"A\0\0\0\2s\0\1", b"F\xff\xff\xff\xff"])
def test_an_inner_table_or_array_is_filled_exactly(inner: bytes) -> None:
    for read in (table_fields, decode_table):
        with pytest.raises(MalformedProperties):
            read(b"\1a" + inner, 0, len(inner) + 2)


def test_of_fields_with_one_name_the_last_counts() -> None:
    assert decode_table(b"\1ab\1\1ab\2", 0, 8) == {"a": 2}


def test_a_table_may_have_a_limit_of_values() -> None:
    data = b"\x01aV\x01bA\0\0\0\x02VV"
    assert decode_table(data, 0, len(data), values_max=4) == {"a": None, "b": [None, None]}
    with pytest.raises(MalformedProperties, match="more than 3"):
        decode_table(data, 0, len(data), values_max=3)


field_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.text(max_size=8)
    | st.binary(max_size=8).map(bytearray)
    | st.floats(width=32)
    | st.decimals("0", "1000", places=2)
    | st.integers(0, 2**32 - 1).map(lambda seconds: datetime.fromtimestamp(seconds, UTC)),
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
    return one == other


@settings(max_examples=examples(200), deadline=None, derandomize=True)
@given(fields=st.dictionaries(st.text(max_size=9), field_values, max_size=5))
def test_what_pamqp_writes_is_read(fields: dict[str, object]) -> None:
    data = encode.field_table(fields)
    assert same(decode_table(data, 4, len(data)), fields)
    listed = commands.Basic.Properties(headers=fields or None, app_id="x").marshal()
    assert well_formed(listed)
    assert listed[-2:] == b"\x01x"


@settings(max_examples=examples(200), deadline=None, derandomize=True)
@given(
    values=st.fixed_dictionaries(
        {},
        optional={
            **{name: st.text(min_size=1, max_size=20) for name in ("content_type", "message_id")},
            **{name: st.text(min_size=1, max_size=20) for name in ("reply_to", "app_id")},
            "delivery_mode": st.integers(1, 2),
            "priority": st.integers(0, 9),
            "headers": st.dictionaries(st.text(max_size=9), field_values, min_size=1, max_size=3),
        },
    )
)
def test_the_places_are_those_where_pamqp_puts_properties(values: dict[str, object]) -> None:
    data = commands.Basic.Properties(**values).marshal()
    found = {
        PROPERTY_NAMES[FIRST_FLAG.bit_length() - flag.bit_length()]: data[start:end]
        for flag, start, end in property_places(data)
    }
    assert found.keys() == values.keys()
    for name, value in values.items():
        if name == "headers":
            assert same(decode_table(found[name], 4, len(found[name])), value)
        elif isinstance(value, str):
            assert found[name] == bytes((len(value.encode()),)) + value.encode()
        else:
            assert found[name] == bytes((value,))


@settings(max_examples=examples(500), deadline=None, derandomize=True)
@given(data=st.binary(min_size=2, max_size=60))
def test_noise_is_refused_or_read_compiled_as_uncompiled(data: bytes) -> None:
    def seen(module: object) -> list[object]:
        outcomes: list[object] = []
        for read, arguments in (
            ("property_places", (data,)),
            ("table_fields", (data, 0, len(data))),
            ("array_items", (data, 0, len(data))),
            ("decode_table", (data, 0, len(data))),
        ):
            try:
                outcomes.append(repr(getattr(module, read)(*arguments)))
            except ValueError as error:
                outcomes.append((type(error).__name__, str(error)))
        walk = module.PropertyWalk(memoryview(data))  # type: ignore[attr-defined]
        return [*outcomes, bool(walk.well_formed(0, len(data))), walk.values]

    assert seen(property_list) == seen(UNCOMPILED)


def test_values_keep_what_their_letters_say() -> None:
    data = b"\x01aD\x02\xff\xff\xff\xff\x01bT" + struct.pack(">Q", 1 << 60) + b"\x01cS\0\0\0\1\xff"
    expected = {"a": Decimal("-0.01"), "b": 1 << 60, "c": b"\xff"}
    assert decode_table(data, 0, len(data)) == expected
    assert decode_table(data, 0, len(data), moment=str)["b"] == str(1 << 60)
