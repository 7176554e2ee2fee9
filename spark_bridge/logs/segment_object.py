"""Reads one segment in remote storage, one request ahead of its consumer."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

from routelog.log_backend.records.record_batch import RecordBatch
from routelog.log_backend.remote.bucket import Bucket, StoredObject
from routelog.log_backend.remote.remote_segment import RemoteSegment, read_remote_index
from routelog.log_backend.segments.compressed_segment import CompressedSegment, CorruptCompression
from routelog.log_backend.segments.segment_index import SegmentIndex
from routelog.spark_bridge.logs.batch_stream import batch_stream
from routelog.spark_bridge.logs.errors import DamagedSegment

Readable = StoredObject | CompressedSegment

REQUEST_BYTES = 8 * 1024 * 1024  # storage takes tens of milliseconds to answer, then sends 100 MB/s


class SegmentObject:
    """A segment of a folder; positions are those before compression.

    Raises:
        NoObject: retention has removed it.
        DamagedSegment: its index fails a check.
    """

    def __init__(self, bucket: Bucket, folder: str, segment: RemoteSegment) -> None:
        self._bucket = bucket
        self._name = f"{folder}/{segment.content_name}"
        self._segment = segment
        index = read_remote_index(bucket, folder, segment)
        if index is None:
            raise DamagedSegment(f"{folder}/{segment.index_name}", 0, "it fails its checksum")
        self.index: SegmentIndex = index

    def batches(self, start: int, end: int) -> Iterator[RecordBatch]:
        """Batches that hold offsets of a range, checksums verified.

        Raises:
            NoObject: retention has removed it.
            DamagedSegment: a batch fails a check.
        """
        first = self.index.position_before(start - self._segment.base_offset)
        behind = self.index.position_behind(end - self._segment.base_offset)
        for batch in self._between(first, behind):
            if batch.base_offset >= end:
                return
            if batch.end_offset > start:
                yield batch

    def offset_at(self, time: int) -> int | None:
        """Offset of the first batch of a time or later, if there is one."""
        for batch in self._between(self.index.position_before_time(time), self.index.size):
            if batch.records.time >= time:
                return batch.base_offset
        return None

    def _between(self, position: int, end: int) -> Iterator[RecordBatch]:
        with closing(self._bucket.open(self._name)) as found:
            try:
                with closing(RequestsAhead(self._readable(found), position, end)) as ahead:
                    yield from batch_stream(ahead.read_into, end - position, self._name)
            except CorruptCompression as error:
                raise DamagedSegment(self._name, error.file_offset, error.reason) from None

    def _readable(self, found: StoredObject) -> Readable:
        is_compressed = self._segment.is_compressed
        content = CompressedSegment(found.read, found.size) if is_compressed else found
        if content.size != self.index.size:
            reason = f"it has {content.size} bytes, not {self.index.size}"
            raise DamagedSegment(self._name, 0, reason)
        return content


class RequestsAhead:
    """Reads a range of bytes in order; the next request is under way while the last chunk is consumed."""

    def __init__(self, content: Readable, position: int, end: int) -> None:
        self._content = content
        self._position = position
        self._end = end
        self._chunk = memoryview(b"")
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="remote-read")
        self._next_chunk = self._executor.submit(self._request)

    def read_into(self, target: memoryview) -> int:
        """Fill some of a view; 0 at the end."""
        if not self._chunk:
            self._chunk = memoryview(self._next_chunk.result())
            if not self._chunk:
                return 0
            self._next_chunk = self._executor.submit(self._request)
        size = min(len(target), len(self._chunk))
        target[:size] = self._chunk[:size]
        self._chunk = self._chunk[size:]
        return size

    def close(self) -> None:
        """End the thread, after a request that is under way."""
        self._executor.shutdown(wait=True, cancel_futures=True)

    def _request(self) -> bytes | bytearray:
        size = min(REQUEST_BYTES, self._end - self._position)
        content = self._content.read(self._position, size) if size else b""
        self._position += len(content)
        return content
