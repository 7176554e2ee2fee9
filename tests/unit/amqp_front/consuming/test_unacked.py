"""Unsettled deliveries: the cases that clients meet; tests/property compares with a dictionary."""

from collections.abc import Sequence

import pytest

from routelog.amqp_front.consuming.unacked import Unacked, UnackedRun, UnknownDeliveryTag
from routelog.log_backend import PartitionLog, Reason
from routelog.vhosts import Delivery, ReturnReason


class Source:
    ready = 0

    @property
    def log(self) -> PartitionLog:
        raise AssertionError

    def settle(self, first: int, end: int, reason: Reason = Reason.ACKED) -> None: ...
    def give_back(
        self, first: int, end: int, reason: ReturnReason = ReturnReason.UNUSED
    ) -> None: ...
    def on_ready(self) -> None: ...
    def redeliver(self, *arguments: object) -> tuple[int, Sequence[Delivery]]:
        raise AssertionError

    def delivery_count(self, offset: int) -> int:
        return 0


SOURCE = Source()


def with_tags(*spans: tuple[int, int]) -> Unacked:
    """Spans of tags [first, end), each at offset 10 * first."""
    unacked = Unacked()
    for first, end in spans:
        unacked.add(UnackedRun(first, end, SOURCE, 10 * first, None))
    return unacked


def tags(runs: list[UnackedRun]) -> list[tuple[int, int, int]]:
    return [(run.first_tag, run.end_tag, run.offset) for run in runs]


def test_deliveries_that_follow_each_other_are_one_run() -> None:
    unacked = Unacked()
    for tag in range(1, 1001):
        unacked.add(UnackedRun(tag, tag + 1, SOURCE, 70 + tag, None))
    assert tags(list(unacked)) == [(1, 1001, 71)]
    assert unacked.count == 1000


def test_a_settlement_in_the_middle_leaves_both_sides() -> None:
    unacked = with_tags((1, 11))
    assert tags(unacked.take(4, 6)) == [(4, 7, 13)]
    assert tags(list(unacked)) == [(1, 4, 10), (7, 11, 16)]


def test_a_tag_is_settled_once() -> None:
    unacked = with_tags((1, 4))
    unacked.take(2, 2)
    with pytest.raises(UnknownDeliveryTag) as caught:
        unacked.take(2, 2)
    assert str(caught.value) == "unknown delivery tag 2"


def test_a_run_of_settlements_with_an_unknown_tag_settles_nothing() -> None:
    unacked = with_tags((1, 3), (5, 9))
    with pytest.raises(UnknownDeliveryTag):
        unacked.take(1, 6)
    assert tags(list(unacked)) == [(1, 3, 10), (5, 9, 50)]
    assert unacked.count == 6


def test_up_to_a_tag_takes_all_before_it() -> None:
    unacked = with_tags((1, 3), (5, 9))
    assert tags(unacked.take_up_to(6)) == [(1, 3, 10), (5, 7, 50)]
    assert unacked.count == 2


def test_up_to_0_takes_everything_even_when_there_is_nothing() -> None:
    unacked = with_tags((1, 3), (5, 9))
    assert tags(unacked.take_up_to(0)) == [(1, 3, 10), (5, 9, 50)]
    assert unacked.take_up_to(0) == []


def test_the_first_deliveries_below_a_tag_stay() -> None:
    unacked = with_tags((1, 6), (8, 9))
    first = unacked.first_below(4)
    assert first is not None
    assert (first.first_tag, first.end_tag, unacked.count) == (1, 4, 6)
    assert unacked.first_below(1) is None


def test_tag_0_alone_is_unknown() -> None:
    with pytest.raises(UnknownDeliveryTag):
        with_tags((1, 3)).take(0, 0)


@pytest.mark.parametrize("tag", [3, 4, 9, 2**64 - 1])
def test_up_to_an_unknown_tag_takes_nothing(tag: int) -> None:
    unacked = with_tags((1, 3), (5, 9))
    with pytest.raises(UnknownDeliveryTag):
        unacked.take_up_to(tag)
    assert unacked.count == 6


class Consumer:
    """Who holds deliveries."""

    unacked = lapsed = 0


def test_a_lease_ends_below_a_tag_for_one_consumer_and_its_tags_stay_known() -> None:
    mine, other = Consumer(), Consumer()
    unacked = Unacked()
    for first, end, holder in ((1, 6, mine), (6, 8, other), (8, 11, mine)):
        unacked.add(UnackedRun(first, end, SOURCE, 100 + first, holder))

    def ended(
        below: int, first: int = 0, runs_max: int = 100
    ) -> tuple[list[tuple[int, int, int]], int]:
        runs, following = unacked.end_leases({mine: below}, {}, first, runs_max)
        return tags(runs), following

    assert ended(3) == ([(1, 3, 101)], 11)
    assert ended(3) == ([], 11)
    assert ended(10, 0, 2) == ([(3, 6, 103)], 6)
    assert ended(10, 6) == ([(8, 10, 108)], 11)
    assert ended(10, 11) == ([], 11)
    assert unacked.count == 10
    mine.lapsed = 7
    late = unacked.take_up_to(10)
    assert [run.partition is SOURCE for run in late] == [False, False, True, False, True]
    late[0].partition.settle(1, 3)  # SOURCE would count on neither
    late[1].partition.give_back(3, 6)
    assert late[3].partition.redeliver(8, 10, 1, lambda: None) == (2, ())
    assert mine.lapsed == 0
    assert unacked.count == 0
    with pytest.raises(UnknownDeliveryTag):
        unacked.take(1, 1)


def test_what_is_put_back_is_in_its_place_again() -> None:
    unacked = Unacked()
    for tag in range(1, 10, 2):
        unacked.add(UnackedRun(tag, tag + 1, Source(), tag, None))
    taken = [run for tag in (7, 3) for run in unacked.take(tag, tag)]
    unacked.put_back(taken)
    assert [run.first_tag for run in unacked] == [1, 3, 5, 7, 9]
    assert unacked.take(5, 5)[0].offset == 5


@pytest.mark.parametrize("missing", [None, 1, 40, 99, 100])
def test_very_many_single_tags_are_taken_when_all_are_there(missing: int | None) -> None:
    here = [tag for tag in range(1, 101) if tag != missing]
    unacked = Unacked()
    for tag in here:
        unacked.add(UnackedRun(tag, tag + 1, SOURCE, 2 * tag, None))
    if missing is None:
        assert tags(unacked.take(2, 99)) == [(tag, tag + 1, 2 * tag) for tag in range(2, 100)]
        assert [run.first_tag for run in unacked] == [1, 100]
        return
    with pytest.raises(UnknownDeliveryTag) as caught:
        unacked.take(1, 100)
    assert caught.value.tag == missing
    assert unacked.count == 99


def test_what_is_put_back_below_stands_before_what_came_meanwhile() -> None:
    unacked = with_tags((10, 12))
    unacked.put_below([UnackedRun(1, 3, SOURCE, 5, None)])
    assert tags(list(unacked)) == [(1, 3, 5), (10, 12, 100)]
