"""What leaves very many queues does so in several turns; neighbours in a queue leave as one."""

import asyncio
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from support.loop_services import ended_in_turn, scheduler_on
from support.queue_samples import SetClock

from routelog.amqp_front.consuming import settling as settling_module
from routelog.amqp_front.consuming.settling import (
    MESSAGES_MAX,
    PIECE_MESSAGES,
    PIECE_RANGES,
    RUNS_MAX,
    Settling,
    are_few,
)
from routelog.amqp_front.consuming.unacked import UnackedRun
from routelog.log_backend import Reason, SettledPart, Settlement
from routelog.log_backend.journal.journal_entry import entry_places
from routelog.log_backend.loop.scheduler import SHARE_SECONDS, Lane
from routelog.vhosts import UNCOUNTED, ReturnReason

QUEUES = 200
EACH = 10  # deliveries of each queue, by turns


class Source:
    """A partition that notes what leaves it; each range takes so many seconds of the clock."""

    counters = UNCOUNTED

    def __init__(self, clock: SetClock, seconds: float = 0.0) -> None:
        self.ranges: list[tuple[int, int]] = []
        self.outcomes: set[object] = set()
        self.paused = self.resumed = self.woken = 0
        self.fails = self.keeps = False
        self.known: Sequence[SettledPart] = ()
        self._clock = clock
        self._seconds = seconds

    def give_back(self, first: int, end: int, outcome: object) -> None:
        """See `DeliverySource`."""
        assert self.paused > self.resumed
        self.settle(first, end, outcome)

    def settle(self, first: int, end: int, outcome: object) -> None:
        """See `DeliverySource`."""
        self._clock.microseconds += round(self._seconds * 1_000_000)
        self.ranges.append((first, end))
        self.outcomes.add(outcome)
        if self.fails:
            raise OSError("no disk")

    def pause(self) -> None:
        """See `DeliverySource`."""
        self.paused += 1

    def resume(self) -> None:
        """See `DeliverySource`."""
        self.resumed += 1

    def on_ready(self) -> None:
        """See `DeliverySource`."""
        self.woken += 1

    def settlement(self, ranges: Sequence[tuple[int, int]], reason: Reason) -> SettledPart | None:
        """See `DeliverySource`."""
        return None if self.keeps else SettledPart(7, Settlement(0, ranges, reason))

    def committed(self, settled: Sequence[SettledPart]) -> None:
        """See `DeliverySource`."""
        self.known = settled

    def carried_out(self, settled: Sequence[SettledPart]) -> None:
        """See `DeliverySource`."""
        assert settled is self.known
        self.known = ()


class Holdings:
    """How many turns it was, and what each consumer let go of."""

    vhost: Any = None
    counters = UNCOUNTED

    def __init__(self) -> None:
        self.turns = 0
        self.let_go_of: Counter[object] = Counter()

    def begin_turn(self) -> None:
        """See `settling.Holdings`."""
        self.turns += 1

    def let_go(self, holder: Any, count: int) -> None:
        """See `settling.Holdings`."""
        self.let_go_of[holder] += count


def run(tag: int, source: object, offset: int, holder: object = None, count: int = 1) -> UnackedRun:
    return UnackedRun(tag, tag + count, cast(Any, source), offset, cast(Any, holder))


@pytest.fixture
async def services() -> Any:
    clock = SetClock()
    scheduler = scheduler_on(asyncio.get_running_loop(), clock)
    return SimpleNamespace(settlings=deque(), clock=clock, scheduler=scheduler)


@pytest.fixture
def sources(services: Any) -> list[Source]:
    return [Source(services.clock, 0.4 * SHARE_SECONDS[Lane.JOBS]) for _ in range(QUEUES)]


def held(sources: list[Source]) -> list[UnackedRun]:
    """Deliveries of all queues by turns, neighbours in each."""
    count = len(sources)
    return [run(tag, sources[tag % count], tag // count) for tag in range(EACH * count)]


def begun(
    services: Any, runs: list[UnackedRun], outcome: Any = ReturnReason.RETURNED
) -> tuple[Settling, Holdings]:
    holdings = Holdings()
    settling = Settling(holdings, runs, outcome, services)
    services.settlings.append(settling)
    return settling, holdings


def turns_of(settling: Settling, steps: Iterator[None] | None = None) -> Iterator[None]:
    """Each turn that it takes but the last one."""
    steps = settling.steps() if steps is None else steps
    while not ended_in_turn(steps, settling.services.scheduler):
        yield


def finish(settling: Settling, steps: Iterator[None] | None = None) -> None:
    for _ in turns_of(settling, steps):
        pass


@pytest.mark.parametrize("outcome", [Reason.REJECTED, ReturnReason.FAILED])
def test_a_turn_ends_when_its_time_is_over(
    services: Any, sources: list[Source], outcome: object
) -> None:
    settling, holdings = begun(services, held(sources), outcome)
    before, most = 0, 0
    for _ in turns_of(settling):
        done = sum(len(source.ranges) for source in sources)
        before, most = done, max(most, done - before)
    assert most == 3
    assert holdings.turns >= QUEUES // 3
    assert all(source.ranges == [(0, EACH)] for source in sources)
    assert all(source.outcomes == {outcome} for source in sources)
    assert not services.settlings


def test_a_queue_that_gets_its_own_back_is_paused_until_it_has_all(services: Any) -> None:
    source = Source(services.clock, SHARE_SECONDS[Lane.JOBS] / PIECE_RANGES)
    runs = [run(tag, source, 2 * tag) for tag in range(3 * PIECE_RANGES)]
    settling, _ = begun(services, runs)
    steps = settling.steps()
    assert not ended_in_turn(steps, services.scheduler)
    assert (len(source.ranges), source.paused, source.resumed) == (PIECE_RANGES, 1, 0)
    finish(settling, steps)
    assert source.ranges == [(2 * tag, 2 * tag + 1) for tag in range(3 * PIECE_RANGES)]
    assert (source.paused, source.resumed, source.woken) == (1, 1, 0)


def test_a_queue_whose_deliveries_are_settled_goes_on_meanwhile(services: Any) -> None:
    source = Source(services.clock)
    settling, _ = begun(services, [run(1, source, 0)], Reason.ACKED)
    finish(settling)
    assert (source.paused, source.resumed, source.woken) == (0, 0, 1)


def test_what_a_commit_that_failed_was_to_settle_comes_back(services: Any) -> None:
    source = Source(services.clock)
    settling, _ = begun(services, held([source]), Reason.ACKED)
    while settling.prepare_some():
        pass
    settling.failed()
    finish(settling)
    assert (source.ranges, source.outcomes) == ([(0, EACH)], {ReturnReason.FAILED})


def test_a_long_run_leaves_in_pieces(services: Any) -> None:
    source = Source(services.clock, SHARE_SECONDS[Lane.JOBS])
    settling, holdings = begun(services, [run(1, source, 7, "mine", 2 * PIECE_MESSAGES + 1)])
    steps = settling.steps()
    assert not ended_in_turn(steps, services.scheduler)
    assert source.ranges == [(7, 7 + PIECE_MESSAGES)]
    finish(settling, steps)
    assert source.ranges[-1] == (7 + 2 * PIECE_MESSAGES, 8 + 2 * PIECE_MESSAGES)
    assert holdings.let_go_of == {"mine": 2 * PIECE_MESSAGES + 1}


def test_one_begins_when_the_one_before_it_has_ended(services: Any, sources: list[Source]) -> None:
    half = QUEUES // 2
    earlier, _ = begun(services, held(sources[:half]))
    later, holdings = begun(services, held(sources[half:]))
    steps = later.steps()
    assert not ended_in_turn(steps, services.scheduler)
    assert holdings.turns == 0
    finish(earlier)
    finish(later, steps)
    assert sources[-1].ranges == [(0, EACH)]


def test_a_broker_that_stops_settles_what_is_left(services: Any, sources: list[Source]) -> None:
    half = QUEUES // 2
    earlier, _ = begun(services, held(sources[:half]))
    later, _ = begun(services, held(sources[half:]))
    steps = earlier.steps()
    assert not ended_in_turn(steps, services.scheduler)
    for each in (later.steps(), steps):
        services.scheduler.run(each, Lane.JOBS)
    services.scheduler.finish()
    assert all(source.ranges == [(0, EACH)] for source in sources)
    assert not services.settlings


def test_a_queue_that_fails_keeps_nothing_from_the_others(
    services: Any, sources: list[Source]
) -> None:
    failing = sources[QUEUES // 2]
    failing.fails = True
    settling, _ = begun(services, held(sources))
    with pytest.raises(OSError, match="no disk"):
        finish(settling)
    assert all(source.ranges == [(0, EACH)] for source in sources)
    assert failing.resumed == 1
    assert not services.settlings


def test_neighbours_leave_as_one_whoever_held_them_and_whatever_was_delivered_between_them(
    services: Any,
) -> None:
    one, other = Source(services.clock), Source(services.clock)
    places = [(one, 5), (other, 7), (one, 6), (other, 8), (one, 7), (one, 9)]
    holders = ["first", "first", "second", "first", None, "second"]
    runs = [run(tag, *place, holders[tag]) for tag, place in enumerate(places)]
    settling, holdings = begun(services, runs)
    settling.at_once()
    assert one.ranges == [(5, 8), (9, 10)]
    assert other.ranges == [(7, 9)]
    assert holdings.let_go_of == {"first": 3, "second": 2}


def entries_of(settling: Settling) -> list[list[tuple[int, int]]]:
    """The ranges of each entry that is prepared."""
    content = memoryview(settling.entries.content)
    found: list[list[tuple[int, int]]] = []
    for _, partition, begin, end in entry_places(content):
        assert partition == 7
        found.append(list(Settlement.decode(content[begin:end]).ranges))
    assert len(found) == settling.entries.count
    return found


def test_what_the_journal_may_know_is_encoded_in_pieces_and_told_of_until_it_is_settled(
    services: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settling_module, "PREPARED_RANGES", 2)
    one, other, none = (Source(services.clock) for _ in range(3))
    none.keeps = True
    runs = [run(tag, (one, other, none)[tag % 3], tag) for tag in range(12)]
    settling, _ = begun(services, runs, Reason.REJECTED)
    steps = 1
    while settling.prepare_some():
        steps += 1
    assert steps > 5
    assert sorted(entries_of(settling)) == [
        [(0, 1), (3, 4)],
        [(1, 2), (4, 5)],
        [(6, 7), (9, 10)],
        [(7, 8), (10, 11)],
    ]
    assert settling.is_prepared()
    settling.committed()
    assert [len(source.known) for source in (one, other, none)] == [2, 2, 0]
    finish(settling)
    assert [len(source.ranges) for source in (one, other, none)] == [4, 4, 4]
    assert not any(source.known for source in (one, other, none))


@pytest.mark.parametrize("keeps", [True, False])
def test_a_queue_that_begins_or_ends_to_keep_what_is_rejected_has_all_prepared_anew(
    services: Any, keeps: bool
) -> None:
    source, other = Source(services.clock), Source(services.clock)
    source.keeps = not keeps
    settling, _ = begun(services, [run(1, source, 0), run(2, other, 5)], Reason.REJECTED)
    while settling.prepare_some():
        pass
    source.keeps = keeps
    assert not settling.is_prepared()
    while settling.prepare_some():
        pass
    assert settling.is_prepared()
    assert sorted(entries_of(settling)) == ([] if keeps else [[(0, 1)]]) + [[(5, 6)]]


def test_few_deliveries_need_no_turns() -> None:
    source = object()
    few = [run(tag, source, 2 * tag) for tag in range(RUNS_MAX)]
    assert are_few([])
    assert are_few(few)
    assert not are_few([*few, run(RUNS_MAX, source, 0)])
    assert are_few([run(1, source, 0, count=MESSAGES_MAX)])
    assert not are_few([run(1, source, 0, count=MESSAGES_MAX + 1)])
