"""The format of a log in remote storage: each segment is two objects, its content and its index.

    <vhost>/<queue>-<partition>/<number, 20 digits>/     the partition's folder; names as in logs/
        <base>.log or <base>.zlog                        the segment, as it was on the disk, in either form
        <base>-<next base>-<last time>.log.segment       its index, then its time index: see segment_index.py
        the same with .zlog.segment                      of the other form
    OWNER                                                whose bucket it is

Base offsets have 20 digits, and so has the time of the last batch, microseconds since 1970. The `.segment` is
written last and removed first: a content without it is a leftover, so a list of names shows which segments are
complete. Objects do not change, with one exception: after a crash, more may be written to a segment that was
copied; then its old `.segment` is removed before its content is replaced. The number is that of the partition:
a queue that was deleted and declared again has another one.
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
    """A segment that is complete in remote storage.

    Attributes:
        next_base: base offset of the next segment; offsets in between were settled, or never promised.
        last_time: of its last batch.
        bytes: of its content object.
    """

    base_offset: int
    next_base: int
    last_time: int
    bytes: int
    is_compressed: bool

    @property
    def content_name(self) -> str:
        """Name of the object with its batches."""
        return f"{self.base_offset:020d}{self._form}"

    @property
    def index_name(self) -> str:
        """Name of the object with its index."""
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
    """Return the complete segments among a folder's objects, oldest first, without overlaps."""
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
            found.pop()  # an outdated copy, from before a crash
        if not found or base >= found[-1].next_base:
            found.append(segment._replace(bytes=size))
    return found


def leftovers(objects: Mapping[str, int], segments: list[RemoteSegment]) -> Iterator[str]:
    """Names of a folder's objects that belong to no complete segment."""
    names = {name for each in segments for name in (each.content_name, each.index_name)}
    return (name for name in objects if name not in names)


def encode_remote_index(segment: Segment) -> bytes:
    """Content of a segment's index object."""
    return b"".join(content for _, content in segment.index_files())


def decode_remote_index(content: bytes) -> SegmentIndex | None:
    """Decode the content of an index object; None if it is damaged."""
    entries, rest = divmod(len(content) - HEADER_BYTES, _ENTRY_BYTES)
    if entries < 0 or rest:
        return None
    split = HEADER_BYTES + 8 * entries
    return decode_index(content[:split], content[split:])


def read_remote_index(bucket: Bucket, folder: str, segment: RemoteSegment) -> SegmentIndex | None:
    """Read the index of a segment; None if it is damaged.

    Raises:
        NoObject: the segment was removed.
        BucketFailed: the storage does not answer.
    """
    with closing(bucket.open(f"{folder}/{segment.index_name}")) as found:
        return decode_remote_index(bytes(found.read(0, found.size)))
