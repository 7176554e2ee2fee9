"""The consistent hash exchange's index."""

from collections import Counter

import pytest

from routelog.exchanges import (
    InvalidBindingArguments,
    InvalidExchangeArguments,
    Message,
    RoutingTable,
)
from routelog.exchanges.bindings.binding import Binding
from routelog.exchanges.bindings.exchange import Exchange
from routelog.exchanges.indexes.binding_index import BARE_MESSAGE
from routelog.exchanges.indexes.consistent_hash_index import (
    WEIGHT_MAX,
    ConsistentHashIndex,
    hash_source,
)

KEYS = [b"key-%d" % number for number in range(20_000)]


def bound(**weights: int) -> ConsistentHashIndex:
    index = ConsistentHashIndex(None)
    for queue, weight in weights.items():
        index.add(Binding("x", queue, "queue", str(weight)))
    return index


def routed(index: ConsistentHashIndex) -> dict[bytes, str]:
    return {key: next(iter(index.match(key, BARE_MESSAGE))).destination for key in KEYS}


def test_shares_are_as_the_weights_are() -> None:
    counts = Counter(routed(bound(a=1, b=2, c=5)).values())
    for queue, weight in (("a", 1), ("b", 2), ("c", 5)):
        assert counts[queue] == pytest.approx(len(KEYS) * weight / 8, rel=0.06)


def test_a_further_binding_takes_its_share_and_moves_nothing_else() -> None:
    before, after = routed(bound(a=1, b=1, c=2)), routed(bound(a=1, b=1, c=2, d=1))
    moved = {key for key in KEYS if before[key] != after[key]}
    assert {after[key] for key in moved} == {"d"}
    assert len(moved) == pytest.approx(len(KEYS) / 5, rel=0.06)


def test_a_removed_binding_gives_its_share_away_and_moves_nothing_else() -> None:
    index = bound(a=1, b=1, c=2)
    before = routed(index)
    index.remove(Binding("x", "b", "queue", "1"))
    after = routed(index)
    assert all(after[key] == before[key] for key in KEYS if before[key] != "b")
    assert "b" not in after.values()


def test_the_order_of_bindings_does_not_matter() -> None:
    assert routed(bound(a=1, b=3, c=2)) == routed(bound(c=2, a=1, b=3))


def test_a_key_has_the_place_that_it_has_on_every_machine() -> None:
    index = bound(a=1, b=1, c=1)
    places = [next(iter(index.match(key, BARE_MESSAGE))).destination for key in KEYS[:12]]
    assert "".join(places) == "abcabbabbccc"


def test_two_bindings_of_a_queue_add_up() -> None:
    twice = bound(a=2, b=3)
    twice.add(Binding("x", "a", "queue", "1"))
    assert routed(twice) == routed(bound(a=3, b=3))
    twice.remove(Binding("x", "a", "queue", "2"))
    assert routed(twice) == routed(bound(a=1, b=3))


@pytest.mark.parametrize(
    "key", ["", "a", "1.5", "0", "-1", "--5", "-", "٣", str(WEIGHT_MAX + 1), "9" * 300]
)
def test_a_key_that_is_no_weight_is_refused(key: str) -> None:
    with pytest.raises(InvalidBindingArguments):
        ConsistentHashIndex(None).check(Binding("x", "q", "queue", key))


def test_nothing_bound_is_no_route() -> None:
    assert list(ConsistentHashIndex(None).match(b"k", BARE_MESSAGE)) == []


@pytest.mark.parametrize("argument", ["hash-header", "x-hash-on"])
def test_a_header_decides_where_it_is_asked_for(argument: str) -> None:
    table = table_with({argument: "who"})
    assert table.needs_headers("x")
    places = {
        who: {table.route("x", key, Message({"who": who})) for key in (b"a", b"b", b"c")}
        for who in ("ann", "bob", "eve", 1, 2, 3, 4, None, True)
    }
    assert all(len(found) == 1 for found in places.values())
    assert len(set.union(*places.values())) > 1
    assert len({table.route("x", key, BARE_MESSAGE) for key in (b"a", b"b", b"c")}) == 1


def test_a_property_decides_where_it_is_asked_for() -> None:
    table = table_with({"hash-property": "message_id"})
    messages = [Message({}, {"message_id": b"%d" % number}.get) for number in range(64)]
    first = [table.route("x", b"a", message) for message in messages]
    assert len(set(first)) == 4
    assert [table.route("x", b"b", message) for message in messages] == first


def table_with(arguments: dict[str, object]) -> RoutingTable:
    table = RoutingTable()
    table.declare(Exchange("x", "x-consistent-hash", arguments=arguments))
    for queue in ("a", "b", "c", "d"):
        table.add_queue(queue, durable=False)
        table.bind(Binding("x", queue, "queue", "1"))
    return table


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"hash-header": "h", "hash-property": "message_id"}, "mutually exclusive"),
        ({"x-hash-on": "h", "hash-property": "message_id"}, "mutually exclusive"),
        ({"hash-property": "app_id"}, "Unsupported property: app_id"),
        ({"hash-header": 3}, "must be a string"),
    ],
)
def test_arguments_that_cannot_be_are_refused(arguments: dict[str, object], text: str) -> None:
    with pytest.raises(InvalidExchangeArguments, match=text):
        hash_source(Exchange("x", "x-consistent-hash", arguments=arguments))


def test_the_routing_keys_way_is_remembered_until_a_binding_changes() -> None:
    table = table_with({})
    before = {key: table.route("x", key) for key in KEYS[:500]}
    routes = table.cached_routes("x")
    assert routes is not None
    assert len(routes) == 500
    table.unbind(Binding("x", "a", "queue", "1"))
    assert all(table.route("x", key) != ("a",) for key in before)
