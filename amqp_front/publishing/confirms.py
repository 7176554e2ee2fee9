# cython: annotation_typing=False, wraparound=True
# mypy: allow-untyped-decorators, no-warn-return-any, disable-error-code="index,name-defined"
"""Publisher confirms of a channel: which publishes wait for which receipts."""

from collections import deque
from collections.abc import Collection

import cython

from routelog.log_backend.journal.receipt import Receipt


@cython.final
@cython.cclass
class Confirms:
    """Publishes in order, each waiting until its receipt is covered.

    A confirm covers everything before it (`multiple`), so a publish is confirmed when it and all
    before it have what they wait for.

    Attributes:
        next_tag: delivery tag of the next publish.
        answered: how many publishes the last tag that was taken is for.
    """

    __slots__ = ("_confirmed", "_waiting", "answered", "next_tag")

    def __init__(self) -> None:
        self.next_tag = 1
        self._confirmed = 0
        self.answered = 0
        # Last tag, and what it needs; None: it is refused.
        self._waiting: deque[tuple[int, Receipt | None]] = deque()

    @cython.ccall
    @cython.locals(count=cython.longlong, last=cython.longlong)
    def add(self, count: int, needed: Receipt | None) -> None:
        """Count publishes that are confirmed when what they need is covered.

        Args:
            needed: None: a full queue has refused them.
        """
        self.next_tag += count
        last = self.next_tag - 1
        if self._waiting and self._waiting[-1][1] is needed:  # publishes of one block have the same
            self._waiting[-1] = (last, needed)
        else:
            self._waiting.append((last, needed))

    def add_refused(self, count: int, refused: Collection[int], needed: Receipt) -> None:
        """Count publishes as `add`, some of which, by index, a full queue has refused."""
        at = 0
        for index in sorted(refused):
            if at < index:
                self.add(index - at, needed)
            self.add(1, None)
            at = index + 1
        if at < count:
            self.add(count - at, needed)

    @property
    def count(self) -> int:
        """Publishes that wait."""
        return self.next_tag - 1 - self._confirmed

    @cython.ccall
    def needed(self) -> Receipt | None:
        """What the first publishes wait for; None: they are refused, or none waits."""
        return self._waiting[0][1] if self._waiting else None

    @cython.ccall
    @cython.locals(last=cython.longlong, needed=Receipt)
    def take_covered(self) -> tuple[int, bool] | None:
        """The tag up to which publishes can be confirmed, and whether that is more than one.

        Returns:
            None when there is nothing to confirm.
        """
        last = 0
        while self._waiting:
            needed = self._waiting[0][1]
            if needed is None or not needed.is_covered():
                break
            last = self._waiting.popleft()[0]
        return self._settled(last)

    def take_refused(self) -> tuple[int, bool] | None:
        """As `take_covered`, of publishes that were refused and behind which none waits any more."""
        last = 0
        if self._waiting and self._waiting[0][1] is None:
            last = self._waiting.popleft()[0]
        return self._settled(last)

    def take_late(self) -> tuple[int, bool] | None:
        """As `take_covered`, of publishes that need what a journal should have had long ago, and has not."""
        last = 0
        while self._waiting:
            needed = self._waiting[0][1]
            if needed is None or not needed.is_late():
                break
            last = self._waiting.popleft()[0]
        return self._settled(last)

    @cython.cfunc
    @cython.locals(last=cython.longlong)
    def _settled(self, last: int) -> tuple[int, bool] | None:
        if not last:
            return None
        self.answered = last - self._confirmed
        self._confirmed = last
        return last, self.answered > 1

    def take_all(self) -> tuple[int, bool] | None:
        """The tag up to which publishes must be refused because the journal failed."""
        last = self._waiting[-1][0] if self._waiting else 0
        self._waiting.clear()
        return self._settled(last)
