import pytest

from routelog.log_backend.journal.disk_pace import (
    CREDIT_SECONDS_MAX,
    PAUSE_SECONDS_MAX,
    QUICK_COMMITS_MIN,
    SLOW_SECONDS,
    SLOW_SHARE,
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


def test_a_stall_now_and_then_sends_the_loop_away_for_a_few_commits_only(
    pace: DiskPace, clock: Clock
) -> None:
    run_quickly(pace)
    for _ in range(20):
        assert pause(pace, clock, 0.01) == 0
        clock.seconds += 0.01 / SLOW_SHARE


def test_stalls_may_take_what_was_saved_up_and_then_their_share_of_the_time(
    pace: DiskPace, clock: Clock
) -> None:
    run_quickly(pace)
    stalls = round(CREDIT_SECONDS_MAX / 0.01)
    assert [pause(pace, clock, 0.01) for _ in range(stalls)] == [0] * stalls
    for _ in range(3):
        assert pause(pace, clock, 0.01) == pytest.approx(0.01 / SLOW_SHARE, abs=0.02)


def test_nothing_is_saved_up_beyond_its_limit(pace: DiskPace, clock: Clock) -> None:
    run_quickly(pace)
    clock.seconds += 1_000
    stall = CREDIT_SECONDS_MAX + 0.01
    assert pause(pace, clock, stall) == pytest.approx(0.01 / SLOW_SHARE, abs=0.02)


def test_a_pause_has_an_end(pace: DiskPace, clock: Clock) -> None:
    run_quickly(pace)
    assert pause(pace, clock, 1_000.0) == pytest.approx(PAUSE_SECONDS_MAX, abs=0.05)
