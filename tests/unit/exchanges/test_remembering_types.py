"""The exchange types that remember what came by: their arguments, and what a walk says of them."""

import pytest

from routelog.exchanges import (
    DEDUPLICATION,
    RECENT_HISTORY,
    Binding,
    DeduplicationOptions,
    Exchange,
    InvalidExchangeArguments,
    Message,
    RoutingTable,
    deduplication_options,
    history_length,
)
from routelog.exchanges.indexes.fanout_index import CACHE_SIZE_MAX, HISTORY_LENGTH_MAX


def deduplicating(**arguments: object) -> Exchange:
    return Exchange(
        "x", DEDUPLICATION, arguments={k.replace("_", "-"): v for k, v in arguments.items()}
    )


def test_numbers_may_come_as_digits() -> None:
    exchange = deduplicating(x_cache_size="10", x_cache_ttl="500", x_cache_persistence="disk")
    assert deduplication_options(exchange) == DeduplicationOptions(10, 500, True)
    assert deduplication_options(deduplicating(x_cache_size=1)) == DeduplicationOptions(
        1, None, False
    )


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"x_cache_size": 0},
        {"x_cache_size": -1},
        {"x_cache_size": "many"},
        {"x_cache_size": True},
        {"x_cache_size": CACHE_SIZE_MAX + 1},
        {"x_cache_size": 1, "x_cache_ttl": 0},
        {"x_cache_size": 1, "x_cache_ttl": "soon"},
        {"x_cache_size": 1, "x_cache_persistence": "tape"},
    ],
)
def test_a_deduplication_exchange_that_cannot_be_is_refused(arguments: dict[str, object]) -> None:
    table = RoutingTable()
    with pytest.raises(InvalidExchangeArguments):
        table.declare(Exchange("x", DEDUPLICATION, arguments=deduplicating(**arguments).arguments))
    assert not table.has_exchange("x")


def test_a_history_is_of_twenty_unless_it_is_asked_for_another_length() -> None:
    assert history_length(Exchange("x", RECENT_HISTORY)) == 20
    length = {"x-recent-history-length": 3}
    assert history_length(Exchange("x", RECENT_HISTORY, arguments=length)) == 3


@pytest.mark.parametrize("length", [0, -1, "3", True, 1.5, HISTORY_LENGTH_MAX + 1])
def test_a_history_that_cannot_be_is_refused(length: object) -> None:
    with pytest.raises(InvalidExchangeArguments):
        RoutingTable().declare(
            Exchange("x", RECENT_HISTORY, arguments={"x-recent-history-length": length})
        )


def test_a_walk_asks_where_something_is_remembered_also_behind_another_exchange() -> None:
    table = RoutingTable()
    table.declare(
        Exchange(
            "d", DEDUPLICATION, arguments={"x-cache-size": 1, "alternate-exchange": "amq.fanout"}
        )
    )
    table.bind(Binding("amq.direct", "d", "exchange", "k"))
    for queue, exchange in (("q", "d"), ("other", "amq.fanout")):
        table.add_queue(queue, durable=False)
        table.bind(Binding(exchange, queue, "queue", ""))
    assert table.remembers("amq.direct")
    assert table.cached_routes("amq.direct") is None
    assert not table.remembers("amq.fanout")
    asked: list[str] = []

    def visit(name: str) -> bool:
        asked.append(name)
        return len(asked) == 1

    assert table.route("amq.direct", b"k", Message({}), visit) == ("q",)
    # What is not let through has been there before: that is no business of an alternate exchange.
    assert table.route("amq.direct", b"k", Message({}), visit) == ()
    assert asked == ["d", "d"]
