"""A sink for streams: Parquet files that hold each record exactly once."""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def parquet_batches(directory: str, **options: str) -> "Callable[[DataFrame, int], None]":
    """Return a function for `writeStream.foreachBatch`: each micro-batch is a folder `batch=<number>`.

    Spark's own file sink leaves files of micro-batches that a crash has interrupted, and only Spark knows which
    files these are: other readers find records twice. Here, a micro-batch that runs again replaces its folder.
        A folder without `_SUCCESS` is not finished.

    Args:
        directory: for one query and one checkpoint only: another checkpoint counts from 0 again.
        options: of Spark's Parquet writer, like `compression`.
    """

    def write(frame: "DataFrame", batch: int) -> None:
        writer = frame.write.mode("overwrite").options(**options)
        writer.parquet(f"{directory}/batch={batch}")

    return write
