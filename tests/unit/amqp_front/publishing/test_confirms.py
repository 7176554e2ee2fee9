"""Which publishes are confirmed when the journal reaches a position."""

from hypothesis import given, settings
from hypothesis import strategies as st

from routelog.amqp_front.publishing.confirms import Confirms
from routelog.log_backend import NOTHING, JournalPositions


def synced(position: int) -> JournalPositions:
    return JournalPositions(0, position)


def written(position: int) -> JournalPositions:
    return JournalPositions(position, 0)


def journal(written: int, durable: int | None = None) -> JournalPositions:
    return JournalPositions(written, written if durable is None else durable)


def test_publishes_are_confirmed_in_order() -> None:
    confirms = Confirms()
    confirms.add(1, synced(10))
    confirms.add(2, synced(20))
    assert confirms.take_covered(journal(9)) is None
    assert confirms.take_covered(journal(10)) == (1, False)
    assert confirms.take_covered(journal(10)) is None
    assert confirms.take_covered(journal(25)) == (3, True)
    assert not confirms.waits()


def test_one_confirm_covers_all_that_became_durable_at_once() -> None:
    confirms = Confirms()
    for position in (1, 2, 3):
        confirms.add(1, synced(position))
    assert confirms.take_covered(journal(3)) == (3, True)


def test_what_waits_for_nothing_still_waits_for_those_before_it() -> None:
    confirms = Confirms()
    confirms.add(1, synced(50))
    confirms.add(1, NOTHING)
    assert confirms.take_covered(journal(49)) is None
    assert confirms.waits()
    assert confirms.take_covered(journal(50)) == (2, True)


def test_all_are_taken_when_the_journal_failed() -> None:
    confirms = Confirms()
    assert confirms.take_all() is None
    confirms.add(3, synced(2**62))
    assert confirms.take_all() == (3, True)
    assert not confirms.waits()


def test_what_was_refused_is_taken_in_its_turn() -> None:
    confirms = Confirms()
    confirms.add(2, synced(10))
    confirms.add(1, None)
    confirms.add(2, None)
    confirms.add(1, NOTHING)
    assert confirms.take_refused() is None
    assert confirms.take_covered(journal(9)) is None
    assert confirms.take_refused() is None
    assert confirms.take_covered(journal(10)) == (2, True)
    assert confirms.take_covered(journal(10)) is None
    assert confirms.waits()
    assert confirms.take_refused() == (5, True)
    assert confirms.take_refused() is None
    assert confirms.take_covered(journal(10)) == (6, False)
    assert not confirms.waits()


def test_a_failed_journal_takes_what_was_refused_too() -> None:
    confirms = Confirms()
    confirms.add(1, None)
    confirms.add(1, synced(2**62))
    assert confirms.take_all() == (2, True)
    assert not confirms.waits()


def test_what_has_to_be_written_does_not_wait_for_a_sync() -> None:
    confirms = Confirms()
    confirms.add(2, written(10))
    confirms.add(1, synced(10))
    confirms.add(1, written(10))
    assert confirms.take_covered(journal(9, 9)) is None
    assert confirms.take_covered(journal(10, 3)) == (2, True)
    assert confirms.take_covered(journal(20, 9)) is None
    assert confirms.take_covered(journal(20, 10)) == (4, True)


def test_a_publish_to_queues_of_both_kinds_waits_for_both() -> None:
    confirms = Confirms()
    confirms.add(1, synced(5).joined(written(10)))
    assert confirms.take_covered(journal(10, 4)) is None
    assert confirms.take_covered(journal(9, 9)) is None
    assert confirms.take_covered(journal(10, 5)) == (1, False)


marks = st.builds(JournalPositions, st.integers(0, 30), st.integers(0, 30))
publishes = st.lists(st.tuples(st.integers(1, 3), marks), max_size=12)


@st.composite
def journals(draw: st.DrawFn) -> list[JournalPositions]:
    """What a journal reaches, one after the other: durable is never above written."""
    written = sorted(draw(st.lists(st.integers(0, 30), max_size=8)))
    durable = sorted(draw(st.lists(st.integers(0, 30), min_size=len(written), max_size=8)))
    return [JournalPositions(w, min(w, d)) for w, d in zip(written, durable, strict=False)]


@settings(max_examples=150, deadline=None, derandomize=True)
@given(publishes=publishes, reached=journals())
def test_a_tag_is_confirmed_once_it_and_all_before_it_have_what_they_need(
    publishes: list[tuple[int, JournalPositions]], reached: list[JournalPositions]
) -> None:
    confirms = Confirms()
    needed: list[JournalPositions] = []  # of each tag, from 1
    for count, mark in publishes:
        confirms.add(count, mark)
        needed += [mark] * count
    assert confirms.next_tag == len(needed) + 1
    confirmed = 0
    for each in reached:
        waiting = (
            n for n, p in enumerate(needed) if p.written > each.written or p.durable > each.durable
        )
        expected = next(waiting, len(needed))
        taken = confirms.take_covered(each)
        if expected == confirmed:
            assert taken is None
        else:
            assert taken == (expected, expected - confirmed > 1)
        confirmed = max(confirmed, expected)
        assert confirms.waits() is (confirmed < len(needed))
