# cython: annotation_typing=False
# mypy: allow-untyped-decorators, no-warn-return-any, disable-error-code="index,name-defined"
"""Two positions of the journal: how far it has come, or how far it must come for somebody who waits."""

import cython


@cython.final
@cython.cclass
class JournalPositions:
    """Everything up to `written` is in the system's hands, up to `durable` on the disk.

    In a cluster both are what is committed: on the disks of all replicas that count.

    As what somebody waits for, each of them counts for itself: a publish to several queues may need
    one block written and another one synced. 0 waits for nothing. It does not change.
    """

    __slots__ = ("durable", "written")

    def __init__(self, written: int, durable: int) -> None:
        self.written = written
        self.durable = durable

    @cython.locals(other=object)
    def __eq__(self, other: object) -> bool:
        """Whether both positions are the same."""
        if not isinstance(other, JournalPositions):
            return NotImplemented
        return self.written == other.written and self.durable == other.durable

    def __hash__(self) -> int:
        """Of both positions."""
        return hash((self.written, self.durable))

    def __repr__(self) -> str:
        """For people who look for a fault."""
        return f"JournalPositions(written={self.written}, durable={self.durable})"

    @cython.ccall
    @cython.returns(cython.bint)
    @cython.exceptval(check=True)
    @cython.locals(needed="JournalPositions")
    def cover(self, needed: "JournalPositions") -> bool:
        """Whether a journal that has come so far has what somebody needs."""
        return needed.written <= self.written and needed.durable <= self.durable

    def joined(self, other: "JournalPositions") -> "JournalPositions":
        """What covers both."""
        if self == other:
            return self
        return JournalPositions(max(self.written, other.written), max(self.durable, other.durable))


NOTHING = JournalPositions(0, 0)
