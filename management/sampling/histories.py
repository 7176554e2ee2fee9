"""The histories of many objects, in bounded memory: those that changed longest ago are let go of first."""

from collections import OrderedDict
from collections.abc import Iterator, Sequence

from routelog.management.sampling.history import History, Stretch

OBJECT_ROWS_MIN = 2  # a rate takes two
ROOM = 0.9  # of all rows: the others are for the next sample


class Histories:
    """The histories by their objects.

    Args:
        stretches: of each history.
        rows_max: of all together, about; 8 bytes for each value of a row, and 8 for its time.
    """

    def __init__(self, stretches: Sequence[Stretch], rows_max: int) -> None:
        self._stretches = stretches
        self._rows_max = rows_max
        self._rows = 0
        self._of: OrderedDict[object, History] = OrderedDict()  # the last changed is last

    def get(self, of: object) -> History | None:
        """The history of an object; None: it has none."""
        return self._of.get(of)

    def forget(self, of: object) -> None:
        """The object is gone."""
        history = self._of.pop(of, None)
        self._rows -= 0 if history is None else len(history)

    def add(
        self,
        of: object,
        now: float,
        values: Sequence[int],
        before: tuple[float, Sequence[int] | None],
    ) -> None:
        """Add a row.

        Args:
            now: monotonic seconds.
            before: when the sample before was taken, and the values at it of what has no history; None: nobody
                knows.
        """
        rows_max = self._rows_max
        if self._rows >= rows_max:
            rows_max = max(OBJECT_ROWS_MIN, rows_max // (len(self._of) + 1))
        then, values_then = before
        history = self._of.get(of)
        if history is None:
            history = self._of[of] = History(len(values), self._stretches)
            if values_then is not None and then < now:
                history.add(then, values_then, rows_max)
        else:
            self._rows -= len(history)
            if history.last_time < then:  # it did not change in the sample before
                history.add(then, history.last, rows_max)
        history.add(now, values, rows_max)
        self._rows += len(history)
        self._of.move_to_end(of)

    def expired(self, now: float) -> Iterator[None]:
        """Let go of what is too old, or too much: one at a time.

        What did not change in the youngest stretch makes room for the next sample. The others stay, with less
        of their past, as long as there is room for two rows of each.
        """
        while self._of:
            of, history = next(iter(self._of.items()))
            kept = self._stretches[-1].age
            if self._rows > self._rows_max * ROOM:
                too_many = len(self._of) * OBJECT_ROWS_MIN > self._rows_max
                kept = 0.0 if too_many else self._stretches[0].age
            if history.last_time >= now - kept:
                return
            self.forget(of)
            yield
