"""Makes commits to a Delta table durable: deltalake syncs nothing."""

from contextlib import suppress
from pathlib import Path

from routelog.log_backend import Disk, opened
from routelog.spark_bridge.lakes.lake_table import DELTA_LOG

CHECKPOINT_POINTER = "_last_checkpoint"


def sync_delta_log(disk: Disk, table: Path, version: int) -> None:
    """Make durable what the log has from a version on, and its checkpoints.

    Until then a power cut may take the commit back, or leave it empty, which changes nothing. So what a commit
    replaces must stay until this is done.
    """
    log = table / DELTA_LOG
    first = f"{version:020}"
    for name in disk.list_directory(log):
        if name == CHECKPOINT_POINTER or (name >= first and name.endswith((".json", ".parquet"))):
            with suppress(FileNotFoundError), opened(disk, log / name) as file:
                disk.sync(file)
    disk.sync_directory(log)
