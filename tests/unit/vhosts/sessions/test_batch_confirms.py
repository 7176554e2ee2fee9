"""From positions of the journal to numbers of batches."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.queue_samples import Turns
from support.sampling import examples

from routelog.log_backend import Progress
from routelog.vhosts.sessions.batch_confirms import BatchConfirms


class Confirmed:
    """Batch confirms, with what they said."""

    def __init__(self) -> None:
        self.turns = Turns()
        self.progress = Progress(self.turns.call_soon, lambda: 0.0)
        self.said: list[tuple[int, int]] = []
        self.failures = 0
        self.batches = BatchConfirms(self.progress, self._say, self._fail)

    def _say(self, written: int, durable: int) -> None:
        self.said.append((written, durable))

    def _fail(self) -> None:
        self.failures += 1

    def advance(self, written: int, durable: int) -> list[tuple[int, int]]:
        self.progress.advance(written, durable)
        return self.take()

    def take(self) -> list[tuple[int, int]]:
        self.turns.run()
        said, self.said = self.said, []
        return said


@pytest.fixture
def confirmed() -> Confirmed:
    return Confirmed()


def test_what_waits_for_nothing_is_confirmed_after_the_turn(confirmed: Confirmed) -> None:
    confirmed.batches.add(1, 0, False)
    confirmed.batches.add(2, 0, False)
    assert not confirmed.said
    assert confirmed.take() == [(2, 2)]


def test_the_disk_takes_longer_than_the_system(confirmed: Confirmed) -> None:
    confirmed.batches.add(1, 5, True)
    confirmed.batches.add(2, 5, False)
    confirmed.batches.add(3, 6, False)
    confirmed.batches.add(4, 6, True)
    assert confirmed.take() == []
    assert confirmed.advance(5, 4) == [(2, 0)]
    assert confirmed.advance(6, 4) == [(4, 0)]
    assert confirmed.advance(6, 5) == [(4, 3)]
    assert confirmed.advance(6, 6) == [(4, 4)]


def test_what_is_behind_waits_for_what_is_before(confirmed: Confirmed) -> None:
    confirmed.batches.add(1, 5, True)
    confirmed.batches.add(2, 0, False)
    assert confirmed.advance(4, 4) == []
    assert confirmed.advance(5, 4) == [(2, 0)]
    assert confirmed.advance(5, 5) == [(2, 2)]


def test_nobody_asks_for_what_is_only_written(confirmed: Confirmed) -> None:
    confirmed.batches.add(1, 5, True)
    confirmed.batches.add(2, 6, True)
    assert confirmed.advance(6, 4) == []
    assert confirmed.advance(6, 5) == [(2, 1)]
    assert confirmed.advance(6, 6) == [(2, 2)]


def test_what_is_late_may_come_yet(confirmed: Confirmed) -> None:
    confirmed.batches.add(1, 5, True)
    confirmed.batches.add(2, 6, False)
    for _ in range(3):
        confirmed.progress.refuse(6)
    assert confirmed.take() == []
    assert confirmed.advance(7, 7) == [(2, 2)]


def test_a_failed_journal_is_told(confirmed: Confirmed) -> None:
    confirmed.batches.add(1, 5, True)
    confirmed.progress.fail()
    assert confirmed.failures == 1
    confirmed.batches.add(2, 6, True)
    assert confirmed.take() == []


def test_nothing_is_said_when_it_is_closed(confirmed: Confirmed) -> None:
    confirmed.batches.add(1, 5, True)
    confirmed.batches.add(2, 0, False)
    confirmed.batches.close()
    assert confirmed.advance(5, 5) == []
    confirmed.progress.fail()
    assert confirmed.failures == 0


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 2), st.booleans()),
        st.tuples(st.just("advance"), st.integers(0, 2), st.integers(0, 2)),
    ),
    max_size=60,
)


@settings(max_examples=examples(300), deadline=None)
@given(STEPS)
def test_confirms_are_what_the_journal_promises(steps: list[tuple[str, int, int]]) -> None:
    confirmed = Confirmed()
    batches: list[tuple[int, bool]] = []  # position, on disk
    position, written, durable = 1, 0, 0
    for what, first, second in steps:
        if what == "add":
            position += max(0, first - 1)
            batches.append((position if first else 0, bool(second)))
            confirmed.batches.add(len(batches), *batches[-1])
        else:
            written = min(position, written + first)
            durable = min(written, durable + second)
            confirmed.progress.advance(written, durable)
        confirmed.take()
        if confirmed.batches.written:
            _check(confirmed.batches, batches, written, durable)
    confirmed.progress.advance(position, position)
    confirmed.take()
    assert (confirmed.batches.written, confirmed.batches.durable) == (len(batches), len(batches))


def _check(
    confirms: BatchConfirms, batches: list[tuple[int, bool]], written: int, durable: int
) -> None:
    def prefix(is_there: Callable[[int, bool], bool]) -> int:
        met = [is_there(*batch) for batch in batches]
        return met.index(False) if False in met else len(met)

    safe = prefix(lambda position, on_disk: position <= (durable if on_disk else written))
    assert confirms.durable == safe
    assert confirms.durable <= confirms.written <= prefix(lambda position, _: position <= written)
    # What takes no disk is confirmed as soon as all before it is written.
    for number, (_, on_disk) in enumerate(batches, 1):
        if not on_disk and number <= prefix(lambda position, _: position <= written):
            assert confirms.written >= number
