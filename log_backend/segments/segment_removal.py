"""Removal of segments that nobody needs, in the thread that writes them.

Before a file is removed, the metadata must say durably that the log begins behind it; else the missing file
would be taken for damage. After one failed write RocksDB refuses all others. So on a disk that is full, ballast
included, removals wait.
"""

import logging
from collections import deque
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from routelog.log_backend.doors.ballast import CHANGE_BYTES, Ballast
from routelog.log_backend.doors.disk import Disk, DiskFull
from routelog.log_backend.metadata.metadata import Change, MetadataStore, MetadataUnavailable
from routelog.log_backend.segments.log_directory import COMPRESSED, INDEXES, PLAIN
from routelog.log_backend.segments.segment import Segment

log = logging.getLogger(__name__)


class Unneeded(NamedTuple):
    """The oldest segments of a partition, and the change that stores where its log begins without them."""

    directory: Path
    segments: Sequence[Segment]
    first_kept: Change | None  # None: the stored entry need not change


class SegmentRemoval:
    """Deletes the files of segments; every call blocks.

    Attributes:
        waits_for_room: removals wait because the disk has no room for their metadata; read in any thread.
    """

    def __init__(self, disk: Disk, metadata: MetadataStore, ballast: Ballast) -> None:
        self.waits_for_room = False
        self._disk = disk
        self._ballast = ballast
        self._metadata = metadata
        # By directory: segments that are not removed yet, and the change to store before that.
        self._left: dict[Path, deque[Segment]] = {}
        self._unstored: dict[Path, Change] = {}

    def remove(self, unneeded: Sequence[Unneeded]) -> None:
        """Delete segments and their indexes, in order; one sync covers the metadata of all.

        If one cannot be removed, it stays with those behind it until the partition begins its next segment.
        Removals that wait for room are tried again by the next call, which may bring no others.
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
        """Delete a partition's segments that are not removed yet.

        Raises:
            DiskFull, OSError, MetadataUnavailable: some are still there.
        """
        if directory in self._left:
            self._store((directory,))
            self._remove_files(directory)

    def forget(self, directory: Path) -> None:
        """Remove none of a partition's segments: the whole partition will be removed."""
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
    """Delete the files of a segment that exist.

    Raises:
        OSError: some are still there.
    """
    failed: OSError | None = None
    for suffix in (*INDEXES, PLAIN, COMPRESSED):
        try:
            disk.remove(path.with_suffix(suffix))
        except FileNotFoundError:
            pass
        except OSError as error:
            failed = error  # go on with the others
    if failed is not None:
        raise failed
