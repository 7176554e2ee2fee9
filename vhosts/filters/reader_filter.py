"""The filter of a reader or a group: which records of a log it is given."""

import asyncio
from collections.abc import Callable
from functools import reduce

from routelog.log_backend import Records
from routelog.vhosts.filters.expression import (
    Expression,
    Scalar,
    both,
    compared,
    constant,
    either,
    header,
    is_null,
    tagged,
)
from routelog.vhosts.filters.filter_arguments import (
    FILTER_MATCH_TYPE,
    MATCH_UNFILTERED,
    SQL_FILTER,
    filter_headers,
    filter_texts,
)

VALUE_HEADER = b"x-stream-filter-value"
# Without a match; then the loop serves others. A pass between two such looks takes a quarter of it.
LOOK_SECONDS = 0.000_05


class ReaderFilter:
    """A filter, as its consumer asked for it.

    Attributes:
        arguments: see `filter_arguments`.
        condition: what is true for the messages that match.
    """

    def __init__(self, arguments: dict[str, object], condition: Expression) -> None:
        self.arguments = arguments
        self.condition = condition

    def next_match(
        self, records: Records, index: int, end: int, count_max: int, is_over: Callable[[], bool]
    ) -> tuple[int, int]:
        """The next neighbours that match of the records [index, end) of a batch.

        Args:
            count_max: the most neighbours.
            is_over: whether to stop; asked after each record, as one may take 0.1 ms.

        Returns:
            Index of the first, and the end behind them. The same number twice: none below it matches, and it is
            less than `end` if there was no more time.
        """
        matches = self.condition.matches
        if index == 0 and not self.condition.may_be_in(records):
            return end, end
        while not matches(records, index):
            index += 1
            if index == end or is_over():
                return index, index
        behind, stop = index + 1, min(end, index + count_max)
        while behind < stop and not is_over() and matches(records, behind):
            behind += 1
        return index, behind


def reader_filter(
    arguments: dict[str, object],
) -> "ReaderFilter | asyncio.Future[ReaderFilter]":
    """The filter of some `filter_arguments`.

    Raises:
        InvalidFilter: or the future has it; the text of `x-filter` is no condition.

    Cost:
        Text is read in a thread: 15 ms for the longest, and 0.2 s more to load the parser for the first one.
    """
    if SQL_FILTER in arguments:
        return asyncio.ensure_future(asyncio.to_thread(_made, arguments))
    return _made(arguments)


def sql_condition(text: str) -> Expression:
    """The condition of a text; see `reader_filter` for its cost.

    Raises:
        InvalidFilter: it is none.
    """
    from routelog.vhosts.filters.sql import parsed_sql  # 1 MB, which most brokers never need

    return parsed_sql(text)


def _made(arguments: dict[str, object]) -> ReaderFilter:
    terms = [
        compared("=", header(name.encode()), constant(_octets(value)))
        for name, value in filter_headers(arguments)
    ]
    if texts := filter_texts(arguments):
        terms.append(tagged(VALUE_HEADER, [each.encode() for each in texts]))
    join = either if arguments.get(FILTER_MATCH_TYPE) == "any" else both
    conditions = [reduce(join, terms)] if terms else []
    if conditions and arguments.get(MATCH_UNFILTERED):
        conditions = [either(is_null(header(VALUE_HEADER)), conditions[0])]
    if SQL_FILTER in arguments:
        conditions.append(sql_condition(str(arguments[SQL_FILTER])))
    return ReaderFilter(arguments, reduce(both, conditions))


def _octets(value: object) -> Scalar:
    return value.encode() if isinstance(value, str) else value  # type: ignore[return-value]
