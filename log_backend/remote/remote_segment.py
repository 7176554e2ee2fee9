"""The format of a log in remote storage: each segment is two objects, its content and its index.

    OWNER                                                  the format's number, and whose bucket it is
    <vhost>/<queue>-<partition>/<number, 20 digits>/       the partition's folder; names as in logs/
        <base>-<epoch>-<copy>.log or .zlog                 the segment, as it was on the disk, in either form
        <base>-<epoch>-<copy>-<next base>-<last time>.log.segment
                                                           its index, then its time index: see segment_index.py

Base offsets have 20 digits, and so has the time of the last batch, microseconds since 1970. The epoch is that
of the leader that made the copy, and each try to copy a segment has another number in it: so no name is
written twice, and a request that arrives late, of a leader that was deposed, replaces nothing. The `.segment`
is written last and removed first: a content without it is a leftover, so a list of names shows which segments
are complete. The number is that of the partition: a queue that was deleted and declared again has another one.

Segments of a log may overlap, because they begin elsewhere on each node. All copies of an offset are the same:
so a segment counts from where the one before it ends, and one that adds nothing does not count at all.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from routelog.log_backend.remote.bucket import Bucket
from routelog.log_backend.segments.log_directory import COMPRESSED, PLAIN
from routelog.log_backend.segments.segment import Segment
from routelog.log_backend.segments.segment_index import HEADER_BYTES, SegmentIndex, decode_index

OWNER = "OWNER"
FORMAT = b"routelog remote storage 2: "  # before the owner's name

_COPY = re.compile(r"\d{20}-(\d+)-\d+[-.]")  # how the names of a copy's objects begin
_SEGMENT = re.compile(r"(\d{20})-(\d+)-(\d+)-(\d{20})-(\d{20})(\.log|\.zlog)\.segment")
_ENTRY_BYTES = 20  # of both indexes together


class UnknownSegments(Exception):
    """The bucket has segments of a log that went on elsewhere."""


class RemoteSegment(NamedTuple):
    """A segment that is complete in remote storage.

    Attributes:
        next_base: base offset of the next segment; offsets in between were settled, or never promised.
        last_time: of its last batch.
        epoch: of the leader that copied it.
        copy: number of the copy in this epoch.
        bytes: of its content object.
        first_offset: it counts from here on: an earlier segment has what is below.
    """

    base_offset: int
    next_base: int
    last_time: int
    epoch: int
    copy: int
    bytes: int
    is_compressed: bool
    first_offset: int

    @property
    def end_offset(self) -> int:
        """See `Extent`: no record lies between the last one and `next_base`."""
        return self.next_base

    @property
    def file_bytes(self) -> int:
        """See `Extent`."""
        return self.bytes

    @property
    def content_name(self) -> str:
        """Name of the object with its batches."""
        return self._stem + self._form

    @property
    def index_name(self) -> str:
        """Name of the object with its index."""
        return f"{self._stem}-{self.next_base:020d}-{self.last_time:020d}{self._form}.segment"

    @property
    def _stem(self) -> str:
        return f"{self.base_offset:020d}-{self.epoch}-{self.copy}"

    @property
    def _form(self) -> str:
        return COMPRESSED if self.is_compressed else PLAIN


def partition_folder(directory: Path, number: int) -> str:
    """The folder of a partition.

    Args:
        directory: of its files on the disk.
    """
    return f"{directory.parent.name}/{directory.name}/{number:020d}"


def whole_segments(objects: Mapping[str, int]) -> list[RemoteSegment]:
    """Return the complete segments among a folder's objects, by their base offsets."""
    found = []
    for name in objects:
        match = _SEGMENT.fullmatch(name)
        if match is None:
            continue
        base, epoch, copy, behind, time = map(int, match.group(1, 2, 3, 4, 5))
        segment = RemoteSegment(base, behind, time, epoch, copy, 0, match[6] == COMPRESSED, base)
        size = objects.get(segment.content_name)
        if size is not None:
            found.append(segment._replace(bytes=size))
    return sorted(found, key=lambda each: (each.base_offset, each.next_base, each.epoch, each.copy))


def counting(segments: Sequence[RemoteSegment]) -> list[RemoteSegment]:
    """Return the segments that count, each from where the one before it ends.

    What does not count is below the ends of those before it, and stays so when others come.

    Args:
        segments: as `whole_segments` returns them.
    """
    found: list[RemoteSegment] = []
    end = 0
    for each in segments:
        if each.next_base > end:
            found.append(each._replace(first_offset=max(each.base_offset, end)))
            end = each.next_base
    return found


def stored_segments(objects: Mapping[str, int]) -> list[RemoteSegment]:
    """Return the segments that count among a folder's objects, oldest first."""
    return counting(whole_segments(objects))


def check_known(
    folder: str, segments: Sequence[RemoteSegment], own: int | None, since: int, end: int
) -> None:
    """Check that a folder's segments are of the log that this node leads.

    Args:
        segments: as `whole_segments` returns them.
        own: the epoch in which it leads; None: nothing was copied in this epoch yet.
        since: the first epoch that has not begun with a look at all that is in the bucket: until then, leaders
            copy nothing.
        end: where the partition ended when that epoch began.

    Raises:
        UnknownSegments: they are not.
    """
    for each in segments:
        if each.epoch != own and (each.epoch >= since or each.next_base > end):
            raise UnknownSegments(f"{folder}/{each.index_name} is of a log that went on elsewhere")


def leftovers(
    objects: Mapping[str, int], segments: Sequence[RemoteSegment], epoch: int
) -> Iterator[str]:
    """Names of a folder's objects that belong to no segment that counts.

    Args:
        epoch: of the leader, which copies nothing at this moment; it leaves objects of later epochs alone.
    """
    names = {name for each in segments for name in (each.content_name, each.index_name)}
    for name in objects:
        copy = _COPY.match(name)
        if copy is not None and int(copy[1]) <= epoch and name not in names:
            yield name


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
