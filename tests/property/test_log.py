"""Random operations on a real log store, clean restarts and crashes included, against a small model."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from support.waiting import until
from unit.log_backend.log_records import records
from unit.log_backend.open_store import MIB, copy_of, durable, open_store, unsettled
from unit.log_backend.open_store import flushed as flush_visible

from routelog.log_backend.log_store import LogOptions
from routelog.log_backend.partitions.partition_log import PartitionLog

EXAMPLES = int(os.environ.get("ROUTELOG_TEST_EXAMPLES", "40"))
QUEUES = ("plain", "a queue/with ~ a name", "third")
COMPRESSIONS = ("none", "zstd", "lz4")  # of these queues
LIMITS = LogOptions(
    journal_file_bytes=MIB,
    journal_files_max=3,
    segment_bytes=16_000,
    memory_tail_bytes=30_000,
    flush_seconds=3600,  # a rule of its own: flush
)
PARTITIONS = st.integers(0, len(QUEUES) - 1)
SIZES = st.lists(st.one_of(st.integers(0, 50), st.integers(0, 20_000)), min_size=1, max_size=6)
Result = TypeVar("Result")


class QueueModel:
    """The records of one partition that nobody has settled, by offset, and who was given them."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.next_offset = 0
        self.unsettled: dict[int, bytes] = {}
        self.transient: set[int] = set()
        self.handed_out = 0
        self.redelivered: dict[int, int] = {}

    def forget(self, offset: int) -> None:
        """It is settled."""
        del self.unsettled[offset]
        self.redelivered.pop(offset, None)

    def restarted(self) -> None:
        """Transient records end with a run."""
        for offset in self.transient:
            if offset in self.unsettled:
                self.forget(offset)
        self.transient.clear()


class LogMachine(RuleBasedStateMachine):
    """A store and its model."""

    @initialize()
    def begin(self) -> None:
        """Open a store on an empty directory."""
        self.loop = asyncio.new_event_loop()
        self.root = Path(tempfile.mkdtemp(prefix="log-"))
        self.data = self.root / "0"
        self.copies = 0
        self.serial = 0
        self.epoch = 0
        self.models = [QueueModel(number) for number in range(1, len(QUEUES) + 1)]
        self.next_number = len(QUEUES) + 1
        self._open()

    def teardown(self) -> None:
        """Close what is open."""
        if hasattr(self, "store"):
            self._run(self.store.aclose())
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
            self.loop.close()
            shutil.rmtree(self.root)

    def _run(self, work: Coroutine[object, object, Result]) -> Result:
        async def bounded() -> Result:
            async with asyncio.timeout(30):
                return await work

        return self.loop.run_until_complete(bounded())

    def _open(self) -> None:
        async def opened() -> None:
            self.store = open_store(self.data, LIMITS)
            self.partitions: list[PartitionLog] = [
                self._open_partition(model.number, number)
                for number, model in enumerate(self.models)
            ]
            self.store.recover()
            self.epoch += 1
            self.store.start(self.epoch)

        self._run(opened())

    def _open_partition(self, number: int, queue: int) -> PartitionLog:
        return self.store.open_partition(
            number, "/", QUEUES[queue], 0, durable=True, compression=COMPRESSIONS[queue]
        )

    # -- work

    @rule(
        partition=PARTITIONS,
        sizes=SIZES,
        persistent=st.booleans(),
        keyed=st.booleans(),
        waited=st.booleans(),
        repeats=st.sampled_from((1, 1, 1, 8)),
    )
    def append(
        self,
        partition: int,
        sizes: list[int],
        persistent: bool,
        keyed: bool,
        waited: bool,
        repeats: int,
    ) -> None:
        """Append batches."""

        async def appended() -> None:
            for _ in range(repeats):
                self._append_one(partition, sizes, persistent, keyed, waited)

        self._run(appended())

    def _append_one(
        self, partition: int, sizes: list[int], persistent: bool, keyed: bool, waited: bool
    ) -> None:
        model, log = self.models[partition], self.partitions[partition]
        bodies = []
        for size in sizes:
            self.serial += 1
            bodies.append(b"%d:" % self.serial + bytes([self.serial & 0xFF]) * size)
        keys = [b"key %d" % index for index in range(len(bodies))] if keyed else None
        assert log.next_offset == model.next_offset
        log.append(records(bodies, persistent=persistent, routing_keys=keys), waited=waited)
        for body in bodies:
            model.unsettled[model.next_offset] = body
            if not persistent:
                model.transient.add(model.next_offset)
            model.next_offset += 1

    @rule(
        partition=PARTITIONS,
        start=st.floats(0, 1),
        length=st.integers(1, 12),
        oldest=st.booleans(),
    )
    def settle(self, partition: int, start: float, length: int, oldest: bool) -> None:
        """Settle a range, most often at the beginning, and let go of what is done."""

        async def settled() -> None:
            model, log = self.models[partition], self.partitions[partition]
            cursor = log.open_cursor()
            low = cursor.low_water
            first = low if oldest else low + int(start * (model.next_offset - low))
            end = min(first + length, model.next_offset)
            if first < end:
                gone = [offset for offset in range(first, end) if offset in model.unsettled]
                assert cursor.settle(first, end) == len(gone)
                for offset in gone:
                    model.forget(offset)
                log.release()

        self._run(settled())

    @rule(partition=PARTITIONS)
    def settle_all(self, partition: int) -> None:
        """Purge a partition."""

        async def settled() -> None:
            model, log = self.models[partition], self.partitions[partition]
            log.open_cursor().settle(0, model.next_offset)
            log.release()
            for offset in list(model.unsettled):
                model.forget(offset)

        self._run(settled())

    @rule(partition=PARTITIONS, count=st.integers(1, 12))
    def hand_out(self, partition: int, count: int) -> None:
        """Deliver some that were not delivered yet."""

        async def handed_out() -> None:
            model, log = self.models[partition], self.partitions[partition]
            low = max(model.handed_out, log.open_cursor().low_water)
            model.handed_out = max(model.handed_out, min(low + count, model.next_offset))
            log.open_cursor().hand_out(model.handed_out)

        self._run(handed_out())

    @rule(partition=PARTITIONS, start=st.floats(0, 1), length=st.integers(1, 12))
    def redeliver(self, partition: int, start: float, length: int) -> None:
        """Deliver some again: of those that were, a few without a settled one among them."""

        async def redelivered() -> None:
            model, log = self.models[partition], self.partitions[partition]
            delivered = [o for o in sorted(model.unsettled) if o < model.handed_out]
            if not delivered:
                return
            first = end = delivered[int(start * (len(delivered) - 1))]
            while end in model.unsettled and end < min(first + length, model.handed_out):
                model.redelivered[end] = model.redelivered.get(end, 0) + 1
                end += 1
            log.open_cursor().redeliver(first, end)

        self._run(redelivered())

    @rule()
    def flush(self) -> None:
        """Write to segments, and forget what memory has no room for."""
        self._run(self.store.checkpoints.flush())

    @rule()
    def checkpoint(self) -> None:
        """As when a journal file is full."""
        self._run(self.store.checkpoints.take())

    @rule(partition=PARTITIONS)
    def read_all(self, partition: int) -> None:
        """Read everything that is not settled."""
        self._check(partition)

    @rule(partition=PARTITIONS)
    def make_again(self, partition: int) -> None:
        """Delete a partition, and make one of the same name."""

        async def made() -> None:
            old = self.partitions[partition]
            self.store.metadata.apply(self.store.close_partitions(old), synced=False)
            self.store.remove_files(old)
            self.models[partition] = QueueModel(self.next_number)
            self.partitions[partition] = self._open_partition(self.next_number, partition)
            self.next_number += 1

        self._run(made())

    # -- ends

    @rule()
    def restart(self) -> None:
        """Stop in order, and start again."""
        self._run(self.store.aclose())
        self._restarted()

    @rule(flushed=st.booleans())
    def crash(self, flushed: bool) -> None:
        """Die when all is durable that was promised, and start on what is left."""

        async def died() -> Path:
            await self._all_durable()
            if flushed:
                await flush_visible(self.store)
            await self._quiet()
            self.copies += 1
            left = self.root / str(self.copies)
            copy_of(self.data, left)
            await self.store.aclose()
            shutil.rmtree(self.data)
            return left

        self.data = self._run(died())
        self._restarted()

    async def _all_durable(self) -> None:
        # A settlement is collected before each commit, so it is durable with the next record.
        barrier = self.store.open_partition(10**9, "/", "barrier", 0, durable=True)
        await until(lambda: not self.store.checkpoints.with_state)
        await durable(self.store, barrier.append(records([b"barrier"]), waited=True))
        barrier.open_cursor().settle(0, barrier.next_offset)
        barrier.release()

    async def _quiet(self) -> None:
        await asyncio.gather(*self.store._background.tasks)
        for executor in (self.store.journal.supply._executor, self.store._flusher):
            await self.loop.run_in_executor(executor, str)

    def _restarted(self) -> None:
        for model in self.models:
            model.restarted()
        self._open()
        for number, (model, log) in enumerate(zip(self.models, self.partitions, strict=True)):
            self._check(number)
            # Transient records at the end may have left no trace.
            assert log.next_offset <= model.next_offset
            assert log.next_offset > max(model.unsettled, default=-1)
            model.next_offset = log.next_offset
            model.handed_out = min(model.handed_out, log.next_offset)

    def _check(self, number: int) -> None:
        model, log = self.models[number], self.partitions[number]
        found = self._run(unsettled(log))
        assert found == sorted(model.unsettled.items())
        cursor = log.open_cursor()
        # Where the marks differ, everything is settled.
        low, high = sorted((cursor.handed_out, model.handed_out))
        assert not [offset for offset in model.unsettled if low <= offset < high]
        counts = {o: cursor.delivery_counts[o] for o in model.unsettled}
        assert counts == {o: model.redelivered.get(o, 0) for o in model.unsettled}

    @invariant()
    @precondition(lambda self: hasattr(self, "store"))
    def nothing_failed(self) -> None:
        """The disk is sound, so the store must be."""
        assert self.store.journal.failure is None
        assert self.store._failure is None
        total = sum(log.tail_bytes() for log in self.store.partitions.values())
        assert self.store.intake.tail_bytes == total


LogMachine.TestCase.settings = settings(
    max_examples=EXAMPLES, stateful_step_count=40, deadline=None
)
TestLog = LogMachine.TestCase
