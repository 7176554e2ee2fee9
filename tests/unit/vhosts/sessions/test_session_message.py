"""The messages of a session: what is written is read, whole, byte by byte, and with trailing bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.queue_samples import records

from routelog.log_backend import Octets
from routelog.vhosts.sessions.session_message import (
    HEAD_BYTES,
    BadSessionMessage,
    Kind,
    SessionMessage,
    batch_pieces,
    decode_message,
    message_pieces,
    records_of,
    value_in,
)

MESSAGES = st.builds(
    SessionMessage,
    st.sampled_from(Kind),
    st.integers(0, 255),
    st.integers(0, 65_535),
    st.integers(0, (1 << 32) - 1),
    *[st.integers(0, (1 << 64) - 1)] * 3,
    st.binary(max_size=40_000),
)


def octets_of(message: SessionMessage) -> bytearray:
    return bytearray(b"".join(message_pieces(message)))


@given(MESSAGES, st.binary(max_size=50), st.binary(max_size=50))
def test_what_is_written_is_read(message: SessionMessage, before: bytes, behind: bytes) -> None:
    octets = octets_of(message)
    buffer = bytearray(before) + octets + behind
    assert decode_message(buffer, len(before), len(buffer)) == (message, len(octets))


def test_a_message_that_is_not_there_in_full_is_awaited() -> None:
    octets = octets_of(SessionMessage(Kind.CALL, number=3, content=b"abc"))
    for end in range(len(octets)):
        assert decode_message(octets, 0, end) is None


@pytest.mark.parametrize("size", [0, HEAD_BYTES - 1, 0xFFFF_FFFF])
def test_a_length_that_cannot_be_is_refused(size: int) -> None:
    with pytest.raises(BadSessionMessage, match=r"a message of"):
        decode_message(bytearray(size.to_bytes(4, "little")), 0, 4)


def test_an_unknown_kind_is_refused() -> None:
    octets = octets_of(SessionMessage(Kind.BEAT))
    octets[4] = 200
    with pytest.raises(BadSessionMessage, match=r"kind 200"):
        decode_message(octets, 0, len(octets))


def test_a_batch_keeps_its_bytes() -> None:
    batch = records("x" * 100)
    octets = b"".join(batch_pieces(SessionMessage(Kind.PUBLISH, subject=7, number=1), batch))
    decoded = decode_message(bytearray(octets), 0, len(octets))
    assert decoded is not None
    assert records_of(decoded[0].content).body(0) == b"x" * 100


@pytest.mark.parametrize("at", [0, 12, 70])
def test_a_damaged_batch_is_refused(at: int) -> None:
    pieces: list[Octets] = batch_pieces(SessionMessage(Kind.PUBLISH), records("body"))
    content = bytearray(b"".join(pieces[1:]))
    content[at] ^= 1
    with pytest.raises(BadSessionMessage, match=r"a batch"):
        records_of(content)


@pytest.mark.parametrize(
    "content", [b"", b"\xc1", b"\xa1\xff", b"\x91" * 10_000 + b"\xc0", b"\xc0\xc0"]
)
def test_what_is_no_value_is_refused(content: bytes) -> None:
    with pytest.raises(BadSessionMessage, match=r"a value"):
        value_in(content)


def test_a_value_has_its_kind() -> None:
    assert value_in(b"\x92\x01\xa1q", tuple[int, str]) == (1, "q")
    with pytest.raises(BadSessionMessage, match=r"a value"):
        value_in(b"\x92\x01\x02", tuple[int, str])
