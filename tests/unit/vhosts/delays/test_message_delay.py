"""The delay of a message, as its property list says it."""

from decimal import Decimal
from typing import Any

import pytest
from pamqp import commands

from routelog.log_backend import StoredRecord
from routelog.vhosts.delays.message_delay import (
    DELAY_CLASSES,
    PARTS,
    due_letter,
    message_delay,
    part_of,
)
from routelog.vhosts.publishing.internal_publish import OutgoingMessage


def raw(**properties: Any) -> bytes:
    return commands.Basic.Properties(**properties).marshal()


def headers(octets: bytes) -> dict[str, Any]:
    properties = commands.Basic.Properties()
    properties.unmarshal(int.from_bytes(octets[:2], "big"), octets[2:])
    return dict(properties.headers or {})


def due(key: bytes, **properties: Any) -> OutgoingMessage:
    return due_letter(StoredRecord(b"x", key, raw(**properties), b"body", 0, 0))


def letters(value: bytes) -> bytes:
    """A property list with the header `x-delay` of this letter and value."""
    table = b"\x07x-delay" + value
    return b"\x20\x00" + len(table).to_bytes(4, "big") + table


@pytest.mark.parametrize(
    ("value", "delay"),
    [(5, 5_000), ("5", 5_000), (Decimal("5.5"), 5_000), (-5, 0), (True, 0), (2**40, 2**40 * 1_000)],
)
def test_the_delay_is_in_microseconds(value: object, delay: int) -> None:
    assert message_delay(raw(headers={"a": 1, "x-delay": value}, content_type="t")) == delay


@pytest.mark.parametrize(
    ("value", "delay"),
    [
        (b"b\x05", 5),
        (b"B\xff", 255),
        (b"u\xff\xff", 65_535),
        (b"i\xff\xff\xff\xff", 2**32 - 1),
        (b"I\xff\xff\xff\xff", 0),
        (b"L" + (7).to_bytes(8, "big"), 7),
        (b"d" + bytes.fromhex("4016000000000000"), 5),
        (b"S\x00\x00\x00\x02\xff\xff", 0),
        (b"V", 0),
    ],
)
def test_every_letter_of_a_number_is_read(value: bytes, delay: int) -> None:
    assert message_delay(letters(value)) == delay * 1_000


def test_what_is_malformed_has_no_delay() -> None:
    for octets in (
        b"",
        b"\x20\x00",
        b"\x20\x00\x00\x00\x00\x09\x07x-delay",
        raw(),
        raw(headers={}),
    ):
        assert message_delay(octets) == 0


def test_a_due_message_is_not_held_again_and_keeps_all_else() -> None:
    letter = due(b"key", headers={"x-delay": 60_000, "a": "b"}, expiration="5")
    assert headers(letter.properties) == {"x-delay": -60_000, "a": "b"}
    assert message_delay(letter.properties) == 0
    assert letter.keys == (b"key",)
    properties = commands.Basic.Properties()
    properties.unmarshal(int.from_bytes(letter.properties[:2], "big"), letter.properties[2:])
    assert properties.expiration == "5"


@pytest.mark.parametrize(("delay", "size"), [(2**31, b"I"), (2**31 + 1, b"l"), (10**15, b"l")])
def test_the_negated_delay_is_as_wide_as_it_has_to_be(delay: int, size: bytes) -> None:
    octets = due(b"", headers={"x-delay": delay}).properties
    assert headers(octets) == {"x-delay": -delay}
    assert octets[octets.index(b"x-delay") + 7 :][:1] == size


def test_copies_are_routed_when_it_is_due_and_blind_ones_stay_for_a_later_death() -> None:
    letter = due(b"k", headers={"x-delay": 1, "CC": ["c1", "c2"], "BCC": ["b"]})
    assert letter.keys == (b"k", b"c1", b"c2", b"b")
    assert headers(letter.properties) == {"x-delay": -1, "CC": ["c1", "c2"], "BCC": ["b"]}


def test_delays_are_divided_by_their_length() -> None:
    assert part_of(1) == 0
    for part, border in enumerate(DELAY_CLASSES):
        assert (part_of(border - 1), part_of(border)) == (part, part + 1)
    assert part_of(2**62) == PARTS - 1
