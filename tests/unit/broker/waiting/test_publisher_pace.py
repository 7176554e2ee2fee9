"""Who adds to a backlog waits for consumers, and not for ever."""

from functools import partial
from typing import Any, cast

from queue_samples import Turns

from routelog.broker.loop.cork import Cork
from routelog.broker.waiting.publisher_pace import WAIT_SECONDS_MAX, PublisherPace


class Backlog:
    """What a pace wants of a queue."""

    on_caught_up: Any = None


def pace_and_turns() -> tuple[PublisherPace, Turns]:
    turns = Turns()
    return PublisherPace(cast(Any, turns), Cork()), turns


def test_who_waits_goes_on_when_its_queue_has_caught_up() -> None:
    (pace, _), queue, another = pace_and_turns(), Backlog(), Backlog()
    told: list[str] = []
    pace.when_caught_up(cast(Any, queue), partial(told.append, "first"))
    pace.when_caught_up(cast(Any, queue), partial(told.append, "second"))
    pace.when_caught_up(cast(Any, another), partial(told.append, "other"))
    waited = pace.wait(cast(Any, queue))
    assert told == []
    queue.on_caught_up()
    assert (told, waited.done()) == (["first", "second"], True)
    queue.on_caught_up()
    assert told == ["first", "second"]


def test_nobody_waits_longer_than_the_most() -> None:
    (pace, turns), queue = pace_and_turns(), Backlog()
    told: list[str] = []
    pace.when_caught_up(cast(Any, queue), partial(told.append, "first"))
    waited = pace.wait(cast(Any, queue))
    turns.pass_seconds(WAIT_SECONDS_MAX / 2)
    assert (told, waited.done()) == ([], False)
    turns.pass_seconds(WAIT_SECONDS_MAX / 2)
    assert (told, waited.done(), turns.waiting) == (["first"], True, 0)
    assert queue.on_caught_up is None
