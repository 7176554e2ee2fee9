"""The options of a write: what they mean, and how a mistake is answered."""

import pytest
from unit.spark_bridge.documented import documented_options

from routelog.spark_bridge.logs.errors import BadOption
from routelog.spark_bridge.writing.write_options import OPTIONS, WriteOptions, parse_write_options

URL = "amqp://guest:secret@localhost:5672/%2F"


def test_the_defaults_are_the_careful_choices() -> None:
    options = parse_write_options({"URL": URL, "routingkey": "a.b"})
    assert options == WriteOptions(
        url=URL,
        exchange=None,
        routing_key="a.b",
        mandatory=True,
        persistent=True,
        confirm_seconds=60,
        ignore_unknown_columns=False,
        application="",
        cache_size=1_000_000,
    )


def test_the_default_exchange_can_be_named() -> None:
    assert parse_write_options({"url": URL, "exchange": ""}).exchange == ""


BAD_VALUES = [
    ("url", ""),
    ("url", "localhost:5672"),
    ("url", "http://localhost"),
    ("url", "amqp://"),
    ("url", "amqp://host:port/"),
    ("url", "amqp://host:70000/"),
    ("confirmTimeout", "soon"),
    ("confirmTimeout", "0s"),
    ("mandatory", "no"),
    ("persistent", "2"),
    ("ignoreUnknownColumns", ""),
    ("exchange", "e" * 256),
    ("routingKey", "ä" * 128),
    ("applicationId", ""),
    ("deduplicationCacheSize", "5"),  # without an application
]


@pytest.mark.parametrize(("option", "value"), BAD_VALUES)
def test_a_bad_value_is_answered_with_the_options_name(option: str, value: str) -> None:
    with pytest.raises(BadOption, match=f"^option {option}: "):
        parse_write_options({"url": URL} | {option: value})


def test_each_option_has_bad_values_here_and_a_line_in_the_documentation() -> None:
    assert {option for option, _ in BAD_VALUES} == set(OPTIONS)
    assert documented_options("## Writing to an exchange") == set(OPTIONS)


def test_a_password_is_not_shown() -> None:
    with pytest.raises(BadOption) as caught:
        parse_write_options({"url": "amqp://guest:secret@host:port/"})
    assert "secret" not in str(caught.value)


def test_options_of_reads_are_unknown() -> None:
    with pytest.raises(BadOption, match="option subscribe: unknown; there are applicationId, "):
        parse_write_options({"url": URL, "subscribe": "audit"})


def test_what_spark_keeps_for_itself_is_passed_over() -> None:
    given = {"url": URL, "checkpointlocation": "/tmp/c", "queryName": "q"}
    assert parse_write_options(given) == parse_write_options({"url": URL})


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"applicationId": "a"}, "option applicationId: needs the option exchange"),
        ({"applicationId": "", "exchange": "x"}, "option applicationId: is empty"),
        ({"deduplicationCacheSize": "5"}, "option deduplicationCacheSize: is of no use without"),
        (
            {"applicationId": "a", "exchange": "x", "deduplicationCacheSize": "0"},
            "option deduplicationCacheSize: expected a number above 0",
        ),
    ],
)
def test_exactly_once_needs_an_exchange_of_its_own(given: dict[str, str], reason: str) -> None:
    with pytest.raises(BadOption, match=reason):
        parse_write_options({"url": URL, **given})
