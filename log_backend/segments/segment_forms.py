"""Cleans up after a crash during compression: a segment in both forms, or a compressed newest segment."""

import logging
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from routelog.log_backend.doors.disk import Disk, opened
from routelog.log_backend.segments.log_directory import (
    COMPRESSED,
    PLAIN,
    base_offsets,
    compressed_path,
    segment_path,
)
from routelog.log_backend.segments.segment_file import SegmentDamaged, SegmentFile

log = logging.getLogger(__name__)

UNPACK_BYTES = 1024 * 1024  # at a time


def leave_one_form(disk: Disk, directory: Path, names: Iterable[str]) -> None:
    """Leave one file of each segment; the newest segment gets its uncompressed form, because it is written.

    Args:
        names: of the files in the directory.

    Raises:
        SegmentDamaged: the newest segment cannot be unpacked.
    """
    names = list(names)
    packed, plain = base_offsets(names, (COMPRESSED,)), set(base_offsets(names, (PLAIN,)))
    newest = max(plain.union(packed), default=-1)
    changed = False
    for base in packed:
        path = segment_path(directory, base)
        if base == newest and base not in plain:
            # Its successor was removed by hand, or lost by the file system.
            _unpack(disk, path)
        elif base not in plain:
            continue
        redundant = path if base != newest and _is_whole(disk, path) else compressed_path(path)
        disk.remove(redundant)
        changed = True
    if changed:
        # Else an outdated form could come back after the next crash.
        disk.sync_directory(directory)


def _is_whole(disk: Disk, path: Path) -> bool:
    """Whether the compressed form can replace the other one."""
    try:
        with (
            closing(SegmentFile(disk, path)) as plain,
            closing(SegmentFile(disk, compressed_path(path))) as packed,
        ):
            return packed.size == plain.size
    except SegmentDamaged as error:
        log.error("%s; it is removed, since %s is there", error, path)
        return False


def _unpack(disk: Disk, path: Path) -> None:
    scratch = path.with_suffix(".new")
    with (
        closing(SegmentFile(disk, compressed_path(path))) as source,
        opened(disk, scratch, create=True) as target,
    ):
        disk.truncate(target, 0)
        for position in range(0, source.size, UNPACK_BYTES):
            disk.write(target, position, [source.read(position, UNPACK_BYTES)])
        disk.sync(target)
    disk.rename(scratch, path)
    disk.sync_directory(path.parent)
