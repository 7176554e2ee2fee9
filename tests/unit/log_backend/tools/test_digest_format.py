"""The frames of a digest: what goes in comes out, and other bytes are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from routelog.log_backend.copies.data_copy import CopiedFile
from routelog.log_backend.journal.journal_chain import START, ShardBlock
from routelog.log_backend.tools.digest_format import (
    DIGEST_LENGTH_BYTES,
    FRAME_BYTES_MAX,
    BadDigest,
    Blocks,
    DigestBlock,
    DigestEnd,
    DigestMessage,
    DigestProgress,
    DigestRefused,
    DigestStand,
    DigestTask,
    PartitionState,
    Records,
    decode_digest,
    digest_length,
    encode_digest,
)

BLOCK = ShardBlock.following(START, 0, 1, b"entries")
NAME = ("/", "q", 2)


@pytest.mark.parametrize(
    "message",
    [
        DigestTask.of([CopiedFile("logs/a.log", 7, Path("/copies/1"))]),
        DigestBlock.of(BLOCK),
        DigestStand(2**40),
        DigestRefused("the disk is low"),
        DigestProgress(1, 2),
        Blocks(3, {1: 2**32 - 1}),
        PartitionState(NAME, 9, {0: [(1, 2), (4, 9)], 7: []}),
        Records(NAME, 0, {1: 2}, [3]),
        DigestEnd(1, 2, 3, 4, 5),
    ],
)
def test_what_is_sent_is_received(message: DigestMessage) -> None:
    frame = encode_digest(message)
    head, content = frame[:DIGEST_LENGTH_BYTES], frame[DIGEST_LENGTH_BYTES:]
    assert digest_length(head) == len(content)
    assert decode_digest(content) == message
    with pytest.raises(BadDigest):
        decode_digest(content[:-1])
    with pytest.raises(BadDigest):
        decode_digest(content + b"x")


def test_files_and_blocks_are_what_they_were() -> None:
    file = CopiedFile("logs/a.log", 7, Path("/copies/1"))
    assert DigestTask.of([file]).copied() == [file]
    assert DigestBlock.of(BLOCK).block() == BLOCK


def test_another_version_and_a_frame_without_end_are_refused() -> None:
    frame = encode_digest(DigestStand(1, version=1))
    with pytest.raises(BadDigest, match="version 1"):
        decode_digest(frame[DIGEST_LENGTH_BYTES:])
    with pytest.raises(BadDigest, match="bytes"):
        digest_length((FRAME_BYTES_MAX + 1).to_bytes(4, "little"))
