"""The headers exchange's index."""

import pytest
from support.matched_names import matched_names

from routelog.exchanges.bindings.binding import Binding
from routelog.exchanges.bindings.errors import InvalidBindingArguments
from routelog.exchanges.indexes.binding_index import Message
from routelog.exchanges.indexes.headers_index import HeadersIndex
from routelog.exchanges.indexes.headers_pattern import HeadersPattern


def bound(*arguments: dict[str, object]) -> HeadersIndex:
    index = HeadersIndex()
    for number, table in enumerate(arguments):
        index.add(Binding("x", f"q{number}", "queue", "", table))
    return index


def matched(index: HeadersIndex, headers: dict[str, object]) -> set[str]:
    return set(matched_names(index.match(b"", Message(headers))))


def test_all_any_presence_and_no_condition_match_side_by_side() -> None:
    index = bound(
        {"type": "audit", "customer": 17},
        {"x-match": "any", "type": "audit", "customer": 18},
        {"customer": None},
        {},
        {"x-match": "any"},
    )
    assert matched(index, {"type": "audit", "customer": 17}) == {"q0", "q1", "q2", "q3"}
    assert matched(index, {"type": "other", "customer": 18}) == {"q1", "q2", "q3"}
    assert matched(index, {}) == {"q3"}


def test_numbers_match_across_widths_and_booleans_are_no_numbers() -> None:
    index = bound({"n": 1})
    assert matched(index, {"n": 1.0}) == {"q0"}
    assert matched(index, {"n": True}) == set()
    assert matched(index, {"n": "1"}) == set()


def test_a_void_header_is_present_and_has_no_value() -> None:
    index = bound({"a": None}, {"a": 1})
    assert matched(index, {"a": None}) == {"q0"}


def test_a_header_nested_too_deeply_counts_as_present_and_equals_nothing() -> None:
    value: object = 1
    for _ in range(20_000):
        value = [value]
    index = bound({"a": None}, {"a": 1})
    assert matched(index, {"a": value, "b": value}) == {"q0"}


def test_removed_bindings_match_no_more_and_leave_nothing_behind() -> None:
    tables: list[dict[str, object]] = [
        {"a": 1, "b": 2},
        {"x-match": "any", "a": 1, "b": 2},
        {"x-match": "any-with-x", "a": None, "x-b": 2},
        {},
    ]
    index = bound(*tables)
    for number, table in enumerate(tables):
        index.remove(Binding("x", f"q{number}", "queue", "", table))
        remaining = {f"q{later}" for later in range(number + 1, len(tables))}
        assert matched(index, {"a": 1, "b": 2, "x-b": 2}) == remaining
    assert not index._all_by_pair
    assert not index._any_by_pair
    assert not index._names
    assert index.key_decides
    assert not index.reads_headers


def test_headers_matter_once_there_is_a_binding() -> None:
    assert HeadersIndex().key_decides
    assert not HeadersIndex().reads_headers
    assert bound({"a": 1}).reads_headers
    assert not bound({"a": 1}).key_decides


def test_a_bad_x_match_is_refused() -> None:
    with pytest.raises(InvalidBindingArguments):
        HeadersIndex().check(Binding("x", "q", "queue", "", {"x-match": "most"}))


def test_a_pattern_stands_under_the_pair_that_fewest_share() -> None:
    index = bound(*({"type": "audit", "customer": number} for number in range(100)))
    assert max(map(len, index._all_by_pair.values())) <= 2
    assert matched(index, {"type": "audit", "customer": 42}) == {"q42"}


def test_bindings_with_equal_arguments_are_one_pattern() -> None:
    index = bound(*({"type": "audit", "customer": 1.0} for _ in range(20)), {"type": "audit"})
    assert max(map(len, index._all_by_pair.values())) <= 2
    assert matched(index, {"type": "audit", "customer": 1}) == {f"q{n}" for n in range(21)}
    index.remove(Binding("x", "q3", "queue", "", {"type": "audit", "customer": 1}))
    assert len(matched(index, {"type": "audit", "customer": 1})) == 20
    assert matched(index, {"type": "audit"}) == {"q20"}


@pytest.mark.parametrize("match", ["all", "any-with-x"])
def test_a_pattern_is_hashed_no_oftener_for_more_pairs(
    match: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed = 0
    hash_of = HeadersPattern.__hash__

    def counted(pattern: HeadersPattern) -> int:
        nonlocal hashed
        hashed += 1
        return hash_of(pattern)

    monkeypatch.setattr(HeadersPattern, "__hash__", counted)
    counts = []
    for pairs in (10, 1_000):
        table: dict[str, object] = {"x-match": match} | {f"k{n}": n for n in range(pairs)}
        before = hashed
        index = bound(table)
        index.remove(Binding("x", "q0", "queue", "", table))
        counts.append(hashed - before)
    assert counts[0] == counts[1] <= 4


def test_what_one_of_many_pairs_is_enough_for_is_found_once() -> None:
    index = bound({"x-match": "any"} | {f"k{n}": n for n in range(100)})
    assert len(index.match(b"", Message({f"k{n}": n for n in range(100)}))) == 1
