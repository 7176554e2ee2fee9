"""Where a partition's files lie, and how names become directory names.

    logs/<vhost>/<queue>-<partition>/<base offset, 20 digits>.log   or .zlog, when it is compressed
    logs/<vhost>/%01<exchange>-0/...                                 what an exchange remembers

Names come from strangers, so they are percent-encoded and never a path of their own; what is too long
for a file name is cut and told apart by its hash.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import zip_longest
from pathlib import Path
from urllib.parse import quote

PLAIN, COMPRESSED = ".log", ".zlog"  # the two forms of a segment
# Stands before the name of an exchange that has a log: no queue is called so.
EXCHANGE_MARK = "\x01"
NAME_BYTES_MAX = 200  # of 255 that file systems allow: a partition number and a hash follow


@lru_cache(maxsize=64)  # the partitions of a queue come one after the other
def directory_name(name: str) -> str:
    """A safe file name for any vhost or queue name; different names get different ones."""
    encoded = quote(name, safe="").replace("~", "%7E")  # which stands before a hash only
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
    """File of the segment that begins at an offset."""
    return directory / f"{base_offset:020d}{PLAIN}"


def compressed_path(path: Path) -> Path:
    """File of the compressed form of a segment."""
    return path.with_suffix(COMPRESSED)


def base_offsets(names: Iterable[str], suffixes: Sequence[str] = (PLAIN, COMPRESSED)) -> list[int]:
    """Base offsets of the segments of these forms among some file names, ascending."""
    parts = (name.partition(".") for name in names)
    stems = {stem for stem, point, suffix in parts if point + suffix in suffixes}
    return sorted(int(stem) for stem in stems if len(stem) == 20 and stem.isdigit())


def with_following(bases: Sequence[int]) -> Iterator[tuple[int, int | None]]:
    """Each base offset with that of the segment behind it; the newest has none."""
    return zip_longest(bases, bases[1:])
