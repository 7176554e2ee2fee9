"""Removal of segments that nobody needs, in the thread that writes them.

Before a file goes, the metadata say durably that the log begins behind it: else it would be missed. RocksDB
takes nothing more once a write of it has failed, so on a disk without a page left, ballast included, what is to
go waits.
"""

import logging
from collections import deque
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from routelog.log_backend.doors.ballast import CHANGE_BYTES, Ballast
from routelog.log_backend.doors.disk import Disk, DiskFull
from routelog.log_backend.metadata.metadata import Change, MetadataStore, MetadataUnavailable
from routelog.log_backend.segments.log_directory import COMPRESSED, PLAIN
from routelog.log_backend.segments.segment import Segment

log = logging.getLogger(__name__)


class Unneeded(NamedTuple):
    """The oldest segments of a partition, and what says where its log begins without them."""

    directory: Path
    segments: Sequence[Segment]
    first_kept: Change | None  # None: what is stored already says so, or nothing is promised


class SegmentRemoval:
    """Deletes the files of segments; every call blocks.

    Attributes:
        waits_for_room: something is to go, and the disk is too full to say so; read in any thread.
    """

    def __init__(self, disk: Disk, metadata: MetadataStore, ballast: Ballast) -> None:
        self.waits_for_room = False
        self._disk = disk
        self._ballast = ballast
        self._metadata = metadata
        # By directory: what is not removed yet, and what has to be stored before.
        self._left: dict[Path, deque[Segment]] = {}
        self._unstored: dict[Path, Change] = {}

    def remove(self, unneeded: Sequence[Unneeded]) -> None:
        """Delete segments and their indexes, those of a partition in order; one sync covers all.

        One that cannot be removed stays, as do those behind it, until the partition begins its next. Those
        that wait for room are tried again with the next call, which may bring none.
        """
        for each in unneeded:
            self._left.setdefault(each.directory, deque()).extend(each.segments)
            if each.first_kept is not None:
                self._unstored[each.directory] = each.first_kept
        waiting = self._left if self.waits_for_room else ()
        directories = list(dict.fromkeys((*waiting, *(each.directory for each in unneeded))))
        try:
            self._store(directories)
        except DiskFull as error:
            if not self.waits_for_room:
                log.warning("segments that nobody needs wait for room: %s", error)
            self.waits_for_room = True
            return
        except MetadataUnavailable as error:
            log.error("segments that nobody needs are still there: %s", error)
            return
        self.waits_for_room = False
        for directory in directories:
            try:
                self._remove_files(directory)
            except OSError as error:
                log.error("a segment that nobody needs is still there: %s", error)

    def finish(self, directory: Path) -> None:
        """Delete what is left of a partition's.

        Raises:
            DiskFull, OSError, MetadataUnavailable: it is still there.
        """
        if directory in self._left:
            self._store((directory,))
            self._remove_files(directory)

    def forget(self, directory: Path) -> None:
        """The partition goes as a whole."""
        self._left.pop(directory, None)
        self._unstored.pop(directory, None)

    def _store(self, directories: Collection[Path]) -> None:
        unstored = [each for each in directories if each in self._unstored]
        if unstored:
            free = self._ballast.make_room(CHANGE_BYTES)
            if free < CHANGE_BYTES:
                raise DiskFull(f"{free} bytes are free, and {CHANGE_BYTES} are needed")
            self._metadata.apply([self._unstored[each] for each in unstored])
        for each in unstored:
            del self._unstored[each]

    def _remove_files(self, directory: Path) -> None:
        left = self._left[directory]
        while left:
            remove_segment(self._disk, left[0].path)
            left.popleft()
        del self._left[directory]


def remove_segment(disk: Disk, path: Path) -> None:
    """Delete the files of a segment, as far as they are there.

    Raises:
        OSError: some are still there.
    """
    failed: OSError | None = None
    for suffix in (".index", ".timeindex", PLAIN, COMPRESSED):
        try:
            disk.remove(path.with_suffix(suffix))
        except FileNotFoundError:
            pass
        except OSError as error:
            failed = error  # the others go all the same
    if failed is not None:
        raise failed
