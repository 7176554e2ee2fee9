"""A journal of a shard for tests: one file of blocks, appended to and synced by one thread.

    NAME/journal    blocks, each a length and the bytes of an `Append` message with it alone
    NAME/promise    the newest record that was promised

Nothing is stored of what is applied: at a start the journal is applied anew.
"""

import asyncio
import os
import queue
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from routelog.log_backend import Mark, ShardBlock, SystemDisk
from routelog.mirror_cluster.node.copy_receiver import CopyError
from routelog.mirror_cluster.node.incarnation import read_incarnation
from routelog.mirror_cluster.node.journal_storage import KeptPromise, Notice, Recovered
from routelog.mirror_cluster.protocol.message_format import (
    BadMessage,
    decode_message,
    encode_message,
)
from routelog.mirror_cluster.protocol.messages import Append
from routelog.mirror_cluster.protocol.promise import Promise
from routelog.mirror_cluster.replica.chain import Chain
from routelog.mirror_cluster.replica.events import Appended, Durable, Promised, Truncated

Operation = tuple[Callable[[], None], Notice]


class FileStorage:
    """See `JournalStorage`.

    Attributes:
        committed: payloads by position.

    Args:
        applied: called with the position up to which everything is committed.
    """

    def __init__(self, shard: int, directory: Path, applied: Callable[[int], None]) -> None:
        self.shard = shard
        self.committed: dict[int, ShardBlock] = {}
        self.epoch = 0
        self._directory = directory
        self._applied = applied
        self._promise = KeptPromise(directory, SystemDisk())
        self._blocks: list[ShardBlock] = []  # position 1 first
        self._ends: list[int] = [0]  # of the file behind each
        self._chain = Chain()
        self._notify: Callable[[Notice], None] = lambda notice: None
        self._operations: queue.SimpleQueue[Operation] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def start(self, notify: Callable[[Notice], None]) -> Recovered:
        """See `JournalStorage`."""
        self._notify = notify
        self._loop = asyncio.get_running_loop()
        self._directory.mkdir(parents=True, exist_ok=True)
        incarnation = read_incarnation(self._directory, SystemDisk())
        promise = self._promise.read()
        self._file = os.open(self._directory / "journal", os.O_RDWR | os.O_CREAT, 0o600)
        self._recover()
        found = Chain()  # the replica's own
        for block in self._blocks:
            self._chain.extend(block)
            found.extend(block)
        self._thread.start()
        return Recovered(self.shard, incarnation, found, promise, 0)

    def _recover(self) -> None:
        content = bytearray(os.pread(self._file, os.fstat(self._file).st_size, 0))
        at, end = 0, Chain().end
        while True:
            try:
                found = decode_message(content, at, len(content))
            except BadMessage:
                break
            if found is None:
                break
            (block,) = found[0].blocks
            if not block.follows(end):
                break
            at, end = at + found[1], block.mark
            self._blocks.append(block)
            self._ends.append(at)
        os.ftruncate(self._file, at)
        os.fsync(self._file)

    async def prepare(self) -> None:
        """All is done by `start`."""

    def texts(self, block: ShardBlock) -> list[str]:
        """What a block says."""
        return [bytes(block.payload).decode()] if block.payload else []

    # -- verbs

    def store(self, blocks: Sequence[ShardBlock]) -> None:
        """See `JournalStorage`."""
        for block in blocks:
            assert block.follows(self._chain.end)
            self._chain.extend(block)
            self._blocks.append(block)
            message = Append(self.shard, block.epoch, 0, 0, 0, 0.0, (block,))
            octets = encode_message(message)
            at = self._ends[-1]
            self._ends.append(at + len(octets))
            self._do(partial(self._write, octets, at), Durable(block.mark))

    def begin_epoch(self, epoch: int) -> None:
        """See `JournalStorage`."""
        self.epoch = epoch
        self.append(b"")

    def append(self, payload: bytes) -> int:
        """The leader's next block; its position."""
        block = ShardBlock.following(self._chain.end, self.shard, self.epoch, payload)
        self.store((block,))
        self._notify(Appended(block))
        return block.position

    def truncate(self, position: int, keep: bool) -> None:
        """See `JournalStorage`."""
        if keep:
            aside = self._directory / f"kept-{position}"
            aside.write_text("".join(repr(each) for each in self._blocks[position:]))
        self._chain.truncate(position)
        del self._blocks[position:]
        del self._ends[position + 1 :]
        end = self._ends[-1]
        self._do(lambda: os.ftruncate(self._file, end), Truncated(position))

    def save_promise(self, promise: Promise) -> None:
        """See `JournalStorage`."""
        self._do(partial(self._promise.write, promise), Promised(promise))

    def commit(self, position: int) -> None:
        """See `JournalStorage`."""
        for at in range(len(self.committed) + 1, position + 1):
            self.committed[at] = self._blocks[at - 1]
        self._applied(position)

    async def read(self, after: int, bytes_max: int) -> Sequence[ShardBlock]:
        """See `JournalStorage`."""
        await asyncio.sleep(0)
        found: list[ShardBlock] = []
        size = 0
        for block in self._blocks[after:]:
            size += len(block.payload)
            if found and size > bytes_max:
                break
            found.append(block)
        return found

    async def copy(self, leader: str, *, heals: bool = False) -> Mark:
        """See `JournalStorage`."""
        raise CopyError("this journal has no checkpoints")

    # -- the thread

    def _do(self, operation: Callable[[], None], notice: Notice) -> None:
        self._operations.put((operation, notice))

    def _work(self) -> None:
        while True:
            batch = [self._operations.get()]
            while not self._operations.empty():
                batch.append(self._operations.get())
            for operation, _ in batch:
                operation()
            os.fsync(self._file)
            notices = [notice for _, notice in batch]
            self._loop.call_soon_threadsafe(self._tell, notices)

    def _tell(self, notices: list[Notice]) -> None:
        for notice in notices:
            self._notify(notice)

    def _write(self, octets: bytes, at: int) -> None:
        os.pwrite(self._file, octets, at)
