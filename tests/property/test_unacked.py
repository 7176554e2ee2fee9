"""Unsettled deliveries against a dictionary from tag to delivery."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from routelog.amqp_front.consuming.unacked import Unacked, UnackedRun, UnknownDeliveryTag
from routelog.log_backend import Reason


class Source:
    """Stands for a partition: only who it is counts here."""

    def settle(self, first: int, end: int, reason: Reason = Reason.ACKED) -> None:
        raise AssertionError

    def give_back(self, first: int, end: int) -> None:
        raise AssertionError

    def delivery_count(self, offset: int) -> int:
        raise AssertionError

    @property
    def ready(self) -> int:
        raise AssertionError

    def on_ready(self) -> None:
        raise AssertionError


@dataclass(eq=False)
class Holder:
    unacked: int = 0


SOURCES = [Source(), Source()]
HOLDERS = [None, Holder(), Holder()]

Delivery = tuple[object, int, object]


def flat(runs: list[UnackedRun]) -> dict[int, Delivery]:
    """Each delivery of some runs by its tag."""
    deliveries: dict[int, Delivery] = {}
    for run in runs:
        assert len(run) > 0
        assert run.end_offset - run.offset == len(run)
        for at in range(len(run)):
            assert run.first_tag + at not in deliveries
            deliveries[run.first_tag + at] = (run.partition, run.offset + at, run.consumer)
    assert list(deliveries) == sorted(deliveries)
    return deliveries


class UnackedAgainstTwin(RuleBasedStateMachine):
    """Random deliveries and settlements, told to both."""

    def __init__(self) -> None:
        super().__init__()
        self.unacked = Unacked()
        self.twin: dict[int, Delivery] = {}
        self.next_tag = 1
        self.next_offsets = [0, 0]

    @rule(
        count=st.integers(1, 8),
        source=st.integers(0, 1),
        holder=st.integers(0, 2),
        skipped=st.sampled_from([0, 0, 0, 1]),
        lost_tags=st.sampled_from([0, 0, 0, 2]),
    )
    def add(self, count: int, source: int, holder: int, skipped: int, lost_tags: int) -> None:
        first = self.next_tag + lost_tags  # deliveries without acks take tags too
        offset = self.next_offsets[source] + skipped
        self.next_tag = first + count
        self.next_offsets[source] = offset + count
        partition, consumer = SOURCES[source], HOLDERS[holder]
        self.unacked.add(UnackedRun(first, first + count, partition, offset, consumer))
        for at in range(count):
            self.twin[first + at] = (partition, offset + at, consumer)

    @rule(data=st.data())
    def take(self, data: st.DataObject) -> None:
        first = data.draw(st.integers(0, self.next_tag))
        last = first + data.draw(st.integers(0, 9))
        wanted = range(first, last + 1)
        missing = next((tag for tag in wanted if tag not in self.twin), None)
        if missing is None:
            taken = flat(self.unacked.take(first, last))
            assert taken == {tag: self.twin.pop(tag) for tag in wanted}
            return
        with pytest.raises(UnknownDeliveryTag) as caught:
            self.unacked.take(first, last)
        assert caught.value.tag == missing

    @rule(data=st.data())
    def take_up_to(self, data: st.DataObject) -> None:
        known = st.sampled_from(sorted(self.twin)) if self.twin else st.nothing()
        last = data.draw(known | st.integers(1, self.next_tag))
        if last not in self.twin:
            with pytest.raises(UnknownDeliveryTag):
                self.unacked.take_up_to(last)
            return
        taken = flat(self.unacked.take_up_to(last))
        assert taken == {tag: self.twin.pop(tag) for tag in sorted(self.twin) if tag <= last}

    @rule(by_zero=st.booleans())
    def take_all(self, by_zero: bool) -> None:
        runs = self.unacked.take_up_to(0) if by_zero else self.unacked.take_all()
        assert flat(runs) == self.twin
        self.twin = {}

    @invariant()
    def both_hold_the_same(self) -> None:
        assert flat(list(self.unacked)) == self.twin
        assert self.unacked.count == len(self.twin)


TestUnackedAgainstTwin = UnackedAgainstTwin.TestCase
TestUnackedAgainstTwin.settings = settings(
    max_examples=100, stateful_step_count=40, deadline=None, derandomize=True
)
