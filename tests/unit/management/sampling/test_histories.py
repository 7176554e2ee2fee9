"""Many histories share their memory: what changed longest ago goes first."""

from routelog.management.sampling.histories import Histories
from routelog.management.sampling.history import TEN_MINUTES, Stretch

SHORT = [Stretch(10.0, 0.0), Stretch(100.0, 5.0)]


def test_a_history_begins_with_what_is_known_of_the_sample_before() -> None:
    histories = Histories(TEN_MINUTES, 100)
    histories.add("new", 10.0, (5,), (5.0, (0,)))
    histories.add("recovered", 10.0, (5,), (5.0, None))
    lengths = [len(found) for each in ("new", "recovered") if (found := histories.get(each))]
    assert (lengths, histories.get("other")) == ([2, 1], None)


def test_a_rest_ends_where_the_sample_before_was_taken() -> None:
    histories = Histories(TEN_MINUTES, 100)
    histories.add("a", 10.0, (5,), (5.0, (0,)))
    histories.add("a", 60.0, (25,), (55.0, None))
    history = histories.get("a")
    assert history is not None
    assert [history.at(time, [0]) for time in (30.0, 55.0, 57.5, 60.0)] == [5, 5, 15, 25]


def test_what_is_forgotten_makes_room() -> None:
    histories = Histories(TEN_MINUTES, 4)
    for name in "ab":
        histories.add(name, 10.0, (1,), (5.0, (0,)))
    histories.forget("a")
    histories.forget("a")
    for time in (15.0, 20.0):
        histories.add("b", time, (1,), (time - 5, (0,)))
    history = histories.get("b")
    assert history is not None
    assert (len(history), histories.get("a")) == (4, None)


def test_idle_ones_go_before_busy_ones_lose_their_past() -> None:
    histories = Histories(SHORT, 20)
    for time in range(5):
        histories.add("idle", float(time), (time,), (time - 1.0, None))
    for time in range(30):
        histories.add("busy", float(time), (time,), (time - 1.0, None))
        for _ in histories.expired(float(time)):
            pass
    history = histories.get("busy")
    assert histories.get("idle") is None
    assert history is not None
    assert len(history) > 12


def test_with_two_rows_each_the_oldest_ones_go() -> None:
    histories = Histories(SHORT, 20)
    for at in range(30):
        histories.add(at, 10.0 + at / 100, (1,), (5.0, (0,)))
    assert sum(1 for _ in histories.expired(11.0)) > 10
    assert histories.get(0) is None
    assert histories.get(29) is not None
