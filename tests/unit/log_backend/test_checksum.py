import random

import pytest
from google_crc32c import value

from log_backend.checksum import crc32c


def test_it_is_the_one_of_the_standard() -> None:
    # RFC 3720, appendix B.4
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"\xff" * 32) == 0x62A8AB43
    assert crc32c(bytes(range(32))) == 0x46DD794E
    assert crc32c(b"") == 0


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_every_length_agrees_with_the_library(kind: type) -> None:
    content = random.Random(5).randbytes(1_100)
    for length in range(len(content)):
        assert crc32c(kind(content[:length])) == value(content[:length])
