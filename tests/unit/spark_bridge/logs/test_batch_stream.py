"""Partner of spark_bridge/logs/batch_stream.py."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from unit.spark_bridge.log_files import batch_bytes, numbered, records

from routelog.spark_bridge.logs.batch_stream import STRETCH_BYTES, batch_stream
from routelog.spark_bridge.logs.errors import DamagedSegment

SMALL = [batch_bytes(numbered(at, 5), at) for at in range(0, 50, 5)]
LARGE = batch_bytes(records([b"x" * STRETCH_BYTES, b"y" * STRETCH_BYTES]), 50)


def reader(content: bytes, step: int) -> Callable[[memoryview], int]:
    """Gives `step` bytes at a time, and nothing at the end."""
    at = 0

    def read_into(view: memoryview) -> int:
        nonlocal at
        part = content[at : at + min(step, len(view))]
        view[: len(part)] = part
        at += len(part)
        return len(part)

    return read_into


def found(content: bytes, step: int = 10**9, size: int | None = None) -> list[int]:
    stream = batch_stream(reader(content, step), len(content) if size is None else size, "there")
    return [batch.base_offset for batch in stream]


@pytest.mark.parametrize("step", [1, 7, 1_000, 10**9])
def test_batches_come_whole_however_their_bytes_come(step: int) -> None:
    assert found(b"".join(SMALL), step) == list(range(0, 50, 5))


def test_a_batch_may_be_larger_than_what_is_read_at_once() -> None:
    content = b"".join([*SMALL, LARGE, *(batch_bytes(numbered(at, 1), at) for at in (60, 61))])
    assert found(content, 300_000) == [*range(0, 55, 5), 60, 61]


def test_nothing_is_no_batch() -> None:
    assert found(b"") == []


def test_bytes_that_never_come_are_the_networks_fault() -> None:
    content = b"".join(SMALL)
    with pytest.raises(ConnectionError, match="cut off"):
        found(content[:-1], size=len(content))


@pytest.mark.parametrize("cut", [1, 63, 64, 65, len(LARGE) - 1])
def test_a_batch_that_the_other_side_cut_off_is_damage(cut: int) -> None:
    with pytest.raises(DamagedSegment, match=f"there is damaged at position {len(SMALL[0])}: "):
        found(SMALL[0] + LARGE[:cut])


def test_every_changed_byte_is_found() -> None:
    content = b"".join(SMALL[:2])
    for at in range(len(content)):
        changed = bytearray(content)
        changed[at] ^= 0x40
        with pytest.raises(DamagedSegment):
            found(bytes(changed))
