"""What a batch must hold, column by column."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any

import pytest
from pamqp.commands import Basic
from support.queue_samples import records

from routelog.log_backend import Records, encode_records
from routelog.vhosts.filters.required_octets import (
    Column,
    RequiredOctets,
    required_header,
    required_identifier,
)


def batch(*messages: tuple[bytes, dict[str, Any], bytes]) -> Records:
    """Records with keys, headers and bodies; `message_id` is taken out of the headers."""
    rows, source = array("i"), bytearray()
    for key, headers, body in messages:
        properties = Basic.Properties(
            message_id=headers.get("message_id"),
            headers={name: value for name, value in headers.items() if name != "message_id"},
        ).marshal()
        for part in (key, properties, body):
            rows.extend((len(source), len(part)))
            source += part
    count = len(messages)
    made: Records = encode_records(
        memoryview(source), memoryview(rows), None, count, b"x", None, 0, 0
    )
    return made


ORDERS = batch(
    (b"order.eu", {"customer": "ann", "amount": 17, "message_id": "m-1"}, b"first body"),
    (b"order.us", {"customer": "bob", "amount": -300, "message_id": "m-2"}, b"second"),
)


def as_view(source: Records) -> Records:
    """The same, received over a link."""
    return Records(
        memoryview(source.payload),
        source.count,
        source.attributes,
        source.exchange,
        source.keys_bytes,
        source.properties_bytes,
        source.bodies_bytes,
        source.time,
        source.last_time,
    )


@pytest.mark.parametrize("form", [lambda source: source, as_view])
def test_octets_are_looked_for_in_their_column_only(form: Callable[[Records], Records]) -> None:
    orders = form(ORDERS)
    for octets, column in (
        (b"order.us", Column.ROUTING_KEYS),
        (b"customer", Column.PROPERTIES),
        (b"first", Column.BODIES),
        (b"second", Column.BODIES),
    ):
        held = [each for each in Column if RequiredOctets(each, (octets,)).may_be_in(orders)]
        assert held == [column], octets


def test_one_of_them_is_enough_and_none_is_never_there() -> None:
    assert RequiredOctets(Column.BODIES, (b"absent", b"second")).may_be_in(ORDERS)
    assert not RequiredOctets(Column.BODIES, (b"absent", b"gone")).may_be_in(ORDERS)
    assert not RequiredOctets(Column.BODIES, ()).may_be_in(ORDERS)


def test_octets_that_span_columns_are_not_found() -> None:
    # The payload has the second property list right before the first body.
    assert ORDERS.properties(1)[-3:] + b"first" in bytes(ORDERS.payload)
    for column in Column:
        assert not RequiredOctets(column, (b"m-2first",)).may_be_in(ORDERS)


def test_an_identifier_is_looked_for_with_its_length() -> None:
    assert required_identifier(b"m-2").may_be_in(ORDERS)
    assert not required_identifier(b"m-").may_be_in(ORDERS)
    assert not required_identifier(b"first body").may_be_in(ORDERS)
    assert not required_identifier(b"m" * 256).may_be_in(ORDERS)


@pytest.mark.parametrize(
    ("name", "key", "may_be"),
    [
        (b"customer", b"ann", True),
        (b"customer", b"an", False),
        (b"customer", b"17", False),
        (b"amount", b"17", True),
        (b"amount", b"-300", True),
        (b"amount", b"1", False),
        (b"amount", b"017", False),
        (b"n" * 256, b"ann", False),
    ],
)
def test_a_header_is_looked_for_by_name_type_and_value(
    name: bytes, key: bytes, may_be: bool
) -> None:
    assert required_header(name, key).may_be_in(ORDERS) is may_be


def test_the_key_that_all_share_is_a_column_too() -> None:
    shared = records("a", "b")
    assert RequiredOctets(Column.ROUTING_KEYS, (b"k",)).may_be_in(shared)
    assert not RequiredOctets(Column.ROUTING_KEYS, (b"a",)).may_be_in(shared)
