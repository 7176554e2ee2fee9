"""Records and pieces of a copy on its way."""

import msgspec
import pytest

from routelog.log_backend import Mark
from routelog.mirror_cluster.protocol.copy_format import (
    LENGTH,
    RECORD_BYTES_MAX,
    BadCopy,
    CopyHead,
    CopyRefused,
    FileHead,
    check_crc,
    decode_file,
    decode_head,
    encode_crc,
    encode_record,
    record_length,
)

HEAD = CopyHead(42, 7, 0xFFFF_FFFF, 2, 5_000)
FILE = FileHead("journal/1.journal", 4_096, 65_536)


def framed(value: object) -> bytes:
    octets = msgspec.json.encode(value)
    return octets + encode_crc(octets)


def test_records_are_read_back() -> None:
    octets = encode_record(HEAD)
    assert record_length(octets[: LENGTH.size]) == len(octets) - LENGTH.size
    assert decode_head(octets[LENGTH.size :]) == HEAD
    assert HEAD.last == Mark(42, 7, 0xFFFF_FFFF)
    assert decode_file(encode_record(FILE)[LENGTH.size :]) == FILE


def test_the_bytes_of_this_version_stay() -> None:
    assert encode_record(HEAD) == (
        b'\x52\x00\x00\x00{"position":42,"epoch":7,"checksum":4294967295,"files":2,"bytes":5000,'
        b'"version":1}' + encode_crc(msgspec.json.encode(HEAD))
    )
    assert encode_record(FILE)[4:-4] == b'{"path":"journal/1.journal","size":4096,"padded":65536}'
    assert encode_record(CopyRefused("no"))[4:-4] == b'{"refused":"no","version":1}'


def test_a_refusal_says_why() -> None:
    with pytest.raises(BadCopy, match="the disk is low"):
        decode_head(encode_record(CopyRefused("the disk is low"))[LENGTH.size :])


def test_a_later_version_is_named_whatever_else_it_has() -> None:
    with pytest.raises(BadCopy, match="version 2, and this node reads 1"):
        decode_head(framed({"version": 2, "chunks": [1]}))


@pytest.mark.parametrize("at", range(0, 60, 7))
def test_a_flipped_bit_is_found(at: int) -> None:
    octets = bytearray(encode_record(HEAD)[LENGTH.size :])
    octets[at] ^= 4
    with pytest.raises(BadCopy, match="damaged on the way"):
        decode_head(bytes(octets))
    piece = bytearray(b"x" * 100 + encode_crc(b"x" * 100))
    piece[at] ^= 4
    with pytest.raises(BadCopy, match="logs/a was damaged on the way"):
        check_crc(bytes(piece), "logs/a")


@pytest.mark.parametrize(
    "value",
    [
        {},
        [],
        "text",
        {"path": "a", "size": 1},
        {"path": "a", "size": -1, "padded": 0},
        {"path": "a", "size": 2**63, "padded": 0},
        {"path": "a", "size": 1.5, "padded": 0},
        {"path": 1, "size": 1, "padded": 0},
        {"path": "a", "size": 1, "padded": 0, "mode": 1},
        {"path": "a", "size": 8_192, "padded": 4_096},
        {"path": "a", "size": 4_096, "padded": 4_096},
    ],
)
def test_what_is_no_file_is_refused(value: object) -> None:
    with pytest.raises(BadCopy):
        decode_file(framed(value))


@pytest.mark.parametrize("value", [{}, [], {"version": 1}, {"version": 1, "position": -1}])
def test_what_is_no_head_is_refused(value: object) -> None:
    with pytest.raises(BadCopy):
        decode_head(framed(value))
    with pytest.raises(BadCopy):
        decode_head(b"\xff\xfe" + encode_crc(b"\xff\xfe"))


def test_a_record_that_is_too_long_is_not_read() -> None:
    with pytest.raises(BadCopy, match="4,294,967,295 bytes"):
        record_length(b"\xff\xff\xff\xff")
    assert record_length(LENGTH.pack(RECORD_BYTES_MAX)) == RECORD_BYTES_MAX + 4
