"""The rules for names and routing keys."""

import pytest

from routelog.exchanges.bindings.errors import InvalidName, ReservedName
from routelog.exchanges.bindings.names import check_name, check_not_reserved, key_bytes


@pytest.mark.parametrize("name", ["a", "a b", "orders/eu.1", "ä" * 127, "x" * 255, "amq.direct"])
def test_a_name_of_1_to_255_bytes_is_taken(name: str) -> None:
    check_name("exchange", name)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "it is empty"),
        ("x" * 256, "it is longer than 255 bytes"),
        ("ä" * 128, "it is longer than 255 bytes"),
        ("a\nb", "it holds a control character"),
        ("a\x00", "it holds a control character"),
        ("\x7f", "it holds a control character"),
        ("a\x85b", "it holds a control character"),
        ("\ud800", "it is not UTF-8"),
    ],
)
def test_a_bad_name_is_refused_with_its_reason(name: str, reason: str) -> None:
    with pytest.raises(InvalidName) as caught:
        check_name("queue", name)
    assert caught.value.reason == reason
    assert caught.value.kind == "queue name"
    assert str(caught.value).isprintable()


def test_the_prefix_amq_is_reserved() -> None:
    with pytest.raises(ReservedName, match=r"exchange name 'amq\.x' contains reserved prefix"):
        check_not_reserved("exchange", "amq.x")
    check_not_reserved("exchange", "amqx")


def test_a_routing_key_may_be_empty_and_may_hold_control_characters() -> None:
    assert key_bytes("") == b""
    assert key_bytes("a\nä") == b"a\n\xc3\xa4"


@pytest.mark.parametrize("key", ["x" * 256, "\udcff"])
def test_a_routing_key_that_is_no_short_string_is_refused(key: str) -> None:
    with pytest.raises(InvalidName):
        key_bytes(key)
