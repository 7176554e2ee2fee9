"""The answers of handlers: a value, a list, pieces of JSON, stored bytes, or nothing."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from routelog.log_backend import StoredStretch

Row = dict[str, Any]  # of JSON


@dataclass(frozen=True, slots=True)
class Value:
    """One JSON value."""

    value: object
    status: int = 200


@dataclass(frozen=True, slots=True)
class Empty:
    """No content: something was made (201), at a place relative to its path, or changed (204)."""

    status: int = 204
    location: str = ""


@dataclass(frozen=True, slots=True)
class Pieces:
    """JSON that is written a piece at a time."""

    pieces: AsyncIterator[bytes]
    file_name: str = ""


class OtherRows(NamedTuple):
    """Rows of a list at other nodes.

    Attributes:
        total, filtered: how many there are, and of them those that pass the filter.
        rows: all of them, or the first ones of each node.
    """

    total: int
    filtered: int
    rows: list[msgspec.Raw]


@dataclass(frozen=True, slots=True)
class Listing:
    """A list whose items are described when they are written.

    Attributes:
        items: a snapshot.
        describe: the row of an item; None: the item is gone, or the caller may not see it.
        name: of an item, for the filter; None: there is no filter.
        order: of an item, when no column is chosen; None: the order of `items`.
        columns: what describing an item says in a column, for less: lists are sorted by them.
        stretch: how many items there are, and those at some places of their own order; None: they are looked
            for among `items`.
        others: finds the rows at other nodes, for a query of one page, or all; None: there are none.
            Functions of items take these rows, too.
    """

    items: Iterable[Any]
    describe: Callable[[Any], object]
    name: Callable[[Any], str] | None = None
    order: Callable[[Any], tuple[str, ...]] | None = None
    columns: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    stretch: Callable[[int, int], tuple[int, list[Any]]] | None = None
    others: Callable[[Any], Awaitable[OtherRows]] | None = None


@dataclass(frozen=True, slots=True)
class Stored:
    """A stretch of a log, as stored; the sender closes it."""

    stretch: StoredStretch


Answer = Value | Empty | Pieces | Listing | Stored


def put(existed: bool) -> Empty:
    """The answer to PUT."""
    return Empty(204 if existed else 201)


def as_json(answered: object) -> Any:
    """What a client reads of a row, or of what has rows in it: values of JSON, without what is unset."""
    return msgspec.to_builtins(answered, str_keys=True)


def selected(row: Mapping[str, Any], columns: list[list[str]]) -> Row:
    """The columns of a row that are wanted; `a.b` is b of what is in a."""
    found: Row = {}
    for path in columns:
        _copy(row, path, found)
    return found


def _copy(source: object, path: list[str], target: Row) -> None:
    head, rest = path[0], path[1:]
    if not isinstance(source, Mapping) or head not in source:
        return
    if not rest:
        target[head] = source[head]
        return
    inner: Row = {}
    _copy(source[head], rest, inner)
    if inner:
        known = target.setdefault(head, {})
        if isinstance(known, dict):
            known.update(inner)
