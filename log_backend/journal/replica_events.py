"""What a journal tells the replica that it belongs to."""

from typing import Protocol

from routelog.log_backend.journal.journal_chain import Mark, ShardBlock


class ReplicaEvents(Protocol):
    """Everything is called on the event loop."""

    def on_block(self, block: ShardBlock) -> None:
        """A block was made here, and is being written: the replica leads."""

    def on_durable(self, end: Mark) -> None:
        """Everything up to this block is synced."""

    def on_truncated(self, position: int) -> None:
        """The journal ends behind this position, and a power cut brings nothing back."""

    def on_recycled(self, base: Mark) -> None:
        """The files up to this block are given back: a checkpoint has what they said."""
