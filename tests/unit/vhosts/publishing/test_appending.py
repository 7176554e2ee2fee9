"""What a run waits for when its queues promise different things, or are at home in different journals."""

from typing import Any, cast

import pytest
from support.loop_services import scheduler_on
from support.queue_samples import records

from routelog.log_backend import NOTHING, Durability, Progress, Records
from routelog.vhosts.errors import PublishRefused
from routelog.vhosts.publishing.appending import QUEUES_BETWEEN_LOOKS, Appending


class Taker:
    """A queue that takes all, at some position of a journal."""

    is_behind = deleted = False

    def __init__(
        self,
        progress: Progress,
        position: int,
        durability: Durability = Durability.DISK,
        refused: tuple[int, ...] = (),
    ) -> None:
        self.progress = progress
        self.position = position
        self.durability = durability
        self.refused = refused
        self.count = 0

    def publish(self, records: Records, waited: bool) -> int:
        """See `Recipient`."""
        self.count += records.count
        if self.refused:
            raise PublishRefused(self.refused, self.position)
        return self.position


def progress() -> Progress:
    return Progress(cast(Any, None), float)


@pytest.fixture
def appending() -> Appending:
    scheduler = scheduler_on(None)
    scheduler.deadline = float("inf")
    made = Appending(scheduler)
    made.begin(True)
    return made


def test_a_run_waits_for_what_each_of_its_queues_promises(appending: Appending) -> None:
    journal = progress()
    takers: list[Any] = [
        Taker(journal, 7, Durability.OS),
        Taker(journal, 5),
        Taker(journal, 0, Durability.MEMORY),
        Taker(journal, 6, refused=(1,)),
    ]
    needed = appending.append_run(records("a", "b"), takers, range(2))
    assert (needed.progress, needed.written, needed.durable) == (journal, 7, 6)
    assert appending.refused == {1: takers[3]}
    assert (appending.queues, appending.routed) == (4, 8)
    assert appending.append_run(records("a"), takers[2:3], range(1)) is NOTHING


def test_a_run_for_queues_of_two_journals_waits_for_both(appending: Appending) -> None:
    one, other = progress(), progress()
    takers: list[Any] = [Taker(one, 3), Taker(other, 9), Taker(one, 4, Durability.OS)]
    needed = appending.append(iter([(records("a"), takers, range(1))]), True)
    one.advance(4, 3)
    assert not needed.is_covered()
    other.advance(9, 9)
    assert needed.is_covered()
    again = appending.append_run(records("a"), takers[1:2], range(1))
    assert (again.progress, again.durable, again.more) == (other, 9, None)


def test_what_takes_several_turns_waits_for_all_of_it_at_last(appending: Appending) -> None:
    one, other = progress(), progress()
    takers: list[Any] = [Taker(one, 2), *(Taker(other, 1) for _ in range(QUEUES_BETWEEN_LOOKS))]
    scheduler = scheduler_on(None)
    scheduler.deadline = 0.0
    hasty = Appending(scheduler)
    hasty.begin(True)
    needed = hasty.append_run(records("a"), takers, range(1))
    assert hasty.is_under_way
    assert not takers[-1].count
    needed = needed.joined(hasty.go_on())
    assert not hasty.is_under_way
    one.advance(2, 2)
    assert not needed.is_covered()
    other.advance(1, 1)
    assert needed.is_covered()
