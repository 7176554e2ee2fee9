"""Answers an operator who compares nodes: the digest of a copy of this node's data, at an agreed position.

A copy is as of the last block that was committed when it was taken; that differs from node to node. So who
compares names the highest of these positions, and each node has its digest made of its copy and the blocks
behind it: under load, too, all digests are of one moment. A program of its own makes it, at the least priority.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, suppress

from routelog.log_backend import (
    BadDigest,
    Copies,
    CopyFailed,
    DataCopy,
    DigestBlock,
    DigestProgress,
    DigestRefused,
    DigestStand,
    DigestTask,
    Journal,
    encode_digest,
)
from routelog.mirror_cluster.links.copy_stream import (
    HEARTBEAT_SECONDS,
    Stream,
    receive_digest,
    send_digest,
    stream_over,
)
from routelog.mirror_cluster.node.copy_sender import TAKING_SECONDS_MAX

log = logging.getLogger(__name__)

# Until a position that another node has is committed here: a follower that takes longer does not follow.
APPLY_SECONDS_MAX = 60.0
LOOK_SECONDS = 0.1
BLOCKS_BYTES = 4 * 1024 * 1024  # read at once
PIECE_BYTES = 256 * 1024

_Given = DigestTask | DigestBlock


class NoDigest(Exception):
    """There is none; the text says why."""


class DigestSender:
    """Sends digests: `take` is for `NodeLinks.take_verifier`.

    Args:
        program: the command line of what makes a digest, as `digest_format` of `log_backend` says.
        has_copy: whether this node is to have one; else what it has stays as it was when it left.
        replicas: names of all nodes that are to have one.
    """

    def __init__(
        self,
        copies: Copies,
        journal: Journal,
        program: Sequence[str],
        has_copy: Callable[[], bool],
        replicas: Callable[[], Sequence[str]],
    ) -> None:
        self._copies = copies
        self._journal = journal
        self._program = program
        self._has_copy = has_copy
        self._replicas = replicas
        self._tasks: set[asyncio.Task[None]] = set()

    def take(self, who: str, transport: asyncio.Transport, unread: bytes) -> None:
        """Answer over a connection."""
        stream = stream_over(transport, unread)
        task = asyncio.create_task(self._serve(stream, is_first=not self._tasks))
        self._tasks.add(task)
        task.add_done_callback(self._served)

    async def aclose(self) -> None:
        """End what is under way."""
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _served(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("an error of the broker, while an operator compared nodes", exc_info=error)

    async def _serve(self, stream: Stream, *, is_first: bool) -> None:
        _, writer = stream
        try:
            if not is_first:  # each costs disk and processor
                raise NoDigest("somebody else compares nodes")
            if not self._has_copy():
                raise NoDigest("it has no copy: it has left, or not joined yet")
            await self._answer(stream)
            writer.close()
            await writer.wait_closed()
        except (NoDigest, CopyFailed, BadDigest) as error:
            log.warning("an operator compares nodes, and there is no digest: %s", error)
            await _refuse(writer, str(error))
        except (TimeoutError, EOFError, OSError) as error:
            log.info("an operator who compared nodes has gone: %s", error or "silent")
        finally:
            writer.transport.abort()

    async def _answer(self, stream: Stream) -> None:
        reader, writer = stream
        copy = self._copies.begin()
        try:
            with ExitStack() as keeping:
                keeping.enter_context(self._copies.keeping_journal())
                await self._taken(copy, writer)
                log.info("an operator compares nodes: the digest of position %d", copy.position)
                stand = DigestStand(copy.position, replicas=[*self._replicas()])
                await send_digest(writer, stand)
                wanted = await _wanted(reader, writer)
                await self._applied(wanted, writer)
                await self._send(self._given(copy, wanted, keeping), stream)
        except NoDigest:
            copy.check()  # its files have gone: that says more
            raise
        finally:
            copy.end()

    async def _taken(self, copy: DataCopy, writer: asyncio.StreamWriter) -> None:
        for _ in range(round(TAKING_SECONDS_MAX / HEARTBEAT_SECONDS)):
            await asyncio.wait([copy.taken], timeout=HEARTBEAT_SECONDS)
            if copy.taken.done():
                return await copy.taken
            await send_digest(writer, DigestProgress())
        raise NoDigest("the checkpoint takes too long")

    async def _applied(self, position: int, writer: asyncio.StreamWriter) -> None:
        for _ in range(round(APPLY_SECONDS_MAX / LOOK_SECONDS)):
            if self._journal.committed >= position:
                return
            await asyncio.sleep(LOOK_SECONDS)
            await send_digest(writer, DigestProgress())
        at = self._journal.committed
        raise NoDigest(f"it is at position {at:,}, and does not come to {position:,}")

    async def _given(self, copy: DataCopy, end: int, keeping: ExitStack) -> AsyncIterator[_Given]:
        """A digest's task, and then the blocks behind the copy, of which some are in memory at a time."""
        copy.check()
        yield DigestTask.of(copy.files)
        position = copy.position
        while position < end:
            found = await self._journal.read(position, BLOCKS_BYTES)
            if not found:
                raise NoDigest(f"its journal has no block {position + 1:,} any more")
            for each in found:
                if each.position <= end:
                    yield DigestBlock.of(each)
            position = found[-1].position
        keeping.close()  # the program reads the copy for a long time

    async def _send(self, given: AsyncIterator[_Given], stream: Stream) -> None:
        program = await asyncio.create_subprocess_exec(
            *self._program,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        reader, writer = stream
        gone = asyncio.create_task(reader.read(1))
        work = asyncio.create_task(_passed(program, given, writer))
        try:
            await asyncio.wait((gone, work), return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                raise EOFError("the connection has ended")
            problem = work.result()
        finally:
            gone.cancel()
            work.cancel()
            await asyncio.gather(gone, work, return_exceptions=True)
            if program.returncode is None:
                program.kill()
            await program.communicate()  # which closes its pipes
        if problem:
            raise NoDigest(problem)


async def _wanted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
    """The position that is asked for; meanwhile the other end hears that this one is there."""
    asked = asyncio.create_task(receive_digest(reader, None))
    try:
        while not asked.done():
            await asyncio.wait([asked], timeout=HEARTBEAT_SECONDS)
            if not asked.done():
                await send_digest(writer, DigestProgress())
        stand = asked.result()
    finally:
        asked.cancel()
    if not isinstance(stand, DigestStand):
        raise BadDigest(f"a {type(stand).__name__}")
    return stand.position


async def _passed(
    program: asyncio.subprocess.Process,
    given: AsyncIterator[_Given],
    writer: asyncio.StreamWriter,
) -> str:
    """Pass on what a program says; returns why it failed."""
    assert program.stdin is not None
    assert program.stdout is not None
    assert program.stderr is not None
    words = asyncio.create_task(program.stderr.read())
    try:
        with suppress(BrokenPipeError, ConnectionResetError):  # its status says why
            async for message in given:
                program.stdin.write(encode_digest(message))
                await program.stdin.drain()
            program.stdin.close()
        # Who compares reads the next piece of a node when those of all others have come so far.
        while piece := await program.stdout.read(PIECE_BYTES):
            writer.write(piece)
            await writer.drain()
        if await program.wait() == 0:
            return ""
        lines = (await words).decode(errors="replace").strip().splitlines()
        log.error("the digest failed: %s", "\n".join(lines))
        return lines[-1] if lines else f"its program ended with status {program.returncode}"
    finally:
        words.cancel()


async def _refuse(writer: asyncio.StreamWriter, reason: str) -> None:
    try:
        await send_digest(writer, DigestRefused(reason))
        writer.close()
        await writer.wait_closed()
    except (OSError, TimeoutError):
        log.info("nobody hears of it any more")
