"""Options of a log store."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """Options of a log store.

    Attributes:
        journal_file_bytes: size of one journal file; files are recycled.
        journal_files_max: with more full files than that, publishers wait for checkpoints.
        segment_bytes: a segment is sealed before it grows larger, unless it holds a single larger batch.
        memory_tail_bytes: above it, batches in tails are flushed to segments and leave memory.
        memory_loaded_bytes: limit of the batches in memory that were read from segments.
        flush_seconds: until a new batch is written to a segment.
        scrub_bytes_per_second: how fast sealed segments are read to find damage; 0: not at all.
        scrub_interval_seconds: from the start of one scrub round to the start of the next.
        disk_reserve_bytes: publishers wait when less is free; at most an eighth of the file system.
        ballast_bytes: kept free for metadata on a full disk; at most an eighth of the file system.
        compression: of sealed segments, unless the partition has its own: none, zstd, lz4.
        retention_seconds: between two rounds that remove segments past their retention.
        emptied_seconds: between two rounds that remove the last segment of logs nothing is needed of.
        has_remote: remote storage is configured.
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
