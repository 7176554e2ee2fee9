"""Known values of the log's formats, and their bytes: `python tests/golden/log_formats.py` writes the files.

A file is written once, when its format version is new; afterwards it must never change.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from unit.log_backend.compressed_bytes import packed
from unit.log_backend.journal_blocks import block_bytes
from unit.log_backend.log_records import records

from routelog.log_backend.journal.journal_block import (
    FileMark,
    HandedOut,
    JournalEntry,
    MetadataChanges,
    Reason,
    Redelivered,
    Settlement,
)
from routelog.log_backend.journal.journal_files import encode_end
from routelog.log_backend.journal.journal_groups import JournalGroups
from routelog.log_backend.metadata.metadata import Change
from routelog.log_backend.records.record_batch import RecordBatch
from routelog.log_backend.segments.compressed_segment import LZ4, ZSTD
from routelog.log_backend.segments.partition_file import encode_number
from routelog.log_backend.segments.segment import Segment
from routelog.log_backend.settlement.cursor_snapshot import Marks, SnapshotWriter
from routelog.log_backend.settlement.settled_chunk import BITMAP_BYTES, Bitmap, Runs

FOLDER = Path(__file__).parent
TIME = 1_700_000_000_000_000
PROPERTIES = b"\x90\x00\x0atext/plain\x02"  # content-type and delivery-mode 2

SHARED_KEY = RecordBatch(
    records([b"first", b"", b"third body"], exchange=b"amq.topic", routing_key=b"a.b", time=TIME),
    368_769,
    7,
)
KEY_COLUMN = RecordBatch(
    records(
        [b"x" * 20, b"y"],
        persistent=False,
        routing_keys=[b"orders.eu", b""],
        properties=PROPERTIES,
        time=TIME + 1,
    ),
    (1 << 40) + 5,
    8,
)
SCATTERED = [(368_700, 368_701), (368_702, 368_705), (368_706, 368_707), (368_760, 368_764)]
ENTRIES = [
    JournalEntry(3, SHARED_KEY),
    JournalEntry(4, Settlement(0, [(0, 17), (20, 368_769)])),
    JournalEntry(5, Settlement(2, [], Reason.PURGED)),
    JournalEntry(4, Settlement(1, [(18, 19)], Reason.LOST)),
    JournalEntry(4, Settlement(0, SCATTERED, Reason.REJECTED)),
    JournalEntry(4, HandedOut(0, 368_772)),
    JournalEntry(4, Redelivered(0, [(17, 18, 3), (19, 20, 1)])),
]
# Of two publishes, to three queues and to two.
FAN_OUTS = [
    (3, SHARED_KEY),
    (4, RecordBatch(SHARED_KEY.records, 0, 7)),
    (1 << 40, RecordBatch(SHARED_KEY.records, (1 << 40) + 5, 8)),
    (4, RecordBatch(KEY_COLUMN.records, 3, 7)),
    (3, RecordBatch(KEY_COLUMN.records, 368_772, 7)),
]
METADATA_ENTRIES = [
    JournalEntry(
        0,
        MetadataChanges(
            [
                Change(b"queues/%2F/q", b'{"version":1}'),
                Change(b"users/guest", None),
                Change(b"journal/of-a-test", b""),
            ]
        ),
    ),
    JournalEntry(0, MetadataChanges([])),
]
BLOCK_FILE = FileMark(17, 0x0123_4567_89AB_CDEF)
BLOCK_MARKS = 1_002, 990, 1_001  # position, first, committed
BLOCK_CHAIN = {"epoch": 12, "previous": 0x89AB_CDEF}
INDEXED_BATCHES = 12
PARTITION = 368_769
SNAPSHOT = SnapshotWriter(4, 1)
MARKS = Marks(17, 368_772, 1_000, 368_770)
RUNS = [(3, 5), (9, 10), (65_000, 65_536)]
# Nothing that could be packed: what comes out of a packer depends on its version.
BITMAP = b"".join(sha256(bytes((number,))).digest() for number in range(BITMAP_BYTES // 32))
COUNTS = [(131_072, 131_073, 3), (131_080, 196_608, 1)]
COMPRESSED_BASE = 368_769


def fan_out_block() -> bytes:
    """A block in which batches have their records from others."""
    position, first, committed = BLOCK_MARKS
    groups = JournalGroups(lambda waited: None, lambda pressed: None)
    groups.start(position)
    for partition, batch in FAN_OUTS:
        groups.append_batch(partition, batch, True, True)
    group = groups.take_first()
    chain = BLOCK_CHAIN["epoch"], BLOCK_CHAIN["previous"]
    return bytes(group.block(*BLOCK_FILE, first, committed, 0, *chain))


def segment() -> Segment:
    """A segment of batches of about 1 KiB, with transient ones among them."""
    found = Segment(FOLDER / "segment-2.log", 100)
    for number in range(INDEXED_BATCHES):
        content = records([b"z" * 900] * 2, persistent=number != 5, time=TIME + number)
        batch = RecordBatch(content, 100 + 2 * number, 1)
        found.add(batch, found.size, content.batch_bytes)
    found.next_base = 130
    return found


def snapshot_entries() -> dict[str, Change]:
    """An entry of each form of a cursor's snapshot."""
    runs = Runs()
    for first, end in RUNS:
        runs.add(first, end)
    return {
        "cursor-marks-1.bin": SNAPSHOT.marks(MARKS),
        "cursor-runs-1.bin": SNAPSHOT.settled(3, runs),
        "cursor-bitmap-1.bin": SNAPSHOT.settled(4, Bitmap(bytearray(BITMAP))),
        "cursor-counts-1.bin": SNAPSHOT.counts(2, COUNTS),
    }


def compressed_blocks() -> list[bytes]:
    """Two blocks, the second of which does not get smaller."""
    return [_batch(SHARED_KEY) * 3, _batch(KEY_COLUMN)[:16]]


def files() -> dict[str, bytes]:
    """Name and content of every golden file, as written today."""
    (index_path, index), (time_path, times) = segment().index_files()
    return {
        "record-batch-1-shared-key.bin": _batch(SHARED_KEY),
        "record-batch-1-key-column.bin": _batch(KEY_COLUMN),
        "journal-block-2.bin": block_bytes(BLOCK_FILE, *BLOCK_MARKS, ENTRIES, **BLOCK_CHAIN),
        "journal-metadata-2.bin": block_bytes(
            BLOCK_FILE, *BLOCK_MARKS, METADATA_ENTRIES, **BLOCK_CHAIN
        ),
        "journal-fan-out-2.bin": fan_out_block(),
        "journal-end-1.bin": encode_end(2 * 4096),
        "partition-1.bin": encode_number(PARTITION),
        index_path.name: index,
        time_path.name: times,
        **{name: each.key + (each.value or b"") for name, each in snapshot_entries().items()},
        "segment-1-zstd.zlog": packed(ZSTD, COMPRESSED_BASE, compressed_blocks()),
        "segment-1-lz4.zlog": packed(LZ4, COMPRESSED_BASE, compressed_blocks()),
        "segment-1-stored-zstd.zlog": packed(ZSTD, 7, compressed_blocks()[1:]),
        "segment-1-stored-lz4.zlog": packed(LZ4, 7, compressed_blocks()[1:]),
    }


def _batch(batch: RecordBatch) -> bytes:
    return batch.header() + bytes(batch.records.payload)


if __name__ == "__main__":
    for name, content in files().items():
        path = FOLDER / name
        if not path.exists():
            path.write_bytes(content)
