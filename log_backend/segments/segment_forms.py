"""Cleans up after a crash during compression or compaction: a segment in several files, or a packed newest one.

A compacted segment replaces the segments from its base offset up to the base offset that its index names as the
next one: see compaction_pass.py. It is complete and durable before they are removed, so a crash may leave some.
"""

import logging
from bisect import bisect_right
from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path

from routelog.log_backend.doors.disk import Disk, opened, read_file
from routelog.log_backend.segments.log_directory import (
    SegmentName,
    compressed_path,
    is_compacted,
    segment_paths,
)
from routelog.log_backend.segments.segment_file import SegmentDamaged, SegmentFile
from routelog.log_backend.segments.segment_index import following_base

log = logging.getLogger(__name__)

UNPACK_BYTES = 1024 * 1024  # at a time


def current_segments(disk: Disk, directory: Path, names: Iterable[str]) -> dict[int, Path]:
    """Paths of a partition's segments by base offset, ascending, without those that compaction has replaced."""
    current: dict[int, Path] = {}
    replaced_end = 0
    for base, path in segment_paths(directory, names).items():
        if base < replaced_end:
            continue
        current[base] = path
        if is_compacted(path):
            with suppress(FileNotFoundError):
                index = bytes(read_file(disk, path.with_suffix(".index")))
                replaced_end = following_base(index, verified=True) or 0
    return current


def leave_one_form(disk: Disk, directory: Path, names: Iterable[str]) -> dict[int, Path]:
    """Leave one file of each segment; the newest segment gets its uncompressed form, because it is written.

    Args:
        names: of the files in the directory.

    Returns:
        Paths of the segments by base offset, ascending.

    Raises:
        SegmentDamaged: the newest segment cannot be unpacked.
    """
    there = set(names)
    current = current_segments(disk, directory, there)
    newest = max(current, default=-1)
    redundant = _replaced(directory, current, there)
    for base, path in current.items():
        packed = compressed_path(path)
        if packed.name not in there:
            continue
        if base == newest and path.name not in there:
            # Its successor was removed by hand, or lost by the file system.
            _unpack(disk, path)
            redundant.append(packed)
        elif path.name in there:
            redundant.append(path if base != newest and _is_whole(disk, path) else packed)
    for each in redundant:
        disk.remove(each)
    if redundant:
        # Else an outdated form could come back after the next crash.
        disk.sync_directory(directory)
    return current


def _replaced(directory: Path, current: dict[int, Path], names: Iterable[str]) -> list[Path]:
    """Files of segments that compaction has replaced, and indexes of one that it has not put in place."""
    bases = list(current)
    kept = {path.stem for path in current.values()}
    found = []
    for name in sorted(names):
        parsed = SegmentName.parse(name)
        path = directory / name
        if parsed is None or path.stem in kept:
            continue
        at = bisect_right(bases, parsed.base) - 1
        if parsed.number or (at >= 0 and is_compacted(current[bases[at]])):
            found.append(path)
    return found


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
