"""Bytes that grow where they are."""

import pytest

from routelog.amqp_front.transactions.buffered_bytes import SMALL_BYTES, BufferedBytes


@pytest.mark.parametrize(
    "part_bytes", [1, 1_000, SMALL_BYTES - 1, SMALL_BYTES, SMALL_BYTES + 1, 300_000]
)
def test_what_was_appended_is_there_in_its_order(part_bytes: int) -> None:
    kept, wanted = BufferedBytes(), bytearray()
    for number in range(min(2_000, 3_000_000 // part_bytes)):
        part = bytes([number % 251]) * part_bytes
        kept.append(part)
        wanted += part
        assert kept.size == len(wanted)
    assert kept.view() == wanted


def test_nothing_is_a_view_of_nothing() -> None:
    kept = BufferedBytes()
    kept.append(b"")
    assert len(kept.view()) == 0


def test_views_outlive_what_they_are_of() -> None:
    kept = BufferedBytes()
    kept.append(bytes(SMALL_BYTES) + b"end")
    view = kept.view()
    del kept
    assert view[-3:] == b"end"
