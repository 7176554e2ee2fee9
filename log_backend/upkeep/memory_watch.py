"""How much memory holds messages, wherever they are: the alarm for it is one."""

from collections.abc import Callable

from routelog.log_backend.partitions.log_intake import LogIntake

ALARM_TIMES = 2  # of what tails may have: a flush brings them below that, and opens the gate again


class MemoryWatch:
    """The batches in memory of all partitions, and what others hold beside them.

    Attributes:
        tail_bytes_max: of the batches in memory; with more of them, segments are written and batches evicted.
        held_bytes: what clients have begun and not ended, or leave unread, and what exchanges remember.

    Args:
        press: called with `is_short` when that may be another.
    """

    def __init__(
        self, intake: LogIntake, tail_bytes_max: int, press: Callable[[bool], None]
    ) -> None:
        self._intake = intake
        self.tail_bytes_max = tail_bytes_max
        self._press = press
        self.held_bytes = 0

    @property
    def bytes(self) -> int:
        """All of it."""
        return self._intake.tail_bytes + self.held_bytes

    @property
    def excess(self) -> int:
        """Bytes of batches above the limit; 0 or less: there are none."""
        return self._intake.tail_bytes - self.tail_bytes_max

    @property
    def is_short(self) -> bool:
        """Whether publishers should wait.

        What is held counts up to what tails may have without it: only tails shrink by themselves, and their
        shrinking has to be enough to end the alarm.
        """
        held = min(self.held_bytes, self.tail_bytes_max)
        return self._intake.tail_bytes > ALARM_TIMES * self.tail_bytes_max - held

    def hold(self, size: int) -> None:
        """Others hold so many bytes more, or fewer."""
        self.held_bytes += size
        self.look()

    def look(self) -> None:
        """Raise the alarm, or end it."""
        is_short = self.is_short
        # Below the limit, memory is short only by what others hold: an alarm ends as soon as tails shrink.
        self._intake.tail_bytes_watched = -1 if is_short else self.tail_bytes_max
        self._press(is_short)
