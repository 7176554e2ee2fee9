"""Property lists: strict reading, and the few properties that a broker acts on."""

import struct
from array import array
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pamqp import commands
from support.sampling import examples

from routelog.amqp_front.wire.errors import (
    FRAME_ERROR,
    PRECONDITION_FAILED,
    SYNTAX_ERROR,
    AmqpError,
    HardError,
    SoftError,
)
from routelog.amqp_front.wire.properties import (
    EXPIRATION_MAX,
    FIELDS_MAX,
    Properties,
    copies,
    read_table,
    visible_properties,
)
from routelog.log_backend import BLIND_COPIES, Records, encode_records
from routelog.vhosts.rules.death import Death, DeathReason, dead_letter


def listed(**values: Any) -> Properties:
    return Properties(commands.Basic.Properties(**values).marshal())


@dataclass
class Publishing:
    user: str
    impersonates: bool = False


GUEST = Publishing("guest")


def check(user: str = "guest", *, impersonates: bool = False, **values: Any) -> str | None:
    """The reason of the refusal, if any."""
    try:
        listed(**values).check(Publishing(user, impersonates))
    except SoftError as error:
        return f"{error.code} {error.reason}"
    return None


ALL: dict[str, Any] = {
    "content_type": "text/plain",
    "content_encoding": "gzip",
    "headers": {"a": 1},
    "delivery_mode": 2,
    "priority": 7,
    "correlation_id": "cor",
    "reply_to": "rep",
    "expiration": "1000",
    "message_id": "mid",
    "timestamp": datetime(2020, 1, 1, tzinfo=UTC),
    "message_type": "typ",
    "user_id": "usr",
    "app_id": "app",
}
TEXTS = {name: value for name, value in ALL.items() if isinstance(value, str)}


def test_every_property_is_found() -> None:
    properties = listed(**ALL)
    for name, value in TEXTS.items():
        stored = "type" if name == "message_type" else name
        assert properties.value(stored) == value.encode()
    assert properties.value("delivery_mode") == b"\x02"
    assert properties.value("priority") == b"\x07"
    assert properties.value("timestamp") == (1_577_836_800).to_bytes(8, "big")
    assert properties.value("cluster_id") is None
    assert properties.headers() == {"a": 1}


@pytest.mark.parametrize("name", ALL)
def test_a_property_alone_is_found(name: str) -> None:
    properties = listed(**{name: ALL[name]})
    found = [
        each
        for each in (*ALL, "type", "cluster_id")
        if each != "message_type" and properties.value(each) is not None
    ]
    assert found == ["type" if name == "message_type" else name]


def test_nothing_is_found_in_an_empty_list() -> None:
    properties = Properties(b"\0\0")
    assert properties.value("headers") is None
    assert properties.headers() == {}
    assert properties.delivery_mode() == 0


@pytest.mark.parametrize("names", [list(ALL), ["headers"], ["timestamp"], ["priority"], ["app_id"]])
def test_a_list_that_is_cut_off_or_too_long_is_refused(names: list[str]) -> None:
    raw = listed(**{name: ALL[name] for name in names}).raw
    for broken in (*(raw[:end] for end in range(len(raw))), raw + b"\0"):
        with pytest.raises(HardError) as caught:
            Properties(broken)
        assert caught.value.code == FRAME_ERROR


@pytest.mark.parametrize("flags", [b"\0\x01", b"\0\x02", b"\0\x03", b"", b"\0"])
def test_flags_that_no_property_has_are_refused(flags: bytes) -> None:
    with pytest.raises(HardError):
        Properties(flags)


def test_headers_that_are_no_table_are_refused_with_the_list() -> None:
    with pytest.raises(HardError) as caught:
        Properties(b"\x20\0\0\0\0\x03\x01a?")
    assert caught.value.code == SYNTAX_ERROR
    with pytest.raises(HardError, match="not UTF-8"):
        Properties(b"\x20\0\0\0\0\x03\x01\xffV").headers()


@pytest.mark.parametrize("mode", [0, 3, 255])
def test_delivery_modes_are_1_and_2(mode: int) -> None:
    assert listed(delivery_mode=1).delivery_mode() == 1
    assert listed(delivery_mode=2).delivery_mode() == 2
    with pytest.raises(SoftError) as caught:
        Properties(b"\x10\0" + bytes((mode,))).delivery_mode()
    assert caught.value.code == PRECONDITION_FAILED


@pytest.mark.parametrize("value", ["0", "1", "60000", str(EXPIRATION_MAX), "000"])
def test_an_expiration_is_a_number_of_milliseconds(value: str) -> None:
    assert check(expiration=value) is None


@pytest.mark.parametrize(
    "value", [" ", "-1", "+1", "1.5", "1s", "0x10", "١", "\x00", str(EXPIRATION_MAX + 1), "9" * 99]
)
def test_any_other_expiration_is_refused(value: str) -> None:
    assert check(expiration=value) == f"406 invalid expiration '{value}'"


def test_an_empty_expiration_and_an_empty_user_id_are_refused() -> None:
    for raw in (b"\x01\0\0", b"\0\x10\0"):
        with pytest.raises(SoftError):
            Properties(raw).check(GUEST)


def test_an_impersonator_publishes_in_anybodys_name() -> None:
    assert check("guest", impersonates=True, user_id="somebody else") is None
    assert check("guest", impersonates=True, expiration="-1") == "406 invalid expiration '-1'"


def test_a_user_id_is_the_users_own() -> None:
    assert check("guest", user_id="guest") is None
    assert check("josé", user_id="josé") is None
    assert check("guest") is None
    reason = "406 user_id property set to 'root' but authenticated user was 'guest'"
    assert check("guest", user_id="root") == reason


@settings(max_examples=examples(200), deadline=None, derandomize=True)
@given(
    others=st.dictionaries(
        st.sampled_from(["a", "CC", "B", "BCCC"]), st.integers(0, 9) | st.text()
    ),
    place=st.integers(0, 4),
    rest=st.booleans(),
)
def test_blind_copies_are_cut_out_and_all_else_stays(
    others: dict[str, Any], place: int, rest: bool
) -> None:
    names = list(others)
    names.insert(min(place, len(names)), "BCC")
    around = {"content_type": "x", "app_id": "y"} if rest else {}
    headers = {name: ["secret"] if name == "BCC" else others[name] for name in names}
    stripped = listed(headers=headers, **around).without_blind_copies()
    assert b"secret" not in stripped
    properties = Properties(stripped)
    assert properties.headers() == others
    assert properties.value("app_id") == (b"y" if rest else None)
    assert properties.value("content_type") == (b"x" if rest else None)


def test_a_dead_letter_with_as_many_headers_as_can_be_published_is_delivered() -> None:
    headers = {"BCC": ["secret"], **{str(at): None for at in range(FIELDS_MAX - 2)}}
    published = listed(headers=headers)
    assert len(published.headers()) == FIELDS_MAX - 1
    death = Death("q", DeathReason.REJECTED, 1, None)
    letter = dead_letter(published.raw, 0, b"", b"k", death)
    seen = visible_properties(stored(letter.properties), 0)
    assert b"x-first-death-queue" in seen
    assert b"secret" not in seen


@pytest.mark.parametrize("headers", [None, {"CC": ["a"]}])
def test_a_neighbour_of_blind_copies_stays_as_it_is(headers: dict[str, Any] | None) -> None:
    raw = listed(content_type="x", headers=headers).raw
    assert visible_properties(stored(raw), 0) == raw


def stored(properties: bytes) -> Records:
    """A message in a batch of which some have blind copies."""
    rows = array("i", (0, 0, 0, len(properties), 0, 0))
    batch: Records = encode_records(
        memoryview(bytearray(properties)), memoryview(rows), None, 1, b"", b"k", BLIND_COPIES, 0
    )
    return batch


def test_the_reply_address_can_be_replaced() -> None:
    properties = listed(**ALL)
    changed = Properties(properties.with_reply_to("somewhere else" * 9))
    assert changed.value("reply_to") == b"somewhere else" * 9
    for name in ("content_type", "expiration", "app_id", "timestamp", "headers"):
        assert changed.value(name) == properties.value(name)


def test_copies_are_arrays_of_strings() -> None:
    assert copies({}) == []
    assert copies({"CC": ["a", "é"], "BCC": [b"\xff"], "x": 1}) == [b"a", "é".encode(), b"\xff"]
    assert copies({"CC": []}) == []


@pytest.mark.parametrize("value", ["a", b"a", 5, None, {"a": 1}, [1], ["a", None], [["a"]]])
@pytest.mark.parametrize("name", ["CC", "BCC"])
def test_copies_of_any_other_type_are_refused(name: str, value: object) -> None:
    with pytest.raises(SoftError) as caught:
        copies({name: value})
    assert caught.value.code == PRECONDITION_FAILED


@settings(max_examples=examples(500), deadline=None, derandomize=True)
@given(raw=st.binary(max_size=40))
def test_noise_is_refused_or_read(raw: bytes) -> None:
    try:
        properties = Properties(raw)
        properties.headers()
        properties.delivery_mode()
        properties.check(GUEST)
    except AmqpError:
        return
    assert properties.raw == raw


@pytest.mark.parametrize("name", [*ALL, None])
def test_a_header_is_put_in_front_of_the_others(name: str | None) -> None:
    values = {name: ALL[name]} if name else dict(ALL)
    found = Properties(listed(**values).with_integers({b"X-count": 1 << 40}))
    expected = {**values, "headers": {"X-count": 1 << 40, **values.get("headers", {})}}
    assert found.headers() == expected["headers"]
    assert found.raw == listed(**expected).raw


def test_a_header_of_that_name_that_was_published_goes() -> None:
    headers = {"x-count": {"deep": [1, "two"]}, "mine": "kept", "x-counter": 3}
    found = Properties(listed(headers=headers).with_integers({b"x-count": 2}))
    assert found.headers() == {"x-count": 2, "mine": "kept", "x-counter": 3}


def test_several_headers_are_put_in_front_in_their_order() -> None:
    headers = {"b": "published", "mine": "kept", "a": "published"}
    found = Properties(listed(headers=headers).with_integers({b"a": 1, b"b": 2}))
    assert found.raw == listed(headers={"a": 1 << 40, "b": 2 << 40, "mine": "kept"}).raw.replace(
        (1 << 40).to_bytes(8, "big"), (1).to_bytes(8, "big")
    ).replace((2 << 40).to_bytes(8, "big"), (2).to_bytes(8, "big"))


def test_a_table_that_could_not_be_decoded_is_passed_on_as_it_is() -> None:
    # The name in the inner table is not UTF-8; who consumes it must not suffer for it.
    table = b"\x01aF\x00\x00\x00\x03\x01\xffV"
    raw = b"\x20\x00" + len(table).to_bytes(4, "big") + table
    field = b"\x07x-countl" + (5).to_bytes(8, "big")
    size = (len(table) + len(field)).to_bytes(4, "big")
    assert Properties(raw).with_integers({b"x-count": 5}) == b"\x20\x00" + size + field + table


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


def test_an_unknown_type_and_a_name_that_is_no_text_have_codes_of_their_own() -> None:
    assert refused(b"\x01aZ" + bytes(8)) == SYNTAX_ERROR
    assert refused(b"\x01\xffV") == FRAME_ERROR


def test_the_fields_are_limited_those_of_inner_tables_and_arrays_included() -> None:
    assert len(read(b"\x01aV" * FIELDS_MAX)) == 1
    assert refused(b"\x01aV" * (FIELDS_MAX + 1)) == FRAME_ERROR
    inner = b"V" * (FIELDS_MAX - 1)
    array = b"\x01aA" + len(inner).to_bytes(4, "big") + inner
    assert read(array)
    assert refused(array + b"\x01bV") == FRAME_ERROR
