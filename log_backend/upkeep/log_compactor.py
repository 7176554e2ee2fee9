"""Compacts logs in the background, one at a time, with passes as compaction_pass.py has them.

When one is due, compaction_progress.py says. A program of its own reads the segments, and writes each new one
to a scratch file. The flusher's thread gives it its name, durably; from then on readers get it, and the same
thread removes the old segments. Segments and partitions are removed in that thread, too, so a new name cannot
bring a removed one back. If anything fails, the old segments stay.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path

from routelog.log_backend.doors.clock import Clock, Moment
from routelog.log_backend.doors.disk import Disk
from routelog.log_backend.partitions.partition_log import COMPACTED_SEGMENT_BYTES, PartitionLog
from routelog.log_backend.segments.compaction_pass import (
    CompactedSegment,
    CompactionEnd,
    CompactionTask,
)
from routelog.log_backend.segments.log_directory import (
    INDEXES,
    SegmentName,
    segment_path,
)
from routelog.log_backend.segments.retention import Compaction
from routelog.log_backend.segments.segment import Segment, open_sealed
from routelog.log_backend.segments.segment_removal import remove_segment
from routelog.log_backend.upkeep.compaction_process import CompactionFailed, CompactionProcess
from routelog.log_backend.upkeep.compaction_progress import CompactionProgress
from routelog.log_backend.upkeep.flusher import Flusher

log = logging.getLogger(__name__)

GROWTH_MAX = 3  # of a segment: each run of tiny messages that stays gets a header of 64 bytes
RETRY_SECONDS = 60.0  # until a pass that did not come to its end is tried again


class _Outdated(Exception):
    """A pass is not one of this log any more: segments, rule or damage changed, or the broker stops."""


class LogCompactor:
    """Compacts the logs that ask for it.

    Attributes:
        passes, failures: complete and failed ones since the start.
        removed: records that passes took since the start.
        begin: starts a pass.

    Args:
        told: waits until no other leader can take back what this node knows; returns whether that is so.
        run: starts a task; the owner awaits it between `stop` and the end of the flusher.
        check_space: raises DiskFull if there is no room for so many bytes.
        compress: compresses a new segment, if its log asks for that: else a limit of bytes, which counts what
            is stored, would take the oldest values instead.
    """

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        scratch: Path,
        flusher: Flusher,
        told: Callable[[], Awaitable[bool]],
        run: Callable[[Coroutine[None, None, None]], None],
        check_space: Callable[[int], None],
        compress: Callable[[PartitionLog, Segment], Coroutine[None, None, None]],
    ) -> None:
        self.passes = self.failures = self.removed = 0
        self.begin: Callable[[CompactionTask], Coroutine[None, None, CompactionProcess]]
        self.begin = CompactionProcess.start
        self._disk = disk
        self._clock = clock
        self._loop = loop
        self._scratch = scratch
        self._flusher = flusher
        self._told = told
        self._run = run
        self._check_space = check_space
        self._compress_segment = compress
        self._logs: dict[PartitionLog, CompactionProgress] = {}
        self._waiting: dict[PartitionLog, None] = {}  # in order
        self._working = self._stopping = False
        self._work: CompactionProcess | None = None
        self._remove_scratch()

    def look(self, partition: PartitionLog) -> None:
        """Compact a log soon, if that is due."""
        if self._stopping or self._task(partition) is None:
            return
        self._waiting[partition] = None
        if not self._working:
            self._working = True
            self._run(self._work_on())

    def forget(self, closed: Sequence[PartitionLog]) -> None:
        """Forget partitions that are closed."""
        for partition in closed:
            self._logs.pop(partition, None)
            self._waiting.pop(partition, None)

    def stop(self) -> None:
        """Begin nothing more, and end the pass under way: what it has not replaced stays."""
        self._stopping = True
        if self._work is not None:
            self._work.stop()

    # -- what is due

    def _task(self, partition: PartitionLog) -> CompactionTask | None:
        if partition.compaction is None or partition.closed:
            self.forget([partition])
            partition.compaction_failure = ""
            return None
        if partition.lowest_offset < partition.local_first:
            # A deleted key would come back: there is its value of before.
            partition.compaction_failure = "older messages are in remote storage only"
            return None
        now = Moment.of(self._clock)
        progress = self._logs.get(partition)
        if progress is None:
            progress = self._logs[partition] = CompactionProgress(partition.segments, now)
        return progress.task(partition, now, self._scratch)

    # -- a pass

    async def _work_on(self) -> None:
        try:
            while self._waiting and not self._stopping:
                partition = next(iter(self._waiting))
                del self._waiting[partition]
                task = self._task(partition)
                if task is not None:
                    await self._compact(partition, task)
                    if self._task(partition) is not None:
                        self._waiting[partition] = None  # behind the others: it has very many keys
        finally:
            self._working = False

    async def _compact(self, partition: PartitionLog, task: CompactionTask) -> None:
        progress = self._logs[partition]
        try:
            end = await self._pass(partition, task)
            progress.ended(end.clean_end, self._clock.monotonic())
            self.passes += 1
            partition.compaction_failure = ""
        except _Outdated as reason:
            progress.retry_at = self._clock.monotonic() + RETRY_SECONDS
            log.debug("%s is not compacted now: %s", partition.directory, reason)
        except (CompactionFailed, OSError) as error:
            if self._stopping or partition.closed:
                return  # its files may be gone
            self.failures += 1
            progress.retry_at = self._clock.monotonic() + RETRY_SECONDS
            partition.compaction_failure = str(error)
            log.error("%s is not compacted: %s", partition.directory, error)
        finally:
            await self._loop.run_in_executor(self._flusher, self._remove_scratch)

    async def _pass(self, partition: PartitionLog, task: CompactionTask) -> CompactionEnd:
        rule, segments = partition.compaction, partition.segments[: len(task.inputs)]
        done = 0  # behind the segments that are replaced
        if not await self._told():
            raise _Outdated("its rule is not committed")
        await self._loop.run_in_executor(self._flusher, self._prepare, task)
        self._work = work = await self.begin(task)
        try:
            while True:
                if self._stopping:
                    raise _Outdated("the broker stops")
                try:
                    step = await work.step()
                except CompactionFailed:
                    self._check(partition, rule, segments[done:])  # it may lack what was removed
                    raise
                if isinstance(step, CompactionEnd):
                    return step
                await self._replace(partition, rule, segments[step.first : step.end], step)
                done = step.end
                work.go_on()
        finally:
            self._work = None
            await work.end()

    async def _replace(
        self,
        partition: PartitionLog,
        rule: Compaction | None,
        old: list[Segment],
        step: CompactedSegment,
    ) -> None:
        self._check(partition, rule, old)
        numbers = [SegmentName.parse(each.path.name) for each in partition.segments]
        number = 1 + max(each.number for each in numbers if each is not None)
        path = segment_path(partition.directory, old[0].base_offset, number)
        # No await in between: a removal from here on comes later in the flusher's thread.
        place = partial(self._place, Path(step.path), path, old)
        try:
            segment = await self._loop.run_in_executor(self._flusher, place)
        except OSError:
            await self._take_back(partition, path)
            raise
        try:
            self._check(partition, rule, old)
        except _Outdated:
            await self._take_back(partition, path)
            raise
        partition.replace_segments(old, segment)
        self._flusher.do(partial(self._remove, old))
        self.removed += step.removed
        await self._compress_segment(partition, segment)

    def _check(
        self, partition: PartitionLog, rule: Compaction | None, segments: Sequence[Segment]
    ) -> None:
        if self._stopping or partition.closed:
            raise _Outdated("it is closed")
        if partition.compaction != rule:
            raise _Outdated("it has another rule")
        if partition.is_damaged:
            raise _Outdated("it is quarantined")
        if not set(segments) <= set(partition.segments):
            raise _Outdated("segments were removed")

    def _place(self, scratch: Path, path: Path, old: Sequence[Segment]) -> Segment:
        disk = self._disk
        for suffix in INDEXES:
            disk.rename(scratch.with_suffix(suffix), path.with_suffix(suffix))
        # They say what the new segment replaces, so a crash must not leave it without them.
        disk.sync_directory(path.parent)
        disk.rename(scratch, path)
        disk.sync_directory(path.parent)
        next_base = old[-1].next_base
        assert next_base is not None
        opened = open_sealed(disk, path, old[0].base_offset, next_base)
        if opened.damage is not None or opened.unindexed:
            raise OSError(f"{path} was written, and cannot be read: {opened.damage}")
        return opened.segment

    async def _take_back(self, partition: PartitionLog, path: Path) -> None:
        """Remove a new segment that the log does not get; it must not be there after a restart."""
        progress = self._logs.get(partition)
        try:
            await self._loop.run_in_executor(self._flusher, self._remove_new, path)
        except OSError as error:
            log.error("%s stays until the next start: %s", path, error)
            if progress is not None:
                progress.is_stuck = True

    def _remove_new(self, path: Path) -> None:
        names = self._disk.list_directory(path.parent)
        if path.name in names:
            # Before its index, durably: a compacted segment without one replaces nothing, but hides an old one.
            self._disk.remove(path)
            self._disk.sync_directory(path.parent)
        if names:
            remove_segment(self._disk, path)
            self._disk.sync_directory(path.parent)

    def _remove(self, old: Sequence[Segment]) -> None:
        for segment in old:
            remove_segment(self._disk, segment.path)  # a crash may leave some: see segment_forms.py

    # -- scratch files

    def _prepare(self, task: CompactionTask) -> None:
        largest = max(each.size for each in task.inputs)
        self._check_space(max(2 * COMPACTED_SEGMENT_BYTES, GROWTH_MAX * largest))
        self._disk.make_directory(self._scratch)

    def _remove_scratch(self) -> None:
        try:
            for name in self._disk.list_directory(self._scratch):
                self._disk.remove(self._scratch / name)
        except OSError as error:
            log.error("%s is not emptied before the next pass: %s", self._scratch, error)
