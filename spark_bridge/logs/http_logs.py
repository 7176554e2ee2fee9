"""The logs of a broker on another host, read from its HTTP log service."""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial
from http.client import HTTPResponse
from typing import Any

from routelog.log_backend.records.record_batch import RecordBatch
from routelog.spark_bridge.logs.batch_stream import batch_stream
from routelog.spark_bridge.logs.errors import RecordsLost, ServiceRefused
from routelog.spark_bridge.logs.http_endpoint import HttpEndpoint
from routelog.spark_bridge.logs.http_session import HttpSession
from routelog.spark_bridge.logs.readable_logs import (
    BatchSize,
    Cut,
    LogPartition,
    OffsetRange,
    Ticket,
    cut_batches,
)


class HttpLogs:
    """Reads the logs of a broker over HTTP.

    Args:
        tokens: by vhost, from `ticket` on the driver.
    """

    def __init__(self, endpoint: HttpEndpoint, tokens: Ticket) -> None:
        self._endpoint = endpoint
        self._session = HttpSession(endpoint, tokens)

    def ticket(self, vhost: str) -> Ticket:
        """A token for executors, so that the password stays on the driver."""
        attempts = self._session.attempts()
        while True:
            with attempts.excused():
                return {vhost: self._session.token(vhost)}

    def vhosts(self) -> list[str]:
        """Names of the vhosts that the user may access, sorted."""
        return self._session.vhosts()

    def partitions(self, vhost: str, queues: Collection[str] | None) -> list[LogPartition]:
        """Partitions of some queues, or of all that the user may read; see `ReadableLogs.partitions`."""
        query = {} if queues is None else {"queues": json.dumps(sorted(queues))}
        found = self._session.get(vhost, (), **query) or []
        return sorted(
            LogPartition(vhost, each["queue"], number)
            for each in found
            for number in range(each["partitions"])
        )

    def extents(self, partition: LogPartition) -> list[OffsetRange]:
        """One range for each segment; a deleted queue has an empty one at offset 0."""
        found = self._get(partition)
        if found is None:
            return [OffsetRange(partition, 0, 0, 0)]
        number = found["number"]
        return [
            OffsetRange(partition, start, end, size, number=number)
            for start, end, size in found["segments"]
        ]

    def next_offset(self, partition: LogPartition) -> int:
        """Offset of the next record to come; 0 if the queue was deleted."""
        found = self._get(partition)
        return 0 if found is None else int(found["next_offset"])

    def located(self, wanted: OffsetRange) -> OffsetRange:
        """The same range with the best position hint that is known without reading.

        The broker needs no hint.
        """
        return wanted

    def offset_at(self, partition: LogPartition, time: int) -> int | None:
        """Offset of the first record that was received at a time or later; None if there is none."""
        found = self._get(partition, "offset", time=time)
        return None if found is None else found["offset"]

    def cut(self, wanted: OffsetRange, bytes_max: int) -> Cut:
        """The longest beginning of a range whose bodies have at most `bytes_max` bytes."""
        start, end = wanted.start, wanted.end
        found = self._get(wanted.partition, "body-sizes", start=start, end=end, bytes=bytes_max)
        sizes = (
            BatchSize(first, behind, size, partial(self._batch, wanted, first, behind))
            for first, behind, size in found or ()
        )
        return cut_batches(sizes, start, end, bytes_max)

    def read(self, wanted: OffsetRange, *, lost_is_error: bool = True) -> Iterator[RecordBatch]:
        """Batches with offsets in a range; see `ReadableLogs.read`.

        Raises:
            ServiceUnreachable: the broker cannot be reached.
            ServiceRefused: the broker was busy for too long.
        """
        partition, reached = wanted.partition, wanted.start
        attempts = self._session.attempts()
        while reached < wanted.end:
            with attempts.excused():
                query = {"start": reached, "end": wanted.end}
                if wanted.number is not None:
                    query["number"] = wanted.number
                with self._session.answer(
                    partition.vhost, (*_path(partition), "records"), query
                ) as answer:
                    if answer is None and lost_is_error:
                        raise RecordsLost(partition, reached, wanted.end)
                    if answer is None:
                        return
                    start, end = _covered(answer)
                    if start > reached and lost_is_error:
                        raise RecordsLost(partition, reached, start)
                    for batch in self._batches(answer, partition):
                        yield batch
                        attempts.succeeded()
                        reached = max(reached, batch.end_offset)
                    reached = end

    def number(self, partition: LogPartition) -> int | None:
        """The partition's number on its broker; None if the queue was deleted."""
        found = self._get(partition)
        return None if found is None else found["number"]

    def report(self, consumer: str, position: Mapping[LogPartition, int]) -> None:
        """Tell the broker the position of a consumer: it keeps later records for it, and shows its lag.

        Raises:
            ServiceRefused: the broker cannot keep a log for consumers.
        """
        offsets: dict[tuple[str, str], dict[str, int]] = {}
        for each, offset in position.items():
            offsets.setdefault((each.vhost, each.queue), {})[str(each.partition)] = offset
        for (vhost, queue), numbers in offsets.items():
            self._session.put(vhost, (queue, "readers", consumer), {"offsets": numbers})

    def _batches(self, answer: HTTPResponse, partition: LogPartition) -> Iterator[RecordBatch]:
        place = f"{partition} at {self._endpoint}"
        return batch_stream(answer.readinto, answer.length or 0, place)

    def _batch(self, wanted: OffsetRange, start: int, end: int) -> RecordBatch:
        one = replace(wanted, start=max(start, wanted.start), end=min(end, wanted.end))
        return next(self.read(one))

    def _get(self, partition: LogPartition, *path: str, **query: object) -> Any:
        return self._session.get(partition.vhost, (*_path(partition), *path), **query)


def _path(partition: LogPartition) -> tuple[str, str]:
    return partition.queue, str(partition.partition)


def _covered(answer: HTTPResponse) -> tuple[int, int]:
    start, _, end = answer.headers.get("RouteLog-Offsets", "").partition("-")
    if not (start.isdecimal() and end.isdecimal()):
        raise ServiceRefused("the answer does not say which offsets it covers")
    return int(start), int(end)
