"""A program that exports and is killed, at each of its steps in turn, until it gets to the end.

    python killed_export.py DATA TABLE FORMAT

The n-th process is killed at its n-th step: a call of the disk, rows taken, or a side of a commit.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from routelog.log_backend import SystemClock, SystemDisk
from routelog.spark_bridge.columns.record_table import RecordRows, TableLayout
from routelog.spark_bridge.lakes.delta_lake import DeltaLake
from routelog.spark_bridge.lakes.exporter import Exporter
from routelog.spark_bridge.lakes.iceberg_lake import IcebergLake
from routelog.spark_bridge.lakes.lake_table import LakeTable
from routelog.spark_bridge.lakes.parquet_lake import ParquetLake
from routelog.spark_bridge.logs.log_directory import LogDirectory
from routelog.spark_bridge.logs.queue_selection import parse_selection

STEPS = ("write", "sync", "rename", "remove", "sync_directory")
TRANSACTION_BYTES = 400


def killing(left: int, work: Callable[..., Any], counter: list[int]) -> Callable[..., Any]:
    def step(*arguments: Any, **named: Any) -> Any:
        for done in (lambda: None, lambda: work(*arguments, **named)):
            counter[0] += 1
            if counter[0] == left:
                os.kill(os.getpid(), signal.SIGKILL)
            result = done()
        return result

    return step


def export(data: Path, path: Path, kind: str, kill_at: int) -> None:
    counter = [0]
    disk = SystemDisk()
    for name in STEPS:
        setattr(disk, name, killing(kill_at, getattr(disk, name), counter))
    layout = TableLayout()
    table: LakeTable
    if kind == "delta":
        table = DeltaLake(path, layout, "e", disk, SystemClock())
    elif kind == "iceberg":
        table = IcebergLake(path, layout, "e", disk, SystemClock())
    else:
        table = ParquetLake(path, layout, "e", disk)
    for name in ("add", "commit"):
        setattr(table, name, killing(kill_at, getattr(table, name), counter))
    exporter = Exporter(
        LogDirectory(data),
        "/",
        parse_selection({"subscribePattern": ".*"}),
        RecordRows(layout),
        table,
        transaction_bytes=TRANSACTION_BYTES,
    )
    exporter.run(exporter.backlog(), lambda: False)


def main() -> None:
    data, path, kind = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    path.mkdir()
    kills = 0
    while True:
        # Forked before anything runs that has threads.
        child = os.fork()
        if child == 0:
            export(data, path, kind, kills + 1)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status == 0:
            break
        assert os.WIFSIGNALED(status), "an export ended with an error"
        kills += 1
    sys.stdout.write(f"{kills}\n")


if __name__ == "__main__":
    main()
