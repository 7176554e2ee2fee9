"""Reads the logs in remote storage: only segments that a broker has copied there."""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from urllib.parse import unquote

from routelog.log_backend import SystemDisk
from routelog.log_backend.records.record_batch import RecordBatch
from routelog.log_backend.remote.bucket import BadBucket, Bucket, BucketFailed, NoObject
from routelog.log_backend.remote.bucket_address import open_bucket, without_secrets
from routelog.log_backend.remote.remote_segment import RemoteSegment, stored_segments
from routelog.log_backend.segments.log_directory import directory_name
from routelog.spark_bridge.logs.errors import BadOption, RecordsLost, StorageUnreachable
from routelog.spark_bridge.logs.readable_logs import (
    BatchSize,
    Cut,
    LogPartition,
    OffsetRange,
    Ticket,
    cut_batches,
)
from routelog.spark_bridge.logs.segment_object import SegmentObject


class RemoteFolder:
    """One partition's segments at the time when they were listed."""

    def __init__(self, name: str, segments: list[RemoteSegment], number: int | None) -> None:
        self.name = name
        self.segments = segments
        self.number = number

    @property
    def end(self) -> int:
        """Offset behind the last segment."""
        return self.segments[-1].next_base if self.segments else 0

    def holding(self, offset: int) -> RemoteSegment | None:
        """The segment that an offset belongs to, even if its record was never stored."""
        at = bisect_right(self.segments, offset, key=lambda each: each.first_offset) - 1
        found = self.segments[at] if at >= 0 else None
        return found if found is not None and offset < found.next_base else None

    def extents(self, partition: LogPartition) -> list[OffsetRange]:
        """One range for each segment, and one without bytes for each gap."""
        found: list[OffsetRange] = []
        for each in self.segments:
            if found and found[-1].end < each.first_offset:
                found.append(OffsetRange(partition, found[-1].end, each.first_offset, 0))
            found.append(OffsetRange(partition, each.first_offset, each.next_base, each.bytes))
        return [replace(each, number=self.number) for each in found]

    def next_after(self, offset: int) -> int | None:
        """Where the first segment behind an offset begins; None if there is none."""
        at = bisect_right(self.segments, offset, key=lambda each: each.first_offset)
        return self.segments[at].first_offset if at < len(self.segments) else None


class ObjectLogs:
    """Reads the logs in remote storage.

    Args:
        url: of the bucket: see `open_bucket`.

    Raises:
        BadOption: the address is invalid.
    """

    def __init__(self, url: str) -> None:
        try:
            self._bucket: Bucket = open_bucket(url, SystemDisk())
        except BadBucket as error:
            raise BadOption("remote", f"{without_secrets(url)}: {error}") from None
        self._place = without_secrets(url)

    def ticket(self, vhost: str) -> Ticket:
        """Nothing: the address has the keys."""
        return {}

    def vhosts(self) -> list[str]:
        """Names of the vhosts of which segments were copied, sorted."""
        with self._reached():
            return sorted(map(unquote, self._bucket.folders("")))

    def partitions(self, vhost: str, queues: Collection[str] | None) -> list[LogPartition]:
        """Partitions of which segments were copied; see `ReadableLogs.partitions`."""
        with self._reached():
            folders = self._bucket.folders(directory_name(vhost))
        wanted = None if queues is None else {directory_name(queue): queue for queue in queues}
        found = []
        for folder in folders:
            name, _, number = folder.rpartition("-")
            queue = unquote(name) if wanted is None else wanted.get(name)
            if queue is not None and wanted is None and directory_name(queue) != name:
                reason = (
                    f"the queue in {folder} has too long a name to match; use subscribe or assign"
                )
                raise BadOption("subscribePattern", reason)
            if queue is not None and number.isdecimal():
                found.append(LogPartition(vhost, queue, int(number)))
        return sorted(found)

    def extents(self, partition: LogPartition) -> list[OffsetRange]:
        """One range for each segment, and one without bytes for each gap.

        One empty range if there is no segment.
        """
        return self.folder(partition).extents(partition) or [OffsetRange(partition, 0, 0, 0)]

    def next_offset(self, partition: LogPartition) -> int:
        """The latest offset: others are not known here."""
        return self.extents(partition)[-1].end

    def located(self, wanted: OffsetRange) -> OffsetRange:
        """The same range with the best position hint that is known without reading.

        Segments have indexes, and need no hint.
        """
        return wanted

    def offset_at(
        self, partition: LogPartition, time: int, folder: RemoteFolder | None = None
    ) -> int | None:
        """Offset of the first record that was received at a time or later; None if there is none.

        In a folder that was listed, if it is given.
        """
        folder = folder or self.folder(partition)
        first = bisect_left(folder.segments, time, key=lambda each: each.last_time)
        for segment in folder.segments[first:]:
            with self._reached():
                try:
                    found = SegmentObject(self._bucket, folder.name, segment).offset_at(time)
                except NoObject:
                    continue  # retention removed it meanwhile
            if found is not None:
                return found
        return None

    def cut(self, wanted: OffsetRange, bytes_max: int) -> Cut:
        """The longest beginning of a range whose bodies have at most `bytes_max` bytes.

        Cost:
            Reads all of this beginning.
        """
        sizes = map(_size, self.read(wanted, lost_is_error=False))
        return cut_batches(sizes, wanted.start, wanted.end, bytes_max)

    def read(self, wanted: OffsetRange, *, lost_is_error: bool = True) -> Iterator[RecordBatch]:
        """Batches with offsets in a range; see `ReadableLogs.read`."""
        folder, reached = self.folder(wanted.partition, wanted.number), wanted.start
        while reached < wanted.end:
            segment = folder.holding(reached)
            if segment is None:
                following = folder.next_after(reached)
                behind = wanted.end if following is None else min(following, wanted.end)
                if lost_is_error:
                    raise RecordsLost(wanted.partition, reached, behind)
                reached = behind
                continue
            end = min(segment.next_base, wanted.end)
            try:
                for batch in self.batches(wanted.partition, folder, segment, reached, end):
                    yield batch
                    reached = max(reached, batch.end_offset)
            except RecordsLost:
                # Perhaps it was removed because others have all of it.
                folder = self.folder(wanted.partition, wanted.number)
                if folder.holding(reached) not in (None, segment):
                    continue
                if lost_is_error:
                    raise
            reached = end

    def batches(
        self,
        partition: LogPartition,
        folder: RemoteFolder,
        segment: RemoteSegment,
        start: int,
        end: int,
    ) -> Iterator[RecordBatch]:
        """Batches of one segment with offsets in a range.

        Raises:
            RecordsLost: retention has removed it.
        """
        with self._reached():
            try:
                found = SegmentObject(self._bucket, folder.name, segment)
                yield from found.batches(start, end)
            except NoObject:
                raise RecordsLost(partition, start, end) from None

    def folder(self, partition: LogPartition, number: int | None = None) -> RemoteFolder:
        """List the segments of a partition.

        Args:
            number: of the partition on its broker; None: the highest, if the queue was declared again.
        """
        place = f"{directory_name(partition.vhost)}/{directory_name(partition.queue)}"
        place = f"{place}-{partition.partition}"
        with self._reached():
            numbers = [each for each in self._bucket.folders(place) if each.isdecimal()]
            if number is not None:
                numbers = [each for each in numbers if int(each) == number]
            if not numbers:
                return RemoteFolder(place, [], number)
            name = f"{place}/{max(numbers)}"
            return RemoteFolder(
                name, stored_segments(self._bucket.objects(name)), int(max(numbers))
            )

    @contextmanager
    def _reached(self) -> Iterator[None]:
        try:
            yield
        except BucketFailed as error:
            raise StorageUnreachable(self._place, str(error)) from None


def _size(batch: RecordBatch) -> BatchSize:
    size = batch.records.bodies_bytes
    return BatchSize(batch.base_offset, batch.end_offset, size, lambda: batch)
