from collections.abc import Sequence
from random import Random

import pytest
from unit.mirror_cluster.journals import SHARD

from routelog.log_backend import START, ShardBlock
from routelog.mirror_cluster.links.receive_buffer import READ_BYTES, ReceiveBuffer
from routelog.mirror_cluster.protocol.message_format import (
    BadMessage,
    decode_message,
    encode_message,
    message_bytes,
)
from routelog.mirror_cluster.protocol.messages import Acknowledge, Append, Message


def append(after: int, size: int) -> Append:
    block = ShardBlock.following(START, SHARD, 1, bytes([after % 256]) * size)
    return Append(SHARD, 1, 2, after, 0, 0.5, (block,))


MESSAGES: Sequence[Message] = [
    Acknowledge(SHARD, 1, 2, 3, 4.0),
    append(0, 10),
    append(1, 3 * READ_BYTES),
    append(2, READ_BYTES),
    *(Acknowledge(SHARD, 1, 2, number, 4.0) for number in range(500)),
    append(3, 100),
    append(4, 2 * READ_BYTES),
    append(5, READ_BYTES - 100),
]


@pytest.mark.parametrize("most", [1, 7, 4_096, READ_BYTES, 1_000_000])
def test_messages_come_whole_and_in_order_however_their_bytes_come(most: int) -> None:
    octets, buffer = (
        b"".join(map(encode_message, MESSAGES)),
        ReceiveBuffer(decode_message, message_bytes),
    )
    found: list[Message] = []
    randomness = Random(most)
    while octets:
        room = buffer.room()
        size = min(len(room), len(octets), randomness.randint(1, most))
        room[:size], octets = octets[:size], octets[size:]
        found += buffer.received(size)
    # What came first is still what it was when the last one is there.
    assert found == MESSAGES


def test_bytes_from_elsewhere_are_taken_as_those_that_are_received() -> None:
    buffer = ReceiveBuffer(decode_message, message_bytes)
    octets = b"".join(map(encode_message, MESSAGES))
    assert [*buffer.add(octets[:-1]), *buffer.add(octets[-1:])] == MESSAGES


def test_the_block_of_a_large_message_is_where_it_was_received() -> None:
    buffer = ReceiveBuffer(decode_message, message_bytes)
    octets = encode_message(append(0, 8 * READ_BYTES))
    assert not list(buffer.add(octets[:READ_BYTES]))
    room = buffer.room()
    assert len(room) == len(octets) - READ_BYTES
    room[:] = octets[READ_BYTES:]
    (message,) = buffer.received(len(room))
    assert isinstance(message, Append)
    payload = message.blocks[0].payload
    assert isinstance(payload, memoryview)
    assert payload.obj is room.obj


def test_small_blocks_keep_no_buffer() -> None:
    buffer = ReceiveBuffer(decode_message, message_bytes)
    (message,) = buffer.add(encode_message(append(0, 10)))
    assert isinstance(message, Append)
    assert isinstance(message.blocks[0].payload, bytes)


def test_a_length_that_cannot_be_is_refused_before_the_rest_has_come() -> None:
    buffer = ReceiveBuffer(decode_message, message_bytes)
    with pytest.raises(BadMessage, match="bytes"):
        list(buffer.add(b"\xff" * 8))
