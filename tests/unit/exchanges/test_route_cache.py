"""The limits of the route cache."""

import pytest

from exchanges import route_cache
from exchanges.route_cache import RouteCache
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


def test_one_exchange_starts_over_at_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(route_cache, "ROUTE_CACHE_ENTRIES_MAX", 3)
    cache = RouteCache()
    routes, other = opened(cache, "x"), opened(cache, "y")
    cache.keep(other, b"stays", ("q",))
    for number in range(4):
        cache.keep(routes, b"%d" % number, ("q",))
    assert routes == {b"3": ("q",)}
    assert other == {b"stays": ("q",)}


def test_all_exchanges_together_start_over_at_the_weight_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(route_cache, "ROUTE_CACHE_WEIGHT_MAX", 10)
    cache = RouteCache()
    routes, other = opened(cache, "x"), opened(cache, "y")
    cache.keep(other, b"a", ("q",) * 4)
    cache.keep(routes, b"b", ("q",) * 4)
    assert (len(other), len(routes)) == (1, 1)
    cache.keep(routes, b"c", ())
    assert (other, routes) == ({}, {b"c": ()})


def test_weight_is_given_back_when_an_exchange_starts_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(route_cache, "ROUTE_CACHE_ENTRIES_MAX", 1)
    monkeypatch.setattr(route_cache, "ROUTE_CACHE_WEIGHT_MAX", 10)
    cache = RouteCache()
    routes, other = opened(cache, "x"), opened(cache, "y")
    cache.keep(other, b"stays", ())
    for number in range(50):
        cache.keep(routes, b"%d" % number, ("q",) * 4)
    assert other == {b"stays": ()}


def test_dropping_empties_dicts_that_were_handed_out() -> None:
    cache = RouteCache()
    routes = opened(cache, "x")
    cache.keep(routes, b"k", ("q",))
    cache.drop()
    assert routes == {}
    assert cache.routes == {}
    assert opened(cache, "x") is not routes


def test_a_key_longer_than_a_short_string_is_not_kept() -> None:
    cache = RouteCache()
    routes = opened(cache, "x")
    cache.keep(routes, b"k" * 255, ("q",))
    cache.keep(routes, b"k" * 256, ("q",))  # CC allows it, up to a frame each
    assert list(routes) == [b"k" * 255]
