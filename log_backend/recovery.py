"""Recovery: partitions as snapshots, segments and the journal leave them when a node starts."""

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from routelog.log_backend.doors.disk import Disk, DiskFull
from routelog.log_backend.journal.journal import Journal
from routelog.log_backend.journal.journal_block import (
    NO_CURSOR,
    Block,
    JournalEntry,
    Reason,
    Settlement,
)
from routelog.log_backend.journal.journal_extent import JournalExtent
from routelog.log_backend.metadata.metadata import Change, MetadataStore
from routelog.log_backend.metadata.read_ahead import ReadAhead
from routelog.log_backend.partitions.cursor import Cursor
from routelog.log_backend.partitions.partition_log import PartitionLog
from routelog.log_backend.records.record_batch import RecordBatch
from routelog.log_backend.remote.remote_log import MARK_PREFIX, is_marked
from routelog.log_backend.segments.damage import (
    DAMAGE_PREFIX,
    EVERYTHING_BEHIND,
    Damage,
    load_damage,
)
from routelog.log_backend.segments.first_kept import (
    FIRST_KEPT_PREFIX,
    expected_bases,
    kept_names,
    load_first_kept,
)
from routelog.log_backend.segments.log_directory import (
    segment_path,
    segment_paths,
)
from routelog.log_backend.segments.partition_file import PARTITION_FILE
from routelog.log_backend.segments.segment import (
    OpenedSegment,
    Segment,
    holes,
    open_active,
    open_sealed,
)
from routelog.log_backend.segments.segment_file import SegmentDamaged
from routelog.log_backend.segments.segment_forms import current_segments, leave_one_form
from routelog.log_backend.segments.segment_writer import SegmentWriter
from routelog.log_backend.settlement.cursor_snapshot import (
    CURSORS_PREFIX,
    Marks,
    SnapshotWriter,
    cursor_number,
    partition_prefix,
)

log = logging.getLogger(__name__)

# Of metadata, carried out in one batch
CHANGES_MAX = 1_000
CHANGES_BYTES_MAX = 1024 * 1024  # and one block more

# A view keeps all that came with it. So a follower's, which are soon in a segment, have this size.
VIEWED_BYTES_MIN = 16 * 1024


class Recovery:
    """Brings partitions back: `load` each one, then `replay` the journal once.

    A follower goes on, a block at a time: `carry_out`, then `skip_lost` for what it has touched.
    """

    def __init__(
        self,
        disk: Disk,
        metadata: MetadataStore,
        writer: SegmentWriter,
        remove_directory: Callable[[Path], None],
    ) -> None:
        self._disk = disk
        self._metadata = metadata
        self._writer = writer
        self._remove_directory = remove_directory
        # Of all partitions, from the first `load` to `replay`: meanwhile only what a partition finds changes
        # its entries and its directory.
        self._read_ahead: ReadAhead | None = None
        self._directories: dict[str, set[str]] = {}  # names by vhost
        self._known_offsets: dict[int, int] = {}  # by partition: behind the highest one ever given
        self._forgotten = False

    def replay_metadata(self, journal: Journal) -> None:
        """Carry out those changes of metadata that the store does not have; nothing was read from it before."""
        applied = JournalExtent(self._metadata).applied
        positions = (each.position for each in journal.recover())
        last = max((each for each in positions if each > applied), default=0)
        if not last:
            return
        journal.adopt()  # the store must not tell of what a power cut takes from the journal
        # Read once more rather than kept: the changes of a whole journal may be more than memory has.
        changes: list[Change] = []
        size = 0
        for block in journal.recover():
            if block.position <= applied:
                continue
            more = block.metadata_changes()
            changes += more
            size += sum(len(each.key) + len(each.value or b"") for each in more)
            is_whole = len(changes) >= CHANGES_MAX or size >= CHANGES_BYTES_MAX
            if is_whole or block.position == last:
                changes.append(JournalExtent.applied_change(block.position))
                self._metadata.apply(changes, synced=False)
                changes, size = [], 0

    def load(self, partition: PartitionLog, begins: Mapping[int, int]) -> bool:
        """Restore the cursors of a partition from their snapshots, and open its segments.

        Damage quarantines the partition, from where it begins. Only the cursors that the partition
        has already are known: what a snapshot or the journal says of others belongs to groups that
        were deleted.

        Args:
            begins: by number of a cursor, the offset below which it had no use for anything.

        Returns:
            Whether a checkpoint has something to sync.

        Raises:
            SnapshotDamaged: what was durable cannot be read.
        """
        if self._read_ahead is None:
            prefixes = DAMAGE_PREFIX, FIRST_KEPT_PREFIX, MARK_PREFIX, CURSORS_PREFIX
            self._read_ahead = ReadAhead(self._metadata, *prefixes)
        stored = self._read_ahead
        partition.damage = load_damage(stored, partition.number)
        partition.has_copies = is_marked(stored, partition.number)
        for damage in partition.damage.found:
            log.error("still quarantined: %s in %s", damage, partition.directory)
        self._restore_cursors(partition, stored)
        self.begin_cursors(partition, begins)
        names = self._names(partition)
        paths = segment_paths(partition.directory, names)
        partition.first_kept = load_first_kept(stored, partition.number)
        if names:
            owner = self._writer.owner_of(partition.directory)
            if owner is None and paths:
                self._disown(partition, PARTITION_FILE in names, min(paths))
            elif owner != partition.number or not (paths or partition.first_kept is not None):
                # Of a deleted queue of the same name, or without segments: then a run that was killed
                # may not have synced the number. Gone before anything of this one is written.
                self._remove_directory(partition.directory)
                paths = {}
            else:
                paths = self._leave_one_form(partition, self._let_go(partition, names))
        return self._open_segments(partition, paths)

    def replay(self, blocks: Iterable[Block], partitions: Mapping[int, PartitionLog]) -> int:
        """Carry out what the journal says; returns the entries replayed.

        Args:
            partitions: all that exist, by number; entries of others are passed over.
        """
        self._read_ahead, self._directories = None, {}
        replayed = sum(len(self.carry_out(block.partition_entries, partitions)) for block in blocks)
        if self._forgotten:
            self._metadata.sync()
        for partition in partitions.values():
            self.skip_lost(partition)
            partition.lift_quarantine()
        return replayed

    def carry_out(
        self, entries: Iterable[JournalEntry], partitions: Mapping[int, PartitionLog]
    ) -> list[PartitionLog]:
        """Carry out what a block says of records and cursors; returns the partition of each entry."""
        touched: list[PartitionLog] = []
        for entry in entries:
            partition = partitions.get(entry.partition)  # none of a change of metadata
            if partition is not None:
                self._replay(partition, entry)
                touched.append(partition)
        return touched

    def skip_lost(self, partition: PartitionLog) -> None:
        """Do not give offsets again that the journal speaks of, and that no record has so far."""
        partition.skip_to(self._known_offsets.pop(partition.number, 0))

    def begin_cursors(self, partition: PartitionLog, begins: Mapping[int, int]) -> None:
        """Open cursors, by number, where each begins."""
        for number, begin in begins.items():
            partition.open_cursor(number).settle(0, begin)
            self._know(partition, begin)

    def _names(self, partition: PartitionLog) -> list[str]:
        # In its directory: most partitions have none.
        vhost, _, name = partition.directory_text.rpartition("/")
        if vhost not in self._directories:
            self._directories[vhost] = set(self._disk.list_directory(Path(vhost)))
        if name not in self._directories[vhost]:
            return []
        return self._disk.list_directory(partition.directory)

    def _restore_cursors(self, partition: PartitionLog, stored: ReadAhead) -> None:
        snapshots: dict[int, list[tuple[bytes, bytes]]] = {}
        for key, entry in stored.scan(partition_prefix(partition.number)):
            snapshots.setdefault(cursor_number(key), []).append((key, entry.value))
        for number, snapshot in snapshots.items():
            cursor = partition.cursors.get(number)
            if cursor is None:
                # A checkpoint was under way when its group was deleted.
                gone = [Change(key, None) for key, _ in snapshot]
                self._metadata.apply(gone, synced=False)
                continue
            marks = cursor.restore(snapshot)
            self._know(partition, marks.next_offset)
            partition.synced_offset = max(partition.synced_offset, marks.synced_offset)

    def _disown(self, partition: PartitionLog, there: bool, first: int) -> None:
        # Perhaps these are not its segments: nothing of them is handed out.
        reason = "it cannot be read" if there else "it is missing"
        partition.quarantine(Damage(PARTITION_FILE, 0, reason, first, EVERYTHING_BEHIND))

    def _let_go(self, partition: PartitionLog, names: list[str]) -> list[str]:
        # Of what was removed a power cut has brought back some, or its removal has failed.
        kept = kept_names(names, partition.first_kept)
        if len(kept) == len(names):
            return names
        for name in sorted(set(names) - set(kept)):
            path = partition.directory / name
            try:
                self._disk.remove(path)
            except OSError as error:  # the next start tries again
                log.warning("%s: a segment that nobody needs is still there: %s", path, error)
        # Or they could come back after the next one, when nothing says any more where the log begins.
        self._disk.sync_directory(partition.directory)
        return kept

    def _leave_one_form(self, partition: PartitionLog, names: list[str]) -> dict[int, Path]:
        try:
            return leave_one_form(self._disk, partition.directory, names)
        except SegmentDamaged as error:
            paths = current_segments(self._disk, partition.directory, names)
            newest, _ = paths.popitem()
            partition.quarantine(
                Damage(error.path.name, error.position, error.reason, newest, EVERYTHING_BEHIND)
            )
            return paths

    def _open_segments(self, partition: PartitionLog, paths: Mapping[int, Path]) -> bool:
        bases = expected_bases(list(paths), partition.first_kept)
        lost = partition.damage.lost
        gone: list[tuple[int, int]] = []
        end = 0
        for base, next_base in pairwise(bases):
            path = paths.get(base) or segment_path(partition.directory, base)
            opened = open_sealed(self._disk, path, base, next_base)
            self._adopt(partition, opened, next_base)
            gone += [(end, base), *opened.gone]
            end = opened.segment.end_offset
            if opened.damage is None and end > partition.synced_offset:
                # Sealed behind the last checkpoint: what was settled before it was written is in no
                # snapshot, and perhaps not in the journal.
                gone += holes(self._disk, opened.segment)
        unsynced = False
        partition.next_offset = end
        if bases:
            path = paths.get(bases[-1]) or segment_path(partition.directory, bases[-1])
            promised = partition.damage.still_promised(partition.synced_offset)
            opened = open_active(self._disk, path, bases[-1], promised)
            if opened.holds_nothing:
                _report_torn(opened)
                # Its first batch was torn. Its name says that all below is settled, but the file goes,
                # and the journal may not know: what would be back after another crash is not gone.
                self._disk.remove(path)
                self._disk.sync_directory(path.parent)
                bases = bases[:-1]
            else:
                self._adopt(partition, opened, partition.synced_offset)
                gone += [(end, bases[-1]), *opened.gone]
                unsynced = self._settle_newest(partition, opened.segment)
        if partition.is_stream:
            gone = [(0, base) for base in bases[:1]]  # only its retention takes records
        for segment, behind in reversed(list(pairwise(partition.segments))):
            if segment.damaged:  # retention must not take it for older than it is
                segment.last_time = max(segment.last_time, behind.first_time)
        # Groups read what lies before the disk's first segment from remote storage, if it is there.
        begin = (bases[0] if bases else EVERYTHING_BEHIND) if partition.is_unlisted else 0
        for cursor in partition.cursors.values():
            for first, end in [*gone, *lost]:
                if cursor.number == 0 or first >= begin:
                    cursor.settle(first, end, Reason.LOST)
        if lost:
            self._know(partition, lost[-1][1])
        if not partition.segments:
            self._forget_synced(partition)
        return unsynced

    def _forget_synced(self, partition: PartitionLog) -> None:
        # All segments were settled and went, but a power cut may have taken the settlements. What is
        # written again from the journal must not be measured by what was synced once.
        if partition.synced_offset:
            partition.synced_offset = 0
            next_offset = self._known_offsets[partition.number]
            changes = [
                SnapshotWriter(partition.number, cursor.number).marks(
                    Marks(cursor.low_water, next_offset, 0, cursor.handed_out)
                )
                for cursor in partition.cursors.values()
            ]
            self._metadata.apply(changes, synced=False)
            self._forgotten = True

    def _settle_newest(self, partition: PartitionLog, segment: Segment) -> bool:
        partition.next_offset = segment.end_offset
        # Perhaps not on the disk yet, and the journal will forget what is in it.
        segment.unsynced = segment.end_offset > partition.synced_offset
        return segment.unsynced

    def _adopt(self, partition: PartitionLog, opened: OpenedSegment, end: int) -> None:
        segment = opened.segment
        if partition.segments:
            segment.last_time = max(segment.last_time, partition.segments[-1].last_time)
        partition.adopt(segment)
        _report_torn(opened)
        if opened.damage is not None:
            segment.damaged = True
            segment.extend(max(end, segment.end_offset))
            partition.quarantine_segment(segment, opened.damage)
        elif opened.unindexed:
            log.warning("%s: its index files were missing or damaged; built again", segment.path)
            with suppress(DiskFull):  # the next start walks through it again
                self._writer.write_index(segment)

    def _replay(self, partition: PartitionLog, entry: JournalEntry) -> None:
        change = entry.change
        if isinstance(change, RecordBatch):
            records = change.records
            # Once: other partitions may share them.
            if isinstance(records.payload, memoryview) and not _may_stay(
                records.payload, partition
            ):
                records.payload = bytearray(records.payload)
            partition.recovered(change)
            return
        if change.cursor == NO_CURSOR and isinstance(change, Settlement):
            partition.kept_from = max(partition.kept_from, change.ranges[-1][1])
        # Of a deleted group nothing comes back. Records may be gone, but offsets that an entry speaks of
        # must not be given again.
        cursor = partition.cursors.get(change.cursor) or Cursor(change.cursor, None)
        self._know(partition, cursor.replay(change))

    def _know(self, partition: PartitionLog, offset: int) -> None:
        known = self._known_offsets.get(partition.number, 0)
        self._known_offsets[partition.number] = max(known, offset)


def _may_stay(payload: memoryview, partition: PartitionLog) -> bool:
    """Whether a follower's tail takes the view; readers of records want one that is writable."""
    return partition.follows and len(payload) >= VIEWED_BYTES_MIN and not payload.readonly


def _report_torn(opened: OpenedSegment) -> None:
    if opened.torn:
        log.warning(
            "%s: %d bytes behind byte %d were torn, or damaged before they were synced; cut off",
            opened.segment.path,
            opened.torn,
            opened.segment.size,
        )
