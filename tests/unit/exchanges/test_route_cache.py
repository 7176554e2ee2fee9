"""The limits of the route cache."""

import pytest

from exchanges import route_cache
from exchanges.route_cache import ROOM_SHARE, RouteCache
from exchanges.route_walk import Route, WalkTraits

BY_KEY = WalkTraits(key_decides=True, reads_headers=False)


def opened(cache: RouteCache, exchange: str) -> dict[bytes, Route]:
    routes = cache.open(exchange, BY_KEY)
    assert routes is not None
    return routes


def test_an_exchange_whose_key_does_not_decide_gets_no_dict() -> None:
    cache = RouteCache()
    assert cache.open("x", WalkTraits(key_decides=False, reads_headers=True)) is None
    assert cache.routes == {"x": None}


def test_one_exchange_forgets_its_oldest_at_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(route_cache, "ROUTE_CACHE_ENTRIES_MAX", 3)
    cache = RouteCache()
    routes, other = opened(cache, "x"), opened(cache, "y")
    cache.keep(other, b"stays", ("q",))
    for number in range(4):
        cache.keep(routes, b"%d" % number, ("q",))
    assert list(routes) == [b"1", b"2", b"3"]
    assert other == {b"stays": ("q",)}


def test_room_is_made_for_more_than_one_but_not_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = 10 * ROOM_SHARE
    monkeypatch.setattr(route_cache, "ROUTE_CACHE_ENTRIES_MAX", limit)
    cache = RouteCache()
    routes = opened(cache, "x")
    for number in range(limit + 1):
        cache.keep(routes, b"%d" % number, ())
    assert len(routes) == limit - 10
    assert next(iter(routes)) == b"11"


def test_all_exchanges_together_make_room_at_the_weight_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(route_cache, "ROUTE_CACHE_WEIGHT_MAX", 10)
    cache = RouteCache()
    routes, other = opened(cache, "x"), opened(cache, "y")
    cache.keep(other, b"a", ("q",) * 4)
    cache.keep(routes, b"b", ("q",) * 4)
    assert (len(other), len(routes)) == (1, 1)
    cache.keep(routes, b"c", ())
    assert (list(other), list(routes)) == ([b"a"], [b"c"])
    cache.keep(routes, b"d", ("q",) * 20)  # more than there may be: it is kept alone
    assert (list(other), list(routes)) == ([], [b"d"])


def test_weight_is_given_back_with_what_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(route_cache, "ROUTE_CACHE_ENTRIES_MAX", 1)
    monkeypatch.setattr(route_cache, "ROUTE_CACHE_WEIGHT_MAX", 10)
    cache = RouteCache()
    routes, other = opened(cache, "x"), opened(cache, "y")
    cache.keep(other, b"stays", ())
    for number in range(50):
        cache.keep(routes, b"%d" % number, ("q",) * 4)
    assert other == {b"stays": ()}


def test_what_was_dropped_is_let_go_of_while_others_come() -> None:
    cache = RouteCache()
    routes, other = opened(cache, "x"), opened(cache, "y")
    for number in range(3):
        cache.keep(routes, b"%d" % number, ("q",))
    cache.keep(other, b"k", ("q",))
    cache.drop()
    assert cache.routes == {}
    again = opened(cache, "x")
    assert again is not routes
    left = []
    for number in range(3):
        cache.keep(again, b"%d" % number, ("q",))
        left.append(len(routes) + len(other))
    assert left == [2, 0, 0]
    assert len(again) == 3


def test_a_key_longer_than_a_short_string_is_not_kept() -> None:
    cache = RouteCache()
    routes = opened(cache, "x")
    cache.keep(routes, b"k" * 255, ("q",))
    cache.keep(routes, b"k" * 256, ("q",))  # CC allows it, up to a frame each
    assert list(routes) == [b"k" * 255]
