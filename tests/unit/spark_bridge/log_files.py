"""Writes segments as a broker would, for readers to find."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence
from pathlib import Path

from routelog.log_backend.records.record_batch import RecordBatch, Records
from routelog.log_backend.records.record_encoding import encode_records
from routelog.log_backend.segments.log_directory import partition_directory, segment_path
from routelog.log_backend.segments.partition_file import PARTITION_FILE, encode_number
from routelog.log_backend.segments.segment_index import HEADER_BYTES

NO_PROPERTIES = b"\x00\x00"
TIME = 1_700_000_000_000_000


def records(
    bodies: Sequence[bytes],
    *,
    exchange: bytes = b"events",
    routing_key: bytes | None = b"key",
    routing_keys: Sequence[bytes] = (),
    properties: bytes | Sequence[bytes] = NO_PROPERTIES,
    time: int = TIME,
) -> Records:
    """The content of a batch; with `routing_keys`, each record has its own."""
    count = len(bodies)
    keys = routing_keys or [b""] * count
    lists = [properties] * count if isinstance(properties, bytes) else properties
    source = bytearray()
    rows = array("i")
    for parts in zip(keys, lists, bodies, strict=True):
        for part in parts:
            rows.extend((len(source), len(part)))
            source += part
    shared = None if routing_keys else routing_key
    view = memoryview(source)
    content: Records = encode_records(
        view, memoryview(rows), None, count, exchange, shared, 0, time
    )
    return content


def batch_bytes(content: Records, base_offset: int) -> bytes:
    """A batch as it stands in a segment."""
    return RecordBatch(content, base_offset, 1).header() + bytes(content.payload)


def numbered(first: int, count: int) -> Records:
    """Records whose bodies are their offsets."""
    return records([b"%d" % offset for offset in range(first, first + count)])


class LogFiles:
    """One partition's log below a data directory.

    Attributes:
        data: the data directory.
        directory: where the segments are.

    Args:
        number: of the partition on its broker; None: nothing says it.
    """

    def __init__(
        self,
        data: Path,
        queue: str = "audit",
        partition: int = 0,
        *,
        vhost: str = "/",
        number: int | None = None,
    ) -> None:
        self.data = data
        self.directory = partition_directory(data / "logs", vhost, queue, partition)
        self.directory.mkdir(parents=True)
        if number is not None:
            (self.directory / PARTITION_FILE).write_bytes(encode_number(number))

    def segment(self, base_offset: int, *batches: tuple[int, Records], tail: bytes = b"") -> Path:
        """Write a segment of batches at their offsets, and bytes behind them; return its path."""
        path = segment_path(self.directory, base_offset)
        path.write_bytes(b"".join(batch_bytes(content, at) for at, content in batches) + tail)
        return path

    def numbered_segment(self, base_offset: int, *counts: int, tail: bytes = b"") -> Path:
        """Write a segment of batches of `numbered` records that follow each other."""
        batches = []
        at = base_offset
        for count in counts:
            batches.append((at, numbered(at, count)))
            at += count
        return self.segment(base_offset, *batches, tail=tail)


def write_index(segment: Path, entries: Sequence[tuple[int, int]]) -> None:
    """Write the index of a segment: relative offsets and positions."""
    packed = b"".join(struct.pack("<II", *entry) for entry in entries)
    segment.with_suffix(".index").write_bytes(bytes(HEADER_BYTES) + packed)
