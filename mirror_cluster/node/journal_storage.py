"""The broker's journal as a replica's storage, and the replica's promise in the file `promise` of its data
directory: a JSON object, replaced as a whole.
"""

import asyncio
import errno
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from routelog.log_backend import (
    Disk,
    Journal,
    Mark,
    ShardBlock,
    read_file,
    replace_file,
    scheduler_of,
)
from routelog.mirror_cluster.node.copy_receiver import CopyError, CopyReceiver
from routelog.mirror_cluster.protocol.promise import NOTHING, Promise
from routelog.mirror_cluster.replica.chain import Chain
from routelog.mirror_cluster.replica.events import (
    Appended,
    Durable,
    Promised,
    Recycled,
    Truncated,
)

PROMISE_FILE = "promise"
SHOWN_BYTES_MAX = 200  # of what is no promise, in an error


class PromiseUnreadable(OSError):
    """The file holds no promise: it is damaged, or somebody has edited it."""


class KeptPromise:
    """Reads and writes a promise. Every call blocks; one at a time."""

    def __init__(self, directory: Path, disk: Disk) -> None:
        self._path = directory / PROMISE_FILE
        self._disk = disk

    def read(self) -> Promise:
        """The promise; one of nothing when there is no file.

        Raises:
            PromiseUnreadable: the file holds something else.
        """
        if self._path.name not in self._disk.list_directory(self._path.parent):
            return NOTHING
        content = bytes(read_file(self._disk, self._path))
        try:
            return msgspec.json.decode(content, type=Promise)
        except msgspec.DecodeError as error:
            shown = content[:SHOWN_BYTES_MAX]
            raise PromiseUnreadable(f"{self._path}: {error}: found {shown!r}") from None

    def write(self, promise: Promise) -> None:
        """Keep another promise; durable when this returns."""
        unfinished = self._path.with_name(f"{self._path.name}.new")
        replace_file(self._disk, self._path, unfinished, msgspec.json.encode(promise) + b"\n")


log = logging.getLogger(__name__)

READ_BYTES = 4 * 1024 * 1024
FULL_PAUSE_SECONDS = 1.0  # between two tries on a full disk
APPLY_SECONDS = 0.01  # of one turn of the loop; one block may take longer

Notice = Appended | Durable | Truncated | Promised | Recycled


class BlockUnreadable(OSError):
    """A block that recovery found cannot be read any more: the disk is damaged."""


class CopyWaits(Exception):
    """A copy is whole, and takes the place of the data when the node is started again."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """What a journal held when it was opened.

    Attributes:
        incarnation: of the data: they have another when they were wiped, or are found damaged.
        chain: all of it is synced.
        promise: the newest that was written down.
        applied: position up to which the journal is applied.
        alone: the newest epoch in which a node with these data ran on its own; 0: none did.
    """

    shard: int
    incarnation: int
    chain: Chain
    promise: Promise
    applied: int
    alone: int = 0


class JournalStorage:
    """The journal of one shard, as its replica uses it; it is the journal's `ReplicaEvents`, too.

    A replica's calls are made on the event loop and return at once. What they change is carried out in their
    order, and told on the event loop when it is durable.

    Attributes:
        receiver: takes copies; set by the owner, None: nobody does.
        alone: see `Recovered`; set by the owner.

    Args:
        promise: its file is this shard's.
        apply: carries out a committed block of another node in the store of the shard.
        has_room: whether a follower's memory has room for what is applied; when it has again, `apply_more`.
        keep_aside: puts blocks away that an operator gave up; durable when it returns.
        failed: called when the disk cannot keep a promise: the node ends.
    """

    def __init__(
        self,
        shard: int,
        incarnation: int,
        journal: Journal,
        promise: KeptPromise,
        apply: Callable[[ShardBlock], None],
        has_room: Callable[[], bool],
        keep_aside: Callable[[Sequence[ShardBlock]], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._shard = shard
        self._incarnation = incarnation
        self._journal = journal
        self._promise = promise
        self._promised = NOTHING
        self._apply = apply
        self._has_room = has_room
        self._committed = 0
        self._awaited: list[
            tuple[int, Callable[[], None]]
        ] = []  # positions that somebody waits for
        self._leads = False
        self._keep_aside = keep_aside
        self._failed = failed
        self.receiver: CopyReceiver | None = None
        self.alone = 0
        self._notify: Callable[[Notice], None] = lambda notice: None
        self._chain = Chain()
        self._unapplied: deque[ShardBlock] = deque()  # other nodes', behind what is committed
        self._goes_on = False  # in the next turn
        self._promises: set[asyncio.Task[None]] = set()
        self._promising = asyncio.Lock()

    async def open(self, marks: Sequence[tuple[Mark, int]]) -> None:
        """The journal was recovered, and follows; what of it is not committed is read.

        Args:
            marks: its base, and each of its blocks, with the bytes of their entries.

        Raises:
            BlockUnreadable: one of them is not there.
            PromiseUnreadable: nobody knows what was promised.
        """
        self._promised = self._promise.read()
        self._chain = Chain(marks[0][0])
        for mark, payload_bytes in marks[1:]:
            self._chain.add(mark, payload_bytes)
        after = self._committed = self._journal.committed
        while after < self._chain.end_position:
            found = await self._journal.read(after, READ_BYTES)
            if not found:
                raise BlockUnreadable(f"the journal's block {after + 1} cannot be read")
            self._unapplied.extend(found)
            after = found[-1].position

    # -- what a replica asks

    def start(self, notify: Callable[[Notice], None]) -> Recovered:
        """Open it; call `notify` from then on."""
        self._notify = notify
        applied = self._journal.committed
        return Recovered(
            self._shard, self._incarnation, self._chain, self._promised, applied, self.alone
        )

    def store(self, blocks: Sequence[ShardBlock]) -> None:
        """Append the blocks of another node's journal; told by `Durable`, of the last one or one by one."""
        self._unapplied.extend(blocks)
        self._journal.store(blocks)

    def begin_epoch(self, epoch: int) -> None:
        """Make the blocks here from now on, the first one empty and at once; each is told by `Appended`."""
        self._leads = True  # it serves when all is applied
        self.apply_more()
        self._journal.lead(epoch)

    def truncate(self, position: int, keep: bool) -> None:
        """Erase what is behind a position; told by `Truncated`.

        Args:
            keep: put a copy of what is erased aside.
        """
        erased: deque[ShardBlock] = deque()
        while self._unapplied and self._unapplied[-1].position > position:
            erased.appendleft(self._unapplied.pop())
        if keep:
            self._keep_aside(erased)
        self._journal.truncate(position)

    def save_promise(self, promise: Promise) -> None:
        """Write a promise down; told by `Promised`."""
        task = asyncio.create_task(self._save_promise(promise))
        self._promises.add(task)
        task.add_done_callback(self._promises.discard)

    async def _save_promise(self, promise: Promise) -> None:
        try:
            async with self._promising:
                await self._written(promise)
        except OSError as error:
            self._failed(error)
        else:
            self._notify(Promised(promise))

    async def _written(self, promise: Promise) -> None:
        while True:
            try:
                return await asyncio.to_thread(self._promise.write, promise)
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                    raise
                log.warning("epoch %d is followed when the disk has room: %s", promise.epoch, error)
            await asyncio.sleep(FULL_PAUSE_SECONDS)

    def commit(self, position: int) -> None:
        """Apply the blocks up to here, and release the confirms that wait for them."""
        self._committed = position
        self.apply_more()

    def apply_more(self) -> bool:
        """Apply what is committed, as far as there is room for it; returns False: that was all for now.

        What takes long goes on in later turns, but at a node that is to lead.
        """
        applied, now = self._committed, scheduler_of(asyncio.get_running_loop()).now
        until = now() + APPLY_SECONDS
        while self._unapplied and self._unapplied[0].position <= self._committed:
            is_over = now() >= until
            if not self._leads and (is_over or not self._has_room()):
                applied = self._unapplied[0].position - 1
                if is_over:
                    self._go_on_later()
                break
            self._apply(self._unapplied[0])
            self._unapplied.popleft()
        if applied > self._journal.committed:
            self._journal.commit(applied)
            self._tell_applied()
        return False

    @property
    def applied(self) -> int:
        """Position of the last block that is applied here, to definitions in memory, too."""
        return self._journal.committed

    def when_applied(self, position: int, done: Callable[[], None]) -> None:
        """Call a function when the blocks up to a position are applied here; at once, if they are."""
        self._awaited.append((position, done))
        self._tell_applied()

    def _tell_applied(self) -> None:
        due = [done for position, done in self._awaited if position <= self.applied]
        if due:
            self._awaited = [each for each in self._awaited if each[0] > self.applied]
        for done in due:
            done()

    def _go_on_later(self) -> None:
        if not self._goes_on:
            self._goes_on = True
            asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        self._goes_on = False
        try:
            self.apply_more()
        except Exception as error:  # nobody knows any more what is applied
            log.exception("a block could not be applied")
            self._failed(error)

    async def read(self, after: int, bytes_max: int) -> Sequence[ShardBlock]:
        """The blocks behind a position: one at least, however long, and no more than so many bytes.

        Returns:
            Empty: the block behind `after` is not there any more.
        """
        return await self._journal.read(after, bytes_max)

    async def copy(self, leader: str, *, heals: bool = False) -> Mark:
        """Put a copy of a node's checkpoint in the place of all data.

        Cancelled, it leaves the data as they are. It returns in the turn of the loop in which the copy took
        their place, durably, and raises `CopyWaits` in the one in which that is sure. A store that runs cannot
        change its data: the next start does.

        Args:
            heals: see `CopyCheckpoint`.

        Raises:
            CopyDamaged: it is damaged, and was to heal.
            CopyError: it broke off.
            CopyWaits: it is here, and the node must end: what is added to the data would be lost.
        """
        if self.receiver is None:
            raise CopyError("this node takes no copies")
        copy = await self.receiver.fetch(leader, heals=heals)
        try:
            copy.keep()  # in this turn: a change of leader cannot come between
        except OSError as error:  # it may be kept all the same
            raise CopyWaits(f"a copy of {leader}'s checkpoint may be here: {error}") from None
        raise CopyWaits(f"a copy of {leader}'s checkpoint is here")

    # -- see `ReplicaEvents` of `log_backend`

    def on_block(self, block: ShardBlock) -> None:
        """The journal made a block."""
        self._notify(Appended(block))

    def on_durable(self, end: Mark) -> None:
        """The journal synced up to a block."""
        self._notify(Durable(end))

    def on_truncated(self, position: int) -> None:
        """The journal has erased what was behind a position."""
        self._notify(Truncated(position))

    def on_recycled(self, base: Mark) -> None:
        """The journal's files up to a block are given back."""
        self._notify(Recycled(base.position))
