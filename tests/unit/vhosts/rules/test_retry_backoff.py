"""Waits before a message is ready again, with a clock that goes when it is told."""

from support.queue_samples import Turns

from routelog.vhosts.messages.delivery import ReturnReason
from routelog.vhosts.rules.retry_backoff import RetryBackoff, RetryOptions, retry_options


class Log:
    """A log that may be closed."""

    closed = False


class Partition:
    """Messages that were delivered some times."""

    def __init__(self, counts: dict[int, int]) -> None:
        self.log = Log()
        self._counts = counts

    def delivery_count(self, offset: int) -> int:
        return self._counts.get(offset, 0)


class RuleServices:
    """The clock and the timers of turns."""

    def __init__(self) -> None:
        self.turns = Turns()
        self.call_later = self.turns.call_later
        self.now = self.turns.clock.now
        self.monotonic = self.turns.clock.monotonic


def waiting(**arguments: object) -> tuple[RuleServices, RetryBackoff, list[tuple[int, int, int]]]:
    around = RuleServices()
    came: list[tuple[int, int, int]] = []
    begin = around.now()
    backoff = RetryBackoff(
        around.monotonic,
        around.call_later,
        lambda partition, first, end: came.append(((around.now() - begin) // 1_000, first, end)),
    )
    hyphened = {f"x-delayed-retry-{key}": value for key, value in arguments.items()}
    backoff.options = retry_options(hyphened)
    return around, backoff, came


def test_arguments_say_what_waits_and_how_long() -> None:
    assert retry_options({}) is None
    assert retry_options({"x-delayed-retry-min": 5}) is None
    assert retry_options({"x-delayed-retry-type": "disabled"}) is None
    both = frozenset((ReturnReason.FAILED, ReturnReason.RETURNED))
    assert retry_options({"x-delayed-retry-type": "all"}) is None
    constant = {"x-delayed-retry-type": "all", "x-delayed-retry-min": 5}
    assert retry_options(constant) == RetryOptions(both, 5_000, 5_000)
    failed = {"x-delayed-retry-type": "failed", "x-delayed-retry-min": 5, "x-delayed-retry-max": 9}
    options = retry_options(failed)
    assert options == RetryOptions(frozenset((ReturnReason.FAILED,)), 5_000, 9_000)
    assert [options.wait(count) for count in (1, 2)] == [5_000, 9_000]


def test_what_no_consumer_failed_with_never_waits() -> None:
    _, backoff, _ = waiting(type="all", min=1_000)
    assert [backoff.holds(each) for each in ReturnReason] == [True, True, False, False]


def test_a_wait_grows_with_the_deliveries_and_none_ends_early() -> None:
    around, backoff, came = waiting(type="all", min=1_000, max=3_000)
    backoff.hold(Partition({1: 1, 2: 2, 3: 9}), 0, 4)
    assert backoff.count == 4
    around.turns.pass_seconds(10)
    assert backoff.count == 0
    assert [(first, end) for _, first, end in came] == [(0, 1), (1, 2), (2, 4)]
    for (at, _, _), wait in zip(came, (1_000, 2_000, 3_000), strict=True):
        assert wait <= at <= wait * 1.01 + 1


def test_neighbours_wait_together_as_one() -> None:
    around, backoff, came = waiting(type="all", min=1_000)
    partition = Partition({})
    for offset in range(1_000):
        backoff.hold(partition, offset, offset + 1)
        around.turns.clock.microseconds += 5
    around.turns.pass_seconds(2)
    assert len(came) <= 2
    assert sum(end - first for _, first, end in came) == 1_000


def test_a_partition_that_is_gone_gets_nothing_back() -> None:
    around, backoff, came = waiting(type="all", min=1_000)
    partition = Partition({})
    backoff.hold(partition, 0, 5)
    partition.log.closed = True
    around.turns.pass_seconds(2)
    assert (came, backoff.count) == ([], 0)


def test_there_is_one_timer_and_none_after_the_end() -> None:
    around, backoff, came = waiting(type="all", min=1_000)
    for offset in (0, 5, 9):
        backoff.hold(Partition({offset: offset}), offset, offset + 1)
        assert around.turns.waiting == 1
    backoff.stop()
    around.turns.pass_seconds(60)
    assert (came, around.turns.waiting, backoff.count) == ([], 0, 0)


def test_when_nothing_waits_any_more_what_comes_back_is_ready() -> None:
    around, backoff, came = waiting(type="all", min=1_000)
    backoff.hold(Partition({}), 0, 1)
    backoff.options = None
    backoff.hold(Partition({}), 7, 8)
    assert [each[1:] for each in came] == [(7, 8)]
    around.turns.pass_seconds(2)
    assert [each[1:] for each in came] == [(7, 8), (0, 1)]


def test_a_clock_on_the_wall_that_is_set_changes_no_wait() -> None:
    around, backoff, _ = waiting(type="all", min=5_000)
    wall = [10**15]
    around.now = lambda: wall[0]
    came: list[tuple[int, int]] = []
    backoff._make_ready = lambda partition, first, end: came.append((first, end))
    hour = 3_600_000_000
    for set_by in (-hour, 2 * hour):
        backoff.hold(Partition({}), 0, 1)
        wall[0] += set_by
        around.turns.pass_seconds(4.9)
        assert came == []
        around.turns.pass_seconds(0.2)
        assert came.pop() == (0, 1)
