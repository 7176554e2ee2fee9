from dataclasses import replace

import pytest
from unit.mirror_cluster.journals import SHARD, blocks, chain_of

from routelog.log_backend import START, ShardBlock, crc32c
from routelog.mirror_cluster.protocol import message_format
from routelog.mirror_cluster.protocol.message_format import (
    COPIED_PAYLOAD_BYTES_MAX,
    EPOCH_ENDS_MAX,
    BadMessage,
    encode_message,
    message_pieces,
)
from routelog.mirror_cluster.protocol.messages import (
    Acknowledge,
    Append,
    CopyFrom,
    Fenced,
    Hello,
    Leave,
    Message,
    TruncateTo,
)

HEAD = (SHARD, 7, 2**64 - 1)
CHAIN = chain_of(1, 1, 4, 7)
MESSAGES = [
    Hello(*HEAD, "nœud", 2**63, CHAIN.epoch_ends()),
    Hello(*HEAD, "b", 1, ()),
    TruncateTo(*HEAD, CHAIN.end),
    CopyFrom(*HEAD),
    Append(*HEAD, 0, 0, 12.5, tuple(blocks(1, 1, 7))),
    Append(*HEAD, 9, 8, 0.25, ()),
    Acknowledge(*HEAD, 2**40, 12.5),
    Leave(*HEAD),
    Fenced(*HEAD),
]


def decoded(octets: bytes | bytearray, before: bytes = b"") -> tuple[Message, int] | None:
    buffer = bytearray(before + octets)
    return message_format.decode_message(buffer, len(before), len(buffer))


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_is_read_as_it_was_written_and_not_before_it_is_whole(message: Message) -> None:
    octets = encode_message(message)
    for size in range(len(octets)):
        assert decoded(octets[:size]) is None
    assert decoded(octets) == (message, len(octets))
    assert decoded(octets + b"more", b"before") == (message, len(octets))


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_flipped_bit_is_no_message(message: Message) -> None:
    octets = bytearray(encode_message(message))
    for place in range(4, len(octets)):
        octets[place] ^= 16
        with pytest.raises(BadMessage):
            decoded(octets)
        octets[place] ^= 16


def forged(rest: bytes) -> bytes:
    return (len(rest) + 4).to_bytes(4, "little") + crc32c(rest).to_bytes(4, "little") + rest


def test_a_later_version_and_an_unknown_kind_are_refused() -> None:
    rest = encode_message(Leave(*HEAD))[8:]
    assert decoded(forged(rest))
    for changed in (b"\x02" + rest[1:], rest[:1] + b"\x63" + rest[2:]):
        with pytest.raises(BadMessage, match="version"):
            decoded(forged(changed))


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_content_that_ends_too_early_is_refused(message: Message) -> None:
    rest = encode_message(message)[8:]
    for size in range(24, len(rest)):
        with pytest.raises(BadMessage):
            decoded(forged(rest[:size]))


def test_lengths_that_cannot_be_are_refused_at_once() -> None:
    for length in (0, 20, 2**32 - 1):
        with pytest.raises(BadMessage, match="bytes"):
            decoded(length.to_bytes(4, "little") + bytes(4))


def test_a_damaged_block_is_refused_though_the_message_is_whole() -> None:
    (block,) = blocks(1)
    message = Append(*HEAD, 0, 0, 0.0, (replace(block, payload=b"other"),))
    octets = encode_message(message)
    with pytest.raises(BadMessage, match="damaged"):
        decoded(forged(octets[8:]))
    with pytest.raises(BadMessage, match="wrong checksum"):  # it was damaged before it was sent
        decoded(octets)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_the_checksum_of_a_message_is_that_of_its_bytes(message: Message) -> None:
    octets = encode_message(message)
    assert octets == forged(octets[8:])


def test_large_payloads_are_sent_and_read_without_a_copy() -> None:
    large = ShardBlock.following(START, SHARD, 1, bytes(COPIED_PAYLOAD_BYTES_MAX + 1))
    small = ShardBlock.following(large.mark, SHARD, 1, bytes(COPIED_PAYLOAD_BYTES_MAX))
    pieces = message_pieces(Append(*HEAD, 0, 0, 0.0, (large, small)))
    assert any(piece is large.payload for piece in pieces)
    assert len(message_pieces(Append(*HEAD, 0, 0, 0.0, tuple(blocks(1, 1))))) == 1
    buffer = bytearray(b"".join(pieces))
    read = message_format.decode_message(buffer, 0, len(buffer))
    assert read is not None
    assert isinstance(read[0], Append)
    assert read[0].blocks == (large, small)
    view, copy = (block.payload for block in read[0].blocks)
    assert isinstance(view, memoryview)
    assert view.obj is buffer
    assert isinstance(copy, bytes)


def test_only_the_newest_epochs_are_sent() -> None:
    ends = chain_of(*range(1, EPOCH_ENDS_MAX + 50)).epoch_ends()
    read = decoded(encode_message(Hello(*HEAD, "b", 1, ends)))
    assert read is not None
    assert read[0] == Hello(*HEAD, "b", 1, ends[-EPOCH_ENDS_MAX:])
