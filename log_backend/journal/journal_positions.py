"""Two positions of the journal: how far it has come, or how far it must come for somebody who waits."""

from typing import NamedTuple


class JournalPositions(NamedTuple):
    """Everything up to `written` is in the system's hands, up to `durable` on the disk.

    In a cluster both are what is committed: on the disks of all replicas that count.

    As what somebody waits for, each of them counts for itself: a publish to several queues may need
    one block written and another one synced. 0 waits for nothing.
    """

    written: int
    durable: int

    def cover(self, needed: "JournalPositions") -> bool:
        """Whether a journal that has come so far has what somebody needs."""
        return needed.written <= self.written and needed.durable <= self.durable

    def joined(self, other: "JournalPositions") -> "JournalPositions":
        """What covers both."""
        if self == other:
            return self
        return JournalPositions(max(self.written, other.written), max(self.durable, other.durable))


NOTHING = JournalPositions(0, 0)
