"""The memory alarm: counts the memory of all messages, wherever they are."""

from collections.abc import Callable

from routelog.log_backend.partitions.log_intake import LogIntake

ALARM_TIMES = 2  # times `tail_bytes_max`: a flush brings tails below that, and so ends the alarm


class MemoryWatch:
    """The memory of all tails, and of messages that others hold.

    Attributes:
        tail_bytes_max: limit of all tails; above it, batches are flushed and evicted.
        held_bytes: unfinished publishes, deliveries that clients do not read, memory of exchanges.

    Args:
        press: called with `is_short` when it may have changed.
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
        """Memory of all messages."""
        return self._intake.tail_bytes + self.held_bytes

    @property
    def excess(self) -> int:
        """Bytes of batches above the limit; 0 or less: none."""
        return self._intake.tail_bytes - self.tail_bytes_max

    @property
    def is_short(self) -> bool:
        """Whether publishers should wait.

        Held bytes count no more than `tail_bytes_max`: only tails shrink by themselves, and this must be
        enough to end the alarm.
        """
        held = min(self.held_bytes, self.tail_bytes_max)
        return self._intake.tail_bytes > ALARM_TIMES * self.tail_bytes_max - held

    def hold(self, size: int) -> None:
        """Count bytes that others hold, or no longer hold (negative)."""
        self.held_bytes += size
        self.look()

    def look(self) -> None:
        """Raise the alarm, or end it."""
        is_short = self.is_short
        # During an alarm, watch every change of the tails: it may end the alarm.
        self._intake.tail_bytes_watched = -1 if is_short else self.tail_bytes_max
        self._press(is_short)
