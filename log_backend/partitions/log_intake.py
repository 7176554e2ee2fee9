# cython: annotation_typing=False
# mypy: allow-untyped-decorators, no-warn-return-any, disable-error-code="index,name-defined"
"""What all partitions of a store share when records are appended: the journal's groups, and byte counters."""

from collections.abc import Callable
from typing import Any

import cython

from routelog.log_backend.journal.journal_groups import JournalGroups

ROOM_UNKNOWN = 1 << 62


@cython.final
@cython.cclass
class LogIntake:
    """Shared by the partitions of one store.

    Attributes:
        appended: what the running step of a transaction has appended: a log, its batch, a log, its batch, ...;
            None: no step is running.
        groups: of the journal.
        is_committing: a transaction of several turns is under way.
        is_moving: what is appended has another place, which it leaves by the same block of the journal.
        leader_epoch: stamped on every batch; rises with every start.
        tail_bytes: memory of the batches in all tails.
        tail_bytes_watched: above it, `on_watched` is called with every change.
        unflushed_bytes: of batches that are in no segment, and in no plan to write one.
        room: free bytes of the disk that are not promised yet; below 0, `on_watched` is called, too.

    Args:
        on_watched: called with the change of `tail_bytes`.
        let_go: see `GradualFree.add`.
    """

    def __init__(
        self,
        groups: JournalGroups,
        tail_bytes_watched: int,
        on_watched: Callable[[int], None],
        let_go: Callable[[list[Any]], None],
    ) -> None:
        self.groups = groups
        self.let_go = let_go
        self.appended: list[Any] | None = None
        self.is_committing = self.is_moving = False
        self.leader_epoch = 0
        self.tail_bytes = 0
        self.tail_bytes_watched = tail_bytes_watched
        self.unflushed_bytes = 0
        self.room = ROOM_UNKNOWN
        self._on_watched = on_watched

    @cython.ccall
    @cython.locals(size=cython.longlong)
    def grew(self, size: int) -> None:
        """Count bytes of batches that came into memory, or left it (negative)."""
        self.tail_bytes += size
        if size > 0:
            self.room -= size
        if self.tail_bytes > self.tail_bytes_watched or self.room < 0:
            self._on_watched(size)
