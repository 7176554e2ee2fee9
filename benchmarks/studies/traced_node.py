"""`python -m routelog.benchmarks.studies.traced_node FILE serve ...`: a node whose journal is timed.

The file gets a line for each step of each block: step, position, nanoseconds of the monotonic clock, bytes of
entries where the step knows them, else 0.
"""

import runpy
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, TextIO

from routelog.log_backend import ShardBlock
from routelog.log_backend.journal.block_writer import BlockWriter, PlacedGroup
from routelog.log_backend.journal.journal import Journal

KEPT_LINES = 200  # before they are written: the last ones are lost with the process

# The steps, in the order in which a leader's block takes them, then those of a follower's.
GATHER = "gather"  # its first entry
TAKE = "take"  # it gathers no more
ENCODED = "encoded"
SHIPPED = "shipped"  # given to the sockets of the followers
WRITE, SYNCED = "write", "synced"  # of all nodes: begin and end of the system call
TOLD = "told"  # the loop hears of the sync
COMMITTED = "committed"  # on all nodes; of a node on its own as `told`
CONFIRMED = "confirmed"  # the confirms are with the sockets of the clients
STORED = "stored"  # read whole by a follower
ACKNOWLEDGED = "acknowledged"  # given to the socket of the leader


class Tracer:
    """Writes down when which block took which step."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._lines: list[str] = []

    def note(self, step: str, position: int, size: int = 0) -> None:
        """A block takes a step at this moment."""
        self._lines.append(f"{step} {position} {time.monotonic_ns()} {size}\n")
        if len(self._lines) >= KEPT_LINES:
            self._file.write("".join(self._lines))
            self._file.flush()
            self._lines.clear()

    def watch(self) -> None:
        """Time the journal of this process."""
        _around(Journal, "_entry_added", before=self._entry_added)
        _around(Journal, "_made", before=self._taken)
        _around(BlockWriter, "encode", after=self._encoded)
        _around(BlockWriter, "write", before=self._write, after=self._synced)
        _around(Journal, "_committed", before=self._told, after=self._alone)
        _around(Journal, "commit", before=self._committed, after=self._confirmed)
        _around(Journal, "store", before=self._stored)
        _around(Journal, "replicate", before=self._replicate)

    def _replicate(self, journal: Journal, shard: int, events: object, *rest: Any) -> None:
        _around(type(events), "on_block", after=self._shipped)
        _around(type(events), "on_durable", after=self._acknowledged)

    def _entry_added(self, journal: Journal, waited: bool) -> None:
        self.note(GATHER, journal.groups.last.position)

    def _taken(self, journal: Journal, placed: PlacedGroup) -> None:
        self.note(TAKE, placed.group.position, placed.group.bytes)

    def _encoded(self, writer: BlockWriter, placed: PlacedGroup) -> None:
        self.note(ENCODED, placed.group.position)

    def _shipped(self, events: object, block: ShardBlock) -> None:
        self.note(SHIPPED, block.position)

    def _write(self, writer: BlockWriter, placed: PlacedGroup) -> None:
        self.note(WRITE, placed.group.position, placed.group.bytes)

    def _synced(self, writer: BlockWriter, placed: PlacedGroup) -> None:
        self.note(SYNCED, placed.group.position)

    def _told(self, journal: Journal, group: Any) -> None:
        self.note(TOLD, group.position)

    def _alone(self, journal: Journal, group: Any) -> None:
        if not journal.is_replicated:
            self.note(CONFIRMED, group.position)

    def _committed(self, journal: Journal, position: int) -> None:
        self.note(COMMITTED, position)

    def _confirmed(self, journal: Journal, position: int) -> None:
        self.note(CONFIRMED, position)

    def _stored(self, journal: Journal, blocks: Sequence[ShardBlock]) -> None:
        for block in blocks:
            self.note(STORED, block.position, len(block.payload))

    def _acknowledged(self, events: object, end: Any) -> None:
        self.note(ACKNOWLEDGED, end.position)


def _nothing(*arguments: Any) -> None:
    """No step."""


def _around(
    owner: type,
    name: str,
    *,
    before: Callable[..., None] = _nothing,
    after: Callable[..., None] = _nothing,
) -> None:
    """Have a method call others, with its own arguments, when it begins and when it ends."""
    method = getattr(owner, name)

    def timed(*arguments: Any) -> Any:
        before(*arguments)
        result = method(*arguments)
        after(*arguments)
        return result

    setattr(owner, name, timed)


def main() -> None:
    """Trace to the file that is named, and be `routelog` with the other arguments."""
    Tracer(open(sys.argv.pop(1), "a")).watch()  # noqa: SIM115 - as long as the process
    runpy.run_module("routelog", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
