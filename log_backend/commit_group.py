"""The changes that gather for one block of the journal."""

from log_backend.journal_block import JournalEntry


class CommitGroup:
    """The entries of one future block.

    Attributes:
        position: of the block.
        bytes: of the entries.
        waited: somebody waits for one of them.
        synced: one of them has to survive a power cut.
    """

    __slots__ = ("bytes", "entries", "position", "synced", "waited")

    def __init__(self, position: int) -> None:
        self.position = position
        self.entries: list[JournalEntry] = []
        self.bytes = 0
        self.waited = False
        self.synced = False
