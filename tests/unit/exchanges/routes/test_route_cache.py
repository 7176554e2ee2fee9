"""The limits of the route cache."""

import pytest

from routelog.exchanges.bindings.destinations import Route
from routelog.exchanges.routes import route_cache
from routelog.exchanges.routes.route_cache import RouteCache
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
