"""Topic patterns of all kinds, bound and unbound in any order, against the plainest way to match one."""

from functools import cache
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.matched_names import matched_names

from routelog.exchanges.bindings.binding import Binding
from routelog.exchanges.indexes.binding_index import BARE_MESSAGE
from routelog.exchanges.indexes.topic_index import TopicIndex

Words = tuple[str, ...]


@cache
def matches(pattern: Words, key: Words) -> bool:
    """Word by word, as it is written in the specification."""
    if not pattern:
        return not key
    if pattern[0] == "#":
        return matches(pattern[1:], key) or bool(key and matches(pattern, key[1:]))
    return bool(key) and pattern[0] in ("*", key[0]) and matches(pattern[1:], key[1:])


def words_of(text: str) -> Words:
    return tuple(text.split(".")) if text else ()


def check(index: TopicIndex, bound: set[str], keys: list[str]) -> None:
    for key in keys:
        expected = {pattern for pattern in bound if matches(words_of(pattern), words_of(key))}
        found = matched_names(index.match(key.encode(), BARE_MESSAGE))
        assert set(found) == expected, key


def change(index: TopicIndex, bound: set[str], pattern: str) -> None:
    """Bind what is not bound, unbind what is."""
    binding = Binding("x", pattern, "queue", pattern)
    if pattern in bound:
        bound.remove(pattern)
        index.remove(binding)
    else:
        bound.add(pattern)
        index.add(binding)


few_words = st.sampled_from(["a", "b", "", "*", "#", "#"])
patterns = st.one_of(
    st.lists(few_words, max_size=14),
    st.lists(st.sampled_from(["a", "*"]), min_size=7, max_size=12),
    st.lists(st.sampled_from(["a", "#"]), min_size=4, max_size=12),
).map(".".join)
keys_of_few_words = st.lists(st.sampled_from(["a", "b", "", "*", "c"]), max_size=14).map(".".join)


@settings(max_examples=300, deadline=None)
@given(
    changes=st.lists(patterns, max_size=40),
    again=st.lists(st.integers(min_value=0), max_size=40),
    keys=st.lists(keys_of_few_words, min_size=1, max_size=6),
)
@example(changes=["#.a.#.b", "#.b.#.a"], again=[0], keys=["a.b", "b.a", "b.b.a.b"])
def test_patterns_bound_and_unbound_match_as_written(
    changes: list[str], again: list[int], keys: list[str]
) -> None:
    index = TopicIndex()
    bound: set[str] = set()
    for pattern in changes:
        change(index, bound, pattern)
    check(index, bound, keys)
    for number in again:
        if changes:
            change(index, bound, changes[number % len(changes)])
    check(index, bound, keys)


@pytest.mark.parametrize("words", [("a", "*"), ("a", "b", "*"), ("a", "b", "c", "*", "")])
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(min_value=0, max_value=2**32))
def test_hundreds_of_winding_patterns_match_as_written(words: Words, seed: int) -> None:
    random = Random(seed)
    index = TopicIndex()
    bound: set[str] = set()
    written = [
        ".".join(
            random.choice(words) if place % 2 or random.randrange(3) else "#"
            for place in range(random.randrange(5, 13))
        )
        for _ in range(300)
    ]
    keys = [".".join(random.choice(words) for _ in range(length)) for length in range(1, 16, 2)]
    for pattern in written:
        change(index, bound, pattern)
    check(index, bound, keys)
    for _ in range(250):
        change(index, bound, random.choice(written))
    check(index, bound, keys)
    for pattern in sorted(bound):
        change(index, bound, pattern)
    assert not index.match(b"a.a.a.a.a.a.a", BARE_MESSAGE)
