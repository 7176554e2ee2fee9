"""Deliveries in the order of their tags, when a transaction had taken some in any order; step by step."""

from collections import defaultdict
from collections.abc import Sequence

from routelog.amqp_front.consuming.unacked import UnackedRun, first_tag

STEP_RUNS = 1_024
BUCKET_TAGS = 1_024  # so many tags are sorted at once


class TagOrder:
    """Puts deliveries in order.

    Attributes:
        ordered: in order, those that have been.

    Args:
        lists: of deliveries, in any order; they are not the caller's any more.
    """

    def __init__(self, lists: Sequence[list[UnackedRun]]) -> None:
        self.ordered: list[UnackedRun] = []
        self._lists = list(lists)
        self._buckets: defaultdict[int, list[UnackedRun]] = defaultdict(list)
        self._numbers: list[int] | None = None  # of the buckets that are left, in falling order

    def step(self) -> bool:
        """Do some of it; returns whether there was anything to do."""
        if self._lists:
            self._share_out()
        elif self._numbers is None:
            self._numbers = sorted(self._buckets, reverse=True)
        elif self._numbers:
            bucket = self._buckets.pop(self._numbers.pop())
            bucket.sort(key=first_tag)
            self.ordered += bucket
        else:
            return False
        return True

    def take_all(self) -> list[list[UnackedRun]]:
        """All deliveries, in no order; nothing is left to do."""
        lists = [self.ordered, *self._buckets.values(), *self._lists]
        self.ordered, self._lists, self._numbers = [], [], []
        self._buckets.clear()
        return lists

    def _share_out(self) -> None:
        runs, buckets = self._lists[-1], self._buckets
        for run in runs[-STEP_RUNS:]:
            buckets[run.first_tag // BUCKET_TAGS].append(run)
        del runs[-STEP_RUNS:]
        if not runs:
            self._lists.pop()
