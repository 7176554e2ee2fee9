import pytest
from golden.log_formats import (
    BITMAP,
    BLOCK_CHAIN,
    BLOCK_FILE,
    BLOCK_MARKS,
    COMPRESSED_BASE,
    COUNTS,
    ENTRIES,
    FAN_OUTS,
    FOLDER,
    KEY_COLUMN,
    MARKS,
    METADATA_ENTRIES,
    PARTITION,
    PROPERTIES,
    RUNS,
    SCATTERED,
    SHARED_KEY,
    TIME,
    compressed_blocks,
    files,
    segment,
    snapshot_entries,
)
from unit.log_backend.compressed_bytes import packed, reader

from routelog.log_backend.journal.journal_block import (
    HandedOut,
    Reason,
    Redelivered,
    Settlement,
    decode_block,
)
from routelog.log_backend.journal.journal_files import find_end
from routelog.log_backend.records.record_batch import RecordBatch, decode_batch
from routelog.log_backend.segments.compressed_segment import LZ4, ZSTD
from routelog.log_backend.segments.partition_file import decode_number
from routelog.log_backend.segments.segment import Segment
from routelog.log_backend.segments.segment_index import decode_index
from routelog.log_backend.settlement.cursor_snapshot import read_snapshot
from routelog.log_backend.settlement.settled_chunk import Runs

SUFFIXES = (".bin", ".index", ".timeindex", ".zlog")
# Another release of a codec may write other bytes; what was written must be read for ever.
WRITTEN = [name for name in files() if not name.endswith(".zlog")]


def golden(name: str) -> bytes:
    return (FOLDER / name).read_bytes()


@pytest.mark.parametrize("name", WRITTEN)
def test_what_is_written_today_is_what_was_written_then(name: str) -> None:
    assert files()[name] == golden(name)


def test_there_is_no_golden_file_that_nothing_reads() -> None:
    names = {path.name for path in FOLDER.iterdir() if path.suffix in SUFFIXES}
    assert names == set(files())


def test_a_batch_with_one_key_is_read() -> None:
    batch = decode_batch(golden("record-batch-1-shared-key.bin"), 0)
    content = batch.records
    assert (batch.base_offset, batch.end_offset, batch.leader_epoch) == (368_769, 368_772, 7)
    assert (content.time, content.last_time, content.persistent) == (TIME, TIME, True)
    assert [content.body(index) for index in range(3)] == [b"first", b"", b"third body"]
    assert [content.routing_key(index) for index in range(3)] == [b"a.b"] * 3
    assert [content.properties(index) for index in range(3)] == [b"\0\0"] * 3
    assert content.exchange == b"amq.topic"
    assert batch.header() == SHARED_KEY.header()


def test_a_batch_with_a_key_column_is_read() -> None:
    batch = decode_batch(golden("record-batch-1-key-column.bin"), 0)
    content = batch.records
    assert (batch.base_offset, batch.leader_epoch) == ((1 << 40) + 5, 8)
    assert not content.persistent
    assert [content.routing_key(index) for index in range(2)] == [b"orders.eu", b""]
    assert content.properties(1) == PROPERTIES
    assert content.body(0) == b"x" * 20
    assert batch.header() == KEY_COLUMN.header()


def test_a_journal_block_is_read() -> None:
    block = decode_block(bytearray(golden("journal-block-2.bin")), 0, BLOCK_FILE)
    assert block is not None
    assert (block.position, block.first, block.committed) == BLOCK_MARKS
    assert (block.shard, {"epoch": block.epoch, "previous": block.previous}) == (0, BLOCK_CHAIN)
    assert [entry.partition for entry in block.entries] == [entry.partition for entry in ENTRIES]
    batch, *changes = (entry.change for entry in block.entries)
    assert isinstance(batch, RecordBatch)
    assert batch.header() == SHARED_KEY.header()
    found = [
        (each.cursor, each.ranges, each.reason) for each in changes if isinstance(each, Settlement)
    ]
    assert found == [
        (0, [(0, 17), (20, 368_769)], Reason.ACKED),
        (2, [], Reason.PURGED),
        (1, [(18, 19)], Reason.LOST),
        (0, SCATTERED, Reason.REJECTED),
    ]
    packed, handed_out, redelivered = changes[3:]
    assert isinstance(packed, Settlement)
    assert packed.bitmap is not None
    assert isinstance(handed_out, HandedOut)
    assert (handed_out.cursor, handed_out.end) == (0, 368_772)
    assert isinstance(redelivered, Redelivered)
    assert (redelivered.cursor, redelivered.counts) == (0, [(17, 18, 3), (19, 20, 1)])


def test_a_journal_block_of_fan_outs_is_read() -> None:
    block = decode_block(bytearray(golden("journal-fan-out-2.bin")), 0, BLOCK_FILE)
    assert block is not None
    found = [(each.partition, each.change) for each in block.entries]
    assert [(partition, batch.header()) for partition, batch in found] == [
        (partition, batch.header()) for partition, batch in FAN_OUTS
    ]
    assert [bytes(batch.records.payload) for _, batch in found] == [
        bytes(batch.records.payload) for _, batch in FAN_OUTS
    ]
    assert len({id(batch.records) for _, batch in found}) == 2


def test_a_journal_block_of_changes_of_metadata_is_read() -> None:
    block = decode_block(bytearray(golden("journal-metadata-2.bin")), 0, BLOCK_FILE)
    assert block is not None
    found = [(entry.partition, entry.change.changes) for entry in block.entries]
    assert found == [(0, entry.change.changes) for entry in METADATA_ENTRIES]


def test_a_cursor_snapshot_is_read() -> None:
    entries = []
    for name, change in snapshot_entries().items():
        content, key_bytes = golden(name), len(change.key)
        entries.append((content[:key_bytes], content[key_bytes:]))
    snapshot = read_snapshot(entries)
    assert snapshot.marks == MARKS
    assert snapshot.counts == {2: COUNTS}
    runs, bitmap = snapshot.settled[3], snapshot.settled[4]
    assert isinstance(runs, Runs)
    assert list(runs.runs()) == RUNS
    assert bitmap.encode() == BITMAP


def test_a_partition_file_is_read() -> None:
    assert decode_number(golden("partition-1.bin")) == PARTITION


def test_an_end_mark_of_a_journal_file_is_read() -> None:
    page = golden("journal-end-1.bin")
    assert len(page) == 4096
    assert find_end(bytes(4096) + page) == 4096
    assert find_end(page) is None


def test_segment_indexes_are_read() -> None:
    written = segment()
    read = Segment(written.path, written.base_offset)
    index = decode_index(golden("segment-2.index"), golden("segment-2.timeindex"))
    assert index is not None
    assert (index.size, index.end_offset, index.next_base) == (written.size, 124, 130)
    read.use_index(index)
    assert read.transient
    assert read.last_indexed_position == written.last_indexed_position
    for offset in range(100, 124):
        assert read.position_of(offset) == written.position_of(offset)


@pytest.mark.parametrize(("name", "codec"), [("zstd", ZSTD), ("lz4", LZ4)])
def test_a_compressed_segment_is_read(name: str, codec: int) -> None:
    blocks = compressed_blocks()
    found = reader(golden(f"segment-1-{name}.zlog"))
    assert (found.base_offset, found.codec) == (COMPRESSED_BASE, codec)
    assert [block.length for block in found.blocks] == [len(block) for block in blocks]
    assert [block.stored_length < block.length for block in found.blocks] == [True, False]
    assert found.read(0, found.size) == b"".join(blocks)


@pytest.mark.parametrize(("name", "codec"), [("zstd", ZSTD), ("lz4", LZ4)])
def test_the_frame_of_a_compressed_segment_is_written_as_it_was(name: str, codec: int) -> None:
    stored = compressed_blocks()[1]  # no codec's bytes
    assert packed(codec, 7, [stored]) == golden(f"segment-1-stored-{name}.zlog")
