"""The arguments of basic.consume that make a filter.

Source: RabbitMQ's `x-stream-filter` and `x-stream-match-unfiltered`, LavinMQ's tables and
`x-filter-match-type`.
"""

import math
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal

from routelog.exchanges import field_type
from routelog.vhosts.arguments.argument_checks import Check, flag, one_of, text
from routelog.vhosts.errors import InvalidConsumerArgument

STREAM_FILTER = "x-stream-filter"
FILTER_MATCH_TYPE = "x-filter-match-type"
MATCH_UNFILTERED = "x-stream-match-unfiltered"
SQL_FILTER = "x-filter"
FILTER_ARGUMENTS = (STREAM_FILTER, FILTER_MATCH_TYPE, MATCH_UNFILTERED, SQL_FILTER)

TERMS_MAX = 64  # texts and headers of one filter: each message may be compared with all of them
TEXT_BYTES_MAX = 255  # of one of them

_CHECKS: Mapping[str, Check] = {
    FILTER_MATCH_TYPE: one_of("all", "any"),
    MATCH_UNFILTERED: flag,
    SQL_FILTER: text,
}


def filter_arguments(arguments: Mapping[str, object]) -> dict[str, object] | None:
    """The filter's part of a consumer's arguments, with values of JSON; None: there is no filter.

    Raises:
        InvalidConsumerArgument: one has a value that it cannot have. The text of `x-filter` is not read.
    """
    said = {name: arguments[name] for name in FILTER_ARGUMENTS if name in arguments}
    for name, check in _CHECKS.items():
        fault = check(said[name]) if name in said else None
        if fault is not None:
            raise InvalidConsumerArgument(name, fault)
    if STREAM_FILTER in said:
        said[STREAM_FILTER] = _terms(said[STREAM_FILTER])
    elif SQL_FILTER not in said:
        return None
    return said


def filter_texts(arguments: Mapping[str, object]) -> list[str]:
    """The texts of checked arguments."""
    return [each for each in _listed(arguments) if isinstance(each, str)]


def filter_headers(arguments: Mapping[str, object]) -> list[tuple[str, object]]:
    """The headers of checked arguments, with their values."""
    return [
        pair for each in _listed(arguments) if isinstance(each, Mapping) for pair in each.items()
    ]


def _listed(arguments: Mapping[str, object]) -> list[object]:
    terms = arguments.get(STREAM_FILTER, [])
    return terms if isinstance(terms, list) else [terms]


def _terms(value: object) -> object:
    terms = [_term(each) for each in (value if isinstance(value, list) else [value])]
    count = sum(len(each) if isinstance(each, Mapping) else 1 for each in terms)
    if not 1 <= count <= TERMS_MAX:
        raise _invalid(f"it has {count} texts and headers, expected 1 to {TERMS_MAX}")
    return terms if isinstance(value, list) else terms[0]


def _term(value: object) -> str | dict[str, object]:
    if isinstance(value, Mapping):
        return {name: _header(name, each) for name, each in value.items()}
    if not isinstance(value, str):
        raise _invalid(f"unacceptable type '{field_type(value)}', expected texts or tables")
    return _checked_text(value)


def _header(name: str, value: object) -> object:
    if isinstance(value, str):
        return _checked_text(value)
    if isinstance(value, datetime):
        return int(value.timestamp())
    number = float(value) if isinstance(value, Decimal) else value
    if not isinstance(number, int | float) or not math.isfinite(number):
        raise _invalid(f"header '{name}' has to be a text, a number or a boolean")
    return number


def _checked_text(value: str) -> str:
    if not 1 <= len(value.encode()) <= TEXT_BYTES_MAX:
        raise _invalid(f"a text has 1 to {TEXT_BYTES_MAX} bytes")
    return value


def _invalid(reason: str) -> InvalidConsumerArgument:
    return InvalidConsumerArgument(STREAM_FILTER, reason)
