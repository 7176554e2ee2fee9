"""The broker of a simulated node: real logs, queues and rules on a directory, in an event loop of its own.

Time is the simulation's, and threads are left out. So a process that is killed is one whose loop does not turn
any more: it leaves what its files have.
"""

import asyncio
import weakref
from collections.abc import Callable, Coroutine, Mapping, MutableMapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

from simulation.loop import CommitThread, Loop
from support.known_definitions import known_topology
from support.log_states import states_of
from support.queue_samples import no_hash
from unit.log_backend.open_store import unsettled

from routelog.log_backend import (
    ArrivingCopy,
    DataCopy,
    LogOptions,
    LogStore,
    OwnLogs,
    ScheduledRecord,
    ShardBlock,
    SystemDisk,
    repair_copy,
)
from routelog.log_backend.loop import scheduler
from routelog.mirror_cluster.node.copy_receiver import CopyReceiver
from routelog.mirror_cluster.node.followed_store import FollowedStore
from routelog.mirror_cluster.replica.chain import Chain
from routelog.mirror_cluster.replica.events import Appended
from routelog.vhosts import (
    DeclaredPartitions,
    GlobalParameters,
    NodeDefinitions,
    UserDirectory,
    VhostDirectory,
    VirtualHost,
)

BEGIN = 1_000_000_000_000  # us since 1970, when a history begins
# A file has some 15 blocks, so that files are full, and checkpoints are taken, all the time.
OPTIONS = LogOptions(
    journal_file_bytes=64 * 1024,
    segment_bytes=8 * 1024,
    disk_reserve_bytes=0,
    scrub_bytes_per_second=0,
    retention_seconds=2.0,
    emptied_seconds=3.0,
)
FIRST = ScheduledRecord(0, 0, 0)
SCHEDULERS: MutableMapping[Any, scheduler.Scheduler] = cast(Any, scheduler)._schedulers

Declare = Callable[[VirtualHost], Coroutine[Any, Any, None]]
Result = TypeVar("Result")


class Files(SystemDisk):
    """Files that need no sync: only the process dies. It knows which are open."""

    def __init__(self) -> None:
        self._open: set[int] = set()

    def open(self, path: Path, *, create: bool = False) -> int:
        """See `Disk`."""
        file = super().open(path, create=create)
        self._open.add(file)
        return file

    def lock(self, path: Path) -> int:
        """See `Disk`."""
        file = super().lock(path)
        self._open.add(file)
        return file

    def close(self, file: int) -> None:
        """See `Disk`."""
        self._open.discard(file)
        super().close(file)

    def close_all(self) -> None:
        """The process has ended."""
        for file in list(self._open):
            self.close(file)

    def write_synced(self, file: int, position: int, buffers: Sequence[Any]) -> None:
        """See `Disk`."""
        self.write(file, position, buffers)

    def sync(self, file: int) -> None:
        """See `Disk`."""

    def sync_directory(self, path: Path) -> None:
        """See `Disk`."""

    def fill_with_zeros(self, file: int, size: int) -> None:
        """See `Disk`."""
        self.truncate(file, size)


def at_once(executor: ThreadPoolExecutor, call: Callable[..., Any], *arguments: Any) -> Future[Any]:
    """Instead of `ThreadPoolExecutor.submit`: no thread."""
    future = Future[Any]()
    try:
        future.set_result(call(*arguments))
    except Exception as error:
        future.set_exception(error)
    return future


class Clock:
    """The simulation's clock."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self.monotonic = seconds

    def now(self) -> int:
        """See `Clock`."""
        return BEGIN + round(self.monotonic() * 1_000_000)

    def pause(self, seconds: float) -> None:
        """See `Clock`."""


class Broker:
    """One process: it follows, until it is to serve.

    Attributes:
        made: blocks that it made as a leader, which its replica does not know.
        vhost: None: it does not serve clients.
    """

    def __init__(self, data: Path, seconds: Callable[[], float]) -> None:
        self.data = data
        self.made: list[ShardBlock] = []
        self.vhost: VirtualHost | None = None
        self._files, self._clock = Files(), Clock(seconds)
        self.loop = Loop(seconds)
        self._is_loaded = False
        self._background: list[asyncio.Task[None]] = []
        own = scheduler.Scheduler(weakref.proxy(self.loop), self._clock)
        SCHEDULERS[self.loop] = own  # whose clock is the system's otherwise
        self.do(self._open())

    async def _open(self) -> None:
        loop = self.loop
        self.logs = self.open_logs()
        store = FollowedStore(
            self.logs,
            self.data,
            self._files,
            0,
            cast(CopyReceiver, None),
            lambda blocks: None,
            loop.errors.append,
        )
        writer, metadata = self.logs.metadata_writer, self.logs.metadata
        self._vhosts = VhostDirectory(
            self.logs, writer, scheduler.scheduler_of(loop), loop.call_later
        )
        users = UserDirectory(writer, no_hash)
        parameters = GlobalParameters(writer)
        self._definitions = NodeDefinitions(self._vhosts, users, parameters, metadata)
        await store.open(DeclaredPartitions(metadata), self._definitions)
        self.storage = store.storage
        self.storage.start(self._noticed)

    def open_logs(self) -> LogStore:
        """Its logs, which use no thread."""
        logs = LogStore(self.data, self._files, self._clock, self.loop, OPTIONS)
        CommitThread(logs.journal, self.loop)
        return logs

    def _noticed(self, notice: object) -> None:
        if isinstance(notice, Appended):
            self.made.append(notice.block)

    # -- its loop

    def do(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Do something that waits for nobody else."""
        task = self.loop.create_task(work)
        self.settle()
        return task.result()

    def call(self, call: Callable[..., object], *arguments: Any) -> None:
        """Call something in its loop."""
        self.loop.call_soon(call, *arguments)
        self.settle()

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin something that others have to answer."""
        self._background.append(self.loop.create_task(work))

    def settle(self) -> None:
        """Let it do all that it can do now."""
        self.loop.settle()
        if self._background:
            for task in self._background:
                if task.done():
                    task.result()
            self._background = [each for each in self._background if not each.done()]
        if self.loop.errors:
            raise self.loop.errors[0]

    def kill(self) -> None:
        """The process ends, and its files stay as they are."""
        with suppress(Exception):
            self.logs.metadata.close()
        self._files.close_all()
        self.loop.errors.clear()
        self.loop.set_exception_handler(lambda loop, context: None)
        self.loop.close()
        SCHEDULERS.pop(self.loop, None)  # the clock knows the whole history

    # -- as its replica says

    @property
    def applied(self) -> int:
        """The last block that it has carried out."""
        return self.logs.journal.committed

    def agree(self, chain: Chain, blocks: Mapping[int, ShardBlock], applied: int) -> None:
        """After a start: have in the journal what the simulated disk has, and carry out what was."""
        journal = self.logs.journal
        same = min(journal.end.position, chain.end_position)
        while same > self.applied and journal.mark(same) != chain.mark(same):
            same -= 1
        if journal.end.position > same:
            self.truncate(same)
        self.store([blocks[each] for each in range(same + 1, chain.end_position + 1)])
        self.commit(applied)

    def store(self, blocks: Sequence[ShardBlock]) -> None:
        """Store blocks of a leader."""
        if blocks:
            self.call(self.storage.store, blocks)

    def truncate(self, position: int) -> None:
        """Cut what is behind."""
        self.call(partial(self.storage.truncate, position, keep=False))

    def commit(self, position: int) -> None:
        """Blocks are committed."""
        if position > self.applied:
            self.call(self.storage.commit, position)

    def begin_epoch(self, epoch: int) -> None:
        """Make blocks from here on."""
        self.call(self.storage.begin_epoch, epoch)

    def load(self, epoch: int) -> bool:
        """Load the queues, if they were not loaded; returns whether that is so."""
        if self._is_loaded:
            return False
        self._is_loaded = True
        self.do(self._load(epoch))
        return True

    async def _load(self, epoch: int) -> None:
        gone = await self._definitions.forget_transient()
        await self._vhosts.open_logs()
        self.logs.recover()
        await self._vhosts.recovered()
        self.logs.start(epoch)
        if gone:
            self.logs.metadata_writer.submit(gone)
        await self._vhosts.load_memories()

    def serve(self, declare: Declare) -> None:
        """Begin to serve clients, who declare what is missing."""
        self.begin(self._declare(declare))

    async def _declare(self, declare: Declare) -> None:
        vhost = await self._vhosts.add("/")
        await declare(vhost)
        self.vhost = vhost

    def lead_alone(self, epoch: int) -> None:
        """Lead where nobody else is: what is stored is committed."""
        self.begin_epoch(epoch)
        self.commit_all()
        self.load(epoch)

    def commit_all(self) -> None:
        """What it does is committed at once."""
        self.settle()
        while (end := self.logs.journal.durable) > self.applied:
            self.commit(end)
            self.settle()
        self.made.clear()

    # -- copies

    def begin_copy(self) -> DataCopy:
        """Begin to copy what is here."""
        return self.do(_called(self.logs.copies.begin))

    def end_copy(self, copy: DataCopy) -> None:
        """Let go of a copy."""
        self.call(copy.end)

    def take_copy(self, copy: DataCopy) -> None:
        """Take a copy of another broker's data; the next start begins with it."""
        arriving = ArrivingCopy(self.data, self._files)
        arriving.begin()
        for file in copy.files:
            arriving.write(file.path, [copy.read(file, 0, file.size)], file.padded)
        arriving.complete()
        repaired = repair_copy(arriving.path, self._files, OwnLogs(self.data, self._files, {}))
        assert repaired == []
        arriving.keep()

    # -- what it tells

    def told(self) -> dict[str, object]:
        """What it tells clients of: everything that a follower must have, too."""
        return self.do(self._told())

    async def _told(self) -> dict[str, object]:
        found: dict[str, object] = {}
        for number, state in (await states_of(self.logs)).items():
            log = self.logs.partitions[number]
            found[f"{log.directory.name}"] = state
        for vhost in self._vhosts.all():
            found[f"topology of {vhost.name}"] = known_topology(vhost)
            for name, queue in vhost.queues.items():
                found[f"groups of {name}"] = sorted(queue.groups)
                if queue.rules is not None and queue.rules.unique_keys is not None:
                    found[f"keys in {name}"] = sorted(cast(Any, queue.rules.unique_keys)._holders)
            for name, held in cast(Any, vhost.hosted.delays)._held_messages.items():
                page = await held.schedule.page(FIRST, 1 << 20)
                found[f"held by {name}"] = [each for each in page if held.is_held(each)]
                found[f"number held by {name}"] = held.count
            for name, memory in vhost.hosted.memories.by_name.items():
                found[f"keys that {name} has seen"] = sorted(cast(Any, memory)._offsets)
        return found

    def transient(self) -> list[str]:
        """Exchanges and queues that are not durable."""
        found: list[str] = []
        for vhost in self._vhosts.all():
            found += [each.name for each in vhost.routing.exchanges() if not each.durable]
            found += [name for name, queue in vhost.queues.items() if not queue.is_stored]
        return found

    def held(self) -> list[tuple[str, bytes]]:
        """Messages that wait for their time."""
        return [each for each in self.bodies() if each[0] == "later"]

    def bodies(self) -> list[tuple[str, bytes]]:
        """All messages that are not settled: where they are, and their bodies."""
        return self.do(self._bodies())

    async def _bodies(self) -> list[tuple[str, bytes]]:
        found = []
        for vhost in self._vhosts.all():
            logs = [(name, each.log) for name, q in vhost.queues.items() for each in q.partitions]
            for name, held in cast(Any, vhost.hosted.delays)._held_messages.items():
                logs += [(name, log) for log in held.logs]
            for name, log in logs:
                found += [(name, bytes(body)) for _, body in await unsettled(log)]
        return found


async def _called(call: Callable[[], Result]) -> Result:
    return call()
