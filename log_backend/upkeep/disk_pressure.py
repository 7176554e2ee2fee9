"""Why publishers should wait, for the whole node; and the first of these reasons, a disk that is low or full.

Nothing is lost meanwhile: refused writes stay in memory, and in the journal if they were there. A write that
finds no file descriptor is refused as well, and told as what it is: the disk may have all the room there is.
"""

from collections.abc import Callable

from routelog.log_backend.doors.disk import NoDescriptor
from routelog.log_backend.upkeep.checkpoints import Checkpoints
from routelog.log_backend.upkeep.emptied_logs import EmptiedLogs
from routelog.log_backend.upkeep.shard import Shard


class Pressures:
    """The current reasons, of "disk", "files", "journal" and "memory".

    Attributes:
        reasons: if there are none, publishers may go on.
        on_change: set by the owner; called with the reasons when they change.
    """

    def __init__(self) -> None:
        self.reasons: frozenset[str] = frozenset()
        self.on_change: Callable[[frozenset[str]], None] = lambda reasons: None

    def press(self, reason: str, pressed: bool) -> None:
        """Add or remove a reason."""
        if pressed != (reason in self.reasons):
            self.reasons ^= {reason}
            self.on_change(self.reasons)


class DiskPressure:
    """Tells all that write to the disk how much room it has."""

    def __init__(
        self,
        shard: Shard,
        pressures: Pressures,
        checkpoints: Checkpoints,
        emptied: EmptiedLogs,
    ) -> None:
        self._shard = shard
        self._pressures = pressures
        self._checkpoints = checkpoints
        self._emptied = emptied
        self._closing = False

    def close(self) -> None:
        """Do not wait for room any more: the journal gives up what it cannot write."""
        self._closing = True

    def refused(self) -> None:
        """There was no room, or no descriptor, for a segment or a block of the journal."""
        self._press()
        if self._closing:
            self._shard.journal.abandon()

    def looked(self) -> None:
        """Act on a new look of `DiskSpace`."""
        space, journal = self._shard.space, self._shard.journal
        self._shard.intake.room = space.room
        journal.supply.frugal = space.low
        if not self._closing:
            self._shard.flusher.remove_unneeded()
            if space.free >= journal.promised_bytes:
                journal.go_on()
            if space.free >= self._checkpoints.unflushed_bytes:
                self._checkpoints.go_on()
            self._emptied.press("disk" in self._pressures.reasons)
        self._press()

    def _press(self) -> None:
        refusals = [self._checkpoints.refused, self._shard.journal.refused]
        lack_files = [isinstance(each, NoDescriptor) for each in refusals if each is not None]
        self._pressures.press("disk", self._shard.space.low or not all(lack_files))
        self._pressures.press("files", any(lack_files))
