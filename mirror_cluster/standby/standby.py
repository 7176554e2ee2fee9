"""A standby: its store follows a running node, and gets the journal block by block, resumed after any break."""

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from routelog.log_backend import (
    Clock,
    Disk,
    JournalExtent,
    LogStore,
    Mark,
    OwnLogs,
    PartitionRecords,
    ShardBlock,
    has_copy,
    journal_end,
    open_metadata,
    random_key,
    read_file,
    replace_file,
)
from routelog.mirror_cluster.links.copy_stream import (
    Stream,
    receive_message,
    send_message,
    stream_over,
)
from routelog.mirror_cluster.links.given_link import TakeConnection, connect, connect_given
from routelog.mirror_cluster.links.introduction import Opening, Purpose
from routelog.mirror_cluster.node.copy_receiver import (
    COPY_PAUSE_SECONDS_MAX,
    CopyDamaged,
    CopyError,
    CopyReceiver,
)
from routelog.mirror_cluster.node.followed_store import FollowedStore
from routelog.mirror_cluster.node.incarnation import new_number
from routelog.mirror_cluster.node.journal_storage import CopyWaits, Notice
from routelog.mirror_cluster.protocol.message_format import BadMessage
from routelog.mirror_cluster.protocol.messages import Acknowledge, Append, CopyFrom, Hello
from routelog.mirror_cluster.protocol.shard_record import SHARD
from routelog.mirror_cluster.replica.events import Durable
from routelog.mirror_cluster.standby.standby_door import LEADER, StandbyOptions

log = logging.getLogger(__name__)

_COPY_FIRST = b"routelog follow\n"  # its content, until a copy has taken the place of a node's data
_FILE = "standby"  # there: a broker that began here would make blocks in an epoch of the node it followed

PAUSE_SECONDS_MIN, PAUSE_SECONDS_MAX = 0.1, 5.0  # between two connections
ACKNOWLEDGE_SECONDS = 1.0
LAG_SECONDS = 10.0
# Of blocks that have come and are not applied: the disk or the memory is behind, and the node waits.
UNAPPLIED_BYTES_MAX = 32 * 1024 * 1024


class NoStandby(Exception):
    """A data directory is no standby's."""


class NodeLacksData(Exception):
    """The node has less than its standby: another disk, or an older backup."""


def mark_standby(data: Path, disk: Disk, *, copies_first: bool) -> None:
    """Say durably that a directory is a standby's, and whether a copy has to come first; its lock is held."""
    content = _COPY_FIRST if copies_first else b"routelog promote\n"
    replace_file(disk, data / _FILE, data / f"{_FILE}.new", content)


def copies_first(data: Path, disk: Disk) -> bool:
    """Whether the data of a standby's directory are those of the node that it was, of which a copy is to come.

    That node gave offsets that no journal tells of, to records that were not journaled.
    """
    return read_file(disk, data / _FILE) == _COPY_FIRST


def is_standby(data: Path, disk: Disk) -> bool:
    """Whether a directory is a standby's."""
    return _FILE in disk.list_directory(data)


def promote(data: Path, disk: Disk) -> Mark:
    """Make a standby's directory that of a node on its own; its next start begins an epoch of its own.

    Returns:
        The last block that it has.

    Raises:
        NoStandby: it is none, or has nothing of its node yet; nothing was changed.
        NoDataDirectory, DirectoryLocked: it is no data directory, or a standby that runs has it.
        JournalDamaged, MetadataCorrupt, MetadataUnavailable, OSError: the data cannot be used.
    """
    if not is_standby(data, disk):
        raise NoStandby(f"{data} is no standby's: 'routelog follow' makes one")
    if copies_first(data, disk) and not has_copy(data, disk):
        before = f"what is there is older; to serve that, remove {data / _FILE}"
        raise NoStandby(f"{data} has nothing of its node yet: {before}")
    with open_metadata(data, disk, read_only=False) as metadata:
        end = journal_end(data / "journal", disk, JournalExtent(metadata))
        if end.position == 0:
            raise NoStandby(f"{data} has nothing of its node yet")
        disk.remove(data / _FILE)
        disk.sync_directory(data)
    return end


class StandbyNode:
    """Follows a running node, and gets its journal again behind each break.

    Attributes:
        ended: resolves with the reason why the process has to end and start again.
        certificates: that of this node; None: the connection has no TLS.

    Args:
        name: of this node.
        logs: open, and has recovered nothing.
    """

    def __init__(
        self,
        options: StandbyOptions,
        name: str,
        logs: LogStore,
        data: Path,
        disk: Disk,
        clock: Clock,
    ) -> None:
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.certificates = options.tls
        self._options = options
        self._name = name
        self._process = new_number()
        self._logs = logs
        self._journal = logs.journal
        self._data = data
        self._disk = disk
        reserve = logs.space.reserve.size
        receiver = CopyReceiver(
            self._connect_copy,
            data,
            disk,
            clock,
            reserve,
            lambda: OwnLogs.of(data, disk, logs.partitions) if logs.is_damaged else None,
        )
        self._store = FollowedStore(logs, data, disk, 0, receiver, _nothing_aside, self._failed)
        self._storage = self._store.storage
        self._unapplied_bytes = 0
        self._is_applied = asyncio.Event()
        self._heard_committed = 0
        self._is_ahead = False  # of the node, since this was seen
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, records: PartitionRecords) -> None:
        """Recover, and follow.

        Args:
            records: of the store's metadata.

        Raises:
            JournalDamaged, MetadataCorrupt, UnknownEntry, OSError: the data cannot be used.
        """
        was_standby = is_standby(self._data, self._disk)
        self._logs.on_failure = self._failed
        await self._store.open(records)
        self._storage.start(self._noticed)
        self._storage.commit(self._journal.end.position)  # nothing else was ever sent
        if not was_standby:
            is_nodes = self._journal.end.position > 0
            mark_standby(self._data, self._disk, copies_first=is_nodes)
        self._was_damaged = self._is_replaced = self._logs.is_damaged
        self._logs.on_damage_changed = self._damage_changed
        self._tasks = [asyncio.create_task(self._run()), asyncio.create_task(self._tell_lag())]
        self._tasks[0].add_done_callback(self._ran)

    async def aclose(self) -> None:
        """Follow no more; the store stays open."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # -- connecting

    async def _run(self) -> None:
        pause = PAUSE_SECONDS_MIN
        while True:
            position, pause_max = self._journal.end.position, PAUSE_SECONDS_MAX
            try:
                await self._follow()
            except TimeoutError:
                log.warning("%s does not answer, or says nothing any more", self._where)
            except (EOFError, OSError) as error:
                log.warning("no connection with %s: %s", self._where, error)
            except BadMessage as error:
                log.error("%s is not understood: %s", self._where, error)
            except NodeLacksData as error:
                self._is_ahead = True
                text = "%s has less than this standby, which keeps what it has: %s. 'routelog promote' it, or "
                log.error(text + "follow with an empty directory", self._where, error)
            except CopyDamaged as error:  # what is here is as good
                self._is_replaced = False
                log.error("no copy of %s: %s", self._where, error)
            except CopyError as error:
                pause_max = COPY_PAUSE_SECONDS_MAX
                log.error("no copy of %s: %s", self._where, error)
            except CopyWaits as reason:
                if has_copy(self._data, self._disk):
                    mark_standby(self._data, self._disk, copies_first=False)
                return self._end(str(reason))
            pause = PAUSE_SECONDS_MIN if position != self._journal.end.position else pause
            await asyncio.sleep(pause)
            pause = min(2 * pause, pause_max)

    async def _follow(self) -> None:
        if copies_first(self._data, self._disk):
            await self._copy("what is here is of another node")
        streams: list[Stream] = []
        try:
            await self._connect(Purpose.FOLLOW, lambda *given: streams.append(stream_over(*given)))
            reader, writer = streams[0]
            end = self._journal.end
            log.info("follows %s from position %d on", self._where, end.position)
            await send_message(writer, Hello(SHARD, 0, 0, self._name, 0, (end,)))
            needs_copy = await self._received(reader, writer)
        finally:
            for _, writer in streams:
                writer.transport.abort()
        if needs_copy and self._is_replaced:
            await self._copy("what is here is damaged")
        elif needs_copy:
            await self._copy(f"it has no journal behind position {end.position} of ours")

    async def _copy(self, reason: str) -> None:
        log.warning("a copy of %s takes the place of what is here: %s", self._where, reason)
        await self._storage.copy(LEADER, heals=self._is_replaced)

    async def _received(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Take blocks until the connection ends; returns True when a copy is needed."""
        acknowledging = asyncio.create_task(self._acknowledge(writer))
        try:
            while True:
                message = await receive_message(reader)
                if isinstance(message, CopyFrom):
                    if self._is_ahead:  # its journal does not go back that far any more
                        raise NodeLacksData("so it did before")
                    return True
                if not isinstance(message, Append):
                    raise BadMessage(f"a {type(message).__name__}")
                self._check_node(message)
                if not message.epoch:  # behind the first answer: it has our end
                    self._is_ahead = False
                    if self._is_replaced:
                        return True
                self._heard_committed = message.committed
                self._take(message.blocks)
                while self._unapplied_bytes > UNAPPLIED_BYTES_MAX:
                    self._is_applied.clear()
                    await self._is_applied.wait()
        finally:
            acknowledging.cancel()
            await asyncio.gather(acknowledging, return_exceptions=True)

    def _check_node(self, message: Append) -> None:
        # A node sends nothing that a power cut takes from it, and its epoch rises with every start. One that
        # has another block at our end tells a position below it.
        end = self._journal.end
        is_older = 0 < message.epoch < end.epoch  # 0: not told
        if is_older or message.committed < end.position:
            theirs = f"position {message.committed:,} of epoch {message.epoch}"
            raise NodeLacksData(f"{theirs}, and here {end.position:,} of epoch {end.epoch}")

    def _take(self, blocks: Sequence[ShardBlock]) -> None:
        end = self._journal.end
        for block in blocks:
            if not block.follows(end):
                raise BadMessage(f"block {block.position} does not follow {end.position}")
            end = block.mark
            size = len(block.payload)
            self._unapplied_bytes += size
            stored = self._journal.progress.receipt(0, block.position)
            stored.when_covered(partial(self._applied, size))
        if blocks:
            self._storage.store(blocks)

    async def _acknowledge(self, writer: asyncio.StreamWriter) -> None:
        while True:
            self._is_applied.clear()
            await send_message(writer, Acknowledge(SHARD, 0, 0, self._journal.committed, 0.0))
            try:
                async with asyncio.timeout(ACKNOWLEDGE_SECONDS):
                    await self._is_applied.wait()
            except TimeoutError:
                continue

    async def _connect_copy(self, leader: str, take: TakeConnection) -> None:
        await self._connect(Purpose.COPY, take)

    async def _connect(self, purpose: Purpose, take: TakeConnection) -> None:
        name, secret = self._name, self._options.secret
        opening = Opening(self._options.cluster, name, LEADER, self._process, purpose, random_key())
        host, port = self._options.address
        reach = partial(connect, f"{host}:{port}", tls=self._options.tls)
        await connect_given(opening, secret, None, take, reach)

    @property
    def _where(self) -> str:
        host, port = self._options.address
        return f"{host}:{port}"

    # -- the store

    def _noticed(self, notice: Notice) -> None:
        if isinstance(notice, Durable):
            try:
                self._storage.commit(notice.mark.position)
            except Exception as error:
                # The metadata, or a fault of ours: nothing is applied any more
                log.error("position %d was not applied", notice.mark.position, exc_info=error)
                self._failed(error)

    def _applied(self, size: int) -> None:
        self._unapplied_bytes -= size
        self._is_applied.set()

    def _damage_changed(self) -> None:
        if self._logs.is_damaged and not self._was_damaged:
            self._end("a queue is damaged here: the next start takes a copy")

    def _failed(self, error: BaseException) -> None:
        self._end(f"the store failed: {error}")

    def _ran(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("an error of the standby", exc_info=error)
            self._failed(error)

    def _end(self, reason: str) -> None:
        if not self.ended.done():
            self.ended.set_result(reason)

    async def _tell_lag(self) -> None:
        told = -1
        while True:
            lag = max(0, self._heard_committed - self._journal.committed)
            if lag != told and self._heard_committed:
                log.info("%d blocks behind, at position %d", lag, self._journal.committed)
                told = lag
            await asyncio.sleep(LAG_SECONDS)


def _nothing_aside(blocks: Sequence[ShardBlock]) -> None:
    """Nothing of a standby's journal is ever cut."""
