"""The target of an export: a table that stores how far each log is exported."""

from collections.abc import Collection, Mapping
from typing import Protocol

import pyarrow as pa

from routelog.spark_bridge.logs.log_store import LogPartition

DELTA_LOG = "_delta_log"
# What a table of a format has in its folder from its beginning.
MARKS = {"delta": DELTA_LOG, "parquet": "batch=*", "iceberg": "catalog.db"}


class TableUnusable(Exception):
    """The table is missing, belongs to another exporter, or has other columns."""


class LakeTable(Protocol):
    """A table in a lake. The progress of the export is stored only in its own transactions."""

    def position(self, partitions: Collection[LogPartition]) -> Mapping[LogPartition, int]:
        """The next offset to export, for each partition in the table."""

    def add(self, queue: str, rows: pa.RecordBatch) -> None:
        """Add rows of one queue to the open transaction.

        Raises:
            TableUnusable: another process writes under the same name.
        """

    def commit(self, ends: Mapping[LogPartition, int]) -> None:
        """Commit the added rows, together with the next offset of each partition.

        Guarantees:
            After a crash at any point the table has all of the transaction or nothing of it.

        Raises:
            TableUnusable: another process has exported the same records.
        """
