"""A node without sockets on a disk that loses power: vhosts, log store and metadata, promises kept."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from crash.disks.fault_plan import FaultPlan
from crash.disks.powered_disk import DiskStill, PoweredDisk
from crash.disks.promises import NOT_KNOWN, Promises, QueuePromises
from support.durable_positions import tell_durable
from support.queue_samples import declare_queue, delete_queue
from support.waiting import WAIT_SECONDS
from unit.log_backend.log_records import records
from unit.log_backend.open_store import unsettled as unsettled_records

from routelog.log_backend import (
    Change,
    LogOptions,
    LogStore,
    MetadataStore,
    MetadataUnavailable,
    SystemClock,
    scheduler_of,
)
from routelog.log_backend.partitions.partition_log import PartitionLog
from routelog.mirror_cluster import claim_epoch
from routelog.vhosts import Queue, QueueProperties, VhostDirectory, VirtualHost
from routelog.vhosts.vhost.topology_keeper import Durable

Answer = Awaitable[int]  # declare-ok and the like: the revision that is durable
NOTHING: Mapping[bytes, bytes] = MappingProxyType({})
# Small, so that a workload of some hundred disk operations has segments rolled, files recycled,
# checkpoints made and batches evicted.
LIMITS = LogOptions(
    journal_file_bytes=16 * 1024,
    journal_files_max=4,
    segment_bytes=8 * 1024,
    memory_tail_bytes=16 * 1024,
    flush_seconds=0.002,
    emptied_seconds=0.005,
)


@dataclass(frozen=True)
class NodeStill:
    """All that is left of a node at one instant, and what it had promised until then."""

    operation: int
    disk: DiskStill
    metadata: Mapping[bytes, bytes]
    promises: Promises

    async def recovered(self, root: Path, choice: random.Random) -> Node:
        """A node that started on it, in some directory, and is held to what was promised.

        Raises:
            PromiseBroken: something is lost, back, or was never there.
        """
        return await recovered(self.disk.place(root, choice), self.promises, self.metadata)


class Node:
    """A running node, and what it promises.

    Attributes:
        watch: called before each call of the disk and the metadata store, in the thread that makes it.
        failures: what the log store reported to its owner.
        is_started: it has recovered, and takes appends.
    """

    def __init__(
        self,
        disk: PoweredDisk,
        promises: Promises | None = None,
        watch: Callable[[Node], None] = lambda node: None,
    ) -> None:
        self.disk = disk
        self.promises = promises or Promises()
        self.watch = watch
        self.failures: list[Exception] = []
        self.is_started = False

    async def start(self, metadata: Mapping[bytes, bytes] = NOTHING) -> None:
        """Recover as the broker does.

        Args:
            metadata: what is found in the metadata store, which is empty.
        """
        loop = asyncio.get_running_loop()
        self.store = LogStore(self.disk.root, self.disk, SystemClock(), loop, LIMITS)
        changes = [Change(key, value) for key, value in metadata.items()]
        self.store.metadata.apply(changes, synced=False)
        self.metadata = WatchedMetadata(self.store.metadata, self.disk)
        self.disk.before_operation = lambda: self.watch(self)
        self.store.recover_metadata()
        self.promises.topology.check(self.store.metadata)
        self.writer = self.store.metadata_writer
        self.promises.topology.follow(self.writer)
        self.vhosts = VhostDirectory(self.store, self.writer, scheduler_of(loop), loop.call_later)
        await self.vhosts.load(self.store.metadata)
        await self.vhosts.open_logs()
        self.store.recover()
        await self.vhosts.recovered()
        self.store.on_failure = self.failures.append
        self.store.start(claim_epoch(self.store.metadata, self.store.journal.recovered_epoch))
        tell_durable(self.store.progress, self._durable)
        await self.vhosts.load_memories()
        await self.vhosts.add("/")
        self.is_started = True

    async def stop(self) -> None:
        """Stop in order."""
        self.is_started = False
        async with asyncio.timeout(WAIT_SECONDS):
            await self.store.aclose()

    async def abandon(self) -> None:
        """After a start that failed: the broker ends then, so the store is left as it is."""
        self.writer.close()

    @property
    def vhost(self) -> VirtualHost:
        """The only one."""
        return self.vhosts.get("/")

    # -- queues

    async def declare(self, *names: str, keeps: bool = False, **arguments: object) -> None:
        """Declare durable queues; an underscore in an argument's name stands for a hyphen."""
        await wait_for(*[self.declaring(name, keeps=keeps, **arguments) for name in names])

    def declaring(self, name: str, *, keeps: bool = False, **arguments: object) -> Answer:
        """Declare a queue; await the result for its declare-ok."""
        hyphened = {key.replace("_", "-"): value for key, value in arguments.items()}
        generations = self.promises.queues.setdefault(name, [None])
        properties = QueueProperties(name, durable=True, arguments=hyphened)
        limit = hyphened.get("x-max-length-bytes")
        kept = limit - LIMITS.segment_bytes if isinstance(limit, int) else None
        promises = QueuePromises(NOT_KNOWN, keeps, kept)
        generations.append(promises)  # first, as it may be there before the call returns
        try:
            queue, durable = declare_queue(self.vhost, properties, None)
        except MetadataUnavailable:  # nothing of it will ever be there
            generations.remove(promises)
            raise
        promises.partition = queue.partitions[0].log.number

        def declared() -> None:
            generations = self.promises.queues[name]  # perhaps it is being deleted already
            self.promises.queues[name] = generations[generations.index(promises) :]

        return answer(durable, declared)

    async def delete(self, *names: str) -> None:
        """Delete queues."""
        await wait_for(*[self.deleting(name) for name in names])

    def deleting(self, name: str) -> Answer:
        """Delete a queue; await the result for its delete-ok."""
        generations = self.promises.queues[name]
        generations.append(None)
        try:
            durable = delete_queue(self.vhost, self.queue(name))
        except MetadataUnavailable:  # it stays
            generations.pop()
            raise

        def deleted() -> None:
            generations = self.promises.queues[name]
            self.promises.queues[name] = generations[generations.index(None) :]

        return answer(durable, deleted)

    def queue(self, name: str) -> Queue:
        """The queue of a name."""
        return self.vhost.queue(name, None)

    def log(self, name: str) -> PartitionLog:
        """Its log."""
        return self.queue(name).partitions[0].log

    def promised(self, name: str) -> QueuePromises:
        """The promises of the queue's latest generation."""
        promises = self.promises.queues[name][-1]
        assert promises is not None
        return promises

    # -- records

    def append(
        self,
        name: str,
        count: int = 1,
        size: int = 100,
        *,
        persistent: bool = True,
        waited: bool = True,
    ) -> int:
        """Append records whose bodies say where they belong; returns the journal position."""
        log, promises = self.log(name), self.promised(name)
        first = log.next_offset
        bodies = [
            (b"%d %d " % (log.number, offset)).ljust(size, b"%d" % (offset % 10))
            for offset in range(first, first + count)
        ]
        batch = records(bodies, persistent=persistent, time=SystemClock().now())
        position = log.append(batch, waited=waited)
        promises.appended(first, bodies, position)
        if position:
            for each in self.promises.all():
                each.barrier(position)
        return position

    def fan_out(self, *names: str, size: int) -> int:
        """Append the same record to several queues; returns the journal position."""
        places = [b"%d %d" % (self.log(name).number, self.log(name).next_offset) for name in names]
        body = b" ".join(places).ljust(size, b".")
        batch = records([body], time=SystemClock().now())
        for name in names:
            first = self.log(name).next_offset
            position: int = self.log(name).append(batch, waited=True)
            self.promised(name).appended(first, [body], position)
        for each in self.promises.all():
            each.barrier(position)
        return position

    def settle(self, name: str, first: int, end: int) -> None:
        """Settle offsets as a consumer that had them all in hand."""
        log = self.log(name)
        self.promised(name).settle(first, end)
        log.open_cursor().settle(first, end)
        log.release()

    def purge(self, name: str) -> None:
        """Settle all that is ready."""
        promises, log = self.promised(name), self.log(name)
        promises.settle(0, log.next_offset)
        self.queue(name).purge()

    async def confirmed(self, position: int) -> None:
        """Wait until the journal has reached a position.

        Raises:
            JournalFailed: it never will.
        """
        journal = self.store.journal
        async with asyncio.timeout(WAIT_SECONDS):
            while journal.durable < position:
                if journal.failure is not None:
                    raise journal.failure
                await asyncio.sleep(0)

    async def read(self, name: str) -> dict[int, bytes]:
        """Offset and body of all that readers of a queue get."""
        log = self.log(name)
        if self.promised(name).keeps:
            return await whole_log(log)
        return dict(await unsettled_records(log))

    def _durable(self, position: int) -> None:
        self.promises.durable(position)

    # -- crashes

    def still(self) -> NodeStill:
        """What is left if the power fails at this instant."""
        with self.disk.paused():
            promises = self.promises.copy()
            return NodeStill(
                self.disk.operations,
                self.disk.still_after_power_cut(),
                self.metadata.after_power_cut(self.disk.choice),
                promises,
            )

    async def restart(self) -> Node:
        """Stop in order, and start again."""
        await self.stop()
        return await recovered(self.disk, self.promises, watch=self.watch)

    async def restart_after_kill(self, root: Path) -> Node:
        """Die, and start again on what the system's cache holds."""
        with self.disk.paused():
            promises = self.promises.copy()
            disk = self.disk.image_after_kill(root)
            metadata = self.metadata.after_kill()
        disk.operations = self.disk.operations
        disk.plan = self.disk.plan
        self.disk.before_operation, self.disk.plan = None, FaultPlan()
        await self.stop()
        return await recovered(disk, promises, metadata, self.watch)


async def recovered(
    disk: PoweredDisk,
    promises: Promises,
    metadata: Mapping[bytes, bytes] = NOTHING,
    watch: Callable[[Node], None] = lambda node: None,
) -> Node:
    """A node on what another one left, held to what that one promised.

    Args:
        metadata: what it left in its metadata store, when that one is not below the disk.

    Raises:
        PromiseBroken: something is lost, back, or was never there.
    """
    # A copy: what waits for a position of the journal of that run is never confirmed.
    node = Node(disk, promises.copy(), watch)
    await node.start(metadata)
    try:
        await check(node)
    except BaseException:
        await node.stop()
        raise
    return node


async def check(node: Node) -> None:
    """Hold a node that has just recovered to its promises, and go on with what it found."""
    unsettled: dict[str, dict[int, bytes]] = {}
    for name in node.promises.queues:
        queue = node.vhost.queues.get(name)
        log = queue.partitions[0].log if queue is not None else None
        promises = node.promises.generation(name, None if log is None else log.number)
        if queue is not None and log is not None and promises is not None:
            found = unsettled[name] = await node.read(name)
            promises.check(log, found, queue.ready)
            promises.recovered(log, found)
    for transaction in node.promises.transactions:
        transaction.check(unsettled)
    node.promises.transactions.clear()  # from here on anybody may settle what is left of them


async def whole_log(log: PartitionLog) -> dict[int, bytes]:
    """Every record that a log holds, settled or not."""
    found: dict[int, bytes] = {}
    offset = log.first_offset
    while offset < log.next_offset:
        batch = log.read(offset)
        if batch is None:
            if not log.needs_load(offset):
                break  # a snapshot knew of offsets whose records were not durable
            loaded = asyncio.Event()
            log.load(offset, loaded.set)
            async with asyncio.timeout(WAIT_SECONDS):
                await loaded.wait()
            continue
        for place in range(batch.base_offset, batch.end_offset):
            found[place] = batch.records.body(place - batch.base_offset)
        offset = batch.end_offset
    return found


def answer(durable: Durable, note: Callable[[], None]) -> Answer:
    """What the client of a change waits for; it comes with a note, whether somebody waits or not."""
    assert durable is not None
    coming = asyncio.ensure_future(durable)

    def came(coming: asyncio.Future[int]) -> None:
        if not coming.cancelled() and coming.exception() is None:
            note()

    coming.add_done_callback(came)
    return coming


async def until_gone(node: Node, name: str) -> None:
    """Wait until an empty queue has let go of its files.

    Raises:
        JournalFailed: it never will.
    """
    async with asyncio.timeout(WAIT_SECONDS):
        while node.log(name).segments:
            if node.store.journal.failure is not None:
                raise node.store.journal.failure
            await asyncio.sleep(0.001)


async def wait_for(*answers: Answer) -> None:
    """Wait for all of them."""
    async with asyncio.timeout(WAIT_SECONDS):
        await asyncio.gather(*answers)


class WatchedMetadata:
    """What a metadata store holds, and what a power cut would leave of it: writes, in order.

    A write is what RocksDB gets at once: one batch, or several together.
    """

    def __init__(self, store: MetadataStore, disk: PoweredDisk) -> None:
        self._disk = disk
        self._store = store
        self._apply, self._sync = store._apply_together, store.sync
        self._durable = {key: entry.value for key, entry in store.scan(b"")}
        self._unsynced: list[Sequence[Change]] = []
        store._apply_together = self.apply_together  # type: ignore[method-assign]
        store.sync = self.sync  # type: ignore[method-assign]

    def apply_together(self, batches: Sequence[Sequence[Change]]) -> None:
        """See `MetadataStore`."""
        with self._disk.paused():
            self._pass("metadata_apply")
            self._apply(batches)
            self._unsynced.append([each for batch in batches for each in batch])

    def sync(self) -> None:
        """See `MetadataStore`."""
        with self._disk.paused():
            self._pass("metadata_sync")
            self._sync()
            for changes in self._unsynced:
                _carry_out(self._durable, changes)
            self._unsynced.clear()

    def after_power_cut(self, choice: random.Random) -> dict[bytes, bytes]:
        """Some content that the cut may leave."""
        return self._content(choice.randint(0, len(self._unsynced)))

    def after_kill(self) -> dict[bytes, bytes]:
        """All that was applied."""
        return self._content(len(self._unsynced))

    def _content(self, batches: int) -> dict[bytes, bytes]:
        content = dict(self._durable)
        for changes in self._unsynced[:batches]:
            _carry_out(content, changes)
        return content

    def _pass(self, kind: str) -> None:
        if self._disk.before_operation is not None:
            self._disk.before_operation()
        self._disk.operations += 1
        try:
            self._disk.plan.pass_or_fail(kind, "metadata")
        except OSError as error:
            raise self._store._failed(kind, error) from error


def _carry_out(content: dict[bytes, bytes], changes: Sequence[Change]) -> None:
    for change in changes:
        if change.value is None:
            content.pop(change.key, None)
        else:
            content[change.key] = change.value
