"""Compacts logs in the background, one at a time: see compaction_pass.py.

A pass is due when half of the bytes of sealed segments are behind the last one. A program of its own reads
them, and writes each new segment to a scratch file. The flusher's thread gives it its name, durably; from then
on readers get it, and the same thread removes the old segments. Segments and partitions are removed in that
thread, too, so a new name cannot bring a removed one back. If anything fails, the old segments stay.

A deletion goes when the pass that took the older records of its key is old enough. A start does not know when
that was, so the time begins anew: a deletion may stay longer, never shorter.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

from routelog.log_backend.doors.clock import Clock, Moment
from routelog.log_backend.doors.disk import Disk
from routelog.log_backend.partitions.partition_log import COMPACTED_SEGMENT_BYTES, PartitionLog
from routelog.log_backend.segments.compaction_pass import (
    CompactedSegment,
    CompactionEnd,
    CompactionInput,
    CompactionStep,
    CompactionTask,
)
from routelog.log_backend.segments.log_directory import (
    INDEXES,
    SegmentName,
    is_compacted,
    segment_path,
)
from routelog.log_backend.segments.retention import Compaction, age
from routelog.log_backend.segments.segment import Segment, open_sealed
from routelog.log_backend.segments.segment_removal import remove_segment
from routelog.log_backend.upkeep.compaction_process import CompactionFailed, CompactionProcess
from routelog.log_backend.upkeep.flusher import Flusher

log = logging.getLogger(__name__)

KEYS_MAX = 1_000_000  # of one pass: its program needs some 200 bytes a key
GROWTH_MAX = 3  # of a segment: each run of tiny messages that stays gets a header of 64 bytes
RETRY_SECONDS = 60.0  # until a pass that did not come to its end is tried again


class CompactionWork(Protocol):
    """One pass under way; see `CompactionProcess`."""

    async def step(self) -> CompactionStep:
        """Wait for the next step."""

    def go_on(self) -> None:
        """Take the next step."""

    def stop(self) -> None:
        """Have the work end soon, wherever it is: no step comes then."""

    async def end(self) -> None:
        """Wait for the end of the work, which takes no other step."""


@dataclass(slots=True)
class _Compacted:
    """How far a log is compacted.

    Attributes:
        clean_end: below this offset, passes have left one record of each key.
        passes: `clean_end` of passes, and when each ended (monotonic seconds); ascending.
        retry_at: no pass before (monotonic seconds): the last one failed, or was outdated.
        is_stuck: nobody knows what is on the disk: no pass before a restart.
        seen: base offset of the last sealed segment when no pass was due: none is until another follows.
    """

    clean_end: int
    passes: list[tuple[int, float]] = field(default_factory=list)
    retry_at: float = 0.0
    is_stuck: bool = False
    seen: int = -1

    def ended(self, clean_end: int, now: float) -> None:
        """Note a complete pass."""
        self.clean_end = clean_end
        self.passes.append((clean_end, now))

    def deletions_end(self, now: float, deletion_age: int) -> int:
        """Deletions below this offset may go."""
        old = [end for end, ended in self.passes if (now - ended) * 1_000_000 >= deletion_age]
        del self.passes[: max(0, len(old) - 1)]
        return old[-1] if old else 0


class _Outdated(Exception):
    """A pass is not one of this log any more: segments, rule or damage changed, or the broker stops."""


class LogCompactor:
    """Compacts the logs that ask for it.

    Attributes:
        passes, failures: complete and failed ones since the start.
        removed: records that passes took since the start.
        begin: starts a pass.

    Args:
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
        run: Callable[[Coroutine[None, None, None]], None],
        check_space: Callable[[int], None],
        compress: Callable[[PartitionLog, Segment], Coroutine[None, None, None]],
    ) -> None:
        self.passes = self.failures = self.removed = 0
        self.begin: Callable[[CompactionTask], Coroutine[None, None, CompactionWork]]
        self.begin = CompactionProcess.start
        self._disk = disk
        self._clock = clock
        self._loop = loop
        self._scratch = scratch
        self._flusher = flusher
        self._run = run
        self._check_space = check_space
        self._compress_segment = compress
        self._logs: dict[PartitionLog, _Compacted] = {}
        self._waiting: dict[PartitionLog, None] = {}  # in order
        self._working = self._stopping = False
        self._work: CompactionWork | None = None
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
        rule = partition.compaction
        if rule is None or partition.closed:
            self.forget([partition])
            partition.compaction_failure = ""
            return None
        if partition.lowest_offset < partition.local_first:
            # A deleted key would come back: there is its value of before.
            partition.compaction_failure = "older messages are in remote storage only"
            return None
        state = self._logs.get(partition)
        now = self._clock.monotonic()
        if state is None:
            end = _compacted_end(partition.segments)
            state = self._logs[partition] = _Compacted(end, [(end, now)])
        if state.is_stuck or now < state.retry_at or partition.is_damaged:
            return None
        sealed = partition.sealed_segments()
        if not sealed or state.seen == sealed[-1].base_offset:
            return None
        segments = self._old_enough(sealed, rule)
        total = sum(each.size for each in segments)
        dirty = sum(each.size for each in segments if each.base_offset >= state.clean_end)
        if dirty * 2 < total or not dirty:
            state.seen = -1 if rule.age_min else sealed[-1].base_offset
            return None
        return CompactionTask(
            inputs=[_input(each) for each in segments],
            clean_end=state.clean_end,
            deletions_end=state.deletions_end(now, rule.deletion_age),
            key_header=rule.key_header,
            keys_max=KEYS_MAX,
            segment_bytes_max=COMPACTED_SEGMENT_BYTES,
            scratch=str(self._scratch),
        )

    def _old_enough(self, segments: Sequence[Segment], rule: Compaction) -> list[Segment]:
        moment = Moment.of(self._clock)
        found: list[Segment] = []
        for segment in segments:
            if rule.age_min and age(segment, moment) < rule.age_min:
                break
            found.append(segment)
        return found

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
        state = self._logs[partition]
        try:
            end = await self._pass(partition, task)
            state.ended(end.clean_end, self._clock.monotonic())
            self.passes += 1
            partition.compaction_failure = ""
        except _Outdated as reason:
            state.retry_at = self._clock.monotonic() + RETRY_SECONDS
            log.debug("%s is not compacted now: %s", partition.directory, reason)
        except (CompactionFailed, OSError) as error:
            if self._stopping or partition.closed:
                return  # its files may be gone
            self.failures += 1
            state.retry_at = self._clock.monotonic() + RETRY_SECONDS
            partition.compaction_failure = str(error)
            log.error("%s is not compacted: %s", partition.directory, error)
        finally:
            await self._loop.run_in_executor(self._flusher, self._remove_scratch)

    async def _pass(self, partition: PartitionLog, task: CompactionTask) -> CompactionEnd:
        rule, segments = partition.compaction, partition.segments[: len(task.inputs)]
        done = 0  # behind the segments that are replaced
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
        state = self._logs.get(partition)
        try:
            await self._loop.run_in_executor(self._flusher, self._remove_new, path)
        except OSError as error:
            log.error("%s stays until the next start: %s", path, error)
            if state is not None:
                state.is_stuck = True

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


def _compacted_end(segments: Sequence[Segment]) -> int:
    """The offset below which earlier runs have compacted a log."""
    ends = [each.next_base for each in segments if is_compacted(each.path)]
    return next((end for end in reversed(ends) if end is not None), 0)


def _input(segment: Segment) -> CompactionInput:
    assert segment.next_base is not None
    return CompactionInput(str(segment.path), segment.base_offset, segment.next_base, segment.size)
