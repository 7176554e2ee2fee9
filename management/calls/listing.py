"""Lists as RabbitMQ gives them: filtered, sorted, in pages and columns, and never long at a time.

A list is a snapshot of references. Everything that touches each element is done in turns of the event loop,
and what has been described is written before much more is.
"""

import heapq
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Annotated, Any, TypeVar

import msgspec

from routelog.log_backend import Lane, in_turns, pause
from routelog.management.calls.answer import Listing, Row, as_json, selected
from routelog.management.calls.failures import Refused, bad_request
from routelog.management.calls.operation import Parameter, Query
from routelog.vhosts import BadPattern, MatchBudget, OutOfTime, Pattern

SLICE_ITEMS = 128  # collected, matched or ranked between two looks at the time
PIECE_BYTES = 32_768  # of rows, written at once
RANKED_MAX = 2_500  # found at one end of a list without sorting all of it: 50 pages of 50
KEY_SLICE_ITEMS = 512  # keys sorted, or let go of, in one turn: about 1 ms
PAGE_ITEMS_MAX = 500  # RabbitMQ's limit
PAGE_ITEMS = 100
OUT_OF_RANGE = "page_out_of_range"  # the error
MATCH_SECONDS_MAX = 1.0  # of all names, processor time: 100,000 take an honest pattern 0.3 s

_PAGE = Annotated[int, msgspec.Meta(ge=1, le=999_999_999)]
_PAGE_SIZE = Annotated[int, msgspec.Meta(ge=1, le=PAGE_ITEMS_MAX)]

# Of lists that have pages.
PAGES: Query = {
    "page": Parameter("one page alone, from 1; else the whole list", _PAGE),
    "page_size": Parameter(f"rows of a page, else {PAGE_ITEMS}", _PAGE_SIZE),
    "name": Parameter("with `page`: what names contain, in capital letters or not"),
    "use_regex": Parameter("`name` is a regular expression", bool),
}
# Of every list.
ORDER: Query = {
    "sort": Parameter("by this key; `a.b` is b in a"),
    "sort_reverse": Parameter("the last first", bool),
}
# Of whatever is an object or has objects in it.
COLUMNS: Query = {"columns": Parameter("the answer has these keys alone, such as name,type")}

_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,9}")

_Item = TypeVar("_Item")
_Default = TypeVar("_Default", int, None)


@dataclass(frozen=True, slots=True)
class ListQuery:
    """What the query of a list asks for."""

    columns: list[list[str]] | None
    page: int | None
    page_size: int
    name: str
    use_regex: bool
    sort: list[str] | None
    reverse: bool


def list_query(query: Mapping[str, str]) -> ListQuery:
    """Read the query of a list. As in RabbitMQ, only pages are filtered.

    Raises:
        Refused: page or page_size cannot be.
    """
    page = _whole_number(query, "page", None)
    page_size = _whole_number(query, "page_size", PAGE_ITEMS)
    if page is not None and not (page >= 1 and 1 <= page_size <= PAGE_ITEMS_MAX):
        reason = f"Invalid pagination parameters: page number {page}, page size {page_size}"
        raise Refused(400, "invalid_pagination_parameters", reason)
    sort = query.get("sort")
    return ListQuery(
        columns=wanted_columns(query),
        page=page,
        page_size=page_size,
        name="" if page is None else query.get("name", ""),
        use_regex=query.get("use_regex") == "true",
        sort=sort.split(".") if sort else None,
        reverse=query.get("sort_reverse") == "true",
    )


def wanted_columns(query: Mapping[str, str]) -> list[list[str]] | None:
    """The keys that an answer is to have; None: all."""
    columns = query.get("columns")
    return [each.split(".") for each in columns.split(",")] if columns else None


def _whole_number(query: Mapping[str, str], name: str, default: _Default) -> int | _Default:
    text = query.get(name)
    if text is None:
        return default
    if _WHOLE_NUMBER.fullmatch(text) is None:
        raise bad_request("Pagination parameters are invalid")
    return int(text)


async def listed(listing: Listing, query: ListQuery) -> AsyncIterator[bytes]:
    """The pieces of the JSON that answers a list.

    Raises:
        Refused: the page is not there, or the pattern is none; before the first piece.
    """
    if query.page is None:
        items = await _filtered(await items_of(listing), listing, query)
        return _array(await _sorted(items, listing, query), listing, query)
    head, shown = await page_of(listing, query, query.page)
    return _page(head, shown, listing, query)


async def page_of(listing: Listing, query: ListQuery, number: int) -> tuple[Row, list[Any]]:
    """One page of a list: how much there is, and the items, which are not described yet.

    Raises:
        Refused: the page is not there, or the pattern is none.
    """
    first = (number - 1) * query.page_size
    if listing.stretch is not None and not (query.name or query.sort or query.reverse):
        await pause(Lane.OPERATORS)
        total, shown = listing.stretch(first, first + query.page_size)
        return _head(query, number, total, total, len(shown)), shown
    items = await _collected(listing)
    total = len(items)
    items = await _filtered(items, listing, query)
    filtered = len(items)
    wanted = replace(query, page_size=first + query.page_size)
    if listing.others is not None and (others := await listing.others(wanted)).total:
        total, filtered = total + others.total, filtered + others.filtered
        items = await _cut_out(items, listing, wanted, 0)
        items += others.rows
    head = _head(query, number, total, filtered, min(query.page_size, filtered - first))
    shown = await _cut_out(items, listing, query, first)
    await let_go(items)
    return head, shown


def _head(query: ListQuery, number: int, total: int, filtered: int, shown: int) -> Row:
    # RabbitMQ's: just behind an exact last page there is one more, which is empty.
    if (number - 1) * query.page_size > filtered:
        reason = f"page: {number} page size: {query.page_size}, len: {filtered}"
        raise Refused(400, OUT_OF_RANGE, f"Page out of range, {reason}")
    return {
        "filtered_count": filtered,
        "item_count": shown,
        "page": number,
        "page_count": -(-filtered // query.page_size),
        "page_size": query.page_size,
        "total_count": total,
    }


async def _page(
    head: Row, items: list[Any], listing: Listing, query: ListQuery
) -> AsyncIterator[bytes]:
    yield msgspec.json.encode(head)[:-1] + b',"items":'
    async for piece in _array(items, listing, query):
        yield piece
    yield b"}"


async def _array(items: list[Any], listing: Listing, query: ListQuery) -> AsyncIterator[bytes]:
    piece = bytearray(b"[")
    items.reverse()
    is_first = True
    # A row takes some 50 µs, and with samples 2 ms: the time is looked at for each.
    async for item in in_turns(_emptied(items), Lane.OPERATORS):
        row = listing.describe(item)
        if row is None:
            continue
        if not is_first:
            piece += b","
        is_first = False
        piece += msgspec.json.encode(
            row if query.columns is None else selected(as_json(row), query.columns)
        )
        if len(piece) >= PIECE_BYTES:
            yield bytes(piece)
            piece.clear()
    yield bytes(piece) + b"]"


def _emptied(items: list[_Item]) -> Iterator[_Item]:
    # From the end; the list becomes shorter meanwhile, see `let_go`.
    while items:
        yield items.pop()


async def items_of(listing: Listing) -> list[Any]:
    """All items of a list, those of other nodes among them."""
    items = await _collected(listing)
    return items if listing.others is None else items + (await listing.others(None)).rows


async def _collected(listing: Listing) -> list[Any]:
    await pause(Lane.OPERATORS)  # also the first of it is at the expense of the lane
    items: list[Any] = []
    async for slice_ in in_turns(slices(listing.items, SLICE_ITEMS), Lane.OPERATORS):
        items += slice_
    return items


async def _filtered(items: list[Any], listing: Listing, query: ListQuery) -> list[Any]:
    if not query.name or listing.name is None:
        return items
    matches = _name_filter(query)
    found: list[Any] = []
    # A pattern may take milliseconds for one name.
    at_once = 1 if query.use_regex else SLICE_ITEMS
    name = listing.name
    async for slice_ in in_turns(slices(items, at_once), Lane.OPERATORS):
        try:
            found += [item for item in slice_ if matches(name(item))]
        except OutOfTime:
            raise bad_request("the pattern takes too long to match") from None
    await let_go(items)
    return found


def _name_filter(query: ListQuery) -> Callable[[str], bool]:
    text = query.name
    if not query.use_regex:
        folded = text.casefold()
        return lambda name: folded in name.casefold()
    try:
        pattern = Pattern(text, ignores_case=True)
    except BadPattern as error:
        raise bad_request(f"the pattern is no regular expression: {error}") from None
    budget = MatchBudget(MATCH_SECONDS_MAX)
    return lambda name: pattern.matches_in_time(name, budget)


async def _sorted(items: list[Any], listing: Listing, query: ListQuery) -> list[Any]:
    key = _sort_key(listing, query.sort)
    if key is None:
        return items
    keys: list[Any] = []
    async for slice_ in in_turns(slices(items, _ranked_at_once(listing, query)), Lane.OPERATORS):
        keys += map(key, slice_)
    runs = [
        sorted(places, key=keys.__getitem__)
        async for places in in_turns(slices(range(len(items)), KEY_SLICE_ITEMS), Lane.OPERATORS)
    ]
    merged = heapq.merge(*runs, key=keys.__getitem__)
    ordered = [items[place] async for place in in_turns(merged, Lane.OPERATORS)]
    while runs:
        runs.pop()
        await pause(Lane.OPERATORS)
    await let_go(keys)
    await let_go(items)
    if query.reverse:
        ordered.reverse()
    return ordered


async def _cut_out(items: list[Any], listing: Listing, query: ListQuery, first: int) -> list[Any]:
    """The items of one page, in order. Those before it, or behind it, are found without sorting the others."""
    end, count = min(first + query.page_size, len(items)), len(items)
    key = _sort_key(listing, query.sort)
    if key is None:
        return items[first:end]
    at_once = _ranked_at_once(listing, query)
    if end <= RANKED_MAX:
        return (await _first_sorted(items, key, end, at_once, reverse=query.reverse))[first:]
    if count - first <= RANKED_MAX:
        last = await _first_sorted(items, key, count - first, at_once, reverse=not query.reverse)
        return last[count - end :][::-1]
    return (await _sorted(list(items), listing, query))[first:end]


async def _first_sorted(
    items: list[Any], key: Callable[[Any], Any], count: int, at_once: int, *, reverse: bool
) -> list[Any]:
    """The first `count` items in the order of their keys, then of their places, or in the reverse of that."""
    found: list[tuple[Any, int]] = []
    # Of equal keys those met first stay, so that a column that says the same of most items moves nothing.
    all_places = range(len(items))[:: -1 if reverse else 1]
    async for places in in_turns(slices(all_places, at_once), Lane.OPERATORS):
        fresh = [(key(items[place]), place) for place in places]
        if len(found) == count and count:
            bound = found[-1]
            fresh = [each for each in fresh if (each > bound if reverse else each < bound)]
        if fresh:
            found = sorted([*found, *fresh], reverse=reverse)[:count]
    return [items[place] for _, place in found]


async def let_go(values: list[Any]) -> None:
    """Empty a list in turns: what is counted down lies all over the memory."""
    while values:
        del values[-KEY_SLICE_ITEMS:]
        await pause(Lane.OPERATORS)


def _sort_key(listing: Listing, path: list[str] | None) -> Callable[[Any], Any] | None:
    if path is None:
        return listing.order
    value_of = listing.columns.get(path[0]) if len(path) == 1 else None
    if value_of is not None:
        return lambda item: _ranked(value_of(item))
    return lambda item: _comparable(as_json(listing.describe(item)), path)


def _ranked_at_once(listing: Listing, query: ListQuery) -> int:
    # An item whose row has to be described for its rank takes as long as a slice of others.
    is_described = query.sort is not None and ".".join(query.sort) not in listing.columns
    return 1 if is_described else SLICE_ITEMS


def _comparable(row: Row | None, path: list[str]) -> tuple[int, float, str]:
    value: Any = row
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return _ranked(value)


def _ranked(value: Any) -> tuple[int, float, str]:
    # Values of several types in one column: what is missing first, then numbers, then texts.
    if value is None:
        return (0, 0.0, "")
    if isinstance(value, int | float):
        return (1, value, "")
    return (2, 0.0, value if isinstance(value, str) else str(value))


def slices(items: Iterable[_Item], size: int) -> Iterator[list[_Item]]:
    """Items by so many: what is done with one takes less time than asking whether there is any left."""
    left = iter(items)
    while slice_ := list(islice(left, size)):
        yield slice_
