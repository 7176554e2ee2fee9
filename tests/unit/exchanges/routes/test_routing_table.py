"""Routing with the cache: what is remembered, and when it is forgotten."""

import pytest

from routelog.exchanges import Binding, Exchange, ExchangeNotFound, Message, RoutingTable
from routelog.exchanges.bindings.destinations import SORTED_MAX
from routelog.exchanges.routes import route_cache


@pytest.fixture
def table() -> RoutingTable:
    table = RoutingTable()
    table.declare(Exchange("x", "topic"))
    table.add_queue("q", durable=False)
    table.bind(Binding("x", "q", "queue", "a.*"))
    return table


def test_the_default_exchange_routes_by_queue_name(table: RoutingTable) -> None:
    assert table.route("", b"q") == ("q",)
    assert table.route("", b"other") == ()
    assert table.route("", b"\xff") == ()
    table.remove_queue("q")
    assert table.route("", b"q") == ()


def test_a_route_is_remembered_by_key_nowhere_included(table: RoutingTable) -> None:
    table.route("x", b"a.b")
    table.route("x", b"b")
    assert table.cached_routes("x") == {b"a.b": ("q",), b"b": ()}


def test_the_dict_handed_out_is_the_one_that_route_fills(table: RoutingTable) -> None:
    routes = table.cached_routes("x")
    route = table.route("x", b"a.b")
    assert routes is table.cached_routes("x")
    assert routes is not None
    assert routes[b"a.b"] is route
    assert table.route("x", b"a.b") is route


def test_a_change_gives_another_dict_than_a_caller_still_holds(table: RoutingTable) -> None:
    routes = table.cached_routes("x")
    table.route("x", b"a.b")
    table.unbind(Binding("x", "q", "queue", "a.*"))
    assert table.cached_routes("x") == {}
    assert table.cached_routes("x") is not routes
    assert table.route("x", b"a.b") == ()
    assert table.cached_routes("x") == {b"a.b": ()}


def test_a_change_behind_an_exchange_binding_is_seen(table: RoutingTable) -> None:
    table.declare(Exchange("inner", "fanout"))
    table.bind(Binding("x", "inner", "exchange", "#"))
    assert table.route("x", b"k") == ()
    table.bind(Binding("inner", "q", "queue", ""))
    assert table.route("x", b"k") == ("q",)


def test_nothing_is_remembered_where_headers_matter(table: RoutingTable) -> None:
    table.declare(Exchange("h", "headers"))
    table.bind(Binding("h", "q", "queue", "", {"a": 1}))
    assert table.cached_routes("h") is None
    assert table.needs_headers("h")
    assert table.route("h", b"", Message({"a": 1})) == ("q",)
    assert table.route("h", b"", Message({"a": 2})) == ()
    assert table.route("h", b"") == ()


@pytest.mark.parametrize("alternate", [False, True])
def test_headers_matter_to_every_exchange_that_can_reach_them(alternate: bool) -> None:
    table = RoutingTable()
    table.add_queue("q", durable=False)
    table.declare(Exchange("h", "headers"))
    table.declare(
        Exchange("y", "direct", arguments={"alternate-exchange": "h"} if alternate else {})
    )
    table.declare(Exchange("x", "direct"))
    table.bind(Binding("x", "y", "exchange", "k"))
    if not alternate:
        table.bind(Binding("y", "h", "exchange", "k"))
    assert not table.needs_headers("x")
    assert table.cached_routes("x") == {}
    table.bind(Binding("h", "q", "queue", "", {"a": 1}))
    assert table.needs_headers("x")
    assert table.cached_routes("x") is None
    assert table.route("x", b"k", Message({"a": 1})) == ("q",)
    assert not table.needs_headers("amq.direct")
    table.unbind(Binding("h", "q", "queue", "", {"a": 1}))
    assert not table.needs_headers("x")


def test_the_cache_of_one_exchange_is_bounded(
    table: RoutingTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(route_cache, "ROUTE_CACHE_ENTRIES_MAX", 8)
    for number in range(100):
        assert table.route("x", b"a.%d" % number) == ("q",)
        routes = table.cached_routes("x")
        assert routes is not None
        assert 0 < len(routes) <= 8


def test_a_missing_exchange_has_no_routes(table: RoutingTable) -> None:
    for ask in (table.cached_routes, table.needs_headers):
        with pytest.raises(ExchangeNotFound):
            ask("nope")
    table.route("x", b"k")
    table.delete("x")
    with pytest.raises(ExchangeNotFound):
        table.route("x", b"k")


def test_all_keys_of_a_message_count_at_every_exchange_on_the_way(table: RoutingTable) -> None:
    table.declare(Exchange("outer", "direct"))
    table.bind(Binding("outer", "x", "exchange", "in"))
    assert table.route_all("outer", [b"in"]) == table.route_all("outer", [b"a.b"]) == ()
    assert table.route_all("outer", [b"a.b", b"in"]) == ("q",)
    table.add_queue("p", durable=False)
    assert table.route_all("", [b"q", b"none", b"\xff", b"p", b"q"]) == ("p", "q")


def test_very_many_queues_are_found_once_each_and_in_the_same_order_for_all_keys() -> None:
    table = RoutingTable()
    names = [f"q{number}" for number in range(SORTED_MAX + 1)]
    for name in names:
        table.add_queue(name, durable=False)
        table.bind(Binding("amq.fanout", name, "queue", ""))
        table.bind(Binding("amq.fanout", name, "queue", "again"))
    routes = [table.route("amq.fanout", key) for key in (b"one", b"two")]
    assert sorted(routes[0]) == sorted(names)
    assert routes[0] == routes[1]
    table.remove_queue(names[0])
    assert table.route("amq.fanout", b"one") == tuple(sorted(names[1:]))


def test_a_way_to_very_many_queues_is_found_again_as_it_was_unless_it_has_changed() -> None:
    table = RoutingTable()
    names = [f"q{number}" for number in range(SORTED_MAX + 1)]
    for name in names:
        table.add_queue(name, durable=False)
        table.bind(Binding("amq.headers", name, "queue", "", {"a": 1}))
    message = Message({"a": 1})
    route = table.route("amq.headers", b"", message)
    table.add_queue("other", durable=False)
    assert table.route("amq.headers", b"k", message) is route
    table.bind(Binding("amq.headers", "other", "queue", "", {"a": 1}))
    assert table.route("amq.headers", b"", message) == (*route, "other")
    table.unbind(Binding("amq.headers", "other", "queue", "", {"a": 1}))
    assert table.route("amq.headers", b"", message) == route


def test_ways_to_very_many_queues_join() -> None:
    table = RoutingTable()
    names = [f"q{number}" for number in range(SORTED_MAX + 1)]
    table.declare(Exchange("half", "fanout"))
    table.declare(Exchange("alone", "direct"))
    table.bind(Binding("amq.fanout", "half", "exchange", ""))
    table.bind(Binding("amq.fanout", "alone", "exchange", ""))
    for number, name in enumerate(names):
        table.add_queue(name, durable=False)
        table.bind(Binding("half" if number % 3 else "amq.fanout", name, "queue", ""))
    table.bind(Binding("alone", names[0], "queue", "k"))
    table.bind(Binding("half", names[1], "queue", "again"))
    assert sorted(table.route("amq.fanout", b"k")) == sorted(names)
    assert len(table.route("half", b"k")) == len(names) * 2 // 3
