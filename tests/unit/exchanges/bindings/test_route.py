"""The names of a route."""

from routelog.exchanges.bindings.route import SORTED_MAX, ordered_route


class Name(str):
    """A name that counts how often it is hashed."""

    __slots__ = ()
    hashed = 0

    def __hash__(self) -> int:
        Name.hashed += 1
        return super().__hash__()


def test_few_names_are_in_order_and_very_many_as_they_came() -> None:
    names = [f"q{number}" for number in range(SORTED_MAX + 1)]
    assert ordered_route(names[:SORTED_MAX]) == tuple(sorted(names[:SORTED_MAX]))
    assert ordered_route(names) == tuple(names)


def test_a_long_route_is_hashed_once() -> None:
    names = [Name(number) for number in range(SORTED_MAX + 1)]
    route = ordered_route(names)
    assert hash(route) == hash(route) == hash(tuple(names))
    assert {route: 1}[tuple(names)] == 1
    assert Name.hashed == 3 * len(names)
