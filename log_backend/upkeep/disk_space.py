"""Free disk space: publishers wait when it is less than a reserve, until there is clearly more.

Space that is promised but not taken yet counts as used: batches in the journal that go to segments later, and
the journal's next file.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from routelog.log_backend.doors.ballast import METADATA_BYTES, MIB, Ballast
from routelog.log_backend.doors.disk import Disk, DiskFull

log = logging.getLogger(__name__)

RESERVE_SHARE_MAX = 8  # the reserve is at most an eighth of the file system
# Publishers resume when a quarter more than the reserve is free, not to stop again at once
RESUME_SHARE = 4
# Bytes a second that other programs may write: the next look comes in half the time they need for the rest.
FILL_RATE = 250 * MIB
LOOK_SECONDS_MIN = 0.1
LOOK_SECONDS_MAX = 0.5  # others may be faster than FILL_RATE; publishers must stop within a second
SPENT_SECONDS = 0.01  # until the look that `hurry` asks for


@dataclass(frozen=True, slots=True)
class Reserve:
    """How much space stays free, in bytes.

    Attributes:
        size: publishers wait below it.
    """

    size: int

    @classmethod
    def of(cls, wanted: int, total: int) -> "Reserve":
        """A reserve of the wanted size; smaller on a small file system."""
        return cls(min(wanted, total // RESERVE_SHARE_MAX))

    def is_low(self, free: int, promised: int, *, was_low: bool) -> bool:
        """Whether publishers should wait."""
        margin = self.size // RESUME_SHARE if was_low else 0
        return free < self.size + promised + margin

    def next_look(self, room: int, *, low: bool) -> float:
        """Seconds until the next look; `room` is the free space above the reserve."""
        if low:
            return LOOK_SECONDS_MIN
        return min(max(LOOK_SECONDS_MIN, room / (2 * FILL_RATE)), LOOK_SECONDS_MAX)


class DiskSpace:
    """Watches free space; only the look itself runs in a thread.

    Attributes:
        total: bytes of the file system.
        low: publishers should wait.
        free: free bytes at the last look.
        room: free bytes at the last look, without the reserve and what was promised.

    Args:
        ballast: each look grows it, if there is room.
        promised: bytes that will be written later.
        on_look: called after each look.
    """

    def __init__(
        self,
        directory: Path,
        disk: Disk,
        loop: asyncio.AbstractEventLoop,
        reserve_bytes: int,
        ballast: Ballast,
        *,
        promised: Callable[[], int],
        on_look: Callable[[], None],
    ) -> None:
        self._directory = directory
        self._disk = disk
        self._loop = loop
        self._ballast = ballast
        self._promised = promised
        self._on_look = on_look
        self.total = disk.total_bytes(directory)
        self.reserve = Reserve.of(reserve_bytes, self.total)
        self.low = False
        self.free = 0
        self.room = 0
        self._unknown = False
        # Its own thread, because a file system that hangs must not block anything else.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="disk-space")
        self._timer: asyncio.TimerHandle | None = None
        self._looking = False
        self._hurried = False

    def start(self) -> None:
        """Look at once, and then again and again."""
        self._judge(self._disk.free_bytes(self._directory))
        self._check_free_space_in(LOOK_SECONDS_MIN)

    def stop(self) -> None:
        """Check free space no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._thread.shutdown(wait=False)

    def hurry(self) -> None:
        """Look soon: this node has used up `room`."""
        if not self._hurried and not self.low and self._timer is not None:
            self._hurried = True
            self._check_free_space_in(SPENT_SECONDS)

    def segment_room(self) -> int:
        """Free bytes for segments, without room for their metadata; call it in any thread."""
        return max(0, self._disk.free_bytes(self._directory) - METADATA_BYTES)

    def check_segment(self, size: int) -> None:
        """Check the room for a segment of `size` bytes, in any thread.

        Raises:
            DiskFull: there is no room for the segment and its metadata.
        """
        room = self.segment_room()
        if room < size:
            raise DiskFull(f"segments have {room} bytes of room, and {size} are needed")

    def check_metadata(self) -> None:
        """Make room for snapshots, from the ballast if needed; in any thread.

        Raises:
            DiskFull: there is no room for the metadata.
        """
        free = self._ballast.make_room(METADATA_BYTES)
        if free < METADATA_BYTES:
            raise DiskFull(f"{free} bytes are free, and {METADATA_BYTES} are needed")

    def _check_free_space_in(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(seconds, self._check_free_space)

    def _check_free_space(self) -> None:
        if not self._looking:
            self._looking = True
            look = self._loop.run_in_executor(self._thread, self._ballast.keep)
            look.add_done_callback(self._looked)

    def _looked(self, look: "asyncio.Future[int]") -> None:
        self._looking = self._hurried = False
        if self._timer is None or look.cancelled():
            return
        self._check_free_space_in(LOOK_SECONDS_MIN)  # also if this look has failed
        error = look.exception()
        if error is None:
            self._unknown = False
            self._judge(look.result())
            self._check_free_space_in(self.reserve.next_look(self.room, low=self.low))
        elif not self._unknown:
            self._unknown = True
            log.error("free space of %s is not known: %s", self._directory, error)

    def _judge(self, free: int) -> None:
        promised = self._promised()
        self.free = free
        was_low, self.low = self.low, self.reserve.is_low(free, promised, was_low=self.low)
        self.room = free - self.reserve.size - promised
        if self.low != was_low:
            state = "low on disk: publishers wait" if self.low else "enough disk space again"
            log.log(
                logging.WARNING if self.low else logging.INFO,
                "%s; %d MiB are free, %d promised, the reserve is %d",
                state,
                free // MIB,
                promised // MIB,
                self.reserve.size // MIB,
            )
        self._on_look()
