"""The figures of a cursor's growth are those of the cursor."""

from pathlib import Path

import pytest

from routelog.benchmarks.studies.cursor_growth import (
    BATCH_RECORDS,
    CASES,
    GrowthCase,
    check,
    described,
    fill,
    measure,
    memory_bytes,
)
from routelog.log_backend import Cursor

COUNT = 2 * BATCH_RECORDS


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_a_case_settles_its_offsets_and_finds_them_again(
    case: GrowthCase, tmp_path: Path
) -> None:
    await fill(tmp_path / "data", COUNT)
    growth = await measure(tmp_path / "data", case, COUNT)
    assert growth.settled == len(case.offsets(COUNT))
    assert growth.bitmap_bytes == 8_192
    assert 0 < growth.snapshot_bytes < 300
    assert growth.journal_bytes >= 4_096
    assert len(described(growth)) == 8


def test_a_cursor_that_forgot_something_stops_the_measurement() -> None:
    cursor = Cursor(0, None)
    cursor.settle(1, 9)
    check(cursor, range(1, 9), 10)
    with pytest.raises(SystemExit):
        check(cursor, range(1, 8), 10)


def test_memory_follows_the_holes() -> None:
    few, many = Cursor(0, None), Cursor(0, None)
    few.settle(1, 60_000)
    for offset in range(1, 60_000, 2):
        many.settle(offset, offset + 1)
    assert memory_bytes(few) < 1_000
    assert 8_192 < memory_bytes(many) < 9_500
