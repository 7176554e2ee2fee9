"""What a headers binding asks for."""

from typing import Any

import pytest

from routelog.exchanges.bindings.errors import InvalidBindingArguments
from routelog.exchanges.indexes.headers_pattern import check_match_argument, headers_pattern


@pytest.mark.parametrize("word", ["all", "any", "all-with-x", "any-with-x"])
def test_the_four_words_are_known_and_none_means_all(word: str) -> None:
    check_match_argument({"x-match": word})
    check_match_argument({})
    assert headers_pattern({"a": 1}) == headers_pattern({"x-match": "all", "a": 1})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (
            "foo",
            'Invalid x-match field value <<"foo">>; expected all, any, all-with-x, or any-with-x',
        ),
        (5, "Invalid x-match field type signedint (value 5); expected longstr"),
        (None, "Invalid x-match field type void (value undefined); expected longstr"),
    ],
)
def test_another_word_or_type_is_refused(value: object, text: str) -> None:
    with pytest.raises(InvalidBindingArguments) as caught:
        check_match_argument({"x-match": value})
    assert str(caught.value) == text
    assert caught.value.argument == "x-match"


@pytest.mark.parametrize(
    ("arguments", "headers", "matches"),
    [
        ({"a": 1, "b": 2}, {"a": 1, "b": 2, "c": 3}, True),
        ({"a": 1, "b": 2}, {"a": 1}, False),
        ({"x-match": "any", "a": 1, "b": 2}, {"a": 1}, True),
        ({"x-match": "any", "a": 1, "b": 2}, {"a": 2}, False),
        ({}, {}, True),
        ({"x-match": "any"}, {"a": 1}, False),
        ({"a": None}, {"a": 7}, True),
        ({"a": None}, {"b": 7}, False),
        ({"x-a": 1}, {}, True),
        ({"x-match": "all-with-x", "x-a": 1}, {}, False),
        ({"x-match": "all-with-x", "x-a": 1}, {"x-a": 1}, True),
        ({"x-match": "any", "x-a": 1}, {"x-a": 1}, False),
        ({"x-match": "any-with-x", "x-a": 1}, {"x-a": 1}, True),
    ],
)
def test_pairs_are_asked_for_as_x_match_says(
    arguments: dict[str, Any], headers: dict[str, Any], matches: bool
) -> None:
    assert headers_pattern(arguments).matches(headers) is matches
