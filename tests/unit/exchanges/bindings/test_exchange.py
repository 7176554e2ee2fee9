"""Exchanges as values, and when two declarations mean the same."""

import msgspec
import pytest

from routelog.exchanges.bindings.errors import ExchangeInequivalent, InvalidExchangeArgument
from routelog.exchanges.bindings.exchange import Exchange, check_alternate, check_equivalent


def test_both_spellings_of_the_alternate_exchange_are_read() -> None:
    assert Exchange("x", "direct").alternate is None
    assert Exchange("x", "direct", arguments={"alternate-exchange": "a"}).alternate == "a"
    assert Exchange("x", "direct", arguments={"x-alternate-exchange": "a"}).alternate == "a"
    both = {"x-alternate-exchange": "b", "alternate-exchange": "a"}
    assert Exchange("x", "direct", arguments=both).alternate == "a"


def test_an_alternate_exchange_that_is_no_string_is_refused() -> None:
    check_alternate(Exchange("x", "direct", arguments={"alternate-exchange": "a"}), "/")
    with pytest.raises(InvalidExchangeArgument) as caught:
        check_alternate(Exchange("x", "direct", arguments={"alternate-exchange": 5}), "/")
    assert (
        str(caught.value)
        == "invalid type 'signedint' for arg 'alternate-exchange' in exchange 'x' in vhost '/'"
    )


@pytest.mark.parametrize(
    ("received", "text"),
    [
        (Exchange("x", "fanout"), "arg 'type'|received 'fanout' but current is 'direct'"),
        (Exchange("x", "direct", True), "arg 'durable'|received 'true' but current is 'false'"),
        (
            Exchange("x", "direct", auto_delete=True),
            "arg 'auto_delete'|received 'true' but current is 'false'",
        ),
        (
            Exchange("x", "direct", internal=True),
            "arg 'internal'|received 'true' but current is 'false'",
        ),
        (
            Exchange("x", "direct", arguments={"alternate-exchange": "a"}),
            "arg 'alternate-exchange'|received the value 'a' of type 'longstr' but current is none",
        ),
    ],
)
def test_another_property_is_inequivalent(received: Exchange, text: str) -> None:
    with pytest.raises(ExchangeInequivalent) as caught:
        check_equivalent(Exchange("x", "direct"), received, "v")
    argument, rest = text.split("|")
    assert str(caught.value) == f"inequivalent {argument} for exchange 'x' in vhost 'v': {rest}"


def test_the_texts_for_an_alternate_exchange_are_rabbitmqs() -> None:
    current = Exchange("y", "direct", arguments={"alternate-exchange": "ae"})
    with pytest.raises(ExchangeInequivalent, match="received 'be' but current is 'ae'"):
        check_equivalent(
            current, Exchange("y", "direct", arguments={"alternate-exchange": "be"}), "/"
        )
    with pytest.raises(
        ExchangeInequivalent,
        match="received none but current is the value 'ae' of type 'longstr'",
    ):
        check_equivalent(current, Exchange("y", "direct"), "/")


def test_other_arguments_and_the_other_spelling_are_equivalent() -> None:
    current = Exchange("x", "direct", arguments={"alternate-exchange": "a"})
    received = Exchange("x", "direct", arguments={"x-alternate-exchange": "a", "note": 1})
    check_equivalent(current, received, "/")


def test_an_exchange_can_be_written_down_and_read_back() -> None:
    exchange = Exchange("x", "topic", True, arguments={"alternate-exchange": "a"})
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(exchange), type=Exchange) == exchange
    with pytest.raises(AttributeError):
        exchange.name = "y"  # type: ignore[misc]
