"""How much memory holds messages, wherever they are: the alarm for it is one."""

from collections.abc import Callable

from routelog.log_backend.partitions.log_intake import LogIntake

ALARM_TIMES = 2  # of what tails may have: a flush brings them below that, and opens the gate again


class MemoryWatch:
    """The batches in memory of all partitions, and what others hold beside them.

    Attributes:
        held_bytes: what clients have begun and not ended, or leave unread, and what exchanges remember.

    Args:
        press: called with `is_short` when that may be another.
    """

    def __init__(
        self, intake: LogIntake, tail_bytes_max: int, press: Callable[[bool], None]
    ) -> None:
        self._intake = intake
        self._tail_bytes_max = tail_bytes_max
        self._press = press
        self.held_bytes = 0

    @property
    def bytes(self) -> int:
        """All of it."""
        return self._intake.tail_bytes + self.held_bytes

    @property
    def is_short(self) -> bool:
        """Whether publishers should wait.

        What is held counts up to what tails may have without it: only tails shrink by themselves, and their
        shrinking has to be enough to end the alarm.
        """
        held = min(self.held_bytes, self._tail_bytes_max)
        return self._intake.tail_bytes > ALARM_TIMES * self._tail_bytes_max - held

    def hold(self, size: int) -> None:
        """Others hold so many bytes more, or fewer."""
        self.held_bytes += size
        self._press(self.is_short)
