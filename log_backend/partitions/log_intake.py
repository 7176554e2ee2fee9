# cython: annotation_typing=False
"""What all partitions of a store share when they grow: the journal's groups, and the count of their bytes."""

from collections.abc import Callable
from typing import Any

import cython

from routelog.log_backend.journal.journal_groups import JournalGroups

ROOM_UNKNOWN = 1 << 62


@cython.final
@cython.cclass
class LogIntake:
    """One of a store.

    Attributes:
        appended: logs, each with a batch behind it, that the step of a transaction appends; None: none is
            under way.
        groups: of the journal.
        is_committing: a transaction of several turns is under way.
        leader_epoch: stamped on every batch; rises with every start.
        tail_bytes: of the batches that all partitions keep in memory.
        tail_bytes_watched: with more of them, the owner hears of every change.
        unflushed_bytes: of the batches that are to be in a segment, and are in no plan to write one.
        room: bytes that the disk has for what is still to come; below 0, the owner hears of every growth.

    Args:
        on_watched: called with the change of `tail_bytes`.
        let_go: see `GradualFree.add`.
    """

    __slots__ = (
        "_on_watched",
        "appended",
        "groups",
        "is_committing",
        "leader_epoch",
        "let_go",
        "room",
        "tail_bytes",
        "tail_bytes_watched",
        "unflushed_bytes",
    )

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
        self.is_committing = False
        self.leader_epoch = 0
        self.tail_bytes = 0
        self.tail_bytes_watched = tail_bytes_watched
        self.unflushed_bytes = 0
        self.room = ROOM_UNKNOWN
        self._on_watched = on_watched

    @cython.ccall
    @cython.locals(size=cython.longlong)
    def grew(self, size: int) -> None:
        """The batches in memory are so many bytes more, or fewer."""
        self.tail_bytes += size
        if size > 0:
            self.room -= size
        if self.tail_bytes > self.tail_bytes_watched or self.room < 0:
            self._on_watched(size)
