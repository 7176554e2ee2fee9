"""Partner of spark_bridge/lakes/parquet_parts.py."""

from __future__ import annotations

import os
from datetime import date, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from routelog.log_backend import SystemDisk
from routelog.spark_bridge.lakes.parquet_parts import OPEN_PARTS_MAX, ParquetParts

SCHEMA = pa.schema([("offset", pa.int64()), ("timestamp", pa.timestamp("us", "UTC"))])
FIRST = date(2026, 1, 1)


def open_files(folder: Path) -> int:
    found = 0
    for each in Path("/proc/self/fd").iterdir():
        try:
            found += os.readlink(each).startswith(f"{folder}/")
        except FileNotFoundError:  # the one that has listed the others
            continue
    return found


def a_row(offset: int, day: date) -> pa.RecordBatch:
    time = pa.array([day]).cast(pa.timestamp("us", "UTC"))
    return pa.RecordBatch.from_arrays([pa.array([offset]), time], schema=SCHEMA)


def test_the_number_of_open_files_has_a_limit(tmp_path: Path) -> None:
    parts = ParquetParts(tmp_path, SCHEMA, "t", SystemDisk(), lambda queue, day: f"{day}/{queue}")
    days = [FIRST + timedelta(n) for n in range(OPEN_PARTS_MAX + 20)]
    for offset, day in enumerate(days):
        parts.add("q", a_row(1, FIRST))  # which is in use, and stays open
        parts.add("q", a_row(offset + 2, day))
        assert open_files(tmp_path) <= OPEN_PARTS_MAX
    parts.add("q", a_row(0, days[1]))  # its first file is finished
    found = parts.close()
    assert open_files(tmp_path) == 0
    assert len({each.path for each in found}) == len(found) == len(days) + 1
    assert sorted(each.date for each in found) == sorted([*days, days[1]])
    assert sum(each.rows for each in found) == 2 * len(days) + 1
    for each in found:
        offsets = pq.read_table(tmp_path / each.path)["offset"].to_pylist()
        assert (min(offsets), max(offsets)) == (each.first_offset, each.last_offset)
        assert (len(offsets), each.size) == (each.rows, (tmp_path / each.path).stat().st_size)
