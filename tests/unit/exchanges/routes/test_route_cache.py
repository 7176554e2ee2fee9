"""The limits of the route cache."""

import pytest

from routelog.exchanges.bindings.destinations import Route
from routelog.exchanges.routes import route_cache
from routelog.exchanges.routes.route_cache import LET_GO_FROM, RouteCache, StaleRoutes
from routelog.exchanges.routes.route_walk import WalkTraits

BY_KEY = WalkTraits(key_decides=True, reads_headers=False)


def opened(cache: RouteCache, exchange: str) -> dict[bytes, Route]:
    routes = cache.open(exchange, BY_KEY)
    assert routes is not None
    return routes


def test_an_exchange_whose_key_does_not_decide_gets_no_dict() -> None:
    cache = RouteCache()
    assert cache.open("x", WalkTraits(key_decides=False, reads_headers=True)) is None
    assert cache.routes == {"x": None}


def test_one_exchange_starts_over_at_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(route_cache, "ROUTE_CACHE_ENTRIES_MAX", 3)
    cache = RouteCache()
    cache.open("x", BY_KEY)
    cache.open("y", BY_KEY)
    cache.keep("y", b"stays", ("q",))
    for number in range(4):
        cache.keep("x", b"%d" % number, ("q",))
    assert cache.routes == {"x": {b"3": ("q",)}, "y": {b"stays": ("q",)}}


def test_all_exchanges_together_start_over_at_the_weight_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(route_cache, "ROUTE_CACHE_WEIGHT_MAX", 10)
    cache = RouteCache()
    cache.open("x", BY_KEY)
    cache.open("y", BY_KEY)
    cache.open("z", WalkTraits(key_decides=False, reads_headers=True))
    cache.keep("y", b"a", ("q",) * 4)
    cache.keep("x", b"b", ("q",) * 4)
    cache.keep("x", b"c", ())
    assert cache.routes == {"x": {b"c": ()}, "y": {}, "z": None}
    cache.keep("x", b"d", ("q",) * 20)  # more than there may be: it is kept alone
    assert cache.routes == {"x": {b"d": ("q",) * 20}, "y": {}, "z": None}


def test_weight_is_given_back_with_what_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(route_cache, "ROUTE_CACHE_ENTRIES_MAX", 1)
    monkeypatch.setattr(route_cache, "ROUTE_CACHE_WEIGHT_MAX", 11)
    cache = RouteCache()
    cache.open("x", BY_KEY)
    cache.open("y", BY_KEY)
    cache.keep("y", b"stays", ())
    for number in range(50):
        cache.keep("x", b"%d" % number, ("q",) * 4)
    assert cache.routes["y"] == {b"stays": ()}


def test_what_was_dropped_is_let_go_of_while_others_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(route_cache, "LET_GO_FROM", 2)
    cache = RouteCache()
    routes, other = opened(cache, "x"), opened(cache, "y")
    for number in range(3):
        cache.keep("x", b"%d" % number, ("q",))
    cache.keep("y", b"k", ("q",))
    cache.drop()
    assert cache.routes == {}
    again = opened(cache, "x")
    assert again is not routes
    left = []
    for number in range(3):
        cache.keep("x", b"%d" % number, ("q",))
        left.append(len(routes) + len(other))
    assert left == [3, 2, 1]
    assert len(again) == 3


def test_a_topology_that_changes_all_the_time_leaves_no_more_behind_than_a_lot() -> None:
    cache = RouteCache()
    dropped: list[dict[bytes, Route]] = []
    for number in range(2_000):
        dropped.append(opened(cache, "x"))
        cache.keep("x", b"%d" % number, ("q",))
        cache.drop()
    assert sum(map(len, dropped)) <= route_cache.LET_GO_FROM / 2


def test_what_gave_its_place_is_let_go_of_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(route_cache, "LET_GO_FROM", 2)
    monkeypatch.setattr(route_cache, "ROUTE_CACHE_ENTRIES_MAX", 4)
    cache = RouteCache()
    first = opened(cache, "x")
    left = []
    for number in range(7):
        cache.keep("x", b"%d" % number, ("q",))
        left.append(len(first))
    assert left == [1, 2, 3, 4, 3, 2, 1]


def test_a_key_longer_than_a_short_string_is_not_kept() -> None:
    cache = RouteCache()
    routes = opened(cache, "x")
    cache.keep("x", b"k" * 255, ("q",))
    cache.keep("x", b"k" * 256, ("q",))  # CC allows it, up to a frame each
    assert list(routes) == [b"k" * 255]


def test_exchanges_start_over_with_a_weight_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(route_cache, "ROUTE_CACHE_WEIGHT_MAX", 12)
    cache = RouteCache()
    for _ in range(3):
        for exchange in ("x", "y"):
            cache.open(exchange, BY_KEY)
            for number in range(3):
                cache.keep(exchange, b"%d" % number, ("q",))
        assert [len(routes or ()) for routes in cache.routes.values()] == [3, 3]
        cache.drop()


def test_as_much_goes_as_comes_and_very_long_ones_one_by_one() -> None:
    stale, long = StaleRoutes(), ("q",) * 20_000
    table = dict.fromkeys(range(5), long)
    stale.add(table)
    left = []
    for _ in range(6):
        stale.free(1 + len(long))
        left.append(len(table))
    assert left == [4, 3, 2, 1, 0, 0]


def test_short_ones_go_many_at_a_time() -> None:
    stale = StaleRoutes()
    tables = [dict.fromkeys(range(100), ("q",)) for _ in range(5)]
    for table in tables:
        stale.add(table)
    stale.add({})
    for _ in range(LET_GO_FROM // 2 - 1):
        stale.free(2)
    assert sum(map(len, tables)) == 500
    stale.free(2)
    assert sum(map(len, tables)) == 500 - LET_GO_FROM // 2
    stale.free(LET_GO_FROM)
    assert not any(tables)


def test_what_came_before_there_was_anything_stale_does_not_count() -> None:
    stale = StaleRoutes()
    stale.free(1_000_000)
    table = dict.fromkeys(range(1000), ())
    stale.add(table)
    stale.free(LET_GO_FROM)
    assert len(table) == 1_000 - LET_GO_FROM
