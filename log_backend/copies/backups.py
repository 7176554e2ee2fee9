"""Backups of a running broker: one at a time, for as long as somebody asks how it goes."""

import asyncio
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from routelog.log_backend.copies.backup_target import BackupTarget, is_backup_name
from routelog.log_backend.copies.backup_writer import BackupExists, BackupWriter
from routelog.log_backend.copies.copies import Copies
from routelog.log_backend.copies.data_copy import CopyFailed, DataCopy
from routelog.log_backend.copies.manifest import BackupHeader
from routelog.log_backend.doors.clock import Clock
from routelog.log_backend.doors.disk import Disk
from routelog.log_backend.doors.randomness import random_number
from routelog.log_backend.remote.bucket import BadBucket, BucketFailed
from routelog.log_backend.remote.bucket_address import (
    check_address,
    check_outside,
    open_bucket,
    without_secrets,
)

log = logging.getLogger(__name__)

LEASE_SECONDS = 15.0  # without a question how it goes: then its client has gone


class BackupRefused(Exception):
    """No backup was begun; the text says why."""


@dataclass(frozen=True, slots=True)
class BackupState:
    """How the last backup goes, or went.

    Attributes:
        target: without secrets.
        state: taking, copying, done or failed.
        error: why it failed.
        position: of the journal; everything durable up to there is in it.
        bytes_total, bytes_done, bytes_kept: see `BackupWriter`.
    """

    name: str
    target: str
    state: str = "taking"
    error: str = ""
    position: int = 0
    files: int = 0
    bytes_total: int = 0
    bytes_done: int = 0
    bytes_kept: int = 0


class Backups:
    """The backups of one node.

    Args:
        node, version: of the broker, for the manifest.
        remote_storage: as in `BackupHeader`.
        bytes_per_second: of reading; 0 is as fast as it goes.
    """

    def __init__(
        self,
        copies: Copies,
        disk: Disk,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        *,
        node: str,
        version: str,
        remote_storage: str,
        bytes_per_second: int,
    ) -> None:
        self._copies = copies
        self._disk = disk
        self._clock = clock
        self._loop = loop
        self._node = node
        self._version = version
        self._remote_storage = remote_storage
        self._bytes_per_second = bytes_per_second
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="backup")
        self._stopping = threading.Event()
        self._state: BackupState | None = None
        self._copy: DataCopy | None = None
        self._writer: BackupWriter | None = None
        self._task: asyncio.Task[None] | None = None
        self._lease: asyncio.TimerHandle | None = None

    def start(self, url: str, name: str = "") -> BackupState:
        """Begin a backup into a folder or bucket.

        Args:
            url: see `open_bucket`.
            name: empty: the time, in UTC, and something random: several brokers may begin in one second.

        Raises:
            BadBucket: the address makes no sense, or is a folder inside the data directory.
            BackupRefused: the name makes none, or another backup is under way.
        """
        check_address(url)
        check_outside(url, self._copies.data)
        now = datetime.fromtimestamp(self._clock.now() / 1_000_000, UTC)
        name = name or f"{now:%Y%m%dT%H%M%SZ}-{random_number() & 0xFFFFFF:06x}"
        if not is_backup_name(name):
            raise BackupRefused("a name is up to 100 letters, digits, points and dashes")
        if self._task is not None:
            raise BackupRefused("another backup is under way")
        self._state = state = BackupState(name, without_secrets(url))
        self._writer, self._copy = None, self._copies.begin()
        self._task = self._loop.create_task(self._run(self._copy, url, now))
        self._renew()
        log.info("backup '%s' into %s begins", state.name, state.target)
        return state

    def state(self) -> BackupState | None:
        """How it goes; None: none was begun. Whoever asks keeps it from ending."""
        if self._task is not None:
            self._renew()
        state, writer = self._state, self._writer
        if state is None or writer is None:
            return state
        return replace(
            state,
            bytes_total=writer.bytes_total,
            bytes_done=writer.bytes_done,
            bytes_kept=writer.bytes_kept,
        )

    def cancel(self, reason: str = "it was cancelled") -> bool:
        """End the backup that is under way; whether there was one."""
        if self._task is None or self._copy is None:
            return False
        self._copy.fail(reason)
        return True

    async def aclose(self) -> None:
        """End what is under way."""
        self._stopping.set()
        self.cancel("the broker stops")
        if self._task is not None:
            await asyncio.wait({self._task})
        await asyncio.to_thread(self._executor.shutdown)

    def _renew(self) -> None:
        if self._lease is not None:
            self._lease.cancel()
        self._lease = self._loop.call_later(LEASE_SECONDS, self.cancel, "its client has gone")

    async def _run(self, copy: DataCopy, url: str, now: datetime) -> None:
        state = self._state
        assert state is not None
        try:
            self._state = await self._finished(copy, state, url, now)
            log.info("backup '%s' is complete, up to position %d", state.name, copy.position)
        except (CopyFailed, BucketFailed, BackupExists, BadBucket) as error:
            # Of a bucket that fails because the copy ended, the reason is the copy's.
            self._state = replace(state, state="failed", error=copy.failure or str(error))
            log.error("backup '%s' failed: %s", state.name, self._state.error)
        except Exception as error:
            log.error("an error of the broker, during a backup", exc_info=error)
            self._state = replace(state, state="failed", error="the broker failed; see its log")
        finally:
            copy.end()
            self._task = self._copy = None
            if self._lease is not None:
                self._lease.cancel()

    async def _finished(
        self, copy: DataCopy, state: BackupState, url: str, now: datetime
    ) -> BackupState:
        run = self._loop.run_in_executor
        writer = await run(self._executor, self._opened, url, state.name)
        await copy.taken
        header = BackupHeader(
            name=state.name,
            node=self._node,
            version=self._version,
            time=now.isoformat(timespec="microseconds"),
            position=copy.position,
            remote_storage=self._remote_storage,
        )
        self._writer = writer
        self._state = copying = replace(
            state, state="copying", position=copy.position, files=len(copy.files)
        )
        await run(self._executor, writer.write, copy, header)
        return replace(copying, state="done")

    def _opened(self, url: str, name: str) -> BackupWriter:
        target = BackupTarget(open_bucket(url, self._disk))
        writer = BackupWriter(
            target, self._clock, bytes_per_second=self._bytes_per_second, stopping=self._stopping
        )
        writer.check(name)
        return writer
