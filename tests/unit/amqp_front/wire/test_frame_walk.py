"""A node that passes frames on knows where they end, and when the connection may be ended in AMQP."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import commands

from routelog.amqp_front.wire.frame_walk import FrameWalk
from routelog.amqp_front.wire.methods import encode_method

OPEN_OK = encode_method(0, commands.Connection.OpenOk)
CLOSE_OK = encode_method(0, commands.Connection.CloseOk)
CLOSE = encode_method(
    0, commands.Connection.Close, reply_code=320, reply_text="", class_id=0, method_id=0
)
CHANNEL_CLOSE_OK = encode_method(1, commands.Channel.CloseOk)
HEARTBEAT = b"\x08\x00\x00\x00\x00\x00\x00\xce"
# The body of a message is not looked at, whatever it says.
BODY = b"\x03\x00\x00\x00\x00\x00" + bytes([len(CLOSE)]) + CLOSE + b"\xce"
EMPTY_BODY = b"\x03\x00\x01\x00\x00\x00\x00\xce"
FRAMES = [OPEN_OK, CHANNEL_CLOSE_OK, HEARTBEAT, BODY, EMPTY_BODY, b"\x02\x00\x01\0\0\0\x02ab\xce"]


def followed(*pieces: bytes) -> bool:
    walk = FrameWalk()
    for piece in pieces:
        walk.follow(piece)
    return walk.can_close


@pytest.mark.parametrize(
    ("sent", "can_close"),
    [
        (b"", False),
        (HEARTBEAT, False),
        (CHANNEL_CLOSE_OK + BODY, False),
        (b"".join(FRAMES), True),
        (OPEN_OK + CLOSE, False),
        (OPEN_OK + BODY + CLOSE_OK + HEARTBEAT, False),
        (b"AMQP\x00\x00\x09\x01", False),
    ],
)
def test_a_client_in_its_vhost_that_was_told_no_end_can_be_told(
    sent: bytes, can_close: bool
) -> None:
    assert followed(sent) is can_close
    assert followed(*(sent[at : at + 1] for at in range(len(sent)))) is can_close


@given(st.lists(st.sampled_from(FRAMES)), st.lists(st.integers(1, 40)))
def test_between_frames_only_however_they_come(frames: list[bytes], sizes: list[int]) -> None:
    walk, ends, at, end = FrameWalk(), {0}, 0, 0
    for frame in frames:
        end += len(frame)
        ends.add(end)
    stream = b"".join(frames)
    walk.follow(OPEN_OK)
    for size in [*sizes, len(stream)]:
        walk.follow(stream[at : at + size])
        at = min(at + size, len(stream))
        assert walk.can_close is (at in ends)
