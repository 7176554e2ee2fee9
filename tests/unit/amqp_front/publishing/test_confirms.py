"""Which publishes are confirmed when the journal reaches a position."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.sampling import examples

from routelog.amqp_front.publishing.confirms import Confirms
from routelog.log_backend import NOTHING, Progress, Receipt


class Journal:
    """A journal that reaches what the test says."""

    def __init__(self) -> None:
        self.progress = Progress(lambda call: call(), float)
        self.confirms = Confirms()

    def synced(self, position: int) -> Receipt:
        return self.progress.receipt(0, position)

    def written(self, position: int) -> Receipt:
        return self.progress.receipt(position, 0)

    def covered(self, written: int, durable: int | None = None) -> tuple[int, bool] | None:
        """What can be confirmed when it has come so far."""
        self.progress.advance(written, written if durable is None else durable)
        return self.confirms.take_covered()


@pytest.fixture
def journal() -> Journal:
    return Journal()


@pytest.fixture
def confirms(journal: Journal) -> Confirms:
    return journal.confirms


def test_publishes_are_confirmed_in_order(journal: Journal, confirms: Confirms) -> None:
    confirms.add(1, journal.synced(10))
    confirms.add(2, journal.synced(20))
    assert journal.covered(9) is None
    assert journal.covered(10) == (1, False)
    assert journal.covered(10) is None
    assert journal.covered(25) == (3, True)
    assert confirms.count == 0


def test_one_confirm_covers_all_that_became_durable_at_once(
    journal: Journal, confirms: Confirms
) -> None:
    for position in (1, 2, 3):
        confirms.add(1, journal.synced(position))
    assert journal.covered(3) == (3, True)


def test_what_waits_for_nothing_still_waits_for_those_before_it(
    journal: Journal, confirms: Confirms
) -> None:
    confirms.add(1, journal.synced(50))
    confirms.add(1, NOTHING)
    assert journal.covered(49) is None
    assert confirms.count
    assert journal.covered(50) == (2, True)


def test_all_are_taken_when_the_journal_failed(journal: Journal, confirms: Confirms) -> None:
    assert confirms.take_all() is None
    confirms.add(3, journal.synced(2**62))
    assert confirms.take_all() == (3, True)
    assert confirms.count == 0


def test_what_was_refused_is_taken_in_its_turn(journal: Journal, confirms: Confirms) -> None:
    confirms.add(2, journal.synced(10))
    confirms.add(1, None)
    confirms.add(2, None)
    confirms.add(1, NOTHING)
    assert confirms.take_refused() is None
    assert journal.covered(9) is None
    assert confirms.take_refused() is None
    assert journal.covered(10) == (2, True)
    assert journal.covered(10) is None
    assert confirms.count
    assert confirms.take_refused() == (5, True)
    assert confirms.take_refused() is None
    assert journal.covered(10) == (6, False)
    assert confirms.count == 0


def test_a_failed_journal_takes_what_was_refused_too(journal: Journal, confirms: Confirms) -> None:
    confirms.add(1, None)
    confirms.add(1, journal.synced(2**62))
    assert confirms.take_all() == (2, True)
    assert confirms.count == 0


def test_what_has_to_be_written_does_not_wait_for_a_sync(
    journal: Journal, confirms: Confirms
) -> None:
    confirms.add(2, journal.written(10))
    confirms.add(1, journal.synced(10))
    confirms.add(1, journal.written(10))
    assert journal.covered(9, 9) is None
    assert journal.covered(10, 3) == (2, True)
    assert journal.covered(20, 9) is None
    assert journal.covered(20, 10) == (4, True)


def test_a_publish_to_queues_of_both_kinds_waits_for_both(
    journal: Journal, confirms: Confirms
) -> None:
    confirms.add(1, journal.synced(5).joined(journal.written(10)))
    assert journal.covered(10, 4) is None
    assert journal.covered(9, 9) is None
    assert journal.covered(10, 5) == (1, False)


marks = st.tuples(st.integers(0, 30), st.integers(0, 30))
publishes = st.lists(st.tuples(st.integers(1, 3), marks), max_size=12)


@st.composite
def journals(draw: st.DrawFn) -> list[tuple[int, int]]:
    """What a journal reaches, one after the other: durable is never above written."""
    written = sorted(draw(st.lists(st.integers(0, 30), max_size=8)))
    durable = sorted(draw(st.lists(st.integers(0, 30), min_size=len(written), max_size=8)))
    return [(w, min(w, d)) for w, d in zip(written, durable, strict=False)]


@settings(max_examples=examples(150), deadline=None, derandomize=True)
@given(publishes=publishes, reached=journals())
def test_a_tag_is_confirmed_once_it_and_all_before_it_have_what_they_need(
    publishes: list[tuple[int, tuple[int, int]]], reached: list[tuple[int, int]]
) -> None:
    journal = Journal()
    confirms = journal.confirms
    needed: list[tuple[int, int]] = []  # of each tag, from 1
    for count, mark in publishes:
        confirms.add(count, journal.progress.receipt(*mark))
        needed += [mark] * count
    assert confirms.next_tag == len(needed) + 1
    confirmed = 0
    for written, durable in reached:
        waiting = (n for n, mark in enumerate(needed) if mark[0] > written or mark[1] > durable)
        expected = next(waiting, len(needed))
        taken = journal.covered(written, durable)
        if expected == confirmed:
            assert taken is None
        else:
            assert taken == (expected, expected - confirmed > 1)
        confirmed = max(confirmed, expected)
        assert confirms.count == len(needed) - confirmed
