"""Blocks of a journal as bytes."""

from collections.abc import Sequence

from routelog.log_backend.journal.journal_block import FileMark, JournalEntry, encode_block
from routelog.log_backend.journal.journal_chain import Mark, ShardBlock


def block_bytes(
    file: FileMark,
    position: int,
    first: int,
    committed: int,
    entries: Sequence[JournalEntry],
    *,
    epoch: int = 0,
    previous: int = 0,
) -> bytes:
    """The bytes of a block with these entries."""
    payload = b"".join(entry.encode() for entry in entries)
    block = ShardBlock.following(Mark(position - 1, 0, previous), 0, epoch, payload)
    return encode_block(file, block, first, committed)
