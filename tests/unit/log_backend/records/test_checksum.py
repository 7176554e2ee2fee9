import random
from collections.abc import Callable
from itertools import chain
from typing import Any

import pytest
from google_crc32c import value

from routelog.log_backend.records.checksum import (
    PIECE_BYTES,
    STRETCH_BYTES,
    UNLOCKED_BYTES_MIN,
    crc32c,
    crc32c_between,
    crc32c_joined,
    crc32c_on,
)


def test_it_is_the_one_of_the_standard() -> None:
    # RFC 3720, appendix B.4
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"\xff" * 32) == 0x62A8AB43
    assert crc32c(bytes(range(32))) == 0x46DD794E
    assert crc32c(b"") == 0


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_every_length_agrees_with_the_library(kind: type) -> None:
    content = random.Random(5).randbytes(6 * STRETCH_BYTES + 20)
    around = (range(at - 20, at + 20) for at in (3 * STRETCH_BYTES, 6 * STRETCH_BYTES))
    for length in chain(range(1_100), *around):
        assert crc32c(kind(content[:length])) == value(content[:length])


@pytest.mark.parametrize("limit", [PIECE_BYTES, 2 * PIECE_BYTES, UNLOCKED_BYTES_MIN])
def test_what_is_taken_in_pieces_or_without_the_lock_agrees_with_the_library(limit: int) -> None:
    content = bytearray(random.Random(6).randbytes(limit + 11))
    for end in range(limit - 1, limit + 12, 2):
        assert (
            crc32c(content[:end])
            == crc32c(memoryview(content)[:end])
            == value(bytes(content[:end]))
        )
        assert crc32c_between(content, 0, end) == value(bytes(content[:end]))
        assert crc32c_between(content, 3, end) == value(bytes(content[3:end]))


@pytest.mark.parametrize("size", [0, 1, 70_000, 3 * PIECE_BYTES])
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_checksum_goes_on_over_what_follows(size: int, kind: Callable[[bytes], Any]) -> None:
    begin, rest = b"what is before", random.Random(size).randbytes(size)
    assert crc32c_on(crc32c(begin), kind(rest)) == crc32c(begin + rest)


@pytest.mark.parametrize("size", [0, 1, 8, STRETCH_BYTES, 100_003])
def test_checksums_are_joined_without_the_octets(size: int) -> None:
    begin, rest = b"what is before", random.Random(size).randbytes(size)
    assert crc32c_joined(crc32c(begin), crc32c(rest), size) == crc32c(begin + rest)
    assert crc32c_joined(0, crc32c(rest), size) == crc32c(rest)


def test_a_checksum_goes_on_over_a_part_of_a_buffer_that_may_not_be_written() -> None:
    content = bytearray(random.Random(7).randbytes(5_000))
    part = memoryview(content)[3:4_444].toreadonly()
    assert crc32c(part) == value(bytes(part))
    assert crc32c_on(7, part) == crc32c_on(7, bytes(part))
