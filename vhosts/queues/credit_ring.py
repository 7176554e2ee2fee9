# cython: annotation_typing=False, wraparound=True
# mypy: allow-untyped-decorators, no-warn-return-any, disable-error-code="index,name-defined"
"""Whose turn is next among the consumers of a queue: those with credit stand in a ring, by priority."""

from bisect import insort
from collections import deque
from collections.abc import Collection

import cython

from routelog.vhosts.messages.consumer import Consumer


@cython.final
@cython.cclass
class CreditRing:
    """The consumers that may have credit, by priority; of each priority the one that waited longest is next.

    A consumer that is found without credit leaves the ring, so that nobody looks at it again before it
    `has_credit`: a thousand consumers with full hands cost nothing.
    """

    __slots__ = ("_priorities", "_rings", "_spent")

    def __init__(self) -> None:
        self._rings: dict[int, deque[Consumer]] = {}
        self._priorities: list[int] = []  # rising, negated: the highest comes first
        self._spent: dict[Consumer, None] = {}  # found without credit, in that order

    @cython.ccall
    def add(self, consumer: Consumer) -> None:
        """Add a consumer, behind those of its priority."""
        ring = self._rings.get(consumer.priority)
        if ring is None:
            ring = self._rings[consumer.priority] = deque()
            insort(self._priorities, -consumer.priority)
        ring.append(consumer)

    def remove(self, gone: Collection[Consumer]) -> None:
        """Remove consumers; unknown ones are ignored."""
        for consumer in gone:
            self._spent.pop(consumer, None)
        for ring in self._rings.values():
            if any(consumer in gone for consumer in ring):
                kept = [consumer for consumer in ring if consumer not in gone]
                ring.clear()
                ring.extend(kept)
        # Clients may use the time as their priority.
        for priority in {consumer.priority for consumer in gone}:
            if priority in self._rings and not self._rings[priority]:
                del self._rings[priority]
                self._priorities.remove(-priority)

    @cython.ccall
    @cython.locals(credit=cython.longlong)
    def next(self) -> tuple[Consumer | None, int]:
        """The next consumer that has credit, and how much; None and 0 when none has any."""
        for negated in self._priorities:
            ring = self._rings[-negated]
            while ring:
                consumer = ring[0]
                credit = consumer.credit()
                if credit > 0:
                    ring.rotate(-1)
                    return consumer, credit
                self._spent[ring.popleft()] = None
        return None, 0

    def credit(self, wanted: int) -> int:
        """How many messages the consumers would take; more than are wanted need not be counted."""
        found = 0
        for ring in self._rings.values():
            passed = 0
            while found < wanted and passed < len(ring):
                credit = ring[0].credit()
                if credit > 0:
                    found += credit
                    passed += 1
                    ring.rotate(-1)
                else:
                    self._spent[ring.popleft()] = None
            ring.rotate(passed)  # who is next stays so
        return found

    @cython.ccall
    def spend(self, consumer: Consumer) -> None:
        """The consumer that was `next` has used all its credit."""
        ring = self._rings.get(consumer.priority)
        if ring and ring[-1] is consumer:  # it may have left meanwhile
            self._spent[ring.pop()] = None

    @cython.ccall
    @cython.returns(cython.longlong)
    @cython.exceptval(-1, check=True)
    def size(self, priority: int) -> int:
        """How many consumers of a priority may have credit."""
        return len(self._rings[priority])

    @cython.ccall
    def has_credit(self, consumer: Consumer) -> None:
        """A consumer may have credit again; one that is no consumer here is ignored."""
        if consumer in self._spent:
            del self._spent[consumer]
            self.add(consumer)

    def have_credit(self) -> None:
        """All consumers may have credit again."""
        spent, self._spent = self._spent, {}
        for consumer in spent:
            self.add(consumer)
