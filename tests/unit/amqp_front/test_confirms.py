"""Which publishes are confirmed when the journal reaches a position."""

from hypothesis import given, settings
from hypothesis import strategies as st

from amqp_front.confirms import Confirms


def test_publishes_are_confirmed_in_order() -> None:
    confirms = Confirms()
    confirms.add(1, 10)
    confirms.add(2, 20)
    assert confirms.take_durable(9) is None
    assert confirms.take_durable(10) == (1, False)
    assert confirms.take_durable(10) is None
    assert confirms.take_durable(25) == (3, True)
    assert not confirms.waits()


def test_one_confirm_covers_all_that_became_durable_at_once() -> None:
    confirms = Confirms()
    for position in (1, 2, 3):
        confirms.add(1, position)
    assert confirms.take_durable(3) == (3, True)


def test_what_waits_for_nothing_still_waits_for_those_before_it() -> None:
    confirms = Confirms()
    confirms.add(1, 50)
    confirms.add(1, 0)
    assert confirms.take_durable(49) is None
    assert confirms.waits()
    assert confirms.take_durable(50) == (2, True)


def test_all_are_taken_when_the_journal_failed() -> None:
    confirms = Confirms()
    assert confirms.take_all() is None
    confirms.add(3, 2**62)
    assert confirms.take_all() == (3, True)
    assert not confirms.waits()


publishes = st.lists(st.tuples(st.integers(1, 3), st.integers(0, 30)), max_size=12)
positions = st.lists(st.integers(0, 30), max_size=8).map(sorted)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(publishes=publishes, positions=positions)
def test_a_tag_is_confirmed_once_it_and_all_before_it_are_durable(
    publishes: list[tuple[int, int]], positions: list[int]
) -> None:
    confirms = Confirms()
    needed: list[int] = []  # journal position of each tag, from 1
    for count, position in publishes:
        confirms.add(count, position)
        needed += [position] * count
    assert confirms.next_tag == len(needed) + 1
    confirmed = 0
    for durable in positions:
        expected = next((n for n, p in enumerate(needed) if p > durable), len(needed))
        taken = confirms.take_durable(durable)
        if expected == confirmed:
            assert taken is None
        else:
            assert taken == (expected, expected - confirmed > 1)
        confirmed = max(confirmed, expected)
        assert confirms.waits() is (confirmed < len(needed))
