"""What a transaction had taken is unsettled again, in turns where it is very much."""

import asyncio
import random
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from support.loop_services import ended_in_turn, scheduler_on
from unit.amqp_front.publishing_channel import HastyClock

from routelog.amqp_front.consuming import tag_order, unacked
from routelog.amqp_front.consuming.unacked import Unacked, UnackedRun
from routelog.amqp_front.transactions.rollback import Rollback, rolled_back
from routelog.log_backend import Lane

SOURCE: Any = object()


def single(tag: int) -> UnackedRun:
    """A delivery that is nobody's neighbour."""
    return UnackedRun(tag, tag + 1, SOURCE, 2 * tag, None)


def holding(tags: Sequence[int]) -> Unacked:
    """Unsettled deliveries."""
    held = Unacked()
    for tag in tags:
        held.add(single(tag))
    return held


def taken_of(held: Unacked, tags: Sequence[int]) -> list[UnackedRun]:
    """Deliveries that a transaction takes, one by one."""
    return [run for tag in tags for run in held.take(tag, tag)]


def tags_of(held: Unacked) -> list[int]:
    """The tags of what is unsettled."""
    return [run.first_tag for run in held]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few deliveries are many."""
    for module, limit in (
        (tag_order, "STEP_RUNS"),
        (tag_order, "BUCKET_TAGS"),
        (unacked, "SORTED_AT_ONCE_MAX"),
    ):
        monkeypatch.setattr(module, limit, 4)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("turns_max", [0, 3, 7, 1_000])
async def test_they_come_back_in_the_order_of_their_tags(seed: int, turns_max: int) -> None:
    chance = random.Random(seed)
    held = holding(tags := sorted(chance.sample(range(1, 200), 40)))
    chance.shuffle(mixed := tags[:])
    lists = [taken_of(held, mixed[:20]), taken_of(held, mixed[20:30])]
    scheduler = scheduler_on(asyncio.get_running_loop(), HastyClock())
    steps, turns = Rollback(held, lists).steps(scheduler), 0
    while turns < turns_max and not ended_in_turn(steps, scheduler):
        turns += 1
        held.add(single(1_000 + turns))  # delivered meanwhile
    scheduler.run(steps, Lane.JOBS)
    scheduler.finish()  # the broker stops
    assert turns == turns_max or turns > 10
    assert tags_of(held) == tags + [1_000 + turn + 1 for turn in range(turns)]


def test_one_turn_is_enough_when_there_is_time() -> None:
    held = holding(range(1, 30))
    scheduler = scheduler_on(None)
    steps = Rollback(held, [taken_of(held, range(1, 30, 2))]).steps(scheduler)
    assert ended_in_turn(steps, scheduler)
    assert tags_of(held) == list(range(1, 30))


@pytest.mark.parametrize(("count", "taken"), [(3, 1), (100, 2), (100, 50)])
async def test_few_come_back_at_once(count: int, taken: int) -> None:
    loop = asyncio.get_running_loop()
    services: Any = SimpleNamespace(scheduler=scheduler_on(loop, HastyClock()))
    held = holding(tags := range(1, count + 1))
    begun = rolled_back(held, [taken_of(held, tags[-taken:])], services)
    assert (begun is None) == (taken < 50)
    if begun is not None:
        await begun[1]
    assert tags_of(held) == list(tags)
