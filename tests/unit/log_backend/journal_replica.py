"""The journal of a replica and what it tells its owner."""

from collections.abc import Sequence
from pathlib import Path
from typing import cast

from support.durable_positions import tell_durable
from support.waiting import until
from unit.log_backend.journal_owner import Owner, entry
from unit.log_backend.watched_disk import WatchedDisk

from routelog.log_backend.doors.disk import Disk
from routelog.log_backend.journal.journal_chain import START, Mark, ShardBlock

SHARD = 3


class Replica(Owner):
    """A replica that follows until it is told to lead."""

    def __init__(self, directory: Path, disk: Disk) -> None:
        super().__init__(directory, cast(WatchedDisk, disk))
        self.made: list[ShardBlock] = []
        self.synced: list[Mark] = []
        self.truncated: list[int] = []
        self.recycled: list[Mark] = []
        self.marks: list[Mark] = []
        self.payload_bytes: list[int] = []
        self.recovered: list[int] = []
        self._is_closed = False

    def on_block(self, block: ShardBlock) -> None:
        self.made.append(block)

    def on_durable(self, end: Mark) -> None:
        self.synced.append(end)

    def on_truncated(self, position: int) -> None:
        self.truncated.append(position)

    def on_recycled(self, base: Mark) -> None:
        self.recycled.append(base)

    def open(self, committed: int = 0, alone: int = 0) -> "Replica":
        found = self.journal.replicate(SHARD, self, committed, alone)
        self.marks = [mark for mark, _ in found]
        self.payload_bytes = [size for _, size in found[1:]]
        self.recovered = [block.position for block in self.journal.recover()]
        self.journal.follow()
        tell_durable(self.journal.progress, self.durable.append)
        return self

    async def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            await self.journal.aclose()

    async def stored(self, blocks: Sequence[ShardBlock]) -> None:
        self.journal.store(blocks)
        await until(lambda: self.synced[-1:] == [blocks[-1].mark])

    async def cut(self, position: int) -> None:
        self.journal.truncate(position)
        await until(lambda: self.truncated[-1:] == [position])

    async def add(self, number: int, size: int = 1) -> ShardBlock:
        position = self.journal.append(entry(number, size), waited=True)
        await until(lambda: self.journal.durable >= position)
        return self.made[-1]


def history(
    count: int, end: Mark = START, *, epoch: int = 1, size: int = 1, first: int = 0
) -> list[ShardBlock]:
    """Blocks that a leader made, the first without entries."""
    blocks: list[ShardBlock] = []
    for number in range(count):
        payload = entry(first + number, size).encode() if number else b""
        blocks.append(ShardBlock.following(end, SHARD, epoch, payload))
        end = blocks[-1].mark
    return blocks


def marks_of(blocks: Sequence[ShardBlock]) -> list[Mark]:
    return [block.mark for block in blocks]
