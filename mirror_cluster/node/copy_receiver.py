"""Takes a copy of the leader's checkpoint, for a follower that is too far behind for the leader's journal."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

from routelog.log_backend import (
    ArrivingCopy,
    Clock,
    CopyBeyondRepair,
    Disk,
    Mark,
    NotBelow,
    OwnLogs,
    repair_copy,
)
from routelog.mirror_cluster.links.copy_stream import SILENCE_SECONDS_MAX, Stream, stream_over
from routelog.mirror_cluster.links.given_link import TakeConnection
from routelog.mirror_cluster.node.copy_sender import TAKING_SECONDS_MAX
from routelog.mirror_cluster.protocol.copy_format import (
    CRC,
    LENGTH,
    PIECE_BYTES,
    BadCopy,
    CopyHead,
    FileHead,
    check_crc,
    decode_file,
    decode_head,
    record_length,
)

log = logging.getLogger(__name__)

PROGRESS_SECONDS = 10.0
# Between copies that fail, one after the other: each costs the sender a checkpoint and links to all segments,
# also where the receiver has no room for it.
COPY_PAUSE_SECONDS_MAX = 30.0
MIB = 1024 * 1024

_T = TypeVar("_T")


class CopyError(Exception):
    """A checkpoint could not be copied; the data are as they were."""


class CopyDamaged(CopyError):
    """All of a checkpoint was copied, and a part of it cannot be read; the data are as they were."""


class CopyReceiver:
    """Takes copies; each is written beside the data, which stay as they are.

    Args:
        connect: connects with a node for a copy, as `NodeLinks.connect_copy` does.
        reserve_bytes: of the disk that a copy leaves free.
        own_logs: what can be read here, if something cannot; else None. Then all of a copy is read before it is
            kept, and what is damaged in it comes from here.
    """

    def __init__(
        self,
        connect: Callable[[str, TakeConnection], Awaitable[None]],
        data: Path,
        disk: Disk,
        clock: Clock,
        reserve_bytes: int,
        own_logs: Callable[[], OwnLogs | None],
    ) -> None:
        self._connect = connect
        self._data = data
        self._disk = disk
        self._clock = clock
        self._reserve_bytes = reserve_bytes
        self._own_logs = own_logs
        self._lock = asyncio.Lock()  # one at a time: another one may still be removed

    async def fetch(self, leader: str, *, heals: bool = False) -> ArrivingCopy:
        """Take a copy; whole and synced when this returns. `keep` it in the same turn of the loop.

        Cancelled, it leaves nothing.

        Args:
            heals: see `CopyCheckpoint`.

        Raises:
            CopyDamaged: what the leader has is damaged where this node's data are, too; nothing is left.
            CopyError: nothing is left.
        """
        async with self._lock:
            try:
                return await self._fetched(leader, heals)
            except TimeoutError:
                raise CopyError(f"{leader} says nothing any more") from None
            except EOFError:
                raise CopyError(f"{leader} ended the connection before the copy's end") from None
            except (BadCopy, NotBelow, OSError) as error:
                raise CopyError(str(error)) from None

    async def _fetched(self, leader: str, heals: bool) -> ArrivingCopy:
        streams: list[Stream] = []
        copy = ArrivingCopy(self._data, self._disk)
        try:
            await self._connect(leader, lambda *given: streams.append(stream_over(*given)))
            last = await self._received(leader, heals, copy, *streams[0])
        finally:
            for _, writer in streams:
                writer.transport.abort()
        log.info("a copy of %s's checkpoint is whole, up to position %d", leader, last.position)
        return copy

    async def _received(
        self,
        leader: str,
        heals: bool,
        copy: ArrivingCopy,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> Mark:
        arrival = _Arrival(leader, copy, reader, self._clock, self._room())
        loop = asyncio.get_running_loop()
        job: asyncio.Future[Any] = loop.run_in_executor(None, arrival.run, loop)
        try:
            last: Mark = await asyncio.shield(job)
            if (own := self._own_logs()) is not None:
                job = loop.run_in_executor(None, self._repair, copy, own, heals)
                await asyncio.shield(job)
            return last
        except BaseException:
            writer.transport.abort()  # so that the thread finds an end
            await asyncio.wait({job})
            await asyncio.to_thread(copy.abandon)
            raise

    def _repair(self, copy: ArrivingCopy, own: OwnLogs, heals: bool) -> None:
        try:
            for step in repair_copy(copy.path, self._disk, own):
                log.warning("the copy was damaged: %s", step)
        except CopyBeyondRepair as error:
            if heals:
                raise CopyDamaged(f"it is damaged there, too: {error}") from None
            log.error("the copy is damaged, and it is the only one: %s", error)

    def _room(self) -> int:
        return self._disk.free_bytes(self._data) - self._reserve_bytes


class _Arrival:
    """One copy that arrives; `run` is for a thread, and what it reads is read on the loop."""

    def __init__(
        self,
        leader: str,
        copy: ArrivingCopy,
        reader: asyncio.StreamReader,
        clock: Clock,
        room: int,
    ) -> None:
        self._leader = leader
        self._copy = copy
        self._reader = reader
        self._clock = clock
        self._room = room
        self._total = self._done = 0
        self._told_at = 0.0

    def run(self, loop: asyncio.AbstractEventLoop) -> Mark:
        """Write all files; the last block in them."""

        def waited(work: Coroutine[Any, Any, _T]) -> _T:
            return asyncio.run_coroutine_threadsafe(work, loop).result()

        self._copy.begin()
        head = waited(self._head())
        if head.bytes > self._room:
            needs = f"{head.bytes // MIB:,} MiB, and the disk has room for {self._room // MIB:,}"
            raise CopyError(f"a copy needs {needs}")
        self._total, left = head.bytes, head.bytes
        self._told_at = self._clock.monotonic()
        for _ in range(head.files):
            file = waited(self._file())
            left -= file.bytes
            if left < 0:
                raise CopyError(f"{file.path}: there is more than was said")
            pieces = (waited(self._piece(file, size)) for size in _sizes(file))
            self._copy.write(file.path, self._told(pieces), file.padded)
        if left:
            raise CopyError("there is less than was said")
        self._copy.complete()
        return head.last

    def _told(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            yield piece
            self._done += len(piece)
            now = self._clock.monotonic()
            if now - self._told_at >= PROGRESS_SECONDS:
                self._told_at = now
                done, total = self._done // MIB, self._total // MIB
                log.info("copy of %s: %s of %s MiB", self._leader, f"{done:,}", f"{total:,}")

    async def _head(self) -> CopyHead:
        return decode_head(await self._record(TAKING_SECONDS_MAX + SILENCE_SECONDS_MAX))

    async def _file(self) -> FileHead:
        return decode_file(await self._record(SILENCE_SECONDS_MAX))

    async def _piece(self, file: FileHead, size: int) -> bytes:
        return check_crc(await self._read(size + CRC.size, SILENCE_SECONDS_MAX), file.path)

    async def _record(self, seconds: float) -> bytes:
        length = record_length(await self._read(LENGTH.size, seconds))
        return await self._read(length, SILENCE_SECONDS_MAX)

    async def _read(self, size: int, seconds: float) -> bytes:
        async with asyncio.timeout(seconds):
            return await self._reader.readexactly(size)


def _sizes(file: FileHead) -> Iterator[int]:
    whole, rest = divmod(file.size, PIECE_BYTES)
    yield from [PIECE_BYTES] * whole
    if rest:
        yield rest
