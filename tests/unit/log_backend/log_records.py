"""Records and batches made of plain bodies."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from routelog.log_backend.records.record_batch import PERSISTENT, RecordBatch, Records
from routelog.log_backend.records.record_encoding import encode_records

NO_PROPERTIES = b"\x00\x00"
TIME = 1_700_000_000_000_000


def records(
    bodies: Sequence[bytes],
    *,
    persistent: bool = True,
    exchange: bytes = b"",
    routing_key: bytes = b"key",
    routing_keys: Sequence[bytes] | None = None,
    properties: bytes = NO_PROPERTIES,
    time: int = TIME,
) -> Records:
    """The content of a batch; with `routing_keys`, each record has its own."""
    keys = routing_keys if routing_keys is not None else [routing_key] * len(bodies)
    source = bytearray()
    rows = array("i")
    for parts in zip(keys, [properties] * len(bodies), bodies, strict=True):
        for part in parts:
            rows.extend((len(source), len(part)))
            source += part
    content: Records = encode_records(
        memoryview(source),
        memoryview(rows),
        None,
        len(bodies),
        exchange,
        None if routing_keys is not None else routing_key,
        PERSISTENT if persistent else 0,
        time,
    )
    return content


def batch(
    bodies: Sequence[bytes], base_offset: int = 0, *, persistent: bool = True, time: int = TIME
) -> RecordBatch:
    """A batch at an offset, of leader epoch 1."""
    return RecordBatch(records(bodies, persistent=persistent, time=time), base_offset, 1)


def encoded(record_batch: RecordBatch) -> bytes:
    """The bytes of a batch as they lie in a segment."""
    return record_batch.header() + bytes(record_batch.records.payload)


def bodies_of(record_batch: RecordBatch) -> list[bytes]:
    """The bodies of a batch."""
    return [record_batch.records.body(index) for index in range(record_batch.records.count)]
