"""Sends copies of this node's checkpoint to followers that are too far behind for its journal."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from routelog.log_backend import CopiedFile, Copies, CopyFailed, DataCopy
from routelog.mirror_cluster.links.copy_stream import (
    SILENCE_SECONDS_MAX,
    Stream,
    drained,
    stream_over,
)
from routelog.mirror_cluster.protocol.copy_format import (
    PIECE_BYTES,
    CopyHead,
    CopyRefused,
    FileHead,
    encode_crc,
    encode_record,
)

log = logging.getLogger(__name__)

COPIES_MAX = 2  # at once: a cluster of three has no more followers, and each reads all of the disk
TAKING_SECONDS_MAX = 300.0  # a checkpoint, perhaps behind that of a backup
# Until a follower has started with its copy and caught up; for so long the journal behind it is kept.
CATCH_UP_SECONDS_MAX = 600.0
LOOK_SECONDS = 0.5


class CopySender:
    """Sends copies to followers, while this node leads: `take` is for `NodeLinks.take_copier`.

    Args:
        is_in_sync: whether a node has caught up.
        has_begun: whether this node knows all that is committed. Before that it may know less than a member
            has on its disk, which must not be replaced then.
    """

    def __init__(
        self,
        copies: Copies,
        is_in_sync: Callable[[str], bool],
        has_begun: Callable[[], bool],
    ) -> None:
        self._copies = copies
        self._is_in_sync = is_in_sync
        self._has_begun = has_begun
        self._tasks: dict[str, asyncio.Task[None]] = {}  # by node
        self._sending = 0

    def take(self, node: str, transport: asyncio.Transport, unread: bytes) -> None:
        """Send a copy to a node over its connection; it has given up the one before."""
        stream = stream_over(transport, unread)
        if node in self._tasks:
            self._tasks[node].cancel()
        if self._is_in_sync(node) and not self._has_begun():
            return _refuse(node, stream, "it is in sync, and this node has not begun to lead")
        if self._sending >= COPIES_MAX:
            return _refuse(node, stream, f"{COPIES_MAX} other copies are under way")
        self._tasks[node] = task = asyncio.create_task(self._serve(node, stream))
        task.add_done_callback(partial(self._served, node))

    async def aclose(self) -> None:
        """End what is under way."""
        tasks = [*self._tasks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _served(self, node: str, task: asyncio.Task[None]) -> None:
        if self._tasks.get(node) is task:
            del self._tasks[node]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("an error of the broker, while it copied for node %s", node, exc_info=error)

    async def _serve(self, node: str, stream: Stream) -> None:
        with self._copies.keeping_journal():
            copy = self._copies.begin()
            self._sending += 1
            try:
                is_sent = await self._give(node, copy, stream)
            finally:
                self._sending -= 1
                copy.end()
                if not stream[1].is_closing():
                    stream[1].transport.abort()
            if is_sent:
                await self._caught_up(node)

    async def _give(self, node: str, copy: DataCopy, stream: Stream) -> bool:
        try:
            await self._taken(copy, stream)
        except CopyFailed as error:
            _refuse(node, stream, str(error))
            return False
        log.info("a copy up to position %d goes to node %s", copy.position, node)
        try:
            await self._send(copy, stream[1])
        except TimeoutError:
            log.warning("node %s reads nothing of its copy any more", node)
            return False
        except (CopyFailed, OSError) as error:
            log.warning("the copy for node %s broke off: %s", node, error)
            return False
        log.info("node %s has its copy", node)
        return True

    async def _caught_up(self, node: str) -> None:
        # The copy that a follower starts with is of no use when the journal behind it is recycled meanwhile.
        for _ in range(round(CATCH_UP_SECONDS_MAX / LOOK_SECONDS)):
            if self._is_in_sync(node) or self._copies.is_short:
                return
            await asyncio.sleep(LOOK_SECONDS)
        log.warning("node %s has not caught up behind its copy: the journal is recycled", node)

    async def _taken(self, copy: DataCopy, stream: Stream) -> None:
        reader, _ = stream
        gone = asyncio.create_task(reader.read(1))
        waits: set[asyncio.Future[Any]] = {copy.taken, gone}
        await asyncio.wait(waits, timeout=TAKING_SECONDS_MAX, return_when=asyncio.FIRST_COMPLETED)
        if not copy.taken.done():
            raise CopyFailed("it has gone" if gone.done() else "the checkpoint takes too long")
        gone.cancel()
        await copy.taken

    async def _send(self, copy: DataCopy, writer: asyncio.StreamWriter) -> None:
        heads = [FileHead(each.path, each.size, each.padded) for each in copy.files]
        size = sum(each.bytes for each in heads)
        writer.write(encode_record(CopyHead(*copy.last, len(heads), size)))
        for file, head in zip(copy.files, heads, strict=True):
            writer.write(encode_record(head))
            for at in range(0, file.size, PIECE_BYTES):
                copy.check()
                writer.writelines(await asyncio.to_thread(_piece, copy, file, at))
                await drained(writer)
        writer.close()
        async with asyncio.timeout(SILENCE_SECONDS_MAX):
            await writer.wait_closed()


def _refuse(node: str, stream: Stream, reason: str) -> None:
    log.warning("there is no copy for node %s: %s", node, reason)
    _, writer = stream
    writer.write(encode_record(CopyRefused(reason)))
    writer.close()


def _piece(copy: DataCopy, file: CopiedFile, at: int) -> tuple[bytearray, bytes]:
    piece = copy.read(file, at, PIECE_BYTES)
    return piece, encode_crc(piece)
