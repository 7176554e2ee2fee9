"""Records, segments, partitions, journal and cursors: the log behind every queue."""

# ruff: noqa: E402  (the finder must be in place before a hot module is imported)
from log_backend import pure_mode

pure_mode.install()

from log_backend.ballast import BALLAST_BYTES
from log_backend.bucket import BadBucket, Bucket
from log_backend.bucket_address import check_address, open_bucket, without_secrets
from log_backend.clock import Clock, SystemClock
from log_backend.cursor import Cursor
from log_backend.cursor_snapshot import SnapshotDamaged
from log_backend.data_directory import (
    DataDirectory,
    NoDataDirectory,
    StoredPartition,
    open_metadata,
)
from log_backend.disk import DirectoryLocked, Disk, SystemDisk, read_small
from log_backend.disk_space import DiskSpace
from log_backend.durability import Durability
from log_backend.file_system import doubt
from log_backend.journal import JournalFailed
from log_backend.journal_block import Reason, Settlement, UnknownEntry
from log_backend.journal_positions import NOTHING, JournalPositions
from log_backend.journal_reader import JournalDamaged
from log_backend.log_directory import EXCHANGE_MARK
from log_backend.log_dump import journal_reports, partition_report, stored_records
from log_backend.log_end import PartitionClosed
from log_backend.log_options import LogOptions
from log_backend.log_repair import Repair, Repaired
from log_backend.log_store import LogStore
from log_backend.log_transaction import LogTransaction
from log_backend.log_verification import Finding, Verification
from log_backend.metadata import (
    Change,
    Entry,
    MetadataCorrupt,
    MetadataStore,
    MetadataUnavailable,
    RevisionConflict,
)
from log_backend.metadata_writer import MetadataWriter, unawaited
from log_backend.partition_log import PartitionLog
from log_backend.private_files import keep_private, narrow, others_may_read
from log_backend.randomness import random_below, random_key, random_name
from log_backend.record_batch import (
    BLIND_COPIES,
    EXPIRING,
    PERSISTENT,
    Octets,
    RecordBatch,
    Records,
    new_buffer,
)
from log_backend.record_encoding import encode_parts, encode_records, routing_keys
from log_backend.record_fetch import StoredRecord, record_at
from log_backend.record_selection import key_partition, split_by_routing_key, split_records
from log_backend.remote_storage import RemoteStorage
from log_backend.retention import Hold, Retention
from log_backend.schedule import Schedule
from log_backend.schedule_store import ScheduledRecord, ScheduleStore
from log_backend.segment import Segment, SegmentDamaged
from log_backend.settled_entries import SettledEntries, SettledPart
from log_backend.single_record import SingleRecord
from log_backend.stored_log import StoredExtent, StoredLogs, StoredStretch

__all__ = [
    "BALLAST_BYTES",
    "BLIND_COPIES",
    "EXCHANGE_MARK",
    "EXPIRING",
    "NOTHING",
    "PERSISTENT",
    "BadBucket",
    "Bucket",
    "Change",
    "Clock",
    "Cursor",
    "DataDirectory",
    "DirectoryLocked",
    "Disk",
    "DiskSpace",
    "Durability",
    "Entry",
    "Finding",
    "Hold",
    "JournalDamaged",
    "JournalFailed",
    "JournalPositions",
    "LogOptions",
    "LogStore",
    "LogTransaction",
    "MetadataCorrupt",
    "MetadataStore",
    "MetadataUnavailable",
    "MetadataWriter",
    "NoDataDirectory",
    "Octets",
    "PartitionClosed",
    "PartitionLog",
    "Reason",
    "RecordBatch",
    "Records",
    "RemoteStorage",
    "Repair",
    "Repaired",
    "Retention",
    "RevisionConflict",
    "Schedule",
    "ScheduleStore",
    "ScheduledRecord",
    "Segment",
    "SegmentDamaged",
    "SettledEntries",
    "SettledPart",
    "Settlement",
    "SingleRecord",
    "SnapshotDamaged",
    "StoredExtent",
    "StoredLogs",
    "StoredPartition",
    "StoredRecord",
    "StoredStretch",
    "SystemClock",
    "SystemDisk",
    "UnknownEntry",
    "Verification",
    "check_address",
    "doubt",
    "encode_parts",
    "encode_records",
    "journal_reports",
    "keep_private",
    "key_partition",
    "narrow",
    "new_buffer",
    "open_bucket",
    "open_metadata",
    "others_may_read",
    "partition_report",
    "random_below",
    "random_key",
    "random_name",
    "read_small",
    "record_at",
    "routing_keys",
    "split_by_routing_key",
    "split_records",
    "stored_records",
    "unawaited",
    "without_secrets",
]
