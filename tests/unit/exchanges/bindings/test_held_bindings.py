"""None, one or many bindings at one place."""

from routelog.exchanges.bindings.binding import Binding
from routelog.exchanges.bindings.held_bindings import (
    HeldBindings,
    each,
    with_binding,
    without_binding,
)


def some(count: int) -> list[Binding]:
    return [Binding("x", f"q{number}", "queue", "k") for number in range(count)]


def held(bindings: list[Binding]) -> HeldBindings:
    result: HeldBindings = None
    for binding in bindings:
        result = with_binding(result, binding)
    return result


def test_bindings_come_back_in_the_order_they_came() -> None:
    for count in range(4):
        assert list(each(held(some(count)))) == some(count)


def test_one_binding_is_held_bare() -> None:
    assert held(some(1)) == some(1)[0]


def test_removing_leaves_the_others_and_none_at_last() -> None:
    three = held(some(3))
    for number, binding in enumerate(some(3), start=1):
        three = without_binding(three, binding)
        assert list(each(three)) == some(3)[number:]
    assert three is None


def test_removing_what_is_not_held_changes_nothing() -> None:
    stranger = Binding("x", "stranger", "queue", "k")
    for count in range(3):
        assert list(each(without_binding(held(some(count)), stranger))) == some(count)
