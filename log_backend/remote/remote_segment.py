"""What remote storage has of a log: each segment is two objects, of which the second says that it is there.

    <vhost>/<queue>-<partition>/<number, 20 digits>/     the partition's folder; names as in logs/
        <base>.log or <base>.zlog                        the segment, as it was on the disk, in either form
        <base>-<next base>-<last time>.log.segment       its index, then its time index: see segment_index.py
        the same with .zlog.segment                      of the other form
    OWNER                                                whose bucket it is

Base offsets have 20 digits, and so has the time of the last batch, microseconds since 1970. The `.segment` is
written last and removed first, so a segment without it is a leftover, and one list of names says what there is.
Objects do not change, but for a segment that was written on after a crash: its old `.segment` goes before its
content is replaced. The number is that of the partition: a queue that was declared again has another one.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from routelog.log_backend.remote.bucket import Bucket
from routelog.log_backend.segments.log_directory import COMPRESSED, PLAIN
from routelog.log_backend.segments.segment import Segment
from routelog.log_backend.segments.segment_index import HEADER_BYTES, SegmentIndex, decode_index

OWNER = "OWNER"

_SEGMENT = re.compile(r"(\d{20})-(\d{20})-(\d{20})(\.log|\.zlog)\.segment")
_ENTRY_BYTES = 20  # of both indexes together


class RemoteSegment(NamedTuple):
    """A segment that is whole in remote storage.

    Attributes:
        next_base: base offset of the one behind it; offsets between were never stored, or settled before.
        last_time: of its last batch.
        bytes: of the object.
    """

    base_offset: int
    next_base: int
    last_time: int
    bytes: int
    is_compressed: bool

    @property
    def content_name(self) -> str:
        """Name of the object that has its batches."""
        return f"{self.base_offset:020d}{self._form}"

    @property
    def index_name(self) -> str:
        """Name of the object that says that it is there."""
        numbers = (self.base_offset, self.next_base, self.last_time)
        return "-".join(f"{number:020d}" for number in numbers) + f"{self._form}.segment"

    @property
    def _form(self) -> str:
        return COMPRESSED if self.is_compressed else PLAIN


def partition_folder(directory: Path, number: int) -> str:
    """The folder of a partition.

    Args:
        directory: of its files on the disk.
    """
    return f"{directory.parent.name}/{directory.name}/{number:020d}"


def stored_segments(objects: Mapping[str, int]) -> list[RemoteSegment]:
    """The segments that a folder's objects are, oldest first; none overlaps another."""
    found: list[RemoteSegment] = []
    for name in sorted(objects):
        match = _SEGMENT.fullmatch(name)
        if match is None:
            continue
        base, behind, time = map(int, match.group(1, 2, 3))
        segment = RemoteSegment(base, behind, time, 0, match[4] == COMPRESSED)
        size = objects.get(segment.content_name)
        if size is None:
            continue
        if found and base == found[-1].base_offset:
            found.pop()  # a crash took what followed, and the segment was written on
        if not found or base >= found[-1].next_base:
            found.append(segment._replace(bytes=size))
    return found


def leftovers(objects: Mapping[str, int], segments: list[RemoteSegment]) -> Iterator[str]:
    """Names of a folder's objects that are part of no segment."""
    names = {name for each in segments for name in (each.content_name, each.index_name)}
    return (name for name in objects if name not in names)


def encode_remote_index(segment: Segment) -> bytes:
    """Content of the object that says that a segment is there."""
    return b"".join(content for _, content in segment.index_files())


def decode_remote_index(content: bytes) -> SegmentIndex | None:
    """The index in an object; None when it is damaged."""
    entries, rest = divmod(len(content) - HEADER_BYTES, _ENTRY_BYTES)
    if entries < 0 or rest:
        return None
    split = HEADER_BYTES + 8 * entries
    return decode_index(content[:split], content[split:])


def read_remote_index(bucket: Bucket, folder: str, segment: RemoteSegment) -> SegmentIndex | None:
    """The index of a segment; None when it is damaged.

    Raises:
        NoObject: it was removed.
        BucketFailed: the storage does not answer.
    """
    with closing(bucket.open(f"{folder}/{segment.index_name}")) as found:
        return decode_remote_index(bytes(found.read(0, found.size)))
