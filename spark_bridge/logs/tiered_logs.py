"""Reads logs from two places: the older part from remote storage, the rest from the broker."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Protocol

from routelog.log_backend.records.record_batch import RecordBatch
from routelog.spark_bridge.logs.errors import DeclaredAgain, RecordsLost
from routelog.spark_bridge.logs.object_logs import ObjectLogs, RemoteFolder
from routelog.spark_bridge.logs.readable_logs import (
    Cut,
    LogPartition,
    OffsetRange,
    ReadableLogs,
    Ticket,
)


class BrokerLogs(ReadableLogs, Protocol):
    """The part of the logs that the broker has."""

    def number(self, partition: LogPartition) -> int | None:
        """The partition's number on its broker; None if it does not exist there."""

    def report(self, consumer: str, position: Mapping[LogPartition, int]) -> None:
        """Tell how far a consumer has read."""


class TieredLogs:
    """Reads older records from remote storage, and newer ones from the broker.

    The broker removes a segment only when remote storage has it. So the broker must be listed first: remote
    storage then has all segments that the broker has removed.
    """

    def __init__(self, remote: ObjectLogs, broker: BrokerLogs) -> None:
        self._remote = remote
        self._broker = broker
        self._folders: dict[LogPartition, RemoteFolder] = {}
        # Of the broker's part, when the folder was listed
        self._begins: dict[LogPartition, int] = {}

    def ticket(self, vhost: str) -> Ticket:
        """The ticket of the broker."""
        return self._broker.ticket(vhost)

    def vhosts(self) -> list[str]:
        """Names of the broker's vhosts."""
        return self._broker.vhosts()

    def partitions(self, vhost: str, queues: Collection[str] | None) -> list[LogPartition]:
        """The broker's partitions: others were deleted."""
        return self._broker.partitions(vhost, queues)

    def extents(self, partition: LogPartition) -> list[OffsetRange]:
        """Ranges of remote storage, then those that only the broker has; a gap is a range without bytes."""
        near = self._broker.extents(partition)
        far = self._known(partition, near).extents(partition)
        if not far:
            return near
        end = far[-1].end
        left = [replace(each, start=max(each.start, end)) for each in near if each.end > end]
        if left and left[0].start > end:
            far.append(replace(left[0], start=end, end=left[0].start, bytes_estimate=0))
        return [*far, *left]

    def next_offset(self, partition: LogPartition) -> int:
        """Offset of the next record to come, at the broker."""
        return self._broker.next_offset(partition)

    def located(self, wanted: OffsetRange) -> OffsetRange:
        """The same range with the best position hint that is known without reading."""
        return wanted if self._is_remote(wanted) else self._broker.located(wanted)

    def offset_at(self, partition: LogPartition, time: int) -> int | None:
        """Offset of the first record that was received at a time or later; None if there is none."""
        found = self._remote.offset_at(partition, time, self._folder(partition))
        return self._broker.offset_at(partition, time) if found is None else found

    def cut(self, wanted: OffsetRange, bytes_max: int) -> Cut:
        """The longest beginning of a range whose bodies have at most `bytes_max` bytes."""
        store: ReadableLogs = self._remote if self._is_remote(wanted) else self._broker
        return store.cut(wanted, bytes_max)

    def read(self, wanted: OffsetRange, *, lost_is_error: bool = True) -> Iterator[RecordBatch]:
        """Batches with offsets in a range; see `ReadableLogs.read`."""
        partition, reached = wanted.partition, wanted.start
        while reached < wanted.end:
            folder = self._folder(partition)
            if not wanted.is_of(folder.number):
                if lost_is_error:
                    raise DeclaredAgain(partition, reached)
                return
            segment = folder.holding(reached)
            end = min(folder.next_after(reached) or wanted.end, wanted.end)
            try:
                if segment is not None:
                    end = min(segment.next_base, wanted.end)
                    found = self._remote.batches(partition, folder, segment, reached, end)
                else:
                    found = self._broker.read(replace(wanted, start=reached, end=end))
                for batch in found:
                    yield batch
                    reached = max(reached, batch.end_offset)
                reached = end
            except RecordsLost as lost:
                # The broker may have removed it during the read: then remote storage has it.
                reached = max(reached, lost.start)
                self._list_folder(partition)
                if self._folder(partition).holding(reached) not in (None, segment):
                    continue
                if lost_is_error:
                    raise
                if segment is None:
                    rest = replace(wanted, start=reached, end=end)
                    yield from self._broker.read(rest, lost_is_error=False)
                reached = end

    def report(self, consumer: str, position: Mapping[LogPartition, int]) -> None:
        """Tell how far a consumer has read."""
        self._broker.report(consumer, position)

    def _known(self, partition: LogPartition, near: list[OffsetRange]) -> RemoteFolder:
        """The segments in remote storage; listed again if the begin of the broker's part has moved."""
        known = self._folders.get(partition)
        begins, self._begins[partition] = self._begins.get(partition), near[0].start
        was_declared_again = known is not None and not near[0].is_of(known.number)
        if known is None or begins != near[0].start or was_declared_again:
            return self._list_folder(partition)
        return known

    def _is_remote(self, wanted: OffsetRange) -> bool:
        return self._folder(wanted.partition).holding(wanted.start) is not None

    def _folder(self, partition: LogPartition) -> RemoteFolder:
        return self._folders.get(partition) or self._list_folder(partition)

    def _list_folder(self, partition: LogPartition) -> RemoteFolder:
        found = self._remote.folder(partition, self._broker.number(partition))
        self._folders[partition] = found
        return found
