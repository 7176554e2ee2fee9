"""How blocks reach followers: from memory at once, or read from the disk; each follower's in order."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from itertools import islice

from routelog.log_backend import ShardBlock
from routelog.mirror_cluster.node.journal_storage import JournalStorage
from routelog.mirror_cluster.protocol.messages import Append, Message
from routelog.mirror_cluster.replica.actions import Ship

# Of a message with several blocks: 8 ms at 1 Gbit/s, in which no other message passes.
APPEND_BYTES_MAX = 1024 * 1024


class RecentBlocks:
    """The newest blocks of a journal, in memory: followers that keep up get theirs without a read.

    Args:
        bytes_max: of payloads; the newest block is kept however long it is.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._blocks: deque[ShardBlock] = deque()

    def add(self, block: ShardBlock) -> None:
        """The next block; behind a gap, only those behind the gap are kept."""
        if self._blocks and self._blocks[-1].position + 1 != block.position:
            self.clear()
        self._blocks.append(block)
        self._bytes += len(block.payload)
        while self._bytes > self._bytes_max and len(self._blocks) > 1:
            self._bytes -= len(self._blocks.popleft().payload)

    def truncate(self, position: int) -> None:
        """Forget those behind a position."""
        while self._blocks and self._blocks[-1].position > position:
            self._bytes -= len(self._blocks.pop().payload)

    def clear(self) -> None:
        """Forget all blocks."""
        self._blocks.clear()
        self._bytes = 0

    def between(self, after: int, end: int) -> Sequence[ShardBlock]:
        """The blocks (after, end]; empty when not all of them are here."""
        if not self._blocks or end > self._blocks[-1].position:
            return ()
        first = after + 1 - self._blocks[0].position
        if first < 0:
            return ()
        count = end - after
        if first + count == len(self._blocks) and count == 1:  # nearly always
            return (self._blocks[-1],)
        return tuple(islice(self._blocks, first, first + count))


class Shipping:
    """Carries out the `Ship`s of one replica.

    Args:
        send: a message to a node.
        spawn: starts a task that somebody owns.
    """

    def __init__(
        self,
        shard: int,
        recent: RecentBlocks,
        storage: JournalStorage,
        send: Callable[[str, Message], None],
        spawn: Callable[[Coroutine[object, object, None]], asyncio.Task[None]],
    ) -> None:
        self._shard = shard
        self._recent = recent
        self._storage = storage
        self._send = send
        self._spawn = spawn
        self._waiting: dict[str, deque[Ship]] = {}  # of followers whose blocks are being read

    def ship(self, action: Ship) -> None:
        """Send blocks, now or behind those that are being read for this follower."""
        waiting = self._waiting.get(action.to)
        if waiting is not None:
            waiting.append(action)
            return
        blocks = self._recent.between(action.after, action.end)
        if len(blocks) == action.end - action.after:
            self._send_blocks(action, action.after, blocks)
            return
        self._waiting[action.to] = deque((action,))
        self._spawn(self._catch_up(action.to))

    async def _catch_up(self, to: str) -> None:
        waiting = self._waiting[to]
        try:
            while waiting:
                action = waiting.popleft()
                if not waiting or waiting[-1].session == action.session:
                    await self._read_and_send(action)
        finally:
            del self._waiting[to]

    async def _read_and_send(self, action: Ship) -> None:
        """Blocks that were recycled meanwhile are left out: the follower notices and asks again."""
        after = action.after
        while True:
            blocks = self._recent.between(after, action.end)
            if after < action.end and not blocks:
                found = await self._storage.read(after, APPEND_BYTES_MAX)
                blocks = found[: action.end - after]
                if not blocks:
                    return
            self._send_blocks(action, after, blocks)
            after += len(blocks)
            if after >= action.end:
                return

    def _send_blocks(self, action: Ship, after: int, blocks: Sequence[ShardBlock]) -> None:
        for piece in _pieces(blocks):
            message = Append(
                self._shard,
                action.epoch,
                action.session,
                after,
                action.committed,
                action.stamp,
                piece,
            )
            self._send(action.to, message)
            after += len(piece)


def _pieces(blocks: Sequence[ShardBlock]) -> Iterator[tuple[ShardBlock, ...]]:
    """The blocks of each message; of a heartbeat there are none."""
    piece: list[ShardBlock] = []
    size = 0
    for block in blocks:
        if piece and size + len(block.payload) > APPEND_BYTES_MAX:
            yield tuple(piece)
            piece, size = [], 0
        piece.append(block)
        size += len(block.payload)
    yield tuple(piece)
