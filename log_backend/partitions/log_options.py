"""Limits of a log store."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """Limits of a log store.

    Attributes:
        journal_file_bytes: size of one journal file; files are recycled.
        journal_files_max: beyond it, publishers wait for checkpoints.
        segment_bytes: a segment is sealed before it grows beyond, unless one batch is larger.
        memory_tail_bytes: batches kept in memory; beyond it they are flushed and forgotten.
        memory_loaded_bytes: batches kept in memory that were read back from segments.
        flush_seconds: how long a batch stays out of its segment.
        scrub_bytes_per_second: how fast sealed segments are read to find damage; 0 is never.
        scrub_interval_seconds: from the start of one round to that of the next.
        disk_reserve_bytes: publishers wait when less is free; at most an eighth of the file system.
        ballast_bytes: kept free for metadata on a full disk; at most an eighth of the file system.
        compression: of sealed segments, where a partition does not say: none, zstd, lz4.
        retention_seconds: how often segments past their retention are looked for.
        emptied_seconds: how often the newest segments of logs are looked at in which nothing is needed.
        has_remote: there is remote storage for the logs of queues that ask for it.
    """

    journal_file_bytes: int = 64 * 1024 * 1024
    journal_files_max: int = 8
    segment_bytes: int = 64 * 1024 * 1024
    memory_tail_bytes: int = 256 * 1024 * 1024
    memory_loaded_bytes: int = 64 * 1024 * 1024
    flush_seconds: float = 1.0
    scrub_bytes_per_second: int = 8 * 1024 * 1024
    scrub_interval_seconds: float = 86_400.0
    disk_reserve_bytes: int = 256 * 1024 * 1024
    ballast_bytes: int = 0
    compression: str = "none"
    retention_seconds: float = 30.0
    emptied_seconds: float = 15.0
    has_remote: bool = False
