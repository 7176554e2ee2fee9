"""The data directory, taken as the configuration says, and why a process cannot start with it."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from routelog.broker.node.configuration import BrokerConfig
from routelog.exchanges import InvalidName
from routelog.log_backend import (
    BALLAST_BYTES,
    BadBucket,
    DirectoryLocked,
    JournalDamaged,
    LogOptions,
    LogStore,
    MetadataCorrupt,
    MetadataUnavailable,
    SystemClock,
    SystemDisk,
    UnknownEntry,
    doubt,
)
from routelog.vhosts import (
    Definitions,
    InvalidDefinition,
    MalformedJson,
    decoded_json,
    read_definitions,
)

log = logging.getLogger(__name__)

# Reads the file of definitions, as it is now; raises `StartError`.
DefinitionsFile = Callable[[], bytes]

# What the data directory may answer while it is read, and written for the first time.
START_FAULTS = (
    OSError,
    JournalDamaged,
    MetadataCorrupt,
    MetadataUnavailable,
    UnknownEntry,
)


def in_words(error: Exception) -> str:
    """What is wrong, without the system's number: `data/LOCK: Permission denied`."""
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error)
    return error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"


class StartError(Exception):
    """The broker cannot start; the text says why, for the operator.

    Attributes:
        reasons: the same, a line each.
    """

    def __init__(self, *reasons: str) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = reasons


def given_definitions(config: BrokerConfig, content: bytes) -> Definitions:
    """The definitions of the file that the configuration names.

    Raises:
        StartError: they cannot be read at all; what is wrong with an entry is among their problems.
    """
    keeps = config.definitions_unknown == "keep"
    try:
        return read_definitions(decoded_json(content), keep_unknown=keeps)
    except MalformedJson as error:
        raise StartError(f"definitions {config.definitions_file}: not JSON: {error}") from None
    except InvalidDefinition as error:
        raise bad_definitions(config.definitions_file, error) from None


def bad_definitions(file: str, error: InvalidDefinition) -> StartError:
    """What is wrong with the definitions of the start, a line for each problem."""
    return StartError(*(f"definitions {file}: {problem}" for problem in error.problems))


@contextmanager
def usable(config: BrokerConfig) -> Iterator[None]:
    """Say in words why the data directory, or what is to be imported into it, cannot be used.

    Raises:
        StartError: it cannot.
    """
    try:
        yield
    except BadBucket as error:
        raise StartError(f"remote_storage: {error}") from None
    except (DirectoryLocked, InvalidName) as error:
        raise StartError(str(error)) from None
    except START_FAULTS as error:
        raise StartError(f"data directory {config.data_dir}: {in_words(error)}") from None
    except InvalidDefinition as error:
        raise bad_definitions(config.definitions_file, error) from None


def open_logs(config: BrokerConfig, loop: asyncio.AbstractEventLoop) -> LogStore:
    """Take the data directory.

    Raises:
        DirectoryLocked: another process has it.
        MetadataCorrupt, MetadataUnavailable, OSError: it cannot be used.
    """
    options = LogOptions(
        journal_file_bytes=config.journal_file_bytes,
        journal_files_max=config.journal_files_max,
        segment_bytes=config.segment_bytes,
        memory_tail_bytes=config.memory_tail_bytes,
        memory_loaded_bytes=config.memory_loaded_bytes,
        memory_remote_bytes=config.memory_remote_bytes,
        flush_seconds=config.flush_seconds,
        scrub_bytes_per_second=config.scrub_bytes_per_second,
        scrub_interval_seconds=config.scrub_interval_seconds,
        disk_reserve_bytes=config.disk_reserve_bytes,
        ballast_bytes=BALLAST_BYTES,
        compression=config.default_compression,
        retention_seconds=config.retention_seconds,
        has_remote=bool(config.remote_storage),
        is_followed=bool(config.standby_listen),
    )
    disk = SystemDisk()
    logs = LogStore(config.data_dir, disk, SystemClock(), loop, options)
    kind = disk.file_system(config.data_dir)
    reason = doubt(kind)
    if reason is not None:
        log.warning("data directory %s is on %s: %s", config.data_dir, kind, reason)
    return logs
