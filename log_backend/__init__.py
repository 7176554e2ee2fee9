"""Records, segments, partitions, journal and cursors: the log behind every queue."""

# ruff: noqa: E402  (the finder must be in place before a hot module is imported)
from routelog.log_backend.records import pure_mode

pure_mode.install()

from routelog.log_backend.block_applier import BlockApplier
from routelog.log_backend.copies.arriving_copy import ArrivingCopy, has_copy, take_copied
from routelog.log_backend.copies.backup_target import BackupDamaged, BackupTarget, NoBackup
from routelog.log_backend.copies.backups import BackupRefused, Backups
from routelog.log_backend.copies.copies import Copies
from routelog.log_backend.copies.data_copy import COPY, CopiedDisk, CopiedFile, CopyFailed, DataCopy
from routelog.log_backend.copies.data_writer import NotBelow
from routelog.log_backend.copies.manifest import Manifest
from routelog.log_backend.copies.restore import NotEmpty, Restore
from routelog.log_backend.doors.ballast import BALLAST_BYTES
from routelog.log_backend.doors.clock import CallLater, Clock, Moment, SystemClock, Timer
from routelog.log_backend.doors.disk import (
    INCARNATION_FILE,
    DirectoryLocked,
    Disk,
    SystemDisk,
    doubt,
    opened,
    read_file,
    read_small,
    replace_file,
)
from routelog.log_backend.doors.memory_limit import CONTROL_GROUPS, PROC, memory_limit
from routelog.log_backend.doors.private_files import keep_private, narrow, others_may_read
from routelog.log_backend.doors.randomness import random_below, random_key, random_name
from routelog.log_backend.journal.journal import Journal, JournalFailed, NotReplicated
from routelog.log_backend.journal.journal_block import (
    Reason,
    Settlement,
    UnknownEntry,
    decode_entries,
)
from routelog.log_backend.journal.journal_chain import START, Mark, ShardBlock
from routelog.log_backend.journal.journal_extent import JournalExtent
from routelog.log_backend.journal.journal_reader import JournalDamaged, journal_end
from routelog.log_backend.journal.metadata_writer import MetadataWriter, unawaited
from routelog.log_backend.journal.receipt import NOTHING, Progress, Receipt
from routelog.log_backend.log_store import LogOptions, LogStore
from routelog.log_backend.loop.scheduler import (
    CLIENT_SECONDS,
    Lane,
    Scheduler,
    in_turns,
    pause,
    scheduler_of,
)
from routelog.log_backend.measures.histogram import Histogram
from routelog.log_backend.metadata.metadata import (
    Change,
    MetadataCorrupt,
    MetadataStore,
    MetadataUnavailable,
)
from routelog.log_backend.metadata.schedule import Schedule
from routelog.log_backend.metadata.schedule_store import (
    OF_THIS_RUN,
    ScheduledRecord,
    ScheduleStore,
)
from routelog.log_backend.no_log_store import NoLogStore
from routelog.log_backend.partitions.cursor import Cursor
from routelog.log_backend.partitions.declared_partition import (
    DeclaredPartition,
    FollowedDefinitions,
    PartitionRecords,
)
from routelog.log_backend.partitions.log_end import PartitionClosed
from routelog.log_backend.partitions.log_transaction import LogTransaction
from routelog.log_backend.partitions.partition_log import PartitionLog
from routelog.log_backend.partitions.settled_entries import SettledEntries, SettledPart
from routelog.log_backend.records.checksum import (
    crc32c,
    crc32c_between,
    crc32c_joined,
    crc32c_on,
)
from routelog.log_backend.records.durability import Durability
from routelog.log_backend.records.header_key import (
    TEXT_KINDS,
    header_key,
    header_part,
    is_signed,
    key_octets,
    whole_number,
)
from routelog.log_backend.records.property_list import (
    DELIVERY_MODE,
    EXPIRATION,
    FIRST_FLAG,
    HEADERS,
    LAST_FLAG,
    PRIORITY,
    PROPERTY_NAMES,
    TIMESTAMP,
    MalformedProperties,
    UnknownFieldType,
    array_items,
    decode_table,
    property_places,
    table_fields,
)
from routelog.log_backend.records.record_batch import (
    BLIND_COPIES,
    EXPIRING,
    OWN_DEATHS,
    OWN_DEATHS_SHIFT,
    PERSISTENT,
    CorruptBatch,
    Octets,
    RecordBatch,
    Records,
    decode_batch,
    new_buffer,
)
from routelog.log_backend.records.record_encoding import encode_parts, encode_records, routing_keys
from routelog.log_backend.records.record_joining import slice_records
from routelog.log_backend.records.record_selection import (
    key_partition,
    split_by_routing_key,
    split_records,
)
from routelog.log_backend.records.single_record import SingleRecord
from routelog.log_backend.remote.bucket import BadBucket, BucketFailed
from routelog.log_backend.remote.bucket_address import (
    check_address,
    check_outside,
    open_bucket,
    without_secrets,
)
from routelog.log_backend.segments.log_directory import EXCHANGE_MARK
from routelog.log_backend.segments.record_fetch import StoredRecord, record_at
from routelog.log_backend.segments.retention import Compaction, Hold, Retention
from routelog.log_backend.segments.segment import Segment, SegmentDamaged
from routelog.log_backend.tools.copy_repair import CopyBeyondRepair, OwnLogs, repair_copy
from routelog.log_backend.tools.data_digest import JournalContent, digest_pieces
from routelog.log_backend.tools.data_directory import (
    DataDirectory,
    NoDataDirectory,
    StoredPartition,
    open_metadata,
)
from routelog.log_backend.tools.digest_comparison import (
    Difference,
    differences,
    next_key,
)
from routelog.log_backend.tools.digest_format import (
    DIGEST_LENGTH_BYTES,
    BadDigest,
    DigestBlock,
    DigestEnd,
    DigestMessage,
    DigestProgress,
    DigestRefused,
    DigestStand,
    DigestTask,
    Piece,
    decode_digest,
    digest_length,
    encode_digest,
)
from routelog.log_backend.tools.log_dump import (
    JournalReport,
    PartitionReport,
    journal_reports,
    partition_report,
    stored_records,
)
from routelog.log_backend.tools.log_repair import Repair, Repaired
from routelog.log_backend.tools.log_verification import Finding, Verification
from routelog.log_backend.upkeep.disk_space import DiskSpace
from routelog.log_backend.upkeep.log_compactor import LogCompactor
from routelog.log_backend.upkeep.remote_storage import (
    EpochBeginning,
    RemoteStorage,
    first_unchecked,
)
from routelog.log_backend.upkeep.stored_log import StoredLogs, StoredStretch
