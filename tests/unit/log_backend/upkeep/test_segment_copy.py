"""Copying one segment: what is damaged is not copied, and a broker that stops does not wait for it."""

import threading
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from unit.log_backend.log_records import records

from routelog.log_backend.doors.clock import SystemClock
from routelog.log_backend.doors.disk import Buffer, SystemDisk
from routelog.log_backend.records.record_batch import RecordBatch
from routelog.log_backend.remote.folder_bucket import FolderBucket
from routelog.log_backend.remote.remote_segment import stored_segments
from routelog.log_backend.segments.segment import Segment
from routelog.log_backend.segments.segment_file import SegmentDamaged
from routelog.log_backend.upkeep.segment_copy import CopyStopped, SegmentCopier


class StoppedClock(SystemClock):
    """It shows what it is told."""

    seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds


class Pauses(threading.Event):
    """Notes how long somebody would have waited."""

    def __init__(self) -> None:
        super().__init__()
        self.waited: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waited.append(timeout or 0.0)
        return self.is_set()


def sealed(folder: Path) -> Segment:
    """A segment of about 3 MiB."""
    segment = Segment(folder / f"{0:020d}.log", 0)
    with segment.path.open("wb") as file:
        for number in range(3):
            batch = RecordBatch(records([b"x" * 1_000_000]), number, 1)
            segment.add(batch, file.tell(), batch.records.batch_bytes)
            file.write(batch.header() + bytes(batch.records.payload))
    segment.written()
    segment.next_base = 3
    return segment


def copier(
    tmp_path: Path, stopping: threading.Event, rate: int
) -> tuple[FolderBucket, SegmentCopier]:
    bucket = FolderBucket(SystemDisk(), tmp_path / "bucket")
    clock = StoppedClock()
    return bucket, SegmentCopier(
        bucket, SystemDisk(), clock, epoch=7, bytes_per_second=rate, stopping=stopping
    )


def test_a_copy_is_the_file_at_a_bounded_rate(tmp_path: Path) -> None:
    pauses = Pauses()
    bucket, copies = copier(tmp_path, pauses, 1024 * 1024)
    segment = sealed(tmp_path)
    copied = copies.copy("v/q-0/1", segment)
    assert stored_segments(bucket.objects("v/q-0/1")) == [copied]
    with closing(bucket.open(f"v/q-0/1/{copied.content_name}")) as found:
        assert bytes(found.read(0, found.size)) == segment.path.read_bytes()
    assert [round(each, 1) for each in pauses.waited] == [1.0, 2.0, 2.9]


def test_a_damaged_segment_is_not_copied(tmp_path: Path) -> None:
    bucket, copies = copier(tmp_path, threading.Event(), 0)
    segment = sealed(tmp_path)
    content = bytearray(segment.path.read_bytes())
    content[-100] ^= 1
    segment.path.write_bytes(content)
    with pytest.raises(SegmentDamaged):
        copies.copy("v/q-0/1", segment)
    assert bucket.objects("v/q-0/1") == {}


def test_a_broker_that_stops_leaves_no_segment_behind(tmp_path: Path) -> None:
    stopping = Pauses()
    bucket, copies = copier(tmp_path, stopping, 1)
    segment = sealed(tmp_path)

    def stop(timeout: float | None = None) -> bool:
        stopping.set()
        return True

    stopping.wait = stop  # type: ignore[method-assign]
    with pytest.raises(CopyStopped):
        copies.copy("v/q-0/1", segment)
    assert stored_segments(bucket.objects("v/q-0/1")) == []


class BrittleBucket(FolderBucket):
    """What breaks off has its name all the same, as with S3."""

    def write(self, name: str, pieces: Iterable[Buffer], size: int) -> None:
        """See `Bucket`."""
        written: list[Buffer] = []
        try:
            for piece in pieces:
                written.append(bytes(piece))
        finally:
            super().write(name, written, sum(map(len, written)))


def test_no_name_is_written_twice(tmp_path: Path) -> None:
    stopping = threading.Event()
    bucket = BrittleBucket(SystemDisk(), tmp_path / "bucket")
    copies = SegmentCopier(
        bucket, SystemDisk(), StoppedClock(), epoch=7, bytes_per_second=0, stopping=stopping
    )
    segment = sealed(tmp_path)
    pieces = copies._pieces

    def stop(file: int, size: int) -> Iterator[bytearray]:
        yield next(pieces(file, size))
        raise CopyStopped

    copies._pieces = stop  # type: ignore[method-assign]
    with pytest.raises(CopyStopped):
        copies.copy("v/q-0/1", segment)
    (half,) = bucket.objects("v/q-0/1").items()
    assert stored_segments(bucket.objects("v/q-0/1")) == []
    copies._pieces = pieces  # type: ignore[method-assign]
    copied = copies.copy("v/q-0/1", segment)
    assert (copied.epoch, copied.copy) == (7, 2)
    found = bucket.objects("v/q-0/1")
    assert stored_segments(found) == [copied]
    assert half in found.items()
    assert len(found) == 3
