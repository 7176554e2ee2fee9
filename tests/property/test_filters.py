"""Filters of random arguments and batches, compared with a naive one over decoded messages."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from support.message_samples import batch, message

from routelog.vhosts.filters.filter_arguments import filter_arguments
from routelog.vhosts.filters.reader_filter import ReaderFilter, reader_filter

TAGS = st.sampled_from(["a", "b", "ab"])
NAMES = st.sampled_from(["n", "m", "x-stream-filter-value"])
VALUES = TAGS | st.sampled_from([0, 1, 1.0, True, False, "1", "a,b", "b,ab"])
HEADERS = st.dictionaries(NAMES, VALUES | st.none() | st.just([1]), max_size=3)
MESSAGES = st.lists(st.tuples(TAGS, HEADERS), min_size=1, max_size=8)

COMPARED = st.tuples(
    st.sampled_from(["n", "m", "routing_key", "[x-stream-filter-value]"]),
    st.sampled_from(["=", "<>", "<", ">="]),
    VALUES,
)
CONDITIONS = st.recursive(
    COMPARED,
    lambda inner: (
        st.tuples(st.just("NOT"), inner) | st.tuples(inner, st.sampled_from(["AND", "OR"]), inner)
    ),
    max_leaves=5,
)
ARGUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "x-stream-filter": TAGS
        | st.lists(TAGS, min_size=1, max_size=3)
        | st.dictionaries(NAMES, VALUES, min_size=1, max_size=2)
        | st.tuples(TAGS, st.dictionaries(NAMES, VALUES, min_size=1, max_size=1)).map(list),
        "x-filter-match-type": st.sampled_from(["all", "any"]),
        "x-stream-match-unfiltered": st.booleans(),
        "x-filter": CONDITIONS,
    },
).filter(lambda arguments: arguments.keys() & {"x-stream-filter", "x-filter"})


def text_of(condition: Any) -> str:
    """The text of a condition."""
    if condition[0] == "NOT":
        return f"NOT ({text_of(condition[1])})"
    left, sign, right = condition
    if sign in ("AND", "OR"):
        return f"({text_of(left)}) {sign} ({text_of(right)})"
    literal = f"'{right}'" if isinstance(right, str) else str(right).upper()
    return f"{left} {sign} {literal}"


def equal(one: object, other: object) -> bool:
    """Equal as AMQP has it: to Python, true is 1."""
    return isinstance(one, bool) is isinstance(other, bool) and one == other


def naive_value(condition: Any, key: str, headers: dict[str, Any]) -> bool | None:
    """The value of a condition; None: unknown."""
    if condition[0] == "NOT":
        inner = naive_value(condition[1], key, headers)
        return None if inner is None else not inner
    left, sign, right = condition
    if sign in ("AND", "OR"):
        values = {naive_value(left, key, headers), naive_value(right, key, headers)}
        decisive = sign == "OR"
        if decisive in values:
            return decisive
        return None if None in values else not decisive
    found = key if left == "routing_key" else headers.get(left.strip("[]"))
    if found is None or isinstance(found, list):
        return None
    if sign in ("=", "<>"):
        return equal(found, right) is (sign == "=")
    if isinstance(found, bool) or isinstance(found, str) is not isinstance(right, str):
        return False
    if isinstance(right, bool):
        return False
    return bool(found < right if sign == "<" else found >= right)


def naive_match(arguments: dict[str, Any], key: str, headers: dict[str, Any]) -> bool:
    """Whether a message matches."""
    if "x-filter" in arguments and naive_value(arguments["x-filter"], key, headers) is not True:
        return False
    if "x-stream-filter" not in arguments:
        return True
    value = headers.get("x-stream-filter-value")
    is_plain = value is not None and not isinstance(value, list)
    if arguments.get("x-stream-match-unfiltered") and not is_plain:
        return True
    terms = arguments["x-stream-filter"]
    terms = terms if isinstance(terms, list) else [terms]
    tags = [each for each in terms if isinstance(each, str)]
    results = []
    if tags:
        of = [value, *value.split(",")] if isinstance(value, str) else []
        results.append(any(tag in of for tag in tags))
    for each in terms:
        if isinstance(each, dict):
            results += [name in headers and equal(headers[name], each[name]) for name in each]
    return any(results) if arguments.get("x-filter-match-type") == "any" else all(results)


async def made(arguments: dict[str, Any]) -> ReaderFilter:
    if "x-filter" in arguments:
        arguments = arguments | {"x-filter": text_of(arguments["x-filter"])}
    checked = filter_arguments(arguments)
    assert checked is not None
    found = reader_filter(checked)
    return await found if isinstance(found, asyncio.Future) else found


@given(ARGUMENTS, MESSAGES)
def test_a_filter_selects_what_a_naive_one_does(
    arguments: dict[str, Any], messages: list[tuple[str, dict[str, Any]]]
) -> None:
    wanted = asyncio.run(made(arguments))
    records = batch(*(message(key, headers) for key, headers in messages))
    expected = [at for at, each in enumerate(messages) if naive_match(arguments, *each)]
    assert [at for at in range(records.count) if wanted.condition.matches(records, at)] == expected
    selected: list[int] = []
    at = 0
    while at < records.count:
        first, end = wanted.next_match(records, at, records.count, 2, lambda: False)
        selected += range(first, end)
        at = end
    assert selected == expected
