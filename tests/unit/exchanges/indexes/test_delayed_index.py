"""The delayed message exchange: what is held, and what is routed."""

from decimal import Decimal

import pytest

from routelog.exchanges import (
    Binding,
    Exchange,
    InvalidExchangeArguments,
    Message,
    RoutingTable,
    UnknownExchangeType,
    delay_milliseconds,
    held_name,
    holding_exchange,
)
from routelog.exchanges.indexes.delayed_index import DELAY_MAX

HELD = (held_name("later"),)


def saying(delay: object) -> Message:
    return Message({"x-delay": delay})


def routing(kind: str = "direct") -> RoutingTable:
    table = RoutingTable()
    table.declare(Exchange("later", "x-delayed-message", arguments={"x-delayed-type": kind}))
    table.add_queue("q", durable=False)
    table.bind(Binding("later", "q", "queue", "k"))
    return table


def test_a_message_with_a_delay_is_held_whatever_is_bound() -> None:
    for kind in ("direct", "fanout", "topic"):
        for key in (b"k", b"other"):
            assert routing(kind).route("later", key, saying(1)) == HELD


def test_others_are_routed_by_the_inner_type() -> None:
    for message in (Message({}), saying(0), saying(-5), saying("soon")):
        assert routing().route("later", b"k", message) == ("q",)
        assert routing().route("later", b"other", message) == ()


def test_the_exchange_holds_what_comes_along_bindings_and_as_an_alternate() -> None:
    table = routing()
    table.declare(Exchange("first", "fanout"))
    table.bind(Binding("first", "later", "exchange", ""))
    table.declare(Exchange("second", "direct", arguments={"alternate-exchange": "later"}))
    for exchange in ("first", "second"):
        assert table.needs_headers(exchange)
        assert table.route(exchange, b"k", saying(1)) == HELD
        assert table.route(exchange, b"k", saying(-1)) == ("q",)


def test_a_binding_that_goes_is_forgotten() -> None:
    table = routing()
    table.unbind(Binding("later", "q", "queue", "k"))
    assert table.route("later", b"k") == ()


@pytest.mark.parametrize(
    ("value", "delay"),
    [
        (5, 5),
        ("5", 5),
        (b"5", 5),
        (5.9, 5),
        (Decimal("5.9"), 5),
        (0, 0),
        (-1, 0),
        ("-1", 0),
        ("", 0),
        ("5.5", 0),
        ("9" * 30, 0),
        (True, 0),
        (None, 0),
        ([5], 0),
        ({}, 0),
        (float("nan"), 0),
        (float("inf"), 0),
        (Decimal("Infinity"), 0),
        (2**32, 2**32),
        (2**63 - 1, DELAY_MAX),
        (1e30, DELAY_MAX),
    ],
)
def test_numbers_and_texts_of_digits_are_delays(value: object, delay: int) -> None:
    assert delay_milliseconds({"x-delay": value}) == delay


def test_the_longest_delay_still_is_a_time() -> None:
    assert 10**16 + DELAY_MAX * 1_000 < 2**63  # some time in the year 2286, in microseconds


def test_a_type_is_needed_that_routes() -> None:
    remembering = ("x-recent-history", "x-message-deduplication")
    more = {"x-cache-size": 5, "x-recent-history-length": 5}
    for kind in (None, 1, "x-delayed-message", *remembering):
        arguments = {"x-delayed-type": kind, **more}
        with pytest.raises(InvalidExchangeArguments, match="x-delayed-type"):
            RoutingTable().declare(Exchange("x", "x-delayed-message", arguments=arguments))
    with pytest.raises(UnknownExchangeType):
        RoutingTable().declare(
            Exchange("x", "x-delayed-message", arguments={"x-delayed-type": "none"})
        )


def test_no_queue_can_have_the_name_of_what_is_held() -> None:
    assert holding_exchange(held_name("a")) == "a"
    assert holding_exchange("a") is None
