"""Several cursors on one log, restarts and retention included, against a model: a set of offsets each.

One group has a filter, by the messages' keys.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Coroutine, Iterable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import ClassVar, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from support.message_samples import batch, message
from support.queue_samples import Node, Taker, declare_queue, records, running_node
from support.waiting import until
from unit.log_backend.open_store import MIB, copy_of, durable
from unit.log_backend.open_store import flushed as flush_visible

from routelog.log_backend import LogOptions, PartitionLog, Reason, SystemClock
from routelog.vhosts import GroupOptions, Queue, QueueProperties, ReaderFilter, ReturnReason
from routelog.vhosts.filters.sql import parsed_sql
from routelog.vhosts.queues.dispatcher import Dispatcher

EXAMPLES = int(os.environ.get("ROUTELOG_TEST_EXAMPLES", "12"))
LIMITS = LogOptions(
    journal_file_bytes=MIB,
    journal_files_max=3,
    segment_bytes=65_536,
    memory_tail_bytes=100_000,
    flush_seconds=3600,  # a rule of its own: flush
    retention_seconds=3600,  # the same: time_passes
)
NAMES = st.sampled_from(["a", "b", "filtered"])
SQL = "routing_key <> '0'"
FILTERS = {"filtered": ReaderFilter({"x-filter": SQL}, parsed_sql(SQL))}
Result = TypeVar("Result")


def key_of(offset: int) -> str:
    """The key of a message."""
    return str(offset // 2 % 3)


def selected(name: str, offsets: Iterable[int]) -> set[int]:
    """The offsets that a cursor is given."""
    return {each for each in offsets if name not in FILTERS or key_of(each) != "0"}


class LaterClock(SystemClock):
    """A clock that is some hours ahead."""

    def __init__(self) -> None:
        self.hours = 0

    def now(self) -> int:
        """See `Clock`."""
        return super().now() + self.hours * 3_600_000_000

    def monotonic(self) -> float:
        """See `Clock`."""
        return super().monotonic() + self.hours * 3_600


class ReaderModel:
    """What became of the messages that one cursor has not settled."""

    def __init__(self, fresh: set[int]) -> None:
        self.fresh = fresh
        self.held: set[int] = set()
        self.returned: set[int] = set()

    def expected(self, count: int) -> list[int]:
        return [*sorted(self.returned), *sorted(self.fresh)][:count]

    def restarted(self, gone: set[int]) -> None:
        """Nothing is handed out any more, and some messages are gone."""
        self.fresh = (self.fresh | self.held | self.returned) - gone
        self.held, self.returned = set(), set()

    def overtaken(self, first_offset: int) -> None:
        for offsets in (self.fresh, self.held, self.returned):
            offsets.difference_update({each for each in offsets if each < first_offset})


class GroupMachine(RuleBasedStateMachine):
    """A queue that keeps its log, its own consumers if it has some, and groups."""

    arguments: ClassVar[dict[str, object]]
    is_stream = False
    is_forced = False

    @initialize()
    def begin(self) -> None:
        """Declare the queue."""
        self.loop = asyncio.new_event_loop()
        self.root = Path(tempfile.mkdtemp(prefix="groups-"))
        self.data = self.root / "0"
        self.copies = 0
        self.clock = LaterClock()
        self.next_offset = 0
        self.transient: set[int] = set()
        self.behind_gone = 0
        self.models: dict[str, ReaderModel] = {}
        if not self.is_stream:
            self.models["the queue's own"] = ReaderModel(set())
        self._open()

        async def declared() -> None:
            properties = QueueProperties("q", durable=True, arguments=self.arguments)
            _, done = declare_queue(self.node.vhost, properties, object())
            assert done is not None
            await done

        self._run(declared())

    def teardown(self) -> None:
        """Close what is open."""
        if hasattr(self, "node"):
            self._close()
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
            self.loop.close()
            shutil.rmtree(self.root)

    def _run(self, work: Coroutine[object, object, Result]) -> Result:
        async def bounded() -> Result:
            async with asyncio.timeout(30):
                return await work

        return self.loop.run_until_complete(bounded())

    async def _quiet(self) -> None:
        """Wait for the flushes that memory asked for: they remove what is past its retention."""
        logs = self.node.logs
        await until(lambda: not (logs._background.tasks or logs.checkpoints._flush_asked))

    def _open(self) -> None:
        self.running: AbstractAsyncContextManager[Node] = running_node(self.data, LIMITS)
        self.node = self._run(self.running.__aenter__())
        self.node.logs.clock = self.clock  # behind the start: to that, what was written is young

    def _close(self) -> None:
        self._run(self.running.__aexit__(None, None, None))

    @property
    def queue(self) -> Queue:
        return self.node.vhost.queues["q"]

    @property
    def log(self) -> PartitionLog:
        return self.queue.partitions[0].log

    def _reader(self, name: str) -> Dispatcher:
        return self.queue.groups.get(name, self.queue)

    def _overtake(self) -> None:
        if self.is_forced:
            for model in self.models.values():
                model.overtaken(self.log.first_offset)

    # -- work

    @rule(sizes=st.lists(st.integers(0, 9_000), min_size=1, max_size=8), persistent=st.booleans())
    def publish(self, sizes: list[int], persistent: bool) -> None:
        """Append a batch."""
        offsets = range(self.next_offset, self.next_offset + len(sizes))
        bodies = [b"%d:" % at + bytes(size) for at, size in zip(offsets, sizes, strict=True)]
        assert self.log.next_offset == self.next_offset

        async def published() -> None:
            keyed = zip(map(key_of, offsets), bodies, strict=True)
            messages = [message(key, body=body) for key, body in keyed]
            self.queue.publish(batch(*messages, persistent=persistent), waited=False)
            await self.node.logs.journal.drain()  # groups see what is visible

        self._run(published())
        self.next_offset = offsets.stop
        for name, model in self.models.items():
            model.fresh.update(selected(name, offsets))
        if not persistent and not self.is_stream:
            self.transient.update(offsets)

    @rule(name=NAMES, at=st.floats(0, 1))
    def join(self, name: str, at: float) -> None:
        """Make a group that begins somewhere in the log, unless it is there."""
        # Not before transient records of earlier runs: some of them may have reached a segment.
        first = max(self.log.first_offset, self.behind_gone)
        wanted = first + int(at * (self.next_offset - first))

        self._run(self._joined(name, wanted))
        if name not in self.models:
            fresh = selected(name, range(wanted, self.next_offset))
            self.models[name] = ReaderModel(fresh)

    async def _joined(self, name: str, place: object) -> None:
        groups, filtering = self.node.vhost.hosted.groups, FILTERS.get(name)
        _, made = groups.join(self.queue, GroupOptions(name), place, 0, filtering)
        if made is not None:
            await made

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        """Delete a group, as when it has expired."""
        group = self.queue.groups.get(name)
        if group is None or group.is_used:
            return

        async def deleted() -> None:
            done = self.node.vhost.hosted.groups.delete(group)
            assert done is not None
            await done

        self._run(deleted())
        del self.models[name]

    @rule(data=st.data(), count=st.integers(1, 30))
    def deliver(self, data: st.DataObject, count: int) -> None:
        """Hand out some messages to a consumer that leaves then."""
        if not self.models:
            return
        name = data.draw(st.sampled_from(sorted(self.models)))
        model = self.models[name]
        expected = model.expected(count)
        got = self._run(self._delivered(name, len(expected), count))
        assert got == expected
        model.held.update(expected)
        model.returned.difference_update(expected)
        model.fresh.difference_update(expected)

    async def _delivered(self, name: str, wanted: int, prefetch: int) -> list[int]:
        reader = self._reader(name)
        taker = Taker(prefetch)
        if reader is self.queue:
            self.queue.add_consumer(taker)
        else:
            await self._joined(name, "first")
            self.queue.join_group(self.queue.groups[name], taker)
        self.node.turns.run()
        while len(taker.bodies()) < wanted:
            await asyncio.sleep(0)  # something is loaded
            self.node.turns.run()
        self.queue.detach([taker])
        self.node.turns.run()
        offsets = []
        for delivery in taker.take():
            for at in range(delivery.count):
                offsets.append(delivery.offset + at)
                body = delivery.records.body(delivery.index + at)
                assert body.partition(b":")[0] == b"%d" % offsets[-1]
        return offsets

    @rule(data=st.data(), outcome=st.sampled_from([Reason.ACKED, *ReturnReason]))
    def finish(self, data: st.DataObject, outcome: Reason | ReturnReason) -> None:
        """Settle or return some messages in a row."""
        names = sorted(name for name, model in self.models.items() if model.held)
        if not names:
            return
        name = data.draw(st.sampled_from(names))
        model = self.models[name]
        first = data.draw(st.sampled_from(sorted(model.held)))
        end = first + 1
        while end in model.held and data.draw(st.booleans()):
            end += 1

        async def finished() -> None:
            partition = self._reader(name).partitions[0]
            if isinstance(outcome, ReturnReason):
                partition.give_back(first, end, outcome)
            else:
                partition.settle(first, end, outcome)

        self._run(finished())
        model.held.difference_update(range(first, end))
        if isinstance(outcome, ReturnReason):
            model.returned.update(range(first, end))

    @precondition(lambda self: not self.is_stream)
    @rule()
    def purge(self) -> None:
        """Empty the queue; groups keep their messages."""

        async def purged() -> None:
            self.queue.purge()

        self._run(purged())
        own = self.models["the queue's own"]
        own.fresh, own.returned = set(), set()

    @rule()
    def flush(self) -> None:
        """Write to segments what is needed."""
        self._run(self.node.logs.checkpoints.flush())

    @rule()
    def checkpoint(self) -> None:
        """As when a journal file is full."""
        self._run(self.node.logs.checkpoints.take())

    @rule()
    def time_passes(self) -> None:
        """Everything that is stored is past its age."""

        async def expired() -> None:
            self.clock.hours += 5
            self.log.expire()

        self._run(expired())

    # -- ends

    @rule()
    def restart(self) -> None:
        """Stop in order, and start again."""
        self._close()
        self._restarted()

    @rule(flushed=st.booleans())
    def crash(self, flushed: bool) -> None:
        """Die when all that was settled is in the journal, and start on what is left."""

        async def died() -> Path:
            logs = self.node.logs
            barrier = logs.open_partition(10**9, "/", "barrier", 0, durable=True)
            await until(lambda: not logs.checkpoints.with_state)
            await durable(logs, barrier.append(records("barrier"), waited=True))
            barrier.open_cursor().settle(0, barrier.next_offset)
            barrier.release()
            if flushed:
                await flush_visible(logs)
            await asyncio.gather(*logs._background.tasks)
            for executor in (logs.journal.supply._executor, logs._flusher):
                await self.loop.run_in_executor(executor, str)
            self.copies += 1
            return copy_of(self.data, self.root / str(self.copies))

        left = self._run(died())
        self._overtake()
        self._close()
        self.data = left
        self._restarted()

    def _restarted(self) -> None:
        self._open()
        for model in self.models.values():
            model.restarted(self.transient)
        self.behind_gone = max(self.transient, default=self.behind_gone - 1) + 1
        self.transient = set()
        # Transient records at the end may have left no trace.
        assert self.log.next_offset <= self.next_offset
        self.next_offset = self.log.next_offset
        self.behind_gone = min(self.behind_gone, self.next_offset)
        assert set(self.queue.groups) == set(self.models) - {"the queue's own"}

    # -- what is always so

    @invariant()
    @precondition(lambda self: hasattr(self, "node"))
    def counts_are_right(self) -> None:
        """Each cursor has ready what its model says."""
        self._run(self._quiet())
        self._overtake()
        for name, model in self.models.items():
            reader = self._reader(name)
            ready = sum(partition.ready for partition in reader.partitions)
            # What does not match is ready until the group has passed it.
            others = 0 if name not in FILTERS else self.next_offset
            least = len(model.fresh) + len(model.returned)
            assert least <= ready <= least + others, name

    @invariant()
    @precondition(lambda self: hasattr(self, "node") and not self.is_forced)
    def nothing_that_is_needed_is_removed(self) -> None:
        """The log begins at or before what any cursor still needs."""
        for model in self.models.values():
            needed = model.fresh | model.held | model.returned
            assert self.log.first_offset <= min(needed, default=self.next_offset)


class KeptQueue(GroupMachine):
    """A queue with retention."""

    arguments: ClassVar[dict[str, object]] = {"x-retention": "1h"}


class Stream(GroupMachine):
    """A stream whose limits wait for its groups."""

    arguments: ClassVar[dict[str, object]] = {
        "x-queue-type": "stream",
        "x-max-length-bytes": 100_000,
        "x-max-age": "10h",
    }
    is_stream = True


class ForcedStream(GroupMachine):
    """A stream whose limits wait for nobody."""

    arguments: ClassVar[dict[str, object]] = Stream.arguments | {"x-retention-force": True}
    is_stream = True
    is_forced = True


for _machine in (KeptQueue, Stream, ForcedStream):
    _machine.TestCase.settings = settings(
        max_examples=EXAMPLES, stateful_step_count=40, deadline=None
    )
TestKeptQueue = KeptQueue.TestCase
TestStream = Stream.TestCase
TestForcedStream = ForcedStream.TestCase
