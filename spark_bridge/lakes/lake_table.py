"""Where records are exported to: a table that knows how far it has come."""

from collections.abc import Collection, Mapping
from typing import Protocol

import pyarrow as pa

from routelog.spark_bridge.logs.log_store import LogPartition


class TableUnusable(Exception):
    """The table is not there, is another one's, or has columns that do not fit."""


class LakeTable(Protocol):
    """A table in a lake. Its own transactions say what is in it; nothing else remembers."""

    def position(self, partitions: Collection[LogPartition]) -> Mapping[LogPartition, int]:
        """For each partition that is in the table, the next offset to export."""

    def add(self, queue: str, rows: pa.RecordBatch) -> None:
        """Take rows of one queue into the transaction that is being made.

        Raises:
            TableUnusable: somebody else makes one under the same name.
        """

    def commit(self, ends: Mapping[LogPartition, int]) -> None:
        """Make what was added part of the table, together with the next offset of each partition.

        Guarantees:
            After a crash at any point the table has all of the transaction or nothing of it.

        Raises:
            TableUnusable: somebody else has exported the same meanwhile.
        """
