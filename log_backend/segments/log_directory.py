"""Paths of a partition's files, and how names become directory names.

    logs/<vhost>/<queue>-<partition>/<base offset, 20 digits>.log    or .zlog, if it is compressed
    logs/<vhost>/<queue>-<partition>/<base offset>.<pass>.log        of a compacted log: see compaction_pass.py
    logs/<vhost>/%01<exchange>-0/...                                 the messages that an exchange remembers

Names come from clients, so they are percent-encoded and cannot form a path. A name that is too long for a file
name is cut, and gets a hash.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

PLAIN, COMPRESSED = ".log", ".zlog"  # the two forms of a segment
INDEXES = (".index", ".timeindex")
# Prefix of an exchange's name, if the exchange has a log: no queue's name begins so.
EXCHANGE_MARK = "\x01"
NAME_BYTES_MAX = 200  # file systems allow 255 bytes: hash and partition number follow
_SEGMENT_FILE = re.compile(r"(\d{20})(?:\.(\d+))?(\.log|\.zlog|\.index|\.timeindex)", re.ASCII)


@lru_cache(maxsize=64)  # asked again for each partition of a queue
def directory_name(name: str) -> str:
    """A safe file name for any vhost or queue name; different names get different ones."""
    encoded = quote(name, safe="").replace("~", "%7E")  # "~" stands only before a hash
    if encoded.startswith("."):
        encoded = "%2E" + encoded[1:]
    if not encoded:
        return "%00"  # no name contains NUL
    if len(encoded) <= NAME_BYTES_MAX:
        return encoded
    digest = hashlib.sha256(name.encode()).hexdigest()[:32]
    return f"{encoded[: NAME_BYTES_MAX - 33]}~{digest}"


def partition_directory(logs: Path, vhost: str, queue: str, partition: int) -> Path:
    """Directory of one partition of a queue."""
    return Path(partition_directory_name(logs, vhost, queue, partition))


def partition_directory_name(logs: Path | str, vhost: str, queue: str, partition: int) -> str:
    """Path of the directory of one partition of a queue, as text."""
    return f"{logs}/{directory_name(vhost)}/{directory_name(queue)}-{partition}"


class SegmentName(NamedTuple):
    """The name of one file of a segment.

    Attributes:
        number: of the compaction pass that wrote the segment; 0: none did. The highest one of a base counts.
        suffix: PLAIN, COMPRESSED, or one of INDEXES.
    """

    base: int
    number: int
    suffix: str

    @classmethod
    def parse(cls, name: str) -> "SegmentName | None":
        """Read the name of a file; None: it is no segment's."""
        match = _SEGMENT_FILE.fullmatch(name)
        return match and cls(int(match[1]), int(match[2] or 0), match[3])

    @property
    def is_content(self) -> bool:
        """Whether the file has the batches."""
        return self.suffix in (PLAIN, COMPRESSED)


def segment_path(directory: Path, base_offset: int, number: int = 0) -> Path:
    """Path of the segment with a base offset.

    Args:
        number: of the compaction pass that wrote it; 0: none did.
    """
    compacted = f".{number}" if number else ""
    return directory / f"{base_offset:020d}{compacted}{PLAIN}"


def base_offset_of(path: Path) -> int:
    """The base offset that the path of a segment has."""
    return int(path.name.partition(".")[0])


def is_compacted(path: Path) -> bool:
    """Whether a compaction pass has written a segment: it may begin behind its base offset."""
    return path.name.count(".") > 1


def compressed_path(path: Path) -> Path:
    """Path of the compressed form of a segment."""
    return path.with_suffix(COMPRESSED)


def segment_paths(directory: Path, names: Iterable[str]) -> dict[int, Path]:
    """Paths of the segments among some file names, by base offset, ascending; of each base the newest."""
    found: dict[int, int] = {}
    for name in map(SegmentName.parse, names):
        if name is not None and name.is_content:
            found[name.base] = max(name.number, found.get(name.base, 0))
    return {base: segment_path(directory, base, found[base]) for base in sorted(found)}


def base_offsets(names: Iterable[str]) -> list[int]:
    """Base offsets of the segments among some file names, ascending."""
    parsed = map(SegmentName.parse, names)
    return sorted({each.base for each in parsed if each is not None and each.is_content})


def with_following(bases: Sequence[int]) -> Iterator[tuple[int, int | None]]:
    """Pair each base offset with the next one; the last one with None."""
    return zip_longest(bases, bases[1:])
