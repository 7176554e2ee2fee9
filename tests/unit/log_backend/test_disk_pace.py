import pytest

from log_backend.disk_pace import (
    PAUSE_RATIO,
    PAUSE_SECONDS_MAX,
    QUICK_COMMITS_MIN,
    SLOW_SECONDS,
    DiskPace,
)

QUICK = 0.0001


class Clock:
    seconds = 1_000.0

    def now(self) -> int:
        return int(self.seconds * 1e6)

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def pace(clock: Clock) -> DiskPace:
    return DiskPace(clock)


def run_quickly(pace: DiskPace) -> None:
    """As many quick commits of the thread as the loop wants to see."""
    for _ in range(QUICK_COMMITS_MIN):
        pace.took(QUICK, on_loop=False)


def pause(pace: DiskPace, clock: Clock, seconds: float) -> float:
    """How long the loop stays away after a slow commit of its own."""
    pace.took(seconds, on_loop=True)
    run_quickly(pace)
    before = clock.seconds
    while not pace.is_quick():
        clock.seconds += 0.01
    return clock.seconds - before


def test_a_disk_that_nobody_knows_is_not_quick(pace: DiskPace) -> None:
    assert not pace.is_quick()
    for _ in range(QUICK_COMMITS_MIN - 1):
        pace.took(QUICK, on_loop=False)
        assert not pace.is_quick()
    pace.took(QUICK, on_loop=False)
    assert pace.is_quick()


def test_a_slow_commit_of_the_thread_asks_for_as_many_quick_ones_again(pace: DiskPace) -> None:
    run_quickly(pace)
    pace.took(SLOW_SECONDS, on_loop=False)
    assert not pace.is_quick()
    run_quickly(pace)
    assert pace.is_quick()


def test_after_a_slow_commit_of_its_own_the_loop_stays_away(pace: DiskPace, clock: Clock) -> None:
    run_quickly(pace)
    assert pause(pace, clock, 0.02) == pytest.approx(0.02 * PAUSE_RATIO, abs=0.02)


def test_a_pause_is_as_long_as_its_stall_asks_for_and_has_an_end(
    pace: DiskPace, clock: Clock
) -> None:
    run_quickly(pace)
    for stall in (0.01, 0.1, 0.01):
        assert pause(pace, clock, stall) == pytest.approx(stall * PAUSE_RATIO, abs=0.02)
    assert pause(pace, clock, 10.0) == pytest.approx(PAUSE_SECONDS_MAX, abs=0.05)
