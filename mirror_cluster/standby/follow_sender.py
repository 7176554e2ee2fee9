"""Sends a node's journal to its standbys, as it grows.

The messages are those between replicas, with shard, session and, but for the first answer, epoch 0::

    standby                        node
       │ ── Hello ──────────────────► │   the end of my journal
       │ ◄─────────────────── Append ─│   position and epoch of my last block
       │ ◄───────────────── CopyFrom ─│   not a place of mine: take a copy    (and the connection ends)
       │ ◄─────────────────── Append ─│   blocks behind it; without blocks a heartbeat
       │ ── Acknowledge ────────────► │   applied up to here
"""

import asyncio
import logging
from collections import deque
from dataclasses import dataclass
from functools import partial

from routelog.log_backend import Clock, Journal, Mark, ShardBlock
from routelog.mirror_cluster.links.copy_stream import (
    SILENCE_SECONDS_MAX,
    Stream,
    receive_message,
    send_message,
    stream_over,
)
from routelog.mirror_cluster.node.shipping import APPEND_BYTES_MAX
from routelog.mirror_cluster.protocol.message_format import BadMessage
from routelog.mirror_cluster.protocol.messages import Acknowledge, Append, CopyFrom, Hello
from routelog.mirror_cluster.protocol.shard_record import SHARD

log = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 1.0
END_SECONDS_MAX = 2.0  # for standbys to have everything when the node is stopped
# Behind its copy a standby is not far behind any more, so that no journal has to be kept for it.
CAUGHT_UP_BYTES_MAX = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class StandbyLag:
    """One standby, as the node that it follows knows it.

    Attributes:
        bytes: of the journal that is committed and that it has not applied, as far as that is still here.
        seconds: since the oldest of that was committed; while it is not connected, since it was heard last.
    """

    name: str
    is_connected: bool
    bytes: int
    seconds: float


class LagTimes:
    """When positions of the journal were committed that a standby has not applied."""

    def __init__(self) -> None:
        # Position, and when it was seen committed
        self._commits: deque[tuple[int, float]] = deque()

    def committed(self, position: int, now: float) -> None:
        """The journal is committed up to a position; call it once a second at least."""
        if not self._commits or position > self._commits[-1][0]:
            self._commits.append((position, now))

    def applied(self, position: int) -> None:
        """The standby has applied everything up to a position."""
        while self._commits and self._commits[0][0] <= position:
            self._commits.popleft()

    def seconds(self, now: float) -> float:
        """Age of the oldest commit that it lacks; 0.0: it has all."""
        return now - self._commits[0][1] if self._commits else 0.0


class _Standby:
    """One standby, connected or not."""

    def __init__(self, name: str, now: float) -> None:
        self.name = name
        self.task: asyncio.Task[None] | None = None
        self.applied = 0
        self.times = LagTimes()
        self.heard_at = now
        self.news = asyncio.Event()  # the journal has committed what is waited for
        self.awaited = 0  # position


class FollowSender:
    """Sends blocks to standbys, and knows how far each is: `take` is for `NodeLinks.take_follower`.

    Args:
        journal: of a node on its own.
    """

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock
        self._standbys: dict[str, _Standby] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._heard = asyncio.Event()  # one has applied more, or is gone

    def take(self, name: str, transport: asyncio.Transport, unread: bytes) -> None:
        """Send the journal to a standby; of two with one name the one before is given up."""
        before = self._standbys.get(name)
        if before is not None and before.task is not None:
            before.task.cancel()
        standby = self._standbys[name] = _Standby(name, self._clock.monotonic())
        stream = stream_over(transport, unread)
        standby.task = task = asyncio.create_task(self._serve(standby, stream))
        self._tasks.add(task)
        task.add_done_callback(partial(self._served, standby))

    def lags(self) -> list[StandbyLag]:
        """How far each standby is behind that has followed since this node was started."""
        return [self._lag(each) for _, each in sorted(self._standbys.items())]

    def has_caught_up(self, name: str) -> bool:
        """Whether a standby follows, and not far behind."""
        standby = self._standbys.get(name)
        if standby is None or standby.task is None or not standby.applied:
            return False
        return self._lag(standby).bytes <= CAUGHT_UP_BYTES_MAX

    async def finish(self) -> None:
        """Wait until the standbys that follow have all that is written, for some seconds at most."""
        self._journal.commit_written()
        try:
            async with asyncio.timeout(END_SECONDS_MAX):
                while self._behind(self._journal.written):
                    self._heard.clear()
                    await self._heard.wait()
        except TimeoutError:
            names = ", ".join(self._behind(self._journal.written))
            log.warning("the node stops before these standbys have everything: %s", names)

    def _behind(self, position: int) -> list[str]:
        standbys = self._standbys.values()
        return [each.name for each in standbys if each.task is not None and each.applied < position]

    async def aclose(self) -> None:
        """End all connections."""
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _lag(self, standby: _Standby) -> StandbyLag:
        size, now = self._journal.committed_bytes(standby.applied), self._clock.monotonic()
        is_connected = standby.task is not None
        seconds = standby.times.seconds(now) if is_connected else now - standby.heard_at
        return StandbyLag(standby.name, is_connected, size, seconds)

    def _served(self, standby: _Standby, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        standby.task = None
        self._heard.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            text = "an error of the broker, while standby %s followed"
            log.error(text, standby.name, exc_info=error)

    async def _serve(self, standby: _Standby, stream: Stream) -> None:
        reader, writer = stream
        try:
            end = await _end_of(reader)
            await self._tell_newest(standby, writer, end)
            if not self._has(end):
                await _send_to_copy(standby, writer)
                return
            standby.applied = end.position
            log.info("standby %s follows from position %d on", standby.name, standby.applied)
            tasks = [
                asyncio.create_task(self._hear(standby, reader)),
                asyncio.create_task(self._send(standby, writer)),
            ]
            try:
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
            for task in done:
                task.result()
        except TimeoutError:
            log.warning("standby %s says nothing any more", standby.name)
        except (EOFError, OSError) as error:
            log.info("standby %s has gone: %s", standby.name, error)
        except BadMessage as error:
            log.warning("standby %s is not understood: %s", standby.name, error)
        finally:
            if not writer.is_closing():
                writer.transport.abort()

    async def _tell_newest(
        self, standby: _Standby, writer: asyncio.StreamWriter, end: Mark
    ) -> None:
        newest = self._journal.committed
        mark = self._journal.mark(newest)
        epoch = mark.epoch if mark is not None else 0
        theirs = self._journal.mark(end.position)
        if theirs is not None and theirs.checksum != end.checksum:
            newest = min(newest, end.position - 1)  # the standby has no block that was not here
        if newest < end.position:
            text = (
                "standby %s has position %d, and this node at most %d of it: has it lost its data?"
            )
            log.error(text, standby.name, end.position, newest)
        now = self._clock.monotonic()
        await send_message(writer, Append(SHARD, epoch, 0, newest, newest, now, ()))

    def _has(self, end: Mark) -> bool:
        # Its checksum stands for everything before it.
        mark = self._journal.mark(end.position)
        is_here = mark is not None and mark.checksum == end.checksum
        return is_here and end.position <= self._journal.committed

    async def _hear(self, standby: _Standby, reader: asyncio.StreamReader) -> None:
        while True:
            message = await receive_message(reader)
            if not isinstance(message, Acknowledge):
                raise BadMessage(f"a {type(message).__name__}")
            standby.heard_at = self._clock.monotonic()
            standby.applied = max(standby.applied, message.durable)
            standby.times.applied(standby.applied)
            self._heard.set()

    async def _send(self, standby: _Standby, writer: asyncio.StreamWriter) -> None:
        after = standby.applied
        while True:
            blocks: tuple[ShardBlock, ...] = ()
            if await self._is_more(standby, after):
                found = await self._journal.read(after, APPEND_BYTES_MAX)
                committed = self._journal.committed
                blocks = tuple(each for each in found if each.position <= committed)
                if not blocks:  # its file was given back
                    return await _send_to_copy(standby, writer)
            now, committed = self._clock.monotonic(), self._journal.committed
            standby.times.committed(committed, now)
            await send_message(writer, Append(SHARD, 0, 0, after, committed, now, blocks))
            after += len(blocks)

    async def _is_more(self, standby: _Standby, after: int) -> bool:
        """Wait until something is committed behind a position, for a heartbeat's time at most."""
        journal = self._journal
        if journal.committed <= after and standby.awaited <= after:
            standby.awaited = after + 1
            standby.news.clear()
            journal.progress.receipt(0, after + 1).when_covered(standby.news.set)
        if journal.committed <= after:
            try:
                async with asyncio.timeout(HEARTBEAT_SECONDS):
                    await standby.news.wait()
            except TimeoutError:
                journal.commit_written()  # such as acks: they do not ask for a sync
        return journal.committed > after


async def _end_of(reader: asyncio.StreamReader) -> Mark:
    hello = await receive_message(reader)
    if not (isinstance(hello, Hello) and hello.epoch_ends):
        raise BadMessage("it did not say where its journal ends")
    return hello.epoch_ends[-1]


async def _send_to_copy(standby: _Standby, writer: asyncio.StreamWriter) -> None:
    log.info("standby %s needs a copy of the checkpoint", standby.name)
    await send_message(writer, CopyFrom(SHARD, 0, 0))
    writer.close()
    async with asyncio.timeout(SILENCE_SECONDS_MAX):
        await writer.wait_closed()
