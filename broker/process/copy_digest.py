"""The program that makes the digest of a copy of a node's data: beside the broker, so that it delays nobody.

It reads a `DigestTask` and blocks from its standard input, and writes pieces to its standard output; see
`log_backend/tools/digest_format.py`. The metadata of the copy are its own to change.
"""

import os
import sys
from collections.abc import Iterator
from typing import BinaryIO

from routelog.log_backend import (
    COPY,
    DIGEST_LENGTH_BYTES,
    BadDigest,
    CopiedDisk,
    DataDirectory,
    DigestBlock,
    DigestMessage,
    DigestProgress,
    DigestTask,
    JournalContent,
    MetadataStore,
    ShardBlock,
    decode_digest,
    digest_length,
    digest_pieces,
    encode_digest,
)
from routelog.vhosts import DeclaredPartitions, partition_names

NICENESS = 19  # what else the machine has to do goes first
PROGRESS_BYTES = 1024 * 1024  # between two words of it


class _Output:
    """What the program says."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._done = self._told = 0
        self.total = 0

    def send(self, message: DigestMessage) -> None:
        self._stream.write(encode_digest(message))

    def progress(self, size: int) -> None:
        self._done += size
        if self._done - self._told >= PROGRESS_BYTES:
            self._told = self._done
            self.send(DigestProgress(self._done, max(self._done, self.total)))
            self._stream.flush()


def main() -> None:
    """Read a task, and write one digest."""
    os.nice(NICENESS)
    given = _received(sys.stdin.buffer)
    task = next(given)
    if not isinstance(task, DigestTask):
        raise BadDigest("no task")
    files = task.copied()
    disk, output = CopiedDisk(files), _Output(sys.stdout.buffer)
    folder = next(each.held for each in files if each.path == "metadata/CURRENT").parent
    metadata = MetadataStore.open(folder)
    try:
        data = DataDirectory(COPY, disk, metadata, {})
        journal = JournalContent(data, _blocks(given), output.progress)
        metadata.apply(journal.changes, synced=False)
        data = DataDirectory(COPY, disk, metadata, partition_names(metadata))
        output.total = data.total_bytes()
        for piece in digest_pieces(data, DeclaredPartitions(metadata), journal, output.progress):
            output.send(piece)
        sys.stdout.buffer.flush()
    finally:
        metadata.close()


def _received(stream: BinaryIO) -> Iterator[DigestMessage]:
    while head := stream.read(DIGEST_LENGTH_BYTES):
        yield decode_digest(stream.read(digest_length(head)))


def _blocks(given: Iterator[DigestMessage]) -> Iterator[ShardBlock]:
    for each in given:
        if not isinstance(each, DigestBlock):
            raise BadDigest("no block")
        yield each.block()


if __name__ == "__main__":
    main()
