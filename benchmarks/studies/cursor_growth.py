"""What a cursor costs while messages settle out of order.

The command line `python -m routelog.benchmarks.studies.cursor_growth`.

A real log store is filled with messages once. Each case then settles some of them on a copy of it, one by one
through the queue's cursor, with the journal and its checkpoints at work, stops and starts again. Times are
those of the processor, all threads together, so that other work on the machine counts little.
"""

import asyncio
import shutil
import sys
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from routelog.benchmarks.perf.outcome import refusals
from routelog.benchmarks.traffic.folder import scratch
from routelog.log_backend import (
    PERSISTENT,
    Cursor,
    LogOptions,
    LogStore,
    PartitionLog,
    Records,
    SystemClock,
    SystemDisk,
    encode_records,
)
from routelog.log_backend.doors.disk import Buffer
from routelog.log_backend.journal.journal_block import MAGIC
from routelog.log_backend.settlement.cursor_snapshot import partition_prefix
from routelog.log_backend.settlement.settled_chunk import BITMAP_BYTES, CHUNK_OFFSETS, FULL, Bitmap

BATCH_RECORDS = 8_192
BODY_BYTES_MIN, BODY_BYTES_MAX = 16, 100
ACKS_IN_A_TURN = 1_000  # then the journal has its turn
BATCHES_IN_FLIGHT = 16
TABLE_COLUMNS = 120


class CountingDisk(SystemDisk):
    """The system's disk; `journal_bytes` counts those of the journal's blocks."""

    def __init__(self) -> None:
        self.journal_bytes = 0

    def write(self, file: int, position: int, buffers: Sequence[Buffer]) -> int:
        """See `Disk`."""
        self._count(buffers)
        return super().write(file, position, buffers)

    def write_synced(self, file: int, position: int, buffers: Sequence[Buffer]) -> None:
        """See `Disk`."""
        self._count(buffers)
        super().write_synced(file, position, buffers)

    def _count(self, buffers: Sequence[Buffer]) -> None:
        if buffers and bytes(buffers[0][: len(MAGIC)]) == MAGIC:
            self.journal_bytes += sum(map(len, buffers))


@dataclass(frozen=True)
class GrowthCase:
    """Which offsets are settled, of so many."""

    name: str
    offsets: Callable[[int], range]


@dataclass(frozen=True)
class Growth:
    """What a case cost."""

    settled: int
    settle_seconds: float
    journal_bytes: int
    memory_bytes: int
    bitmap_bytes: int
    snapshot_bytes: int
    restore_seconds: float
    start_seconds: float


CASES = (
    GrowthCase("every second one acked", lambda count: range(1, count, 2)),
    GrowthCase("one stuck, all else acked", lambda count: range(1, count)),
    GrowthCase("one ack per 65,536", lambda count: range(5, count, CHUNK_OFFSETS)),
)


class OpenStore:
    """A log store with one durable partition."""

    def __init__(self, data: Path, epoch: int) -> None:
        self.disk = CountingDisk()
        loop = asyncio.get_running_loop()
        self.logs = LogStore(data, self.disk, SystemClock(), loop, LogOptions())
        self.partition: PartitionLog = self.logs.open_partition(1, "/", "q", 0, durable=True)
        self.logs.recover()
        self.logs.start(epoch)
        self._progressed = asyncio.Event()
        self.logs.on_durable = lambda position: self._progressed.set()

    async def durable(self, position: int) -> None:
        """Wait for the journal."""
        while self.logs.journal.durable < position:
            self._progressed.clear()
            await self._progressed.wait()

    async def aclose(self) -> None:
        """Stop as the broker does."""
        await self.logs.aclose()


def batch(count: int) -> Records:
    """Messages of all sizes between the least and the most."""
    source, rows = bytearray(b"\0\0"), array("i")
    for number in range(count):
        size = BODY_BYTES_MIN + number % (BODY_BYTES_MAX - BODY_BYTES_MIN + 1)
        rows.extend((0, 0, 0, 2, len(source), size))
        source += bytes((number & 0xFF,)) * size
    content: Records = encode_records(
        memoryview(source), memoryview(rows), None, count, b"", b"q", PERSISTENT, 0
    )
    return content


async def fill(data: Path, count: int) -> None:
    """Make a store with at least so many messages."""
    store = OpenStore(data, 1)
    content = batch(BATCH_RECORDS)
    positions: list[int] = []
    while store.partition.next_offset < count:
        positions.append(store.partition.append(content, waited=True))
        if len(positions) >= BATCHES_IN_FLIGHT:
            await store.durable(positions[-BATCHES_IN_FLIGHT])
    await store.durable(positions[-1])
    await store.aclose()


async def measure(data: Path, case: GrowthCase, count: int) -> Growth:
    """Settle the offsets of a case, stop, start."""
    store = OpenStore(data, 2)
    cursor = store.partition.open_cursor()
    before = store.disk.journal_bytes
    started = time.process_time()
    for turn in turns(case.offsets(count)):
        for offset in turn:
            cursor.settle(offset, offset + 1)
            store.partition.release()
        await asyncio.sleep(0)
    await store.durable(store.partition.append(batch(1), waited=True))
    settle_seconds = time.process_time() - started
    journal_bytes = store.disk.journal_bytes - before
    await store.aclose()
    started = time.process_time()
    store = OpenStore(data, 3)
    start_seconds = time.process_time() - started
    cursor = store.partition.open_cursor()
    check(cursor, case.offsets(count), count)
    started = time.process_time()
    prefix = partition_prefix(store.partition.number)
    entries = [(key, entry.value) for key, entry in store.logs.metadata.scan(prefix)]
    Cursor(0, None).restore(entries)
    restore_seconds = time.process_time() - started
    growth = Growth(
        settled=len(case.offsets(count)),
        settle_seconds=settle_seconds,
        journal_bytes=journal_bytes,
        memory_bytes=memory_bytes(cursor),
        bitmap_bytes=len(cursor.settled.chunks) * BITMAP_BYTES,
        snapshot_bytes=sum(len(key) + len(value) for key, value in entries),
        restore_seconds=restore_seconds,
        start_seconds=start_seconds,
    )
    await store.aclose()
    return growth


def turns(offsets: range) -> Iterator[range]:
    """Cut what is settled into turns of the event loop."""
    for at in range(0, len(offsets), ACKS_IN_A_TURN):
        yield offsets[at : at + ACKS_IN_A_TURN]


def check(cursor: Cursor, offsets: range, count: int) -> None:
    """Stop if the cursor lost something.

    Raises:
        SystemExit: it did.
    """
    if cursor.settled.count_from(0, count) != len(offsets) or offsets[-1] not in cursor.settled:
        raise SystemExit("the cursor does not know what was settled")


def memory_bytes(cursor: Cursor) -> int:
    """Bytes of all objects that the settled set of a cursor consists of."""
    chunks = cursor.settled.chunks
    total = sys.getsizeof(cursor.settled) + sys.getsizeof(chunks)
    for number, chunk in chunks.items():
        total += sys.getsizeof(number)
        if chunk is not FULL:
            content = chunk.bits if isinstance(chunk, Bitmap) else chunk.borders
            total += sys.getsizeof(chunk) + sys.getsizeof(content)
    return total


def main(
    messages: Annotated[int, typer.Option(min=BATCH_RECORDS, help="In the store.")] = 10_000_000,
    folder: Annotated[
        Path | None, typer.Option(help="Where the stores lie; the disk counts.")
    ] = None,
) -> None:
    """Measure memory, disk and time of a cursor with holes, and print a table."""
    console = Console(width=TABLE_COLUMNS)
    table = Table(title=f"{messages:,} messages of {BODY_BYTES_MIN} to {BODY_BYTES_MAX} bytes")
    columns = (
        "settled",
        "settle",
        "journal",
        "memory",
        "bitmaps",
        "snapshot",
        "restore",
        "start",
    )
    table.add_column("case")
    for column in columns:
        table.add_column(column, justify="right")
    with refusals(), scratch(folder, "cursor-") as root:
        filled = root / "filled"
        with console.status("filling a store"):
            asyncio.run(fill(filled, messages))
        for case in CASES:
            data = root / "case"
            shutil.copytree(filled, data)
            with console.status(case.name):
                found = asyncio.run(measure(data, case, messages))
            shutil.rmtree(data)
            table.add_row(case.name, *described(found))
    console.print(table)


def described(found: Growth) -> tuple[str, ...]:
    """The columns of a row."""
    return (
        f"{found.settled:,}",
        f"{found.settle_seconds:.2f} s",
        f"{found.journal_bytes / 1024:,.0f} KiB",
        f"{found.memory_bytes / 1024:,.1f} KiB",
        f"{found.bitmap_bytes / 1024:,.0f} KiB",
        f"{found.snapshot_bytes / 1024:,.1f} KiB",
        f"{found.restore_seconds * 1000:.1f} ms",
        f"{found.start_seconds:.2f} s",
    )


if __name__ == "__main__":
    typer.run(main)
