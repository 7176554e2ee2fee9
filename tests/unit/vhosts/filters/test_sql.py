"""The conditions of SQL, by what RabbitMQ's SQL filters make of such ones."""

from __future__ import annotations

import pytest
from pamqp.commands import Basic
from support.message_samples import batch, message

from routelog.vhosts.errors import InvalidFilter
from routelog.vhosts.filters.expression import StoredMessage
from routelog.vhosts.filters.sql import CHARACTERS_MAX, parsed_sql

HEADERS = {
    "country": "NL",
    "town": "Den Haag",
    "note": "a note about 100% wool_",
    "count": 5,
    "price": 10.5,
    "deep": -7,
    "zero": 0,
    "open": True,
    "sold": False,
    "nothing": None,
    "list": [1],
    "raw": bytearray(b"\xff\x00"),
    "UPPER": "U",
    "properties.message_id": "a header",
    "x-stream-filter-value": "red",
    "sign [x]": "s",
    "routing_key": "a header",
}
ORDER = batch(
    message(
        "orders.new", HEADERS, message_id="m-1", priority=7, message_type="order", delivery_mode=2
    )
)


def value(text: str) -> object:
    """The value of an expression for the message."""
    return parsed_sql(text).value(StoredMessage(ORDER, 0, ORDER.properties(0)))


MATCHING = """
    country = 'NL'
    'NL' = country
    country <> 'BE'
    country != 'BE'
    country < 'NM' AND country > 'NK' AND country <= 'NL' AND country >= 'NL'
    "NL" = country
    town = 'Den Haag'
    '' = ""
    'it''s' = "it's"
    country = 0x4E4C
    raw = 0xFF00
    raw > 0x00
    count = 5
    count = 5.0
    5 = count
    count > 4.99
    price = 10.5 AND price >= 10 AND price < 11
    price = 1.05E1
    0.5E-1 = 0.05
    1.0E+2 = 100
    open
    open = TRUE
    NOT sold
    sold = false
    sold <> open
    count <> '5'
    open <> 1
    TRUE
    count + 2 * 3 = 11
    (count + 2) * 3 = 21
    10 - 3 - 2 = 5
    100 / 10 / 2 = 5
    count / 2 = 2.5
    price * 2 = 21
    count % 2 = 1
    deep % 3 = -1
    7 % deep = 0
    100 % 30 % 7 = 3
    -deep = 7
    +deep = -7
    6 - -count = 11
    6 + +count = 11
    -(-count) = 5
    country LIKE 'N_'
    country LIKE 'N%'
    country LIKE '%L'
    country LIKE 'NL'
    note LIKE '%note%'
    note LIKE 'a %about%wool_'
    note LIKE '%%%'
    note LIKE '%100!%%' ESCAPE '!'
    note LIKE '%wool!_' ESCAPE '!'
    note NOT LIKE '%silk%'
    '' LIKE '%'
    'crème' LIKE 'cr_me'
    country IN ('BE', 'NL')
    country IN ("NL")
    count IN (1, 5.0)
    'NL' IN (town, country)
    10 IN (count + 5, absent)
    country NOT IN ('BE', 'DE')
    absent IS NULL
    nothing IS NULL
    list IS NULL
    country IS NOT NULL
    absent IS NULL AND country = 'NL'
    absent OR open
    open OR absent
    country OR open
    NOT (absent AND sold)
    NOT (sold AND absent)
    NOT (NOT (absent OR open))
    sold OR open AND count = 5
    open OR sold AND sold
    NOT sold AND open
    (sold OR open) AND NOT (sold AND open)
    UPPER = 'U' AND upper IS NULL
    not sold and open
    country='NL'AND count=5
    [country] = 'NL'
    [sign [[x]]] = 's'
    [x-stream-filter-value] = 'red'
    [properties.message_id] = 'a header'
    a.country = 'NL'
    application_properties.country = 'NL'
    properties.message_id = 'm-1'
    p.message_id LIKE 'm-%'
    p.type = 'order' AND p.delivery_mode = 2
    p.correlation_id IS NULL
    header.priority > 5
    h.priority = 7
    routing_key LIKE 'orders.%'
    routing_key IN ('orders.new', 'orders.paid')
    [routing_key] = 'a header'
    exchange = 'events'
"""
OTHERS = """
    country = 'BE'
    sold
    FALSE
    count = '5'
    count > '4'
    country > 1
    open = 1
    open >= sold
    sold >= FALSE
    TRUE = 'TRUE'
    country LIKE 'N'
    country LIKE '_NL'
    country LIKE 'nl'
    country IN ('BE')
    country NOT IN ('NL')
    country IS NULL
    absent IS NOT NULL
    absent AND sold
    sold AND absent
    NOT (absent OR open)
    price <= 10
    country < 'NL'
    0x01 + 1 IS NOT NULL
"""
UNKNOWN = """
    absent = 1
    absent <> 1
    absent = absent
    nothing = 0
    list = 1
    absent > 0
    0 < absent
    NOT absent
    absent AND open
    open AND absent
    absent OR sold
    sold OR absent
    absent OR absent
    absent AND absent
    absent LIKE '%'
    absent NOT LIKE '%'
    absent IN ('a')
    absent NOT IN ('a')
    NOT (absent IN ('a') OR sold)
    NOT (open AND absent LIKE 'a')
    count LIKE '5'
    raw LIKE '%'
    raw LIKE '_%'
    NOT country
    country AND open
    count + country = 5
    open + sold = 1
    -country = 5
    absent + 1 = 1
    count / zero = 1
    count % zero = 0
    price % 2 = 0
    0 / 0.0 = 0
"""


def lines(table: str) -> list[str]:
    """The expressions of a table."""
    return [line.strip() for line in table.splitlines() if line.strip()]


@pytest.mark.parametrize("text", lines(MATCHING))
def test_what_is_true_matches(text: str) -> None:
    assert value(text) is True
    assert parsed_sql(text).may_be_in(ORDER)
    assert parsed_sql(text).matches(ORDER, 0)


@pytest.mark.parametrize("text", lines(OTHERS))
def test_what_is_false_does_not_match(text: str) -> None:
    assert value(text) is False
    assert not parsed_sql(text).matches(ORDER, 0)


@pytest.mark.parametrize("text", lines(UNKNOWN))
def test_what_is_unknown_does_not_match(text: str) -> None:
    assert value(text) is None
    assert not parsed_sql(text).matches(ORDER, 0)


def test_white_space_is_as_in_java() -> None:
    assert value("\tcountry\n=\f'NL'\r\nAND open ") is True
    assert value("' \n' = ' \n'") is True


def test_two_quotes_in_a_row_are_one() -> None:
    assert value('\'a "b"\' = "a ""b"""') is True
    assert value("'it''s' = \"it's\"") is True


@pytest.mark.parametrize("text", ["country", "count", "12", "absent"])
def test_what_is_no_boolean_does_not_match(text: str) -> None:
    assert not parsed_sql(text).matches(ORDER, 0)


def test_a_number_may_be_too_large_for_a_result() -> None:
    digits = "9" * 400
    assert value(f"{digits} / 2 = 1") is None
    assert value(f"price * {digits} > 1") is None
    assert value(f"{digits} * {digits} > 1") is True
    assert value(f"1.0E308 * 10 > {digits}") is True  # infinite


def test_a_message_without_properties_has_only_a_key_and_an_exchange() -> None:
    bare = batch((b"k", Basic.Properties().marshal(), b""), (b"k", b"", b""), exchange=b"")
    for index in (0, 1):
        assert parsed_sql("routing_key = 'k' AND exchange = ''").matches(bare, index)
        assert parsed_sql("a IS NULL AND p.message_id IS NULL").matches(bare, index)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a = 1 AND AND b", "unexpected 'AND' at column 11"),
        ("amount > 100 b", "unexpected 'b' at column 14"),
        ("and = 1", "unexpected 'and' at column 1"),
        ("a = 1\n  OR = 2", "unexpected '=' at column 12"),
        ("a !", "unexpected '!' at column 3"),
        ("a = 'x", "unexpected ''' at column 5"),
        ("a = .5", "unexpected '.' at column 5"),
        ("a = 5.", "unexpected '.' at column 6"),
        ("a = 5E2", "unexpected 'E2' at column 6"),
        ("a = 0x1", "unexpected 'x1' at column 6"),
        ("a = 0xab", "unexpected 'xab' at column 6"),
        ("a IN ()", "unexpected ')' at column 7"),
        ("a LIKE b", "unexpected 'b' at column 8"),
        ("a LIKE 0x41", "unexpected '0x41' at column 8"),
        ("a < b < c", "unexpected '<' at column 7"),
        ("_a = 1", "unexpected '_' at column 1"),
        ("a-b.c = 1", "there is no 'b.c' at column 3"),
        ("footer.a = 1", "there is no 'footer.a' at column 1"),
        ("properties.subject = 1", "there is no 'properties.subject' at column 1"),
        ("header.durable", "there is no 'header.durable' at column 1"),
        ("UTC() > 1", "unexpected '(' at column 4"),
        ("a LIKE 'b!' ESCAPE '!'", "nothing follows the escape character at column 8"),
        ("a LIKE 'b' ESCAPE '!!'", "ESCAPE is not one character at column 19"),
        ("a LIKE '%b_%'", "'_' stands between two '%' at column 8"),
        ("(a = 1", "it ends too early"),
        ("a NOT", "it ends too early"),
        ("", "it ends too early"),
        (" ", "it ends too early"),
        ("a" * (CHARACTERS_MAX + 1), "it is longer than 4096 characters"),
        ("a IN (" + "1, " * 98 + "1)", "it has more than 200 words and signs"),
    ],
)
def test_a_fault_is_told_with_its_place(text: str, reason: str) -> None:
    with pytest.raises(InvalidFilter) as refused:
        parsed_sql(text)
    assert str(refused.value) == f"invalid x-filter: {reason}"


@pytest.mark.parametrize(
    "text",
    [
        "a" * CHARACTERS_MAX,
        "NOT " * 199 + "open",
        "(" * 99 + "open" + ")" * 99,
        "a IN (" + "1, " * 97 + "1)",
        "a" + " AND a" * 99,
    ],
)
def test_the_longest_are_read(text: str) -> None:
    value(text)


@pytest.mark.parametrize(
    "text",
    [
        "country = 'BE'",
        "country = 'BE' AND open",
        "count = 5 AND country IN ('BE', 'DE')",
        "country = 'BE' OR town = 'Gent'",
        "note LIKE '%silk%wool%'",
        "routing_key = 'orders.paid'",
        "p.message_id = 'm-2'",
    ],
)
def test_a_batch_without_a_needed_text_is_passed_over(text: str) -> None:
    assert not parsed_sql(text).may_be_in(ORDER)


@pytest.mark.parametrize(
    "text",
    [
        "'BE' = 'BE'",
        "country <> 'BE'",
        "NOT country = 'BE'",
        "country NOT IN ('BE', 'DE')",
        "country = 'BE' OR open",
        "country IN ('BE', town)",
        "absent IS NULL OR country = 'BE'",
        "country IN ('z1', 'z2', 'z3', 'z4', 'z5', 'z6', 'z7', 'z8', 'z9')",  # too many
        "country LIKE '%'",
        "routing_key = 'BE' OR country = 'BE'",  # of different columns
    ],
)
def test_a_batch_that_may_match_is_looked_at(text: str) -> None:
    assert parsed_sql(text).may_be_in(ORDER)
