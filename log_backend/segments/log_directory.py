"""Paths of a partition's files, and how names become directory names.

    logs/<vhost>/<queue>-<partition>/<base offset, 20 digits>.log    or .zlog, if it is compressed
    logs/<vhost>/%01<exchange>-0/...                                 the messages that an exchange remembers

Names come from clients, so they are percent-encoded and cannot form a path. A name that is too long for a file
name is cut, and gets a hash.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import zip_longest
from pathlib import Path
from urllib.parse import quote

PLAIN, COMPRESSED = ".log", ".zlog"  # the two forms of a segment
# Prefix of an exchange's name, if the exchange has a log: no queue's name begins so.
EXCHANGE_MARK = "\x01"
NAME_BYTES_MAX = 200  # file systems allow 255 bytes: hash and partition number follow


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


def segment_path(directory: Path, base_offset: int) -> Path:
    """Path of the segment with a base offset."""
    return directory / f"{base_offset:020d}{PLAIN}"


def compressed_path(path: Path) -> Path:
    """Path of the compressed form of a segment."""
    return path.with_suffix(COMPRESSED)


def base_offsets(names: Iterable[str], suffixes: Sequence[str] = (PLAIN, COMPRESSED)) -> list[int]:
    """Base offsets of the segments among some file names, ascending; only of the given forms."""
    parts = (name.partition(".") for name in names)
    stems = {stem for stem, point, suffix in parts if point + suffix in suffixes}
    return sorted(int(stem) for stem in stems if len(stem) == 20 and stem.isdigit())


def with_following(bases: Sequence[int]) -> Iterator[tuple[int, int | None]]:
    """Pair each base offset with the next one; the last one with None."""
    return zip_longest(bases, bases[1:])
