"""Lists: filters, orders, pages, columns, and turns for others."""

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.sampling import examples

from routelog.log_backend import Scheduler
from routelog.management.calls import listing as listing_module
from routelog.management.calls.answer import Listing, Row
from routelog.management.calls.failures import Refused
from routelog.management.calls.listing import PIECE_BYTES, list_query, listed
from routelog.vhosts import MatchBudget

ROWS: list[Row] = [
    {"name": "b", "size": 2, "of": {"x": 1, "y": 2}},
    {"name": "a", "size": None, "of": {}},
    {"name": "c", "size": "large"},
    {"name": "ab", "size": 1.5},
]


def listing(rows: list[Row]) -> Listing:
    return Listing(rows, lambda row: row, lambda row: row["name"], lambda row: (row["name"],))


async def answered(of: Listing, **query: str) -> Any:
    return json.loads(b"".join([piece async for piece in await listed(of, list_query(query))]))


async def names(**query: str) -> list[str]:
    return [row["name"] for row in await answered(listing(ROWS), **query)]


async def found(**query: str) -> list[str]:
    """The names on the first page of those that a filter finds."""
    page = await answered(listing(ROWS), page="1", **query)
    return [row["name"] for row in page["items"]]


async def test_rows_come_in_their_order_filtered_and_sorted() -> None:
    assert await names() == ["a", "ab", "b", "c"]
    assert await found(name="b") == await found(name="B") == ["ab", "b"]
    assert await found(name="B$", use_regex="true") == ["ab", "b"]
    assert await found(name="^.$", use_regex="true", sort_reverse="true") == ["c", "b", "a"]
    assert await found(name=".") == []
    assert await names(name="b") == ["a", "ab", "b", "c"]  # as RabbitMQ: only pages are filtered
    assert await names(sort="size") == ["a", "ab", "b", "c"]
    assert await names(sort="of.x", sort_reverse="true") == ["b", "ab", "c", "a"]
    assert await names(sort="nothing.of.this") == ["b", "a", "c", "ab"]


class Shaped(msgspec.Struct, kw_only=True):
    name: str
    pattern_of: str = msgspec.field(name="pattern-of")
    size: int | msgspec.UnsetType = msgspec.UNSET


async def test_rows_with_types_have_the_names_of_json_and_nothing_that_is_unset() -> None:
    items = [Shaped(name="a", pattern_of="y", size=1), Shaped(name="b", pattern_of="x")]
    of = Listing(items, lambda row: row)
    whole = [{"name": "b", "pattern-of": "x"}, {"name": "a", "pattern-of": "y", "size": 1}]
    assert await answered(of, sort="size") == await answered(of, sort="pattern-of") == whole
    assert await answered(of, columns="size,pattern-of") == [
        {"size": 1, "pattern-of": "y"},
        {"pattern-of": "x"},
    ]


async def test_columns_are_cut_out() -> None:
    query = {"columns": "name,of.x,missing", "page": "1", "name": "b", "use_regex": "false"}
    assert (await answered(listing(ROWS), **query))["items"] == [
        {"name": "ab"},
        {"name": "b", "of": {"x": 1}},
    ]


async def test_what_has_no_name_is_not_filtered_and_what_has_gone_is_left_out() -> None:
    of = Listing([1, 2, 3], lambda item: None if item == 2 else {"n": item})
    assert await answered(of) == [{"n": 1}, {"n": 3}]
    assert (await answered(of, page="1", name="x"))["items"] == [{"n": 1}, {"n": 3}]
    assert await answered(Listing([], lambda item: item)) == []
    assert await answered(Listing([1], lambda item: None)) == []


async def test_pages_are_counted() -> None:
    page = await answered(listing(ROWS), page="2", page_size="3")
    assert [row["name"] for row in page.pop("items")] == ["c"]
    assert page == {
        "filtered_count": 4,
        "item_count": 1,
        "page": 2,
        "page_count": 2,
        "page_size": 3,
        "total_count": 4,
    }
    empty = await answered(listing([]), page="1")
    assert (empty["items"], empty["page_count"]) == ([], 0)


async def test_behind_an_exact_last_page_there_is_one_that_is_empty() -> None:
    page = await answered(listing(ROWS), page="3", page_size="2")
    assert (page["items"], page["page"], page["page_count"]) == ([], 3, 2)
    for query in ({"page": "4", "page_size": "2"}, {"page": "3", "page_size": "3"}):
        with pytest.raises(Refused, match="Page out of range"):
            await answered(listing(ROWS), **query)
    with pytest.raises(Refused, match="Page out of range"):
        await answered(listing(ROWS), page="2", name="nothing")


@pytest.mark.parametrize(
    "query",
    [
        {"page": "0"},
        {"page": "-1"},
        {"page": "x"},
        {"page": "²"},
        {"page": "9" * 5000},
        {"page": "4", "page_size": "2"},
        {"page": "1", "page_size": "501"},
        {"page": "1", "page_size": "0"},
        {"page": "1", "page_size": "-1"},
        {"page": "1", "page_size": ""},
        {"page": "1", "name": "(", "use_regex": "true"},
        {"page": "1", "name": "x" * 1025, "use_regex": "true"},
        {"page": "1", "name": "(a|aa)+$", "use_regex": "true"},
    ],
)
async def test_what_a_query_cannot_ask_is_refused(query: Mapping[str, str]) -> None:
    rows = [{"name": "a" * 250 + "!"}, *ROWS]
    with pytest.raises(Refused) as caught:
        await answered(listing(rows), **query)
    assert caught.value.status == 400


@pytest.mark.parametrize("query", [{}, {"sort": "n"}, {"page": "1", "name": "1"}])
async def test_others_have_their_turn_while_a_long_list_is_made(
    monkeypatch: pytest.MonkeyPatch, query: dict[str, str]
) -> None:
    described = longest = 0
    monkeypatch.setattr(Scheduler, "is_over", lambda self: True)  # behind each row

    def describe(item: int) -> Row:
        nonlocal described
        described += 1
        return {"name": str(item), "n": -item}

    async def watch() -> None:
        nonlocal longest
        while True:
            before = described
            await asyncio.sleep(0)
            longest = max(longest, described - before)

    watcher = asyncio.ensure_future(watch())
    of = Listing(range(2_000), describe, str, lambda item: (str(item),))
    rows = await answered(of, **query)
    watcher.cancel()
    first = (rows["items"] if "page" in query else rows)[0]["n"]
    assert first == (-1_999 if "sort" in query else -1 if "name" in query else 0)
    assert longest == 1


async def test_others_have_their_turn_while_a_hard_pattern_is_matched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    matched = longest = 0
    monkeypatch.setattr(Scheduler, "is_over", lambda self: True)  # behind each name

    def name(row: Row) -> str:
        nonlocal matched
        matched += 1
        return str(row["name"])

    async def watch() -> None:
        nonlocal longest
        while True:
            before = matched
            await asyncio.sleep(0)
            longest = max(longest, matched - before)

    watcher = asyncio.ensure_future(watch())
    of = Listing(ROWS * 25, lambda row: row, name)
    page = await answered(of, page="1", name="^b$", use_regex="true")
    watcher.cancel()
    assert page["items"] == ROWS[:1] * 25
    assert matched == 100
    assert longest == 1


@settings(max_examples=examples(50))
@given(st.lists(st.integers(0, 50) | st.none() | st.text(max_size=2), max_size=400), st.booleans())
async def test_sorting_in_slices_is_sorting(values: list[Any], reverse: bool) -> None:
    rows = [{"name": str(at), "v": value} for at, value in enumerate(values)]
    found = await answered(listing(rows), sort="v", sort_reverse=str(reverse).lower())
    kinds = (type(None), int, str)
    wanted = sorted(
        rows,
        key=lambda row: (
            kinds.index(type(row["v"])),
            row["v"] or 0 if not isinstance(row["v"], str) else row["v"],
        ),
    )
    assert found == (wanted[::-1] if reverse else wanted)


async def test_all_names_share_the_time_of_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    given = []

    def budget(seconds: float) -> MatchBudget:
        given.append(seconds)
        return MatchBudget(0.0)

    monkeypatch.setattr("routelog.management.calls.listing.MatchBudget", budget)
    rows = [{"name": f"{'a' * 200}{number}"} for number in range(1_000)]
    with pytest.raises(Refused, match="takes too long"):
        await answered(listing(rows), page="1", name="^(a|aa)+$", use_regex="true")
    assert len(given) == 1


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.integers(0, 9), max_size=40),
    st.integers(1, 7),
    st.booleans(),
    st.sampled_from([0, 5, 12, 1_000]),
)
def test_pages_together_are_the_whole_list_in_its_order(
    sizes: list[int], page_size: int, reverse: bool, ranked_max: int
) -> None:
    rows = [{"name": str(at), "size": size} for at, size in enumerate(sizes)]

    async def paged() -> list[Row]:
        found: list[Row] = []
        for number in range(1, max(1, -(-len(rows) // page_size)) + 1):
            asked = {"page": f"{number}", "page_size": f"{page_size}", "sort": "size"}
            asked |= {"sort_reverse": "true"} if reverse else {}
            columns: dict[str, Callable[[Any], Any]] = {"size": lambda row: row["size"]}
            found += (await answered(replace(listing(rows), columns=columns), **asked))["items"]
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(listing_module, "RANKED_MAX", ranked_max)
        patch.setattr(listing_module, "SLICE_ITEMS", 3)
        found = asyncio.run(paged())
    ordered = sorted(rows, key=lambda row: str(row["size"]))
    assert found == (ordered[::-1] if reverse else ordered)


async def test_a_page_in_the_own_order_of_a_list_looks_at_no_other_item() -> None:
    def looked_at() -> Iterator[int]:
        raise AssertionError("all items were looked at")
        yield 0

    of = Listing(looked_at(), lambda item: {"n": item}, str, lambda item: (str(item),))
    of = replace(of, stretch=lambda first, end: (7, list(range(7))[first:end]))
    page = await answered(of, page="2", page_size="4")
    assert page == {
        "items": [{"n": 4}, {"n": 5}, {"n": 6}],
        "filtered_count": 7,
        "item_count": 3,
        "page": 2,
        "page_count": 2,
        "page_size": 4,
        "total_count": 7,
    }
    with pytest.raises(Refused, match="Page out of range"):
        await answered(of, page="3", page_size="4")
    for query in ({"name": "1"}, {"sort": "n"}, {"sort_reverse": "true"}):
        with pytest.raises(AssertionError, match="all items"):
            await answered(replace(of, items=looked_at()), page="1", **query)


async def test_a_column_that_says_the_same_of_all_moves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ranked: list[int] = []

    def watched(values: list[Any], **how: Any) -> list[Any]:
        ranked.append(len(values))
        return sorted(values, **how)

    monkeypatch.setattr(listing_module, "sorted", watched, raising=False)
    of = Listing(range(2_000), lambda item: {"n": 0, "name": item}, columns={"n": lambda item: 0})
    for reverse in ("false", "true"):
        page = await answered(of, page="1", page_size="3", sort="n", sort_reverse=reverse)
        names = [row["name"] for row in page["items"]]
        assert names == ([1_999, 1_998, 1_997] if reverse == "true" else [0, 1, 2])
    assert len(ranked) == 2


async def test_a_long_list_is_written_in_pieces() -> None:
    text = "x" * (PIECE_BYTES // 10)
    of = Listing(range(20), lambda item: {"name": str(item), "text": text})
    pieces = [piece async for piece in await listed(of, list_query({}))]
    assert [len(piece) // PIECE_BYTES for piece in pieces] == [1, 1, 0]
    assert [row["name"] for row in json.loads(b"".join(pieces))] == [str(at) for at in range(20)]
