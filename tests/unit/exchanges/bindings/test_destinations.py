"""Where the bindings at one place lead."""

from support.matched_names import matched_names

from routelog.exchanges.bindings.binding import Binding
from routelog.exchanges.bindings.destinations import (
    SORTED_MAX,
    Destinations,
    Held,
    matches,
    ordered_route,
    with_destination,
    without_destination,
)


def some(count: int) -> list[Binding]:
    return [Binding("x", f"q{number}", "queue", "k") for number in range(count)]


def held(bindings: list[Binding]) -> Held:
    result: Held = None
    for binding in bindings:
        result = with_destination(result, binding)
    return result


def crowd(bindings: list[Binding]) -> Destinations:
    found = held(bindings)
    assert isinstance(found, Destinations)
    return found


def test_names_come_back_in_the_order_they_came() -> None:
    for count in range(4):
        assert matched_names(matches(held(some(count)))) == [f"q{n}" for n in range(count)]


def test_one_binding_is_held_bare() -> None:
    assert held(some(1)) == some(1)[0]


def test_removing_leaves_the_others_and_none_at_last() -> None:
    three = held(some(3))
    for number, binding in enumerate(some(3), start=1):
        three = without_destination(three, binding)
        assert matched_names(matches(three)) == [f"q{n}" for n in range(number, 3)]
    assert three is None


def test_a_queue_bound_twice_is_there_until_both_bindings_are_gone() -> None:
    twice = [Binding("x", "q", "queue", key) for key in ("k", "l")]
    found = crowd([*twice, Binding("x", "q", "exchange", "k")])
    assert found.queues == {"q": 2}
    for binding, left in zip(twice, ({"q": 1}, {}), strict=True):
        found.remove(binding)
        assert found.queues == left
    assert found.exchanges == {"q": 1}


def test_a_long_route_is_the_same_object_until_something_changes() -> None:
    bindings = some(SORTED_MAX + 2)
    found = crowd(bindings[:-1])
    route = found.route()
    assert list(route) == [each.destination for each in bindings[:-1]]
    assert found.route() is route
    found.add(bindings[-1])
    assert found.route() == (*route, bindings[-1].destination)
    found.remove(bindings[-1])
    assert found.route() == route
    assert hash(found.route()) == hash(tuple(route))


def test_a_short_route_is_in_the_order_of_names() -> None:
    assert crowd(some(12)[::-1]).route() == tuple(sorted(f"q{n}" for n in range(12)))


def test_few_names_are_in_order_and_very_many_as_they_came() -> None:
    names = [f"q{number}" for number in range(SORTED_MAX + 1)]
    assert ordered_route(names[:SORTED_MAX]) == tuple(sorted(names[:SORTED_MAX]))
    assert ordered_route(names) == tuple(names)
