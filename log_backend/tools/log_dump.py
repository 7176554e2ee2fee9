"""What a data directory holds, as values for people and programs."""

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from routelog.log_backend.journal.journal_block import (
    HandedOut,
    JournalEntry,
    MetadataChanges,
    Redelivered,
    Settlement,
)
from routelog.log_backend.records.record_batch import RecordBatch
from routelog.log_backend.segments.log_directory import with_following
from routelog.log_backend.segments.segment_scan import read_segment, scan
from routelog.log_backend.tools.data_directory import DataDirectory, StoredPartition
from routelog.log_backend.tools.log_verification import check_journal


class SegmentReport(msgspec.Struct, frozen=True, kw_only=True):
    """One segment; times are microseconds since 1970, 0 when it holds no whole batch."""

    file: str
    base_offset: int
    end_offset: int
    bytes: int
    batches: int
    records: int
    damaged: int
    first_time: int
    last_time: int


class CursorReport(msgspec.Struct, frozen=True, kw_only=True):
    """A cursor at its last snapshot; the journal has what came later.

    Attributes:
        settled_above: settled offsets above the low water, so that there are holes between.
    """

    cursor: int
    low_water: int
    settled_above: int


class PartitionReport(msgspec.Struct, frozen=True, kw_only=True):
    """One partition; offsets as at the last checkpoint."""

    vhost: str
    queue: str
    index: int
    partition: int | None
    directory: str
    known: bool
    next_offset: int
    synced_offset: int
    quarantined: list[str]
    lost: list[tuple[int, int]]
    cursors: list[CursorReport]
    segments: list[SegmentReport]


class JournalReport(msgspec.Struct, frozen=True, kw_only=True):
    """One journal file; positions are 0 when it holds no block."""

    file: str
    bytes: int
    blocks: int
    entries: int
    first_position: int
    last_position: int
    damaged: int


class RecordReport(msgspec.Struct, frozen=True, kw_only=True):
    """One stored record; `properties` and `body` are hexadecimal."""

    offset: int
    time: int
    exchange: str
    routing_key: str
    bytes: int
    persistent: bool
    settled: bool
    properties: str
    body: str | None = None


class BlockReport(msgspec.Struct, frozen=True, kw_only=True):
    """One commit of the journal."""

    file: str
    at: int
    position: int
    epoch: int
    committed: int
    checksum: int
    bytes: int
    entries: list[dict[str, object]]


def partition_report(
    data: DataDirectory, partition: StoredPartition, progress: Callable[[int], None]
) -> PartitionReport:
    """A partition with its segments and cursors; reads it whole, and tells the bytes that it has read."""
    number = partition.number if partition.number is not None else 0
    marks = data.marks(number)
    damage = data.damage(number)
    return PartitionReport(
        vhost=partition.vhost,
        queue=partition.queue,
        index=partition.index,
        partition=partition.number,
        directory=data.relative(partition.directory),
        known=partition.known,
        next_offset=marks.next_offset,
        synced_offset=marks.synced_offset,
        quarantined=[str(each) for each in damage.found],
        lost=damage.lost,
        cursors=[
            CursorReport(
                cursor=cursor.number,
                low_water=cursor.low_water,
                settled_above=cursor.settled.count_from(cursor.low_water, marks.next_offset),
            )
            for cursor in marks.cursors
        ],
        segments=[_segment_report(data, *each, progress) for each in partition.segments.items()],
    )


def _segment_report(
    data: DataDirectory, base: int, path: Path, progress: Callable[[int], None]
) -> SegmentReport:
    content = read_segment(data.disk, path)
    progress(len(content))
    stretches = list(scan(content, base))
    batches = [stretch.batch for stretch in stretches if stretch.batch is not None]
    return SegmentReport(
        file=path.name,
        base_offset=base,
        end_offset=batches[-1].end_offset if batches else base,
        bytes=len(content),
        batches=len(batches),
        records=sum(batch.records.count for batch in batches),
        damaged=len(stretches) - len(batches),
        first_time=batches[0].records.time if batches else 0,
        last_time=batches[-1].records.last_time if batches else 0,
    )


def stored_records(
    data: DataDirectory, partition: StoredPartition, first: int, *, with_bodies: bool = False
) -> Iterator[RecordReport]:
    """The stored records of a partition from an offset on; damaged batches are left out."""
    number = partition.number if partition.number is not None else 0
    cursors = data.marks(number).cursors
    for base, behind in with_following(list(partition.segments)):
        if behind is not None and behind <= first:
            continue
        content = read_segment(data.disk, partition.segments[base])
        for stretch in scan(content, base):
            batch = stretch.batch
            if batch is None or batch.end_offset <= first:
                continue
            for offset in range(max(first, batch.base_offset), batch.end_offset):
                is_settled = bool(cursors) and all(offset in each.settled for each in cursors)
                yield _record(batch, offset, is_settled=is_settled, with_body=with_bodies)


def _record(batch: RecordBatch, offset: int, *, is_settled: bool, with_body: bool) -> RecordReport:
    content, at = batch.records, offset - batch.base_offset
    body = content.body(at)
    return RecordReport(
        offset=offset,
        time=content.time,
        exchange=content.exchange.decode(errors="replace"),
        routing_key=content.routing_key(at).decode(errors="replace"),
        bytes=len(body),
        persistent=content.persistent,
        settled=is_settled,
        properties=content.properties(at).hex(),
        body=body.hex() if with_body else None,
    )


def journal_reports(
    data: DataDirectory, progress: Callable[[int], None]
) -> Iterator[tuple[JournalReport, list[BlockReport]]]:
    """The journal's files, each with its commits; tells the bytes that were read."""
    for check in check_journal(data):
        progress(check.bytes)
        blocks = [
            BlockReport(
                file=check.path.name,
                at=at,
                position=block.position,
                epoch=block.epoch,
                committed=block.committed,
                checksum=block.checksum,
                bytes=block.length,
                entries=[_entry(entry) for entry in block.entries],
            )
            for at, block in check.blocks
        ]
        report = JournalReport(
            file=check.path.name,
            bytes=check.bytes,
            blocks=len(blocks),
            entries=sum(len(block.entries) for block in blocks),
            first_position=blocks[0].position if blocks else 0,
            last_position=blocks[-1].position if blocks else 0,
            damaged=sum(severity == "damage" for severity, *_ in check.found),
        )
        yield report, blocks


def _entry(entry: JournalEntry) -> dict[str, object]:
    change = entry.change
    if isinstance(change, MetadataChanges):
        changes = [
            {"key": each.key.decode(errors="backslashreplace"), "deleted": each.value is None}
            for each in change.changes
        ]
        return {"kind": type(change).__name__, "changes": changes}
    found: dict[str, object] = {"partition": entry.partition, "kind": type(change).__name__}
    if isinstance(change, RecordBatch):
        found |= {"first": change.base_offset, "end": change.end_offset}
        found |= {"bytes": change.records.batch_bytes, "epoch": change.leader_epoch}
    elif isinstance(change, Settlement):
        found |= {"cursor": change.cursor, "reason": change.reason.name.lower()}
        found |= {"ranges": list(change.ranges)}
    elif isinstance(change, HandedOut):
        found |= {"cursor": change.cursor, "end": change.end}
    elif isinstance(change, Redelivered):
        found |= {"cursor": change.cursor, "counts": list(change.counts)}
    return found
